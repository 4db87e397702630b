"""The same rows for every reader: Spark, plain deltalake, Polars and DuckDB; all column types come back exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests import values
from tests.warehouse.batches import AB, EVERY_TYPE, ab, bag_of, batch, rows_of
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Row
from weir.warehouse.columns import WEIGHT
from weir.warehouse.errors import NotAView
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore

EXPECTED = [(1, "x"), (1, "x"), (4, ""), (5, "n")]


@pytest.fixture
def store(tmp_path: Path) -> ViewStore:
    """Base, netted log and tail all hold something."""
    store = ViewStore.create(tmp_path / "view", AB)
    store.load(ab((1, "x", 1), (2, "y", 1), (4, "", 1)), {"s": 1}, (1, 1), 1)
    store.append(ab((1, "x", 1), (3, "z", 1), arrival=2), {"s": 2}, (2, 2), 2)
    store.net()
    store.append(ab((2, "y", -1), (3, "z", -1), (5, "n", 1), arrival=3), {"s": 3}, (3, 3), 3)
    return store


SUM = f"SELECT a, b, sum({WEIGHT})::BIGINT AS w FROM stored GROUP BY a, b HAVING sum({WEIGHT}) > 0 ORDER BY a, b"


def test_weights_summed_by_any_delta_client_give_the_view(store: ViewStore) -> None:
    """The stored table itself is an ordinary Delta table of signed rows: sum the weights and have the view."""
    counted = [(1, "x", 2), (4, "", 1), (5, "n", 1)]
    stored = DeltaTable(store.place.uri).to_pyarrow_dataset()
    assert duckdb.sql(SUM).fetchall() == counted
    assert stored.count_rows() == 8
    summed = polars.scan_delta(store.place.uri).group_by("a", "b").agg(polars.col(WEIGHT).sum())
    assert sorted(summed.filter(polars.col(WEIGHT) > 0).collect().rows()) == counted


@pytest.mark.spark
@pytest.mark.parametrize("by_spark", [False, True])
def test_a_published_table_is_plain_to_all(
    store: ViewStore, tmp_path: Path, spark: SparkSession, by_spark: bool
) -> None:
    """Rows repeated, no column of ours, replaced in one commit; DuckDB reads the files of the Delta version."""
    target = tmp_path / "plain"
    store.publish(target, AsOf(arrival=1), spark if by_spark else None)
    version = store.publish(target, spark=spark if by_spark else None)
    table = DeltaTable(target)
    assert (table.version(), [field.name for field in table.schema().fields]) == (version, ["a", "b"])
    assert rows_of(table.to_pyarrow_table()) == EXPECTED
    assert sorted(polars.read_delta(str(target)).rows()) == EXPECTED
    files = table.file_uris()
    assert sorted(duckdb.read_parquet(files).fetchall()) == EXPECTED
    assert sorted(tuple(row) for row in spark.read.parquet(*files).collect()) == EXPECTED
    assert rows_of(DeltaTable(target, version=0).to_pyarrow_table()) == [(1, "x"), (2, "y"), (4, "")]
    assert version == 1
    assert table.history(1)[0]["weir"]["positions"] == {"s": 3}


@pytest.mark.spark
def test_spark_and_arrow_read_the_same(store: ViewStore, spark: SparkSession) -> None:
    """Now, as of an older arrival, repeated and counted."""
    assert sorted(tuple(row) for row in store.read(spark).collect()) == EXPECTED == rows_of(store.read_arrow())
    old = store.read(spark, AsOf(arrival=2), counted=True)
    assert sorted(tuple(row) for row in old.collect()) == [(1, "x", 2), (2, "y", 1), (3, "z", 1), (4, "", 1)]


def test_a_published_table_is_never_seen_empty(store: ViewStore, tmp_path: Path) -> None:
    """Its first version has the rows. Files of a publisher that died before its commit are no obstacle."""
    target = tmp_path / "plain"
    (target / "rows").mkdir(parents=True)
    (target / "rows" / "left.parquet").write_bytes(b"half")
    assert store.publish(target) == 0
    assert rows_of(DeltaTable(target, version=0).to_pyarrow_table()) == EXPECTED
    assert DeltaTable(target).history(1)[0]["weir"]["positions"] == {"s": 3}


def test_a_table_of_somebody_else_is_not_overwritten(store: ViewStore, tmp_path: Path) -> None:
    """Publishing refuses a foreign table and a folder that holds something else."""
    DeltaTable.create(tmp_path / "foreign", schema=pa.schema([("a", pa.int32())]))
    with pytest.raises(NotAView, match="not published by Weir"):
        store.publish(tmp_path / "foreign")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(NotAView, match=r"letter\.txt"):
        store.publish(tmp_path / "full")


@pytest.mark.spark
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(values.rows(EVERY_TYPE), min_size=10, max_size=30))
def test_all_types_come_back_exactly(spark: SparkSession, tmp_path_factory: Any, rows: list[Row]) -> None:
    """NULL, NaN, empty text, far dates, instants with and without zone: through Arrow and through Spark, and mixed."""
    path = tmp_path_factory.mktemp("types") / "view"
    store = ViewStore.create(path, EVERY_TYPE)
    half = len(rows) // 2
    store.append(batch(EVERY_TYPE, [(row, 2, 1) for row in rows[:half]]), {}, (1, 1), 1)
    store.append(spark.createDataFrame(batch(EVERY_TYPE, [(row, 1, 2) for row in rows])), {}, (2, 2), 2)
    expected = MemoryBag.weighted(EVERY_TYPE, [*((row, 2) for row in rows[:half]), *((row, 1) for row in rows)])
    assert bag_of(store.read_arrow(), EVERY_TYPE) == expected
    assert bag_of(store.read(spark).toArrow(), EVERY_TYPE) == expected
    store.fold(spark)
    assert bag_of(store.read_arrow(), EVERY_TYPE) == expected
    assert DeltaTable(path).to_pyarrow_table().num_rows == len(expected)


def test_a_uri_is_as_good_as_a_path(tmp_path: Path) -> None:
    """A folder named with its scheme is the same folder."""
    store = ViewStore.create(f"file://{tmp_path}/view", AB)
    store.append(ab((1, "x", 1), (2, "y", 1)), {"s": 1}, (1, 1), 1)
    store.append(ab((1, "x", -1), arrival=2), {"s": 2}, (2, 2), 2)
    store.fold()
    store.forget(AsOf(version=3))
    again = ViewStore.open(tmp_path / "view")
    assert (rows_of(again.read_arrow()), again.positions()) == ([(2, "y")], {"s": 2})
