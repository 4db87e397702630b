"""The same rows in other files, beside a writer that takes rows from the very files that are being rewritten."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.warehouse.batches import AB, ab, rows_of
from weir import points
from weir.points import COMPACTING
from weir.warehouse import rewriting
from weir.warehouse.care import Limits
from weir.warehouse.columns import WEIGHT
from weir.warehouse.committing import Committer
from weir.warehouse.errors import CannotWrite, Damaged
from weir.warehouse.feed import changes_of
from weir.warehouse.place import Place
from weir.warehouse.reading import ArrowReader
from weir.warehouse.record import AsOf
from weir.warehouse.replaying import commit_name
from weir.warehouse.statistics import describe_file
from weir.warehouse.store import ViewStore
from weir.warehouse.taking import Taker


@pytest.fixture
def store(tmp_path: Path) -> ViewStore:
    """Three files, two of which have lost a row."""
    store = ViewStore.create(tmp_path / "view", AB)
    store.append(ab((1, "x", 2), (2, "y", 1)), {"s": 1}, (1, 1), 1)
    store.append(ab((1, "x", -1), (3, "z", 1), (4, "w", 1), arrival=2), {"s": 2}, (2, 2), 2)
    store.append(ab((4, "w", -1), (5, "v", 1), (6, "u", 1), arrival=3), {"s": 3}, (3, 3), 3)
    return store


ROWS = [(1, "x"), (2, "y"), (3, "z"), (5, "v"), (6, "u")]
AFTER = [(2, "y"), (3, "z"), (6, "u"), (9, "n")]


def meanwhile(monkeypatch: pytest.MonkeyPatch, number: int, action: Callable[[], object]) -> None:
    """Does something when a rewriting passes a point the how-manieth time: 1 before its files, 2 before its commit."""
    passed: list[str] = []

    def at(point: str) -> None:
        passed.append(point)
        if point == COMPACTING and passed.count(COMPACTING) == number:
            action()

    monkeypatch.setattr(points, "_watchers", [at])


@pytest.mark.parametrize("number", [1, 2])
def test_rows_taken_meanwhile_are_gone_from_the_new_files(
    store: ViewStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """What the writer takes from the files that were read is gone by a vector in the rewriting's own commit; what it
    brings stays; positions, arrivals and transaction are the writer's."""
    beside = ViewStore.open(store.place.uri)
    delta = ab((1, "x", -1), (5, "v", -1), (9, "n", 1), arrival=4)
    meanwhile(monkeypatch, number, lambda: store.append(delta, {"s": 4}, (4, 4), 4))
    assert beside.compact() == 5
    assert rows_of(store.read_arrow()) == rows_of(ViewStore.open(store.place.uri).read_arrow()) == AFTER
    head = store.head
    assert (head.kind, head.positions, head.last_arrival, head.transaction) == ("rewrite", {"s": 4}, 4, 4)
    assert (head.live, store.log.state().live) == (4, 4)
    assert sorted(file.gone for file in store.log.state().files.values()) == [0, 2]
    assert store.append(ab((2, "y", -1), (3, "z", -1), arrival=5), {"s": 5}, (5, 5), 5).fresh
    assert rows_of(store.read_arrow()) == [(6, "u"), (9, "n")]
    assert [rows_of(store.read_arrow(AsOf(arrival=number))) for number in (3, 4)] == [ROWS, AFTER]


