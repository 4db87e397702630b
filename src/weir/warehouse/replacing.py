"""Other rows in place of a view's: what they are more and less than the rows that are there.

So a load after the first one writes only what is different, the change feed tells only that, and nothing where nothing
has changed.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.quoting import backquoted
from weir.algebra.types import Schema
from weir.spark.arrow_bag import added_up as added_up_arrow
from weir.spark.frame_bag import added_up
from weir.warehouse.columns import WEIGHT, fit, integers


def frame_difference(batch: DataFrame | None, rows: DataFrame, schema: Schema) -> DataFrame:
    """By Spark: one pass over both, grouped by all columns."""
    there = rows.withColumn(WEIGHT, F.lit(-1).cast("bigint"))
    if batch is None:
        return there
    weight = F.col(WEIGHT).cast("bigint") if WEIGHT in batch.columns else F.lit(1).cast("bigint")
    wanted = batch.select(*_fitted(schema), weight.alias(WEIGHT))
    return added_up(wanted.unionByName(there), [backquoted(name) for name in schema.names], WEIGHT)


def arrow_difference(batch: pa.Table | None, rows: pa.Table, schema: Schema) -> pa.Table:
    """In memory."""
    there = rows.append_column(WEIGHT, pa.repeat(pa.scalar(-1, pa.int64()), rows.num_rows))
    if batch is None:
        return there
    types = arrow_schema(schema).append(pa.field(WEIGHT, pa.int64()))
    wanted = pa.table([*fit(batch, schema).columns, integers(batch, WEIGHT, 1)], schema=types)
    return added_up_arrow(pa.concat_tables([wanted, there.cast(types)]), WEIGHT)


def _fitted(schema: Schema) -> list[Column]:
    """The columns in the declared types, with one representative per value (no -0.0, one NaN)."""
    found = []
    for column in schema:
        value = F.col(backquoted(column.name)).cast(str(column.type))
        if column.type.is_fraction:
            value = (F.nanvl(value, F.lit(float("nan"))) + F.lit(0.0)).cast(str(column.type))
        found.append(value.alias(column.name))
    return found
