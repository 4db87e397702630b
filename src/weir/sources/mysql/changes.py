"""The watched tables: how their rows are taken out of the binlog and gathered into Arrow columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from weir.algebra.arrow_types import arrow_type
from weir.algebra.catalog import Relation
from weir.algebra.types import Type
from weir.sources.mysql.columns import Column, Tables, log_finish
from weir.sources.mysql.events import LogColumn, RowsPart, TableMap
from weir.sources.mysql.rows import Decode, Layout, compile_layout
from weir.sources.mysql.values import BadValue
from weir.sources.source import LOAD_AGAIN, TRANSACTION, WEIGHT, SchemaChanged, SourceError


@dataclass(frozen=True)
class Watched:
    """A table in use: the needed columns in the order the views want them, each with our type."""

    relation: Relation
    columns: tuple[Column, ...]
    types: tuple[Type, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True)
class Plan:
    """How rows with one table map and one set of present columns are decoded: the kept values come in the log's
    order, ``order`` tells to which needed column each belongs.
    """

    watched: Watched
    decode: Decode
    order: tuple[int, ...]


def plan_rows(watched: Watched, table: TableMap, present: bytes) -> Plan:
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
    return Plan(watched, compile_layout(Layout(fields)), tuple(places[at] for at in there if at in places))


def _place(watched: Watched, column: Column, table: TableMap) -> int:
    if table.names is not None:
        if column.name not in table.names:
            raise _changed(watched, f"column '{column.name}' is gone")
        return table.names.index(column.name)
    if column.place >= len(table.columns):
        raise _changed(watched, f"it has {len(table.columns)} columns, '{column.name}' was number {column.place + 1}")
    return column.place


def _check_type(watched: Watched, known: Column, logged: LogColumn) -> None:
    if logged.type != known.type_number or (known.log_detail is not None and logged.detail != known.log_detail):
        raise _changed(watched, f"column '{known.name}' is no longer {known.declared}")


def _changed(watched: Watched, what: str) -> SchemaChanged:
    return SchemaChanged(f"table {watched.relation} has changed: {what}; {LOAD_AGAIN}")


def _field(watched: Watched, table: TableMap, at: int, places: Mapping[int, int]) -> Any:
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


@dataclass
class Changes:
    """The rows of one table that a visit delivers, column by column."""

    watched: Watched
    tables: Tables
    raw: list[list[Any]] = field(init=False)
    weights: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.raw = [[] for _ in self.watched.columns]

    def add(self, plan: Plan, part: RowsPart, number: int) -> None:
        appends = [self.raw[at].append for at in plan.order]
        many = plan.decode(part.data, part.start, len(part.data), *appends)
        weights = {"insert": [1] * many, "delete": [-1] * many, "update": [-1, 1] * (many // 2)}
        self.weights += weights[part.what]
        self.numbers += [number] * many

    def table(self) -> pa.Table:
        columns = [
            finish_column(self.watched, column, log_finish(column, type_, self.tables), raw)
            for column, type_, raw in zip(self.watched.columns, self.watched.types, self.raw, strict=True)
        ]
        schema = pa.schema(
            [(c.name, arrow_type(t)) for c, t in zip(self.watched.columns, self.watched.types, strict=True)]
        )
        schema = schema.append(pa.field(WEIGHT, pa.int64())).append(pa.field(TRANSACTION, pa.int64()))
        return pa.table(
            [*columns, pa.array(self.weights, pa.int64()), pa.array(self.numbers, pa.int64())], schema=schema
        )


def finish_column(watched: Watched, column: Column, finish: Any, raw: Sequence[Any]) -> Any:
    """The Arrow column; a value that cannot be held is refused by table, column and value."""
    try:
        return finish(raw)
    except BadValue as problem:
        raise SourceError(
            f"{watched.relation}.{column.name} holds {problem}, which is not a value of Spark's; "
            f"change it at the source (an UPDATE to NULL or to a true value), or leave the column out of the views"
        ) from None
    except (pa.ArrowInvalid, OverflowError) as problem:
        raise SourceError(
            f"{watched.relation}.{column.name} holds a value that does not fit {column.declared}: {problem}"
        ) from None