def test_many_rows_taken_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors too large for the commit, in several new files, from origins that had vectors before."""
    monkeypatch.setattr(rewriting, "FULL", 2000)
    monkeypatch.setattr(rewriting, "_BATCH", 700)
    store = ViewStore.create(tmp_path / "view", AB)
    for part in range(3):
        rows = [(1000 * part + number, "x", 1) for number in range(1000)]
        store.append(ab(*rows, arrival=part + 1), {}, (part + 1, part + 1), part + 1)
    store.append(ab(*((number, "x", -1) for number in range(0, 3000, 7)), arrival=4), {}, (4, 4), 4)
    gone = [number for number in range(3000) if number % 7 and not number % 3]
    later = ab(*((number, "x", -1) for number in gone), arrival=5)
    meanwhile(monkeypatch, 2, lambda: store.append(later, {}, (5, 5), 5))
    assert ViewStore.open(store.place.uri).compact() == 6
    left = [(number, "x") for number in range(3000) if number % 7 and number % 3]
    assert rows_of(store.read_arrow()) == left
    assert [file.gone > 0 for file in store.log.state().files.values()] == [True, True]
    assert len([name for name in store.place.listing("_weir") if "deletion_vector" in name]) == 2
    assert store.clean_orphans(timedelta(0)) == []
    store.check()


def test_a_new_file_that_has_lost_every_row(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not added at all: a table never has a file without rows."""
    whole = [file for file in store.log.state().files.values() if file.gone]
    beside = ViewStore.open(store.place.uri)
    put, raced = Place.put_if_absent, list[int]()

    def first_the_writer(place: Place, content: bytes, name: str) -> bool:
        if not raced:
            raced.append(1)
            store.append(ab((1, "x", -1), (9, "n", 1), arrival=4), {"s": 4}, (4, 4), 4)
        return put(place, content, name)

    monkeypatch.setattr(Place, "put_if_absent", first_the_writer)
    first = [file for file in whole if file.rows == 3]
    assert rewriting.rewrite(Committer(beside.log), beside.log.state(), first) == 5
    assert rows_of(store.read_arrow()) == [(2, "y"), (3, "z"), (5, "v"), (6, "u"), (9, "n")]
    assert all(file.live for file in store.log.state().files.values())


