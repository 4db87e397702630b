"""The row hash on Arrow and Spark's own."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests import values
from tests.warehouse.batches import EVERY_TYPE
from weir.algebra.arrow_types import arrow_schema
from weir.algebra.types import Row, normalise_row
from weir.warehouse.row_hash import row_hashes


@pytest.mark.spark
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(values.rows(EVERY_TYPE), min_size=20, max_size=60))
def test_arrow_and_spark_give_a_row_the_same_hash(spark: SparkSession, rows: list[Row]) -> None:
    """Every column type, NULL, NaN and the longest decimals hash as Spark's xxhash64 does, texts by their own hash."""
    normal = [normalise_row(row, EVERY_TYPE) for row in rows]
    named = [dict(zip(EVERY_TYPE.names, row, strict=True)) for row in normal]
    table = pa.Table.from_pylist(named, arrow_schema(EVERY_TYPE))
    frame = spark.createDataFrame(table)
    parts = [f"xxhash64({c.name})" if c.type.name in ("string", "binary") else c.name for c in EVERY_TYPE]
    expected = frame.selectExpr(f"xxhash64({', '.join(parts)}) AS h").toArrow().column("h").to_pylist()
    assert row_hashes(table).to_pylist() == expected


def test_a_slice_hashes_as_its_rows_do() -> None:
    """The hash of a row does not depend on where in a buffer it lies."""
    numbers = pa.array([Decimal(1), None, Decimal(3)], pa.decimal128(10, 2))
    table = pa.table({"a": pa.array([1, 2, 3]), "d": numbers})
    assert row_hashes(table.slice(1)).to_pylist() == row_hashes(table).to_pylist()[1:]


def test_no_rows_have_no_hashes() -> None:
    """An empty batch is hashed without complaint."""
    assert row_hashes(arrow_schema(EVERY_TYPE).empty_table()).to_pylist() == []
