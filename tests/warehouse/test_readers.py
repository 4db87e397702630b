"""The same rows for every reader: Spark, plain deltalake, Polars and DuckDB; all column types come back exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests import values
from tests.warehouse.batches import AB, EVERY_TYPE, ab, bag_of, batch, rows_of
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Row, Schema
from weir.warehouse import delta_log, spark_reading
from weir.warehouse.columns import WEIGHT
from weir.warehouse.errors import Damaged, NotAView
from weir.warehouse.feed import changes_of
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore

EXPECTED = [(1, "x"), (1, "x"), (4, ""), (5, "n")]


@pytest.fixture
def store(tmp_path: Path) -> ViewStore:
    """Files with and without rows that are gone; the last batch has two arrivals."""
    store = ViewStore.create(tmp_path / "view", AB)
    store.load(ab((1, "x", 1), (2, "y", 1), (4, "", 1)), {"s": 1}, (1, 1), 1)
    store.append(ab((1, "x", 1), (3, "z", 1), arrival=2), {"s": 2}, (2, 2), 2)
    last = batch(AB, [((2, "y"), -1, 3), ((3, "z"), -1, 4), ((5, "n"), 1, 4)])
    store.append(last, {"s": 3}, (3, 4), 3)
    return store


def test_the_table_itself_is_the_view_to_any_client(store: ViewStore) -> None:
    """The view's columns and nothing else, every row as often as it counts, in every version."""
    table = DeltaTable(store.place.uri)
    assert [field.name for field in table.schema().fields] == ["a", "b"]
    assert by_deltalake(store, 3) == EXPECTED == sorted(polars.read_delta(store.place.uri).rows())
    assert by_deltalake(store, 2) == [(1, "x"), (1, "x"), (2, "y"), (3, "z"), (4, "")]
    assert by_deltalake(store, 1) == [(1, "x"), (2, "y"), (4, "")]
    assert sorted(polars.read_delta(store.place.uri, version=1).rows()) == by_deltalake(store, 1)
    counted = polars.scan_delta(store.place.uri).filter(polars.col("a") <= 4).select(polars.len()).collect()
    assert counted.item() == 3
    store.compact()
    assert by_deltalake(store) == EXPECTED == sorted(polars.read_delta(store.place.uri).rows())


def by_deltalake(store: ViewStore, version: int | None = None) -> list[Row]:
    table = DeltaTable(store.place.uri, version=version)
    return rows_of(pa.table(QueryBuilder().register("t", table).execute("SELECT a, b FROM t").read_all()))


def test_vectors_of_every_size_are_read_by_any_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the commit and in a file, sparse, in runs and nearly all: also through a checkpoint."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_EVERY", 4)
    store = ViewStore.create(tmp_path / "view", AB)
    every = range(66_000)  # more than one container of a bitmap holds
    gone: list[Callable[[int], bool]] = [lambda n: n == 65_999, lambda n: n % 3 == 0, lambda n: 10 < n < 65_990]
    for number in range(3):
        rows = [(n, str(number), 1) for n in every]
        store.append(ab(*rows, arrival=number + 1), {}, (number + 1, number + 1), number + 1)
    taken = [(n, str(number), -1) for number, is_gone in enumerate(gone) for n in every if is_gone(n)]
    store.append(ab(*taken, arrival=4), {}, (4, 4), 4, exact=True)
    assert sorted(file.vector.storage for file in store.log.state().files.values() if file.vector) == ["i", "i", "u"]
    expected = sorted((n, str(number)) for number, is_gone in enumerate(gone) for n in every if not is_gone(n))
    assert by_deltalake(store) == expected == rows_of(ViewStore.open(store.place.uri).read_arrow())
    assert sorted(polars.read_delta(store.place.uri).rows()) == expected


