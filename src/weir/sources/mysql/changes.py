"""The watched tables: how their rows are taken out of the binlog and gathered into Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from weir.algebra.arrow_types import arrow_type
from weir.algebra.catalog import Relation
from weir.algebra.types import Type
from weir.sources.mysql import old_temporals
from weir.sources.mysql.columns import CharacterTables, MysqlColumn, log_finish
from weir.sources.mysql.events import LogColumn, RowsPart, TableMap
from weir.sources.mysql.rows import Decode, Field, Layout, compile_layout
from weir.sources.mysql.values import BadValue, Finish
from weir.sources.source import LOAD_AGAIN, TRANSACTION, WEIGHT, SchemaChanged, SourceError


@dataclass(frozen=True)
class WatchedMysqlTable:
    """A table in use: the needed columns in the order the views want them, each with our type; and ``all_columns`` in
    the table's order.
    """

    relation: Relation
    columns: tuple[MysqlColumn, ...]
    types: tuple[Type, ...]
    all_columns: tuple[MysqlColumn, ...] = ()

    @property
    def has_old(self) -> bool:
        """Whether the width of its rows in the log depends on what the catalogue says of its columns."""
        return any(column.is_old for column in self.all_columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, arrow_type(type_)) for name, type_ in zip(self.names, self.types, strict=True)])

    def finished(self, finish: Callable[[MysqlColumn, Type], Finish], raw: Sequence[Sequence[Any]]) -> list[pa.Array]:
        """The raw values of every column as Arrow; ``finish`` tells how those of one column are read."""
        columns = zip(self.columns, self.types, raw, strict=True)
        return [_finished(self.relation, column, finish(column, type_), values) for column, type_, values in columns]


@dataclass(frozen=True)
class DecodingPlan:
    """How rows with one table map and one set of present columns are decoded: the kept values come in the log's
    order, ``order`` tells to which needed column each belongs.
    """

    watched: WatchedMysqlTable
    decode: Decode
    order: tuple[int, ...]


def plan_rows(watched: WatchedMysqlTable, table: TableMap, present: bytes) -> DecodingPlan:
    """Checks that the log's table is the one we know, and compiles its decoder."""
    places = {_place(watched, column, table): at for at, column in enumerate(watched.columns)}
    there = [at for at in range(len(table.columns)) if present[at // 8] >> at % 8 & 1]
    for place, at in places.items():
        _check_type(watched, watched.columns[at], table.columns[place])
        if place not in there:
            raise SourceError(
                f"the binlog has only part of a row of {watched.relation}: column '{watched.columns[at].name}' is "
                "missing. A session wrote with "
                f"another binlog_row_image than FULL. Run SET GLOBAL binlog_row_image = 'FULL', see that no session "
                "changes it, and load again"
            )
    fields = tuple(_field(watched, table, at, places) for at in there)
    return DecodingPlan(watched, compile_layout(Layout(fields)), tuple(places[at] for at in there if at in places))


def _place(watched: WatchedMysqlTable, column: MysqlColumn, table: TableMap) -> int:
    if table.names is not None:
        if column.name not in table.names:
            raise _changed(watched, f"column '{column.name}' is gone")
        return table.names.index(column.name)
    if column.place >= len(table.columns):
        raise _changed(watched, f"it has {len(table.columns)} columns, '{column.name}' was number {column.place + 1}")
    return column.place


def _check_type(watched: WatchedMysqlTable, known: MysqlColumn, logged: LogColumn) -> None:
    if logged.type != known.type_number or (known.log_detail is not None and logged.detail != known.log_detail):
        raise _changed(watched, f"column '{known.name}' is no longer {known.declared}")


def _changed(watched: WatchedMysqlTable, what: str) -> SchemaChanged:
    return SchemaChanged(f"table {watched.relation} has changed: {what}; {LOAD_AGAIN}")


def _field(watched: WatchedMysqlTable, table: TableMap, at: int, places: Mapping[int, int]) -> Any:
    if table.columns[at].type in old_temporals.NUMBERS.values():
        return replace(_old_field(watched, table, at), kept=at in places)
    known = table.columns[at].field
    if known is None:
        raise SourceError(
            f"a column of {watched.relation} has the type {table.columns[at].type} in the binlog, which Weir cannot "
            "skip"
        )
    if at not in places:
        return replace(known, kept=False)
    unsigned = watched.columns[places[at]].unsigned
    return replace(known, fixed=known.fixed.upper()) if unsigned and known.fixed in tuple("bhiq") else known


def _old_field(watched: WatchedMysqlTable, table: TableMap, at: int) -> Field:
    """The log tells that a column has the old format, not how wide it is."""
    if table.names is None:
        found = next((column for column in watched.all_columns if column.place == at), None)
    else:
        found = next((column for column in watched.all_columns if column.name == table.names[at]), None)
    if found is None or not found.is_old or found.type_number != table.columns[at].type:
        raise _changed(watched, "a date or time in the old format of MariaDB 5.3 was there, or has come")
    return Field(f"{old_temporals.width(found.kind, found.fraction)}s")


@dataclass
class TableChanges:
    """The rows of one table that a visit delivers, column by column."""

    watched: WatchedMysqlTable
    tables: CharacterTables
    raw: list[list[Any]] = field(init=False)
    weights: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.raw = [[] for _ in self.watched.columns]

    def add(self, plan: DecodingPlan, part: RowsPart, number: int) -> None:
        appends = [self.raw[at].append for at in plan.order]
        many = plan.decode(part.data, part.start, len(part.data), *appends)
        weights = {"insert": [1] * many, "delete": [-1] * many, "update": [-1, 1] * (many // 2)}
        self.weights += weights[part.what]
        self.numbers += [number] * many

    def table(self) -> pa.Table:
        columns = self.watched.finished(lambda column, type_: log_finish(column, type_, self.tables), self.raw)
        schema = self.watched.schema
        for name, values in ((WEIGHT, self.weights), (TRANSACTION, self.numbers)):
            columns, schema = [*columns, pa.array(values, pa.int64())], schema.append(pa.field(name, pa.int64()))
        return pa.table(columns, schema=schema)


def _finished(relation: Relation, column: MysqlColumn, finish: Finish, raw: Sequence[Any]) -> pa.Array:
    """The Arrow column; a value that cannot be held is refused by table, column and value."""
    try:
        return finish(raw)
    except BadValue as problem:
        raise SourceError(
            f"{relation}.{column.name} holds {problem}, which is not a value of Spark's; "
            f"change it at the source (an UPDATE to NULL or to a true value), or leave the column out of the views"
        ) from None
    except (pa.ArrowInvalid, OverflowError) as problem:
        raise SourceError(
            f"{relation}.{column.name} holds a value that does not fit {column.declared}: {problem}"
        ) from None
