"""Care: what has grown past its limit is compacted, beside a writer that never waits, and no state is lost."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.warehouse.batches import AB, ab, bag_of, batch
from weir.algebra.memory import MemoryBag
from weir.warehouse import store as store_module
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore


@pytest.fixture
def store(tmp_path: Path) -> ViewStore:
    """A hundred rows in the base."""
    store = ViewStore.create(tmp_path / "view", AB)
    store.load(ab(*((number, "base", 1) for number in range(100))), {"s": 1}, (1, 1), 1)
    return store


def append(store: ViewStore, number: int, *rows: tuple[int, str, int]) -> None:
    store.append(ab(*rows, arrival=number), {"s": number}, (number, number), number)


def test_a_short_log_is_left_alone(store: ViewStore) -> None:
    """Within its limits nothing is done; many rows that are few in number ask for no fold, whatever their share."""
    append(store, 2, *((number, "new", 1) for number in range(50)))
    assert store.log_share() == 0.5
    assert store.care(net_after=50, net_files=1, fold_after=0.1) == []


def test_a_long_tail_is_netted(store: ViewStore) -> None:
    """By its rows, or by its files."""
    append(store, 2, (1, "base", -1), (2, "base", -1), (200, "new", 1))
    assert store.care(net_after=2) == ["net"]
    append(store, 3, (3, "base", -1))
    append(store, 4, (4, "base", -1))
    assert store.care(net_files=2) == []
    assert store.care(net_files=1) == ["net"]
    assert store.care(net_files=1) == []


def test_a_large_log_is_folded_and_one_that_nets_out_is_not(store: ViewStore) -> None:
    """Rows that came and went are no reason to rewrite the base."""
    append(store, 2, *((number, "brief", 1) for number in range(20)))
    append(store, 3, *((number, "brief", -1) for number in range(20)))
    assert (store.log_share(), store.care(fold_after=0.1, few=0)) == (0.4, ["net"])
    assert store.log_share() == 0
    append(store, 4, *((number, "lasting", 1) for number in range(20)))
    assert store.care(fold_after=0.1, few=0) == ["net", "fold"]
    assert (store.log_share(), store.read_arrow().num_rows) == (0, 120)


def life(seed: int, batches: int) -> list[list[tuple[tuple[int, str], int]]]:
    dice = random.Random(seed)
    return [[((dice.randint(0, 40), "r"), dice.choice([-1, 1, 1])) for _ in range(5)] for _ in range(batches)]


def cared_for_beside_an_appender(store: ViewStore, seed: int, spark: SparkSession | None) -> list[str]:
    """Appends in one thread, care in another on a handle of its own, until all is appended and folded."""
    deltas, done, problems = life(seed, 25), list[str](), list[BaseException]()

    def write() -> None:
        try:
            for number, delta in enumerate(deltas, start=2):
                rows = batch(AB, [(row, weight, number) for row, weight in delta])
                assert store.append(rows, {"s": number}, (number, number), number).fresh
        except BaseException as problem:
            problems.append(problem)

    writer, beside = threading.Thread(target=write), ViewStore.open(store.place.uri)
    writer.start()
    while writer.is_alive():
        done += beside.care(spark, net_files=2, fold_after=0.2, few=0)
    writer.join()
    assert problems == []
    return done + beside.care(spark, net_files=0, fold_after=0.0, few=0)


def check_every_state(store: ViewStore, seed: int) -> None:
    bag = MemoryBag.of(AB, [(number, "base") for number in range(100)])
    for number, delta in enumerate(life(seed, 25), start=2):
        bag = bag + MemoryBag.weighted(AB, delta)
        assert bag_of(store.read_arrow(AsOf(arrival=number)), AB) == bag.positive(), f"arrival {number}"
    assert bag_of(store.read_arrow(), AB) == bag.positive()
    assert (store.positions(), store.head.transaction) == ({"s": 26}, 26)


@pytest.mark.parametrize("seed", [1, 2])
def test_care_beside_an_appender_loses_nothing(store: ViewStore, seed: int) -> None:
    """The writer meets no conflict, and every state it made reads as it was."""
    done = cared_for_beside_an_appender(store, seed, None)
    assert ("fold" in done, store.log_share()) == (True, 0)
    check_every_state(store, seed)
    ours = [record.kind for record in store.history()]
    assert [ours.count(kind) for kind in ("append", "net", "fold")] == [25, done.count("net"), done.count("fold")]


@pytest.mark.spark
def test_care_by_spark_beside_an_appender(
    store: ViewStore, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same when Spark does it, as for a view that does not fit the driver."""
    monkeypatch.setattr(store_module, "DRIVER_BYTES", 0)
    done = cared_for_beside_an_appender(store, 3, spark)
    assert ("fold" in done, store.log_share()) == (True, 0)
    check_every_state(store, 3)
