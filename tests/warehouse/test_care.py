"""Care: what has grown past its limit is compacted, beside a writer that never waits, and no state is lost."""

from __future__ import annotations

import random
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from tests.warehouse.batches import AB, ab, bag_of, batch, rows_of
from weir.algebra.memory import MemoryBag
from weir.warehouse.care import Limits
from weir.warehouse.columns import WEIGHT
from weir.warehouse.feed import changes_of
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore

OFTEN = Limits(files=2, gone=0.1, few=0)


@pytest.fixture
def store(tmp_path: Path) -> ViewStore:
    """A hundred rows in one file."""
    store = ViewStore.create(tmp_path / "view", AB)
    store.load(ab(*((number, "base", 1) for number in range(100))), {"s": 1}, (1, 1), 1)
    return store


def append(store: ViewStore, number: int, *rows: tuple[int, str, int]) -> None:
    store.append(ab(*rows, arrival=number), {"s": number}, (number, number), number)


def test_a_table_within_its_limits_is_left_alone(store: ViewStore) -> None:
    """Few files of a size; few rows that are gone, by their share or by their number."""
    for number in range(2, 10):
        append(store, number, (number, "base", -1), (200 + number, "new", 1))
    files = store.log.state().files
    assert store.care() == []
    assert store.care(Limits(files=8, gone=0.08, few=0)) == []
    assert store.care(Limits(files=8, gone=0.01, few=8)) == []
    assert store.log.state().files == files


def test_many_small_files_are_merged(store: ViewStore) -> None:
    """With those of about their size: the large one stays as it is."""
    (base,) = store.log.state().files
    for number in range(2, 11):
        append(store, number, (200 + number, "new", 1))
    assert store.care() == ["merge"]
    assert (base in store.log.state().files, len(store.log.state().files)) == (True, 2)
    assert store.care() == []


def test_a_file_that_has_lost_many_rows_is_written_without_them(store: ViewStore) -> None:
    """Only that one; rows that came and went are no reason to rewrite anything."""
    append(store, 2, *((number, "brief", 1) for number in range(20)))
    append(store, 3, *((number, "brief", -1) for number in range(20)))
    limits = Limits(gone=0.1, few=0)
    assert (store.care(limits), len(store.log.state().files)) == ([], 1)
    append(store, 4, *((number, "base", -1) for number in range(20)), (500, "new", 1))
    assert store.care(limits) == ["purge"]
    assert sorted((file.rows, file.gone) for file in store.log.state().files.values()) == [(1, 0), (80, 0)]
    assert store.read_arrow().num_rows == 81


def test_every_row_is_rewritten_a_few_times_only(tmp_path: Path) -> None:
    """Files stay few, and the work for it does not grow with the table."""
    store, limits, written = ViewStore.create(tmp_path / "view", AB), Limits(files=4), 0
    for number in range(1, 129):
        append(store, number, (number, "x", 1))
        if store.care(limits):
            written += store.head.rows
        assert len(store.log.state().files) <= 4 * 5
    assert written <= 128 * 5
    assert rows_of(store.read_arrow()) == [(number, "x") for number in range(1, 129)]


def life(seed: int, batches: int) -> list[list[tuple[tuple[int, str], int]]]:
    dice = random.Random(seed)
    return [[((dice.randint(0, 40), "r"), dice.choice([-1, 1, 1])) for _ in range(5)] for _ in range(batches)]


def cared_for_beside_an_appender(store: ViewStore, seed: int, batches: int) -> list[str]:
    """Appends in one thread, care in another on a handle of its own, until all is appended and compacted."""
    deltas, done, problems = life(seed, batches), list[str](), list[BaseException]()

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
        done += beside.care(OFTEN)
    writer.join()
    assert problems == []
    while more := beside.care(OFTEN):
        done += more
    return done


def check_every_state(store: ViewStore, seed: int, batches: int) -> None:
    bag = MemoryBag.of(AB, [(number, "base") for number in range(100)])
    for number, delta in enumerate(life(seed, batches), start=2):
        bag = bag + MemoryBag.weighted(AB, delta)
        assert bag_of(store.read_arrow(AsOf(arrival=number)), AB) == bag.positive(), f"arrival {number}"
    assert bag_of(store.read_arrow(), AB) == bag.positive()
    assert (store.positions(), store.head.transaction) == ({"s": batches + 1}, batches + 1)
    store.check()


@pytest.mark.parametrize("seed", [1, 2])
def test_care_beside_an_appender_loses_nothing(store: ViewStore, seed: int) -> None:
    """The writer meets no conflict, and every state it made reads as it was, in the feed too."""
    done = cared_for_beside_an_appender(store, seed, 60)
    assert "merge" in done
    check_every_state(store, seed, 60)
    kinds = [record.kind for record in store.history()]
    assert (kinds.count("append"), kinds.count("rewrite")) == (60, len(done))
    assert added_up(store) == bag_of(store.read_arrow(), AB)
    assert bag_of(ViewStore.open(store.place.uri).read_arrow(), AB) == bag_of(store.read_arrow(), AB)
    store.clean_orphans(timedelta(0))
    check_every_state(store, seed, 60)


def added_up(store: ViewStore) -> MemoryBag:
    """All that the change feed has told."""
    signed = []
    for version in store.log.versions()[1:]:
        signed += [((row["a"], row["b"]), row[WEIGHT]) for row in changes_of(store.log, version).to_pylist()]
    return MemoryBag.weighted(AB, signed)


def test_two_who_care_at_once(store: ViewStore) -> None:
    """Beside a writer, in threads and handles of their own: what one has rewritten the other leaves."""
    done, problems, over = list[str](), list[BaseException](), threading.Event()

    def care() -> None:
        try:
            beside = ViewStore.open(store.place.uri)
            while not over.is_set():
                done.extend(beside.care(OFTEN))
        except BaseException as problem:
            problems.append(problem)

    carer = threading.Thread(target=care)
    carer.start()
    done += cared_for_beside_an_appender(store, 5, 40)
    over.set()
    carer.join()
    assert problems == []
    check_every_state(store, 5, 40)
    assert [record.kind for record in store.history()].count("rewrite") == len(done)
