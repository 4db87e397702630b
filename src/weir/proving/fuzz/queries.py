"""Views over a case's tables: one to three of them, joined in every way that a view may, or the UNION ALL of two."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

from weir.algebra.quoting import backquoted
from weir.algorithms.registry import ALGORITHMS
from weir.proving.fuzz.case import FuzzJoin, FuzzSelect, FuzzTable, FuzzView
from weir.proving.fuzz.expressions import ExpressionWriter, TypedColumn
from weir.proving.fuzz.values import DATES, FLOATS, MOMENTS, NUMBERS, family_of

UNLIKE_UNIONS, ODD_OUTPUTS = "unlike-unions", "odd-outputs"
_STRATEGIES = tuple(name for name, algorithm in ALGORITHMS.items() if algorithm.facts.claims)  # others promise nothing
_ALIASES = ("a", "b", "c")
_ODD = ("Größe", "select", "a-b", "order", "x.y")
_ALIKE = {NUMBERS: (NUMBERS, FLOATS), FLOATS: (FLOATS, NUMBERS), DATES: (DATES, MOMENTS), MOMENTS: (MOMENTS, DATES)}


def draw_view(dice: random.Random, name: str, tables: Sequence[FuzzTable], without: Collection[str] = ()) -> FuzzView:
    """A SELECT, now and then two of them."""
    first, columns = _draw_tables_of(dice, tables, without)
    if dice.random() >= 0.15:
        output = _draw_output(dice, ExpressionWriter(dice, columns, without))
        return FuzzView(name, (replace(first, output=_named(dice, output, without)),), _draw_options(dice))
    chosen = [dice.choice(columns) for _ in range(dice.randint(1, 3))]
    plain = _named(dice, [column.sql for column in chosen], without)
    selects = [replace(first, output=plain), replace(first, output=plain)]
    if UNLIKE_UNIONS not in without:
        other, columns = _draw_tables_of(dice, tables, without)
        alike = [_alike(dice, ExpressionWriter(dice, columns, without), column) for column in chosen]
        selects[1] = replace(other, output=_named(dice, alike, without))
    return FuzzView(name, tuple(selects), _draw_options(dice))


def _alike(dice: random.Random, writer: ExpressionWriter, column: TypedColumn) -> str:
    """What can stand below a column in a UNION ALL: often of another type, which both then widen to."""
    if dice.random() < 0.1:
        return "NULL"
    return writer.operand(dice.choice(_ALIKE.get(column.family, (column.family,))))


def _draw_options(dice: random.Random) -> dict[str, str]:
    """A level, and now and then a strategy by name; whether it takes the view is Weir's to say."""
    level = dice.choices(("complete", "strong", "weak", "convergence"), (6, 5, 1, 1))[0]
    options = {"consistency": level}
    if dice.random() < 0.5:
        options["strategy"] = dice.choice(_STRATEGIES)
    return options


def _draw_tables_of(
    dice: random.Random, tables: Sequence[FuzzTable], without: Collection[str]
) -> tuple[FuzzSelect, list[TypedColumn]]:
    """FROM and WHERE, and the columns that can be selected."""
    count = dice.choices((1, 2, 3), (2, 6, 2))[0]
    joins, columns = list[FuzzJoin](), list[TypedColumn]()
    for alias, table in zip(_ALIASES, [dice.choice(tables) for _ in range(count)], strict=False):
        own = [TypedColumn(f"{alias}.{backquoted(c.name)}", c.type) for c in table.columns]
        joins.append(_draw_join(dice, table, alias, own, columns, without))
        columns += own
    writer = ExpressionWriter(dice, columns, without)
    where = tuple(writer.condition() for _ in range(dice.choice((0, 0, 1, 1, 2))))
    return FuzzSelect((), tuple(joins), where), columns


def _draw_join(
    dice: random.Random, table: FuzzTable, alias: str, own: Sequence[TypedColumn], before: Sequence[TypedColumn],
    without: Collection[str],
) -> FuzzJoin:  # fmt: skip
    if not before:
        return FuzzJoin(table.source, table.name, alias)
    if alias == _ALIASES[1] and dice.random() < 0.08 and (same := _same_names(own, before)):
        natural = dice.random() < 0.5
        return FuzzJoin(table.source, table.name, alias, *(("NATURAL JOIN",) if natural else ("USING", same)))
    both = ExpressionWriter(dice, [*before, *own], without)
    equalities = [each for each in (_equality(dice, own, before) for _ in range(dice.choice((1, 1, 1, 2)))) if each]
    how = dice.choices(("JOIN", "more", "theta", ",", "CROSS JOIN"), (10, 3, 1, 1, 1))[0]
    if how == "more":
        return FuzzJoin(table.source, table.name, alias, "JOIN", (*equalities, both.condition(1)))
    if how == "theta":
        return FuzzJoin(table.source, table.name, alias, "JOIN", (both.condition(1),))
    if how == "JOIN" and equalities:
        return FuzzJoin(table.source, table.name, alias, "JOIN", tuple(equalities))
    return FuzzJoin(table.source, table.name, alias, "CROSS JOIN" if how != "," else ",")


def _same_names(own: Sequence[TypedColumn], before: Sequence[TypedColumn]) -> tuple[str, ...]:
    """The names that both have, quoted; none if some of them cannot be compared."""
    known = {column.sql.partition(".")[2]: column for column in before}
    pairs = {name: (column, known[name]) for column in own if (name := column.sql.partition(".")[2]) in known}
    return tuple(pairs) if all(left.family == right.family for left, right in pairs.values()) else ()


def _equality(dice: random.Random, own: Sequence[TypedColumn], before: Sequence[TypedColumn]) -> str:
    """Columns that can be compared, of like or unlike types."""
    pairs = [
        (mine, other) for mine in own for other in before
        if family_of(other.type) in _ALIKE.get(family_of(mine.type), (family_of(mine.type),))
    ]  # fmt: skip
    if not pairs:
        return ""
    favourite = [pair for pair in pairs if all(each.sql.endswith("`k`") for each in pair)]
    mine, other = dice.choice(favourite if favourite and dice.random() < 0.5 else pairs)
    return f"{mine.sql} {'<=>' if dice.random() < 0.05 else '='} {other.sql}"


def _draw_output(dice: random.Random, writer: ExpressionWriter) -> list[str]:
    """The select list; in half of the views it begins with the tables' identifiers, which some strategies need."""
    values = []
    if dice.random() < 0.5:
        values += [column.sql for column in writer.columns if column.sql.endswith(("`id`", "`k`"))]
    return values + [writer.value() for _ in range(dice.randint(1, 3))]


def _named(dice: random.Random, values: Sequence[str], without: Collection[str]) -> tuple[str, ...]:
    names = [f"c{at}" for at in range(len(values))]
    if ODD_OUTPUTS not in without and dice.random() < 0.05:
        names[-1] = dice.choice(_ODD)
    return tuple(f"{value} AS {backquoted(name)}" for value, name in zip(values, names, strict=True))
