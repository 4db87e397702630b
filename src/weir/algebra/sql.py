"""Views from SQL: text to the normal form of ``weir.algebra.view``.

``CREATE MATERIALIZED VIEW name [WITH (key = 'value', ...)] AS SELECT ... [UNION ALL SELECT ...]`` over tables written
``source.table``. A SELECT becomes a term: its tables the slots, its conditions (ON, USING, WHERE, split at AND)
equalities, selections and the rest. Nothing cleverer is derived: a view asks its sources what its text says.

The way of a definition: ``definition`` (tokens), ``header``, ``refusals`` (what is outside), ``clauses`` (which tokens
are which part), ``binding`` (names, and ``clocks``), here, and ``unions`` (the types in which several SELECTs meet).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import TokenType
from sqlglot import expressions as exp

from weir.algebra.binding import Bound, ColumnUse, Scope, TableUse, bind_table, qualifier, spelled
from weir.algebra.catalog import Catalog
from weir.algebra.clauses import TokenRange, conjuncts, read_clauses
from weir.algebra.definition import Definition, Span, node_span, span
from weir.algebra.errors import ViewError
from weir.algebra.expression import Expression, Written, column, conjunction
from weir.algebra.header import parse_view_header, read_header
from weir.algebra.refusals import read_selects, refuse_join
from weir.algebra.types import MAX_PRECISION, Column, Type
from weir.algebra.unions import NoCommonType, in_common_types
from weir.algebra.view import Equality, Slot, Term, View

__all__ = ["parse_view", "parse_view_header"]


def parse_view(text: str, catalog: Catalog) -> View:
    """The view that a definition describes; ViewError when it is wrong or outside what Weir maintains."""
    definition = Definition.of(text)
    header = read_header(definition)
    terms: list[Term] = []
    selects = read_selects(definition, header.body)
    for head, select in selects:
        terms.append(_SelectReader(definition, catalog, head, select).term(terms[0] if terms else None))
    return View(header.name, _added_up(definition, terms, [head for head, _ in selects]), header.options, text)


def _added_up(definition: Definition, terms: list[Term], heads: list[int]) -> tuple[Term, ...]:
    try:
        return in_common_types(terms) if len(terms) > 1 else tuple(terms)
    except NoCommonType as problem:
        item = read_clauses(definition, heads[problem.term]).items[0]
        name = terms[0].output[problem.at][0]
        raise definition.error(
            f"column {name} is {problem.here} in this SELECT and {problem.before} before: they have no common type",
            "Cast one of them: CAST(... AS type).",
            definition.between(item.first, item.last),
        ) from None


@dataclass(frozen=True)
class _Output:
    """One column of the result; ``name`` is None where the user gave none."""

    name: str | None
    bound: Bound
    place: Span | None


@dataclass
class _Conditions:
    """The conjuncts of ON, USING and WHERE, sorted by what they need."""

    equalities: list[tuple[ColumnUse, ColumnUse]] = field(default_factory=list)
    selections: dict[int, list[Bound]] = field(default_factory=dict)
    rest: list[Bound] = field(default_factory=list)

    def equate(self, left: ColumnUse, right: ColumnUse) -> None:
        if left.slot != right.slot and _compare_exactly(left.column.type, right.column.type):
            self.equalities.append((left, right))
        else:
            self.add(_equal(left, right))

    def add(self, condition: Bound) -> None:
        if len(condition.slots) == 1:
            self.selections.setdefault(condition.slots[0], []).append(condition)
        else:
            self.rest.append(condition)

    @property
    def reads(self) -> Iterator[ColumnUse]:
        for pair in self.equalities:
            yield from pair
        for condition in (*(each for chosen in self.selections.values() for each in chosen), *self.rest):
            yield from condition.reads


def _equal(left: ColumnUse, right: ColumnUse) -> Bound:
    """An equality that drives no join: it is a condition like any other."""
    sides = [spelled(use, use.column.name) for use in (left, right)]
    reads = tuple((use.name, qualifier(use), use.column.name) for use in (left, right))
    text = f"{column(left.name).sql} = {column(right.name).sql}"
    return Bound(Expression(text, Written(" = ".join(sides), reads)), frozenset([left, right]))


class _SelectReader:
    """Reads one SELECT."""

    def __init__(self, definition: Definition, catalog: Catalog, head: int, select: exp.Select) -> None:
        self.definition = definition
        self.catalog = catalog
        self.head = head
        self.select = select
        self.clauses = read_clauses(definition, head)
        self.scope = Scope(definition)
        self.conditions = _Conditions()

    def term(self, first: Term | None) -> Term:
        """The SELECT as a term. Its columns take the names of the ``first`` term, as in SQL's UNION ALL."""
        self._read_from()
        self._add_conditions(self.clauses.where)
        items = enumerate(self.select.expressions)
        outputs = [output for number, item in items for output in self._outputs(number, item)]
        names = self._own_names(outputs) if first is None else self._names_of(first, outputs)
        return self._assemble([(name, output.bound) for name, output in zip(names, outputs, strict=True)])

    def _error_at_select(self, problem: str, way_out: str) -> ViewError:
        return self.definition.error(problem, way_out, span(self.definition.tokens[self.head]))

    # -- FROM and WHERE -----------------------------------------------------------------------------------------------

    def _read_from(self) -> None:
        clause = self.select.find(exp.From)
        if clause is None:
            raise self._error_at_select("the view reads no table", "Add FROM source.table.")
        self._add_table(clause.this)
        joins = self.select.args.get("joins") or []
        for join in joins:
            refuse_join(self.definition, join)
        for join, on in zip(joins, self.clauses.ons, strict=True):
            self._join(join)
            self._add_conditions(on)

    def _add_table(self, item: exp.Expr) -> TableUse:
        use = bind_table(self.definition, self.catalog, item, len(self.scope.tables))
        alias = item.args.get("alias")
        self.scope = self.scope.add(use, node_span(alias) if alias is not None else node_span(item))
        return use

    def _join(self, join: exp.Join) -> None:
        before = self.scope
        use = self._add_table(join.this)
        if join.args.get("using"):
            self._share([(identifier.name, node_span(identifier)) for identifier in join.args["using"]], before, use)
        elif str(join.args.get("method") or "").upper() == "NATURAL":
            theirs = {each.column.name.lower() for each in use.columns()}
            common = [each.column.name for each in before.visible if each.column.name.lower() in theirs]
            self._share([(name, node_span(join.this)) for name in dict.fromkeys(common)], before, use)

    def _share(self, names: Iterable[tuple[str, Span | None]], before: Scope, use: TableUse) -> None:
        """USING: equal columns that are shown once."""
        pairs = [(before.column(name, (), at), self.scope.column(name, [use.alias], at)) for name, at in names]
        for left, right in pairs:
            self.conditions.equate(left, right)
        self.scope = self.scope.share(pairs)

    def _add_conditions(self, clause: TokenRange | None) -> None:
        for part in conjuncts(self.definition, clause) if clause is not None else ():
            conjunct = self.definition.parse_condition(part.first, part.last)
            bound = self.scope.bind(conjunct, self.definition.between(part.first, part.last))
            sides = (
                [side.unnest() for side in (conjunct.this, conjunct.expression)] if isinstance(conjunct, exp.EQ) else []
            )
            columns = [self.scope.column_of(side) for side in sides if isinstance(side, exp.Column)]
            if len(columns) == 2 and columns[0].slot != columns[1].slot:
                self.conditions.equate(*columns)
            elif not _is_true(conjunct):
                self.conditions.add(bound)

    # -- the select list ----------------------------------------------------------------------------------------------

    def _outputs(self, number: int, item: exp.Expr) -> list[_Output]:
        tokens = self.clauses.items[number]
        place = self.definition.between(tokens.first, tokens.last)
        plain = item.unnest()
        star = plain.this if isinstance(plain, exp.Column) else plain
        if isinstance(star, exp.Star):
            return self._star(plain, star, place)
        if isinstance(item, exp.Alias):
            return [_Output(item.alias, self.scope.bind(item.this, self._before_alias(tokens)), place)]
        name = plain.name if isinstance(plain, exp.Column) else None
        return [_Output(name, self.scope.bind(item, place), place)]

    def _before_alias(self, item: TokenRange) -> Span:
        """``expression [AS] name`` without the name."""
        last = item.last - 1
        if self.definition.tokens[last].token_type is TokenType.ALIAS:
            last -= 1
        return self.definition.between(item.first, last)

    def _star(self, item: exp.Expr, star: exp.Star, place: Span | None) -> list[_Output]:
        if any(star.args.values()):
            raise self.definition.error("* with exceptions is not read", "Name the columns you want.", place)
        qualifier = [part.name for part in item.parts[:-1]] if isinstance(item, exp.Column) else []
        uses = self.scope.star(qualifier, place)
        return [_Output(use.column.name, Bound(column(use.name), frozenset([use])), place) for use in uses]

    def _own_names(self, outputs: list[_Output]) -> list[str]:
        if not outputs:
            raise self._error_at_select("the view has no columns", "Name the columns you want after SELECT.")
        names: list[str] = []
        for output in outputs:
            if output.name is None:
                raise self.definition.error("this column has no name", "Name it: add AS and a name.", output.place)
            if output.name.lower() in (name.lower() for name in names):
                way_out = "Name the columns you want, and give one of the two another name with AS."
                raise self.definition.error(f"two columns of the view are called {output.name}", way_out, output.place)
            names.append(output.name)
        return names

    def _names_of(self, first: Term, outputs: list[_Output]) -> list[str]:
        if len(outputs) != len(first.output):
            problem = f"this SELECT has {len(outputs)} columns, the first has {len(first.output)}"
            way_out = "Give every SELECT of a UNION ALL the same columns in the same order."
            raise self._error_at_select(problem, way_out)
        return [name for name, _ in first.output]

    # -- the term -----------------------------------------------------------------------------------------------------

    def _assemble(self, output: list[tuple[str, Bound]]) -> Term:
        reads = {*self.conditions.reads, *(use for _, bound in output for use in bound.reads)}
        slots = tuple(_slot(use, {read.column for read in reads if read.slot == use.slot}) for use in self.scope.tables)
        selections = [self.conditions.selections.get(at, ()) for at in range(len(slots))]
        return Term(
            slots,
            tuple(Equality(left.slot, left.name, right.slot, right.name) for left, right in self.conditions.equalities),
            tuple(conjunction(bound.expression for bound in chosen) for chosen in selections),
            tuple(bound.expression for bound in self.conditions.rest),
            tuple((name, bound.expression) for name, bound in output),
        )


def _slot(use: TableUse, read: set[Column]) -> Slot:
    """The slot with the columns it needs: those that are read and the key; failing both, any one, to count rows by."""
    schema = use.table.schema
    needed = [each.name for each in schema if each in read or each.name in use.table.key] or schema.names[:1]
    return Slot(use.alias, use.table.relation, schema.only(needed), use.table.key, use.table.foreign_keys)


def _compare_exactly(left: Type, right: Type) -> bool:
    if {left.family, right.family} <= {"integer", "decimal"}:
        # Spark compares in a common decimal; where that has no room for all digits, it rounds.
        return max(left.whole_digits, right.whole_digits) + max(left.scale, right.scale) <= MAX_PRECISION
    return left.family == right.family


def _is_true(tree: exp.Expr) -> bool:
    """The literal TRUE, which also stands for a JOIN without ON."""
    return isinstance(tree, exp.Boolean) and bool(tree.this)
