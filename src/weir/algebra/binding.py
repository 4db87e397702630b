"""Names to tables and columns, as Spark resolves them: without regard to case, and with near misses when none fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import expressions as exp

from weir.algebra.catalog import Catalog, Relation, Table
from weir.algebra.clocks import clock_words
from weir.algebra.definition import Definition, Span, node_span
from weir.algebra.dialect import SparkAsWritten
from weir.algebra.errors import ViewError
from weir.algebra.expression import Expression, Written, column_node
from weir.algebra.functions import TAKE_A_UNIT, UNSTABLE
from weir.algebra.quoting import backquoted
from weir.algebra.refusals import refuse_from_item, refuse_in_expression, unstable
from weir.algebra.suggestion import way_out
from weir.algebra.types import STRING, Column


@dataclass(frozen=True)
class TableUse:
    """One table of a FROM clause, soon a slot. A table without alias can also be called by its full name."""

    slot: int
    alias: str
    table: Table
    has_alias: bool

    def answers_to(self, qualifier: Sequence[str]) -> bool:
        full = () if self.has_alias else (self.table.relation.source, self.table.relation.table)
        wanted = _folded(qualifier)
        return wanted in (_folded([self.alias]), _folded(full))

    def columns(self) -> list[ColumnUse]:
        return [ColumnUse(self.slot, self.alias, column) for column in self.table.schema]


@dataclass(frozen=True)
class ColumnUse:
    """One column of one slot."""

    slot: int
    alias: str
    column: Column

    @property
    def name(self) -> str:
        """As the term calls it."""
        return f"{self.alias}.{self.column.name}"


@dataclass(frozen=True)
class Bound:
    """An expression over slots, and the columns it reads."""

    expression: Expression
    reads: frozenset[ColumnUse] = frozenset()

    @property
    def slots(self) -> list[int]:
        return sorted({use.slot for use in self.reads})


@dataclass(frozen=True)
class Scope:
    """The tables in sight, and their columns in the order of ``*``.

    A join with USING shows its columns once, first, as the left table's; the right table's are ``hidden``: only their
    qualified names reach them.
    """

    definition: Definition
    tables: tuple[TableUse, ...] = ()
    visible: tuple[ColumnUse, ...] = ()
    hidden: tuple[ColumnUse, ...] = ()

    def add(self, table: TableUse, place: Span | None) -> Scope:
        """One more table to the right, nothing shared."""
        for other in self.tables:
            if other.alias.lower() == table.alias.lower():
                way_out = f"Give one of them another name: {table.table.relation} AS {table.alias}_2."
                raise self.definition.error(f"two tables are called {table.alias}", way_out, place)
        clash = {use.name for use in self.columns} & {use.name for use in table.columns()}
        if clash:
            raise self.definition.error(
                f"two columns would be called {min(clash)}", "Use aliases without a dot.", place
            )
        return Scope(self.definition, (*self.tables, table), (*self.visible, *table.columns()), self.hidden)

    def share(self, pairs: list[tuple[ColumnUse, ColumnUse]]) -> Scope:
        """The scope in which each pair (left column, right column) is shown as one, the left."""
        first, hidden = [left for left, _ in pairs], [right for _, right in pairs]
        others = [use for use in self.visible if use not in first and use not in hidden]
        return Scope(self.definition, self.tables, (*first, *others), (*hidden, *self.hidden))

    @property
    def columns(self) -> tuple[ColumnUse, ...]:
        return (*self.hidden, *self.visible)

    def star(self, qualifier: Sequence[str], place: Span | None) -> list[ColumnUse]:
        """The columns that ``*`` or ``qualifier.*`` stands for."""
        if not qualifier:
            return list(self.visible)
        table = self._table(qualifier, place)
        return [use for use in self.columns if use.slot == table.slot]

    def column(self, name: str, qualifier: Sequence[str], place: Span | None) -> ColumnUse:
        """The one column of this name; refuses none and several."""
        among = list(self.visible)
        if qualifier:
            slot = self._table(qualifier, place).slot
            among = [use for use in self.columns if use.slot == slot]
        found = [use for use in among if use.column.name.lower() == name.lower()]
        if len(found) == 1:
            return found[0]
        raise self._ambiguous(name, found, place) if found else self._unknown(name, qualifier, among, place)

    def _table(self, qualifier: Sequence[str], place: Span | None) -> TableUse:
        found = [table for table in self.tables if table.answers_to(qualifier)]
        if len(found) == 1:
            return found[0]
        name, aliases = ".".join(qualifier), [table.alias for table in self.tables]
        known = way_out(name, aliases, "The tables in sight are")
        raise self.definition.error(f"no table in sight is called {name}", known, place)

    def _ambiguous(self, name: str, found: list[ColumnUse], place: Span | None) -> ViewError:
        if len({use.slot for use in found}) == 1:  # PostgreSQL has "Total" beside "total"; Spark cannot say which
            names = " and ".join(use.column.name for use in found)
            table = self.tables[found[0].slot].table.relation
            return self.definition.error(
                f"column {name} is ambiguous: {table} has {names}, which Spark does not tell apart",
                "Rename one of them, or leave both out of the view.",
                place,
            )
        tables = " and ".join(f"{use.alias} ({self.tables[use.slot].table.relation})" for use in found)
        exact = f"Write {' or '.join(use.name for use in found)}."
        return self.definition.error(f"column {name} is ambiguous: it is in {tables}", exact, place)

    def _unknown(self, name: str, qualifier: Sequence[str], among: list[ColumnUse], place: Span | None) -> ViewError:
        if not qualifier and name.lower() in UNSTABLE:  # CURRENT_DATE and the like need no brackets
            return unstable(self.definition, name.lower(), place)
        problem = f"no table in sight has a column {name}"
        if qualifier:
            problem = f"table {'.'.join(qualifier)} has no column {name}"
        known = way_out(name, [use.column.name for use in among], "The columns are")
        return self.definition.error(problem, known, place)

    def bind(self, tree: exp.Expr, place: Span) -> Bound:
        """The expression that stands at a place of the text, over slots, its columns resolved."""
        refuse_in_expression(self.definition, tree)
        for word in clock_words(tree, lambda node: self.column_of(node).column.type == STRING):
            raise unstable(self.definition, word.sql(dialect=SparkAsWritten), node_span(word) or place)
        holder = exp.Paren(this=_with_units(tree.copy()))  # so that every column has a parent to be replaced in
        uses = {}
        for node in list(holder.find_all(exp.Column)):
            use = uses[_whole_name(node)] = self.column_of(node)
            node.replace(column_node(use.name))
        text = holder.this.sql(dialect=SparkAsWritten, normalize_functions=False, comments=False)
        return Bound(Expression(text, self._written(place, uses)), frozenset(uses.values()))

    def _written(self, place: Span, uses: Mapping[Span, ColumnUse]) -> Written:
        """The text as it stands there, with only the columns' qualifiers changed."""
        start, end = place
        text, reads = self.definition.text[start:end], []
        for (first, last), use in sorted(uses.items(), reverse=True):
            name = _last_name(self.definition.text[first:last])
            text = f"{text[: first - start]}{spelled(use, name)}{text[last - start :]}"
            reads.append((use.name, qualifier(use), name))
        return Written(text, tuple(reversed(reads)))

    def column_of(self, node: exp.Column) -> ColumnUse:
        *qualifier, name = [part.name for part in node.parts]
        return self.column(name, qualifier, node_span(node))