def test_of_two_rewritings_one_wins_and_the_other_does_nothing(
    store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are exchanged once only, and the loser takes its files back."""
    first, second = ViewStore.open(store.place.uri), ViewStore.open(store.place.uri)
    won: list[int | None] = []

    def faster() -> None:
        monkeypatch.setattr(points, "_watchers", [])
        won.append(second.compact())

    meanwhile(monkeypatch, 2, faster)
    assert (first.compact(), won) == (None, [4])
    assert rows_of(store.read_arrow()) == ROWS
    assert store.clean_orphans(timedelta(0)) == []
    assert [record.kind for record in store.history()][-1] == "rewrite"


def test_two_rewritings_of_different_files_both_stand(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes second goes on top of the other's commit."""
    first, second = ViewStore.open(store.place.uri), ViewStore.open(store.place.uri)
    one, two, three = store.log.state().files.values()

    def beside() -> None:
        monkeypatch.setattr(points, "_watchers", [])
        assert rewriting.rewrite(Committer(second.log), second.log.state(), [three]) == 4

    meanwhile(monkeypatch, 2, beside)
    assert rewriting.rewrite(Committer(first.log), first.log.state(), [one, two]) == 5
    assert rows_of(store.read_arrow()) == ROWS
    assert len(store.log.state().files) == 2


def test_a_writer_whose_rows_to_take_were_moved(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewriting comes between the look-up of the rows and the commit: they are found again where they are now."""
    beside, put, raced = ViewStore.open(store.place.uri), Place.put_if_absent, list[int | None]()

    def first_the_rewriting(place: Place, content: bytes, name: str) -> bool:
        if not raced:
            raced.append(None)
            raced[0] = beside.compact()
        return put(place, content, name)

    monkeypatch.setattr(Place, "put_if_absent", first_the_rewriting)
    assert store.append(ab((1, "x", -1), (2, "y", -1), (9, "n", 1), arrival=4), {"s": 4}, (4, 4), 4).version == 5
    assert raced == [4]
    assert rows_of(store.read_arrow()) == [(3, "z"), (5, "v"), (6, "u"), (9, "n")]
    assert rows_of(changes_of(store.log, 5)) == [(1, "x", -1), (2, "y", -1), (9, "n", 1)]
    assert store.clean_orphans(timedelta(0)) == []


def test_a_rewriting_that_the_disk_refuses_leaves_no_file(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the one that could not be finished nor those before it; the table is as it was."""
    before = store.place.listing()
    describe, files = describe_file, list[str]()

    def full(place: Place, name: str) -> object:
        files.append(name)
        if len(files) == 2:
            raise place.cannot_write("No space left on device")
        return describe(place, name)

    monkeypatch.setattr(rewriting, "FULL", 2)
    monkeypatch.setattr(rewriting, "describe_file", full)
    with pytest.raises(CannotWrite, match="No space left"):
        store.compact()
    assert store.place.listing().keys() == before.keys()
    assert rows_of(store.read_arrow()) == ROWS


def test_what_is_rewritten_after_its_limit(store: ViewStore) -> None:
    """Small files that are too many are merged, files with many lost rows are written without them, each by itself."""
    assert store.care() == []
    assert store.care(Limits(files=3, few=0, gone=0.9)) == []
    assert store.care(Limits(files=3, few=1, gone=0.1)) == []
    assert store.care(Limits(files=3, few=0, gone=0.4)) == ["purge"]
    assert sorted((file.rows, file.gone) for file in store.log.state().files.values()) == [(1, 0), (2, 0), (3, 1)]
    store.append(ab((7, "t", 2), arrival=4), {"s": 4}, (4, 4), 4)
    store.append(ab(*((number, "large", 1) for number in range(100, 110)), arrival=5), {"s": 5}, (5, 5), 5)
    assert store.care(Limits(files=2, few=0, gone=0.9)) == ["merge"]  # those of less than eight rows
    assert sorted((file.rows, file.gone) for file in store.log.state().files.values()) == [(7, 0), (10, 0)]
    large = [(number, "large") for number in range(100, 110)]
    assert rows_of(store.read_arrow()) == [*ROWS, (7, "t"), (7, "t"), *large]
    assert store.care(Limits(files=2, few=0, gone=0.1)) == []


def test_a_file_that_the_writer_has_emptied_meanwhile_is_no_hindrance(
    store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is gone because all its rows were taken, and not because others have them now."""
    before, beside = rows_of(store.read_arrow()), ViewStore.open(store.place.uri)
    state = beside.log.state()
    emptied = min(state.files.values(), key=lambda file: file.live)
    taken = ArrowReader(store.place, store.schema).visible(emptied)
    signed = taken.append_column(WEIGHT, pa.array([-1] * taken.num_rows, pa.int64()))

    def writer() -> None:
        monkeypatch.setattr(points, "_watchers", [])
        store.append(signed, {"s": 4}, (4, 4), 4)

    meanwhile(monkeypatch, 2, writer)
    assert beside.compact() == store.head.version
    left = Counter(before) - Counter(rows_of(taken))
    assert Counter(rows_of(store.read_arrow())) == left
    assert emptied.name not in store.log.state().files
    assert len(store.log.state().files) == 1


def test_a_rewriting_waits_for_a_commit_that_is_being_made(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process the writer is not outrun: it looks for its rows once."""
    looked, take = list[int](), Taker.take
    beside: list[threading.Thread] = []

    def while_taking(taker: Taker, *arguments: Any) -> Any:
        looked.append(1)
        beside.append(threading.Thread(target=store.compact))
        beside[-1].start()
        beside[-1].join(0.5)
        assert beside[-1].is_alive()
        return take(taker, *arguments)

    monkeypatch.setattr(Taker, "take", while_taking)
    store.append(ab((1, "x", -1), (9, "n", 1), arrival=4), {"s": 4}, (4, 4), 4)
    beside[0].join()
    assert looked == [1]
    assert [record.kind for record in store.history()][-2:] == ["append", "rewrite"]
    assert rows_of(store.read_arrow()) == sorted([*(row for row in ROWS if row != (1, "x")), (9, "n")])


def test_a_commit_that_was_written_over_is_read_again(store: ViewStore) -> None:
    """What a version says is remembered, but not beyond the life of its file."""
    head = store.head
    file = Path(store.place.uri, commit_name(head.version))
    assert store.head is head
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(Damaged):
        _ = store.head