def test_the_change_feed_is_read_by_any_client(store: ViewStore) -> None:
    """Every version's inserts and deletes; a rewriting has none."""
    store.compact()
    store.append(ab((4, "", -1), arrival=5), {"s": 5}, (5, 5), 4)
    told = pa.table(DeltaTable(store.place.uri).load_cdf(starting_version=1).read_all()).to_pylist()
    found = sorted((row["_commit_version"], row["a"], row["_change_type"]) for row in told)
    assert found == [
        (1, 1, "insert"), (1, 2, "insert"), (1, 4, "insert"), (2, 1, "insert"), (2, 3, "insert"),
        (3, 2, "delete"), (3, 3, "delete"), (3, 5, "insert"), (5, 4, "delete"),
    ]  # fmt: skip
    for version in range(1, 6):
        ours = sorted((version, row["a"], KINDS[row[WEIGHT]]) for row in changes_of(store.log, version).to_pylist())
        assert ours == [each for each in found if each[0] == version]


KINDS = {1: "insert", -1: "delete"}


@pytest.mark.spark
def test_a_published_table_is_plain_to_all(store: ViewStore, tmp_path: Path, spark: SparkSession) -> None:
    """No rows that are gone, no features, exchanged in one commit; DuckDB and Spark read the version's files."""
    target = tmp_path / "plain"
    store.publish(target, AsOf(arrival=1))
    version = store.publish(target)
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
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.reader_features) == (1, None)
    assert not any("deletionVector" in line for line in log_lines(target))


def log_lines(target: Path) -> list[str]:
    return [line for file in (target / "_delta_log").glob("*.json") for line in file.read_text().splitlines()]


def test_publishing_again_writes_only_what_has_changed(store: ViewStore, tmp_path: Path) -> None:
    """Files that are new or have lost rows are copied, the others stay; compacted away, they go in one commit."""
    target = tmp_path / "plain"
    store.load(ab((1, "x", 2), (4, "", 1), (5, "n", 1), *((n, "many", 1) for n in range(50)), arrival=5), {}, (5, 5), 4)
    store.publish(target)
    before = copies(target)
    store.append(ab((6, "one", 1), (7, "many", -1), arrival=6), {"s": 6}, (6, 6), 5)
    assert store.publish(target) == 1
    after = copies(target)
    assert (len(before - after), len(after - before)) == (1, 2)
    assert plain(target) == rows_of(store.read_arrow())
    assert store.publish(target) == 2
    assert copies(target) == after
    store.append(ab((6, "one", -1), arrival=7), {"s": 7}, (7, 7), 6)
    store.publish(target)
    assert (copies(target) - after, plain(target)) == (set(), rows_of(store.read_arrow()))
    store.compact()
    store.publish(target)
    assert (len(copies(target)), plain(target)) == (1, rows_of(store.read_arrow()))


def copies(target: Path) -> set[str]:
    return set(DeltaTable(target).file_uris())


def plain(target: Path) -> list[Row]:
    return rows_of(DeltaTable(target).to_pyarrow_table())


def test_publishing_a_state_inside_a_batch(store: ViewStore, tmp_path: Path) -> None:
    """It is one file; the next one published is whole again, forward and back."""
    target = tmp_path / "plain"
    inside = [(1, "x"), (1, "x"), (3, "z"), (4, "")]
    for as_of, rows in ((AsOf(arrival=3), inside), (AsOf(), EXPECTED), (AsOf(arrival=3), inside), (AsOf(), EXPECTED)):
        store.publish(target, as_of)
        assert plain(target) == rows
    told = [entry["weir"]["arrival"] for entry in DeltaTable(target).history()]
    assert told == [4, 3, 4, 3]


def test_publishing_over_another_view_or_after_another_tool(store: ViewStore, tmp_path: Path) -> None:
    """What the files there are copies of is known only where it is said: else all of them are exchanged."""
    target = tmp_path / "plain"
    store.publish(target)
    other = ViewStore.create(tmp_path / "other", AB)
    other.append(ab((8, "o", 1)), {}, (1, 1), 1)
    other.publish(target)
    assert plain(target) == [(8, "o")]
    store.publish(target)
    assert plain(target) == EXPECTED
    assert DeltaTable(target).optimize.compact()["numFilesRemoved"] > 1
    store.append(ab((5, "n", -1), arrival=5), {}, (5, 5), 4)
    store.publish(target)
    assert plain(target) == EXPECTED[:-1]
    store.load(None, {}, (6, 6), 5)
    store.publish(target)
    assert plain(target) == []


