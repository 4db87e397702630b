"""``weir bench read``."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from weir.bench.product import read


@pytest.mark.spark
def test_all_ways_to_read_show_the_same_rows(spark: SparkSession) -> None:
    """Plain, appended, netted and folded are compared on equal rows; each has a ratio against plain."""
    readings = read.measure(spark, rows=2_000, runs=1)
    ways = ["plain table", "log appended", "log netted but an eighth", "log netted", "log folded"]
    assert [(r.way, r.rows) for r in readings] == [(way, 2_000) for way in ways]
    assert readings[0].ratio == 1
    assert all(r.median > 0 for r in readings)
    assert read.table(readings).row_count == 5