def qualifier(use: ColumnUse) -> str:
    """What the user's text calls a slot when it is given to Spark; it shows in Spark's errors."""
    return f"table {use.alias}"


def spelled(use: ColumnUse, name: str) -> str:
    return f"{backquoted(qualifier(use))}.{backquoted(name)}"


def _whole_name(node: exp.Column) -> Span:
    place = node_span(node)
    assert place is not None, "every column of a definition stands somewhere in its text"
    return place


def _last_name(text: str) -> str:
    """The column's name as it is spelled, without its qualifiers and quotes."""
    return str(SparkAsWritten().tokenize(text)[-1].text)


def _with_units(tree: exp.Expr) -> exp.Expr:
    """``dateadd(day, 1, d)``: day is no column."""
    for call in tree.find_all(exp.Anonymous):
        if str(call.this).lower() in TAKE_A_UNIT and len(call.expressions) == 3:
            unit = call.expressions[0]
            if isinstance(unit, exp.Column) and len(unit.parts) == 1:
                unit.replace(exp.Var(this=unit.name))
    return tree


def bind_table(definition: Definition, catalog: Catalog, item: exp.Expr, slot: int) -> TableUse:
    """The table that a FROM item names."""
    refuse_from_item(definition, item)
    place = node_span(*(item.args.get(part) for part in ("this", "db", "catalog")))
    if not item.args.get("db") or item.args.get("catalog"):
        written = ".".join(part.name for part in item.parts) if isinstance(item, exp.Table) else ""
        known = _candidates(item.name, catalog)
        way_out = f"Write {' or '.join(known)}." if known else "Write source.table."
        raise definition.error(f"{written} is not written as source.table", way_out, place)
    source = _match(definition, item.args["db"], catalog.sources, "source", "The sources are")
    tables = [relation.table for relation in catalog.tables if relation.source == source]
    name = _match(definition, item.this, tables, f"table in source {source}:", "Its tables are")
    return TableUse(slot, item.alias or name, catalog[Relation(source, name)], bool(item.alias))


def _candidates(name: str, catalog: Catalog) -> list[str]:
    return sorted(str(relation) for relation in catalog.tables if relation.table.lower() == name.lower())


def _match(definition: Definition, identifier: exp.Expr, names: Iterable[str], kind: str, listing: str) -> str:
    """The name as the catalog spells it: exactly as written, failing that the only one that differs in case alone."""
    known, name = sorted(names), identifier.name
    found = [name] if name in known else [other for other in known if other.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        raise definition.error(f"{name} could be {' or '.join(found)}", "Write it exactly.", node_span(identifier))
    raise definition.error(f"unknown {kind} {name}", way_out(name, known, listing), node_span(identifier))


def _folded(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)