@pytest.mark.spark
def test_spark_and_arrow_read_the_same(store: ViewStore, spark: SparkSession) -> None:
    """Now, as of an older arrival, repeated and counted."""
    assert sorted(tuple(row) for row in store.read(spark).collect()) == EXPECTED == rows_of(store.read_arrow())
    for arrival in (1, 2, 3):
        old = store.read(spark, AsOf(arrival=arrival), counted=True)
        by_arrow = store.read_arrow(AsOf(arrival=arrival), counted=True)
        assert sorted(tuple(row) for row in old.collect()) == rows_of(by_arrow)
    assert rows_of(by_arrow) == [(1, "x", 2), (3, "z", 1), (4, "", 1)]


@pytest.mark.spark
@pytest.mark.parametrize("alike", [False, True], ids=["own sizes", "same sizes"])
@pytest.mark.parametrize("most", [1, 16])
def test_spark_leaves_out_the_rows_of_the_right_file(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, alike: bool, most: int
) -> None:
    """Whether files are told apart by their sizes or two have the same, in one scan or in several; with a column that
    is called as Spark calls what it knows of a file.
    """
    monkeypatch.setattr(spark_reading, "DRIVER_BYTES", 0)
    monkeypatch.setattr(spark_reading, "MOST_VECTORS", most)
    schema = Schema.parse("_metadata bigint, row_index bigint")
    store = ViewStore.create(tmp_path / "view", schema)
    for part in (1, 2, 3, 4):
        rows = range(1000 * part, 1000 * part + (100 if alike else 100 * part))
        store.append(batch(schema, [((row, part), 1, part) for row in rows]), {"s": part}, (part, part), part)
    gone = [((1003, 1), -1, 5), ((1064, 1), -1, 5), ((2063, 2), -1, 5), ((4001, 4), -1, 5)]
    store.append(batch(schema, gone), {"s": 5}, (5, 5), 5)
    files = list(store.log.state().files.values())
    assert len(files) == 4
    assert (len({file.size for file in files if file.vector}) < 3) == alike
    assert rows_of(store.read(spark).toArrow()) == rows_of(store.read_arrow())
    assert store.read(spark).count() == (396 if alike else 996)


@pytest.mark.spark
def test_a_file_that_is_another_one_is_not_read_as_if_nothing_were_gone(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vector belongs to the file that was written: of a file that took its place nobody knows what is gone."""
    monkeypatch.setattr(spark_reading, "DRIVER_BYTES", 0)
    store = ViewStore.create(tmp_path / "view", AB)
    store.load(ab((1, "x", 1), (2, "y", 1)), {"s": 1}, (1, 1), 1)
    store.append(ab((2, "y", -1), arrival=2), {"s": 2}, (2, 2), 2)
    (file,) = store.log.state().files.values()
    store.place.write_parquet(store.read_arrow(), file.name)
    with pytest.raises(Damaged, match=f"{file.name} is missing, or is not the file that was written"):
        store.read(spark)


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
    store.append(batch(EVERY_TYPE, [(row, -1, 3) for row in rows[:half]]), {}, (3, 3), 3)
    left = MemoryBag.weighted(EVERY_TYPE, [*((row, 1) for row in rows[:half]), *((row, 1) for row in rows)])
    for _ in range(2):
        assert bag_of(store.read_arrow(), EVERY_TYPE) == left == bag_of(store.read(spark).toArrow(), EVERY_TYPE)
        assert store.head.owed == ""
        store.compact()
    assert polars.read_delta(str(path)).height == 2 * half + len(rows) - half


def test_a_uri_is_as_good_as_a_path(tmp_path: Path) -> None:
    """A folder named with its scheme is the same folder."""
    store = ViewStore.create(f"file://{tmp_path}/view", AB)
    store.append(ab((1, "x", 1), (2, "y", 1)), {"s": 1}, (1, 1), 1)
    store.append(ab((1, "x", -1), arrival=2), {"s": 2}, (2, 2), 2)
    store.compact()
    store.forget(AsOf(version=3))
    again = ViewStore.open(tmp_path / "view")
    assert (rows_of(again.read_arrow()), again.positions()) == ([(2, "y")], {"s": 2})
