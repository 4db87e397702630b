"""Files written by the tasks of a Spark job are the files that the driver would have written."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests import values
from tests.warehouse.batches import AB, EVERY_TYPE, ab, bag_of, batch, rows_of
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Row
from weir.warehouse.columns import ARRIVAL, WEIGHT
from weir.warehouse.errors import BadColumns
from weir.warehouse.record import AsOf
from weir.warehouse.staging import Staged, Stager
from weir.warehouse.store import ViewStore


def staged_by_tasks(spark: SparkSession, stager: Stager, table: pa.Table, tasks: int) -> Staged:
    """Every task of a real job writes its rows and returns what it wrote."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            yield pa.RecordBatch.from_pydict({"staged": [pickle.dumps(stager.write(pa.Table.from_batches([rows])))]})

    written = spark.createDataFrame(table).repartition(tasks).mapInArrow(write, "staged binary").collect()
    return sum((pickle.loads(row["staged"]) for row in written), Staged())


def signed_rows(dice: random.Random) -> pa.Table:
    """No two of them are the same row at the same arrival."""
    every = [((a, b), arrival) for a in range(10) for b in ("p", "q", "", None) for arrival in (2, 3, 4)]
    return batch(AB, [(row, dice.choice([-1, 1, 1, 2]), arrival) for row, arrival in dice.sample(every, 40)])


@pytest.mark.spark
def test_what_tasks_stage_is_committed_once_and_read_by_all(spark: SparkSession, tmp_path: Path) -> None:
    """Three tasks write, one commit adds it all: Spark, Arrow, DuckDB, Polars and deltalake read the same rows."""
    store, table = ViewStore.create(tmp_path / "view", AB), signed_rows(random.Random(7))
    store.load(ab((1, "p", 2), (2, None, 1)), {"s": 1}, (1, 1), 1)
    staged = staged_by_tasks(spark, store.stager(), table, tasks=3)
    assert (len(staged.parts), len(staged.inside), store.head.version) == (3, 3, 1)
    assert store.append(staged, {"s": 4}, (2, 4), 2).fresh
    signed = [(tuple(row[:-2]), row[-2]) for row in (tuple(item.values()) for item in table.to_pylist())]
    total = MemoryBag.weighted(AB, [((1, "p"), 2), ((2, None), 1), *signed])
    expected = total.positive()
    assert bag_of(store.read_arrow(), AB) == expected == bag_of(store.read(spark).toArrow(), AB)
    assert bag_of(polars.read_delta(store.place.uri).to_arrow(), AB) == expected
    by_deltalake = QueryBuilder().register("t", DeltaTable(store.place.uri)).execute("SELECT a, b FROM t")
    assert bag_of(pa.table(by_deltalake.read_all()), AB) == expected
    store.publish(tmp_path / "plain")
    files = DeltaTable(tmp_path / "plain").file_uris()
    assert MemoryBag.of(AB, duckdb.read_parquet(files).fetchall()) == expected
    owed = store.place.read_parquet([store.head.owed], store.read_arrow().schema)
    assert expected - bag_of(owed, AB) == total
    early = bag_of(store.read_arrow(AsOf(arrival=3)), AB)
    assert early == bag_of(store.read(spark, AsOf(arrival=3)).toArrow(), AB) != expected


@pytest.mark.spark
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(values.rows(EVERY_TYPE), min_size=10, max_size=30))
def test_a_task_stores_what_the_driver_stores(spark: SparkSession, tmp_path_factory: Any, rows: list[Row]) -> None:
    """The same columns, types and hashes for every type, whoever writes; both parts are one delta."""
    store = ViewStore.create(tmp_path_factory.mktemp("types") / "view", EVERY_TYPE)
    table = batch(EVERY_TYPE, [(row, 1, 1) for row in rows])
    by_driver, by_task = store.stage(table, 1), staged_by_tasks(spark, store.stager(), table, tasks=1)
    names = [staged.parts[0].names[0] for staged in (by_driver, by_task)]
    files = [pq.read_table(f"{store.place.uri}/{name}") for name in names]
    kept = [sorted(map(repr, file.to_pylist())) for file in files]
    assert (kept[0], files[0].schema) == (kept[1], files[1].schema)
    hashes = [sorted(store.stager().hashes_of(name)) for name in names]
    assert hashes[0] == hashes[1]
    store.append(by_driver + by_task, {"s": 1}, (1, 1), 1)
    assert bag_of(store.read_arrow(), EVERY_TYPE) == MemoryBag.weighted(EVERY_TYPE, [(row, 2) for row in rows])
    taken = batch(EVERY_TYPE, [(row, -1, 2) for row in rows])
    store.append(staged_by_tasks(spark, store.stager(2, 2), taken, tasks=1), {"s": 2}, (2, 2), 2)
    assert bag_of(store.read_arrow(), EVERY_TYPE) == MemoryBag.weighted(EVERY_TYPE, [(row, 1) for row in rows])
    assert store.head.owed == ""


