"""Small batches for the store's tests, and a bag model of what a store should hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Row, Schema, parse_type
from weir.warehouse.columns import ARRIVAL, WEIGHT

AB = Schema.parse("a int, b string")
EVERY_TYPE = Schema.parse(
    "i8 tinyint, i16 smallint, i32 int, i64 bigint, f32 float, f64 double, t string, raw binary, yes boolean, d date, "
    "at timestamp, local timestamp_ntz, small decimal(10,2), large decimal(38,6)"
)
assert parse_type("decimal(38,6)") in EVERY_TYPE.types

Signed = Sequence[tuple[Sequence[Any], int, int]]  # row, weight, arrival


def batch(schema: Schema, rows: Signed) -> pa.Table:
    """An Arrow batch with weights and arrivals."""
    fields = arrow_schema(schema)
    columns = [pa.array([row[at] for row, _, _ in rows], field.type) for at, field in enumerate(fields)]
    numbers = [pa.array([item[at] for item in rows], pa.int64()) for at in (1, 2)]
    return pa.table([*columns, *numbers], names=[*schema.names, WEIGHT, ARRIVAL])


def ab(*rows: tuple[int, str | None, int], arrival: int = 1) -> pa.Table:
    """Rows (a, b, weight) of one arrival."""
    return batch(AB, [((a, b), weight, arrival) for a, b, weight in rows])


def bag_of(table: pa.Table, schema: Schema) -> MemoryBag:
    """What was read, rows repeated, as a bag."""
    return MemoryBag.of(schema, zip(*(table.column(name).to_pylist() for name in schema.names), strict=True))


def rows_of(table: pa.Table) -> list[Row]:
    return sorted(tuple(row.values()) for row in table.to_pylist())
