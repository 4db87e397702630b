"""``weir bench read``."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from weir.bench.product import read


@pytest.mark.spark
def test_all_clients_are_shown_the_same_rows(spark: SparkSession) -> None:
    """Whatever state the table is in: each has a ratio against the same client on a plain table."""
    readings = read.measure(spark, rows=2_000, runs=1)
    states = ["plain table", "one large change", "many small changes", "compacted"]
    clients = ["weir on Spark", "deltalake", "polars"]
    assert [(r.client, r.state, r.rows) for r in readings] == [(c, s, 2_000) for c in clients for s in states]
    assert all(r.against_plain == 1 for r in readings if r.state == "plain table")
    assert all(r.seconds > 0 for r in readings)
    assert read.table(readings).row_count == len(readings) == len(read.document(readings)["rows"])
