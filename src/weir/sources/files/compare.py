"""Two snapshots compared as bags, on Spark: one pass that adds the new rows and takes away the old ones.

What is left of each distinct row is how often it came or went. Spark groups NaN with NaN and NULL with NULL, which is
what bags need.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.quoting import backquoted, ddl
from weir.algebra.types import Schema
from weir.sources.files.snapshots import TableSnapshot
from weir.sources.source import WEIGHT, SourceError


def difference(spark: SparkSession, old: TableSnapshot, new: TableSnapshot, schema: Schema) -> pa.Table:
    """The rows that came (+1) and went (-1), each as often as it did."""
    signed = (
        frame(spark, new, schema)
        .withColumn(WEIGHT, f.lit(1))
        .unionByName(frame(spark, old, schema).withColumn(WEIGHT, f.lit(-1)))
    )
    columns = [f.col(backquoted(name)) for name in schema.names]
    left = signed.groupBy(*columns).agg(f.sum(WEIGHT).alias(WEIGHT)).where(f.col(WEIGHT) != 0)
    wanted = pa.schema([*arrow_schema(schema), (WEIGHT, pa.int64())])
    return _one_by_one(collect(left, f"comparing {old.place} with {new.place}").cast(wanted))


def _one_by_one(table: pa.Table) -> pa.Table:
    """A row that came three times, three times."""
    weights = table.column(WEIGHT).to_numpy()
    often = np.repeat(np.arange(len(weights)), np.abs(weights))
    repeated = (
        table.drop_columns([WEIGHT]).take(pa.array(often))
        if len(often) > len(weights)
        else table.drop_columns([WEIGHT])
    )
    return repeated.append_column(WEIGHT, pa.array(np.sign(np.repeat(weights, np.abs(weights))).astype(np.int8)))


def broken_key(spark: SparkSession, snapshot: TableSnapshot, schema: Schema, key: Sequence[str]) -> str:
    """A key that occurs twice, or a NULL in it; empty when the key holds."""
    columns = [f.col(backquoted(name)) for name in key]
    groups = frame(spark, snapshot, schema.only(key)).groupBy(*columns).count()
    bad = groups.where((f.col("count") > 1) | f.greatest(*[c.isNull() for c in columns], f.lit(False))).limit(1)
    found = collect(bad, f"checking the key of {snapshot.place}").to_pylist()
    return ", ".join(str(found[0][name]) for name in key) if found else ""


def frame(spark: SparkSession, snapshot: TableSnapshot, schema: Schema) -> DataFrame:
    """The snapshot as a DataFrame of these columns. Days and moments are taken as they are written, whoever wrote."""
    reader = spark.read.option("datetimeRebaseMode", "CORRECTED").option("int96RebaseMode", "CORRECTED")
    rows = reader.schema(ddl(schema)).parquet(*map(_literal, snapshot.paths))
    return rows.select(*map(backquoted, schema.names))


def collect(frame: DataFrame, doing: str) -> pa.Table:
    try:
        return frame.toArrow()
    except PySparkException as problem:
        raise SourceError(f"Spark failed {doing}: {str(problem).splitlines()[0]}") from problem


def _literal(path: str) -> str:
    """A path in which Spark sees no pattern."""
    return "".join(f"\\{char}" if char in "{}[]*?\\" else char for char in path)