def test_weight_and_arrival_have_defaults(tmp_path: Path) -> None:
    """Without WEIGHT a row counts once; without ARRIVAL it has the stager's, and a stager without one says so."""
    store = ViewStore.create(tmp_path / "view", AB)
    bare = ab((1, "x", 1), (2, "y", 1)).drop_columns([WEIGHT, ARRIVAL])
    with pytest.raises(BadColumns, match=r"say stager\(arrival=\.\.\.\)"):
        store.stager().write(bare)
    store.append(store.stager(arrival=1).write(bare), {"s": 1}, (1, 1), 1)
    assert rows_of(store.read_arrow(AsOf(arrival=1))) == [(1, "x"), (2, "y")]


def test_rows_that_cancel_leave_no_file(tmp_path: Path) -> None:
    """Weight zero is nothing, and nothing is not written; an empty part changes no sum."""
    store = ViewStore.create(tmp_path / "view", AB)
    for rows in (ab((1, "x", 0)), ab((1, "x", 2), (1, "x", -1), (1, "x", -1))):
        nothing = pickle.loads(pickle.dumps(store.stager())).write(rows)
        assert nothing == Staged() == nothing + Staged()
    assert [name for name in store.place.listing() if "_delta_log" not in name] == []


@pytest.mark.parametrize("hash_bits", [1, 64])
def test_equal_rows_of_one_arrival_are_one_step(tmp_path: Path, hash_bits: int) -> None:
    """Their weights add up; rows of another arrival, or that only share the hash, stay as they are. What is brought is
    there as often as it counts, and what has come and gone is only a step."""
    store = ViewStore.create(tmp_path / "view", AB)
    signed = [((1, "x"), 1, 1), ((1, "x"), 1, 2), ((2, None), 1, 1), ((2, None), 2, 1), ((3, "y"), 1, 1)]
    gone = [((4, "z"), 1, 2), ((4, "z"), -1, 2), ((5, "w"), 1, 1), ((5, "w"), -1, 2), ((6, "v"), -1, 2)]
    (part,) = replace(store.stager(), hash_bits=hash_bits).write(batch(AB, [*signed, *gone])).parts
    steps = pq.read_table(f"{store.place.uri}/{part.inside}").to_pylist()
    assert {(row["a"], row["b"], row[WEIGHT], row[ARRIVAL]) for row in steps} == {
        (1, "x", 1, 1), (1, "x", 1, 2), (2, None, 3, 1), (3, "y", 1, 1),
        (5, "w", 1, 1), (5, "w", -1, 2), (6, "v", -1, 2),
    }  # fmt: skip
    assert len(steps) == 7
    assert part.brought is not None
    assert sorted(brought(store, part.brought.name)) == [1, 1, 2, 2, 2, 3]
    assert part.changes is not None
    changes = pq.read_table(f"{store.place.uri}/{part.changes.name}").to_pylist()
    assert [(row["a"], row["_change_type"]) for row in changes][-1] == (6, "delete")
    assert (part.taken, len(changes)) == (1, 7)


def brought(store: ViewStore, name: str) -> list[int]:
    return [row["a"] for row in pq.read_table(f"{store.place.uri}/{name}").to_pylist()]


def test_only_what_is_needed_is_written(tmp_path: Path) -> None:
    """No steps where all came with the batch's last arrival, no feed where nothing is taken, no empty file."""
    store = ViewStore.create(tmp_path / "view", AB)
    stager = store.stager(arrival=2, last=2)
    kinds = {
        (True, False, False): ab((1, "x", 1), arrival=2),
        (False, True, False): ab((1, "x", -1), arrival=2),
        (True, True, False): ab((1, "x", 1), (2, "y", -1), arrival=2),
        (True, False, True): ab((1, "x", 1), arrival=1),
        (False, True, True): ab((1, "x", -1), arrival=1),
        (False, False, True): batch(AB, [((1, "x"), 1, 1), ((1, "x"), -1, 2)]),
    }
    for expected, rows in kinds.items():
        (part,) = stager.write(rows).parts
        assert (part.brought is not None, part.changes is not None, part.inside != "") == expected
        assert len(part.names) == sum(expected)


def test_what_is_staged_can_be_written_down_and_read(tmp_path: Path) -> None:
    """As a deciding commit keeps it for its followers: the hashes that are not written down come from the files."""
    store = ViewStore.create(tmp_path / "view", AB)
    store.append(ab((1, "x", 1), (2, "y", 1)), {"s": 1}, (1, 1), 1)
    staged = store.stage(ab((1, "x", -1), (3, "z", 1), arrival=2), 2)
    again = Staged.parse(json.loads(json.dumps(staged.document())))
    assert (again, again.parts[0].taken, again.names) == (staged, 1, staged.names)
    store.append(again, {"s": 2}, (2, 2), 2)
    assert rows_of(store.read_arrow()) == [(2, "y"), (3, "z")]
