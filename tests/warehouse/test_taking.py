"""Taking rows: as many as must go and no other, also when hashes collide; what is not there is owed."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.warehouse.batches import AB, ab, batch, rows_of
from weir.algebra.types import Row
from weir.warehouse.columns import WEIGHT
from weir.warehouse.feed import changes_of
from weir.warehouse.following import Follower
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore


@pytest.fixture(params=[64, 2, 1], ids=lambda bits: f"{bits} bits")
def store(tmp_path: Path, request: pytest.FixtureRequest) -> ViewStore:
    return ViewStore.create(tmp_path / "view", AB, hash_bits=request.param)


def append(store: ViewStore, *rows: tuple[int, str | None, int], exact: bool = False) -> None:
    number = store.head.transaction + 1
    store.append(ab(*rows, arrival=number), {"s": number}, (number, number), number, exact=exact)


def counted(store: ViewStore) -> Counter[Row]:
    found = Counter(tuple(row.values()) for row in store.read_arrow().to_pylist())
    assert store.head.live == store.log.state().live == found.total()
    store.check()
    return found


def feed(store: ViewStore) -> dict[Row, int]:
    """What the newest version tells, added up; what it tells twice or in vain would be seen."""
    told = changes_of(store.log, store.head.version).to_pylist()
    found = Counter[Row]()
    for row in told:
        found[tuple(row[name] for name in AB.names)] += row[WEIGHT]
    assert sum(map(abs, found.values())) == len(told)
    return dict(found)


@pytest.mark.parametrize("exact", [True, False])
def test_duplicates_go_as_often_as_they_must(store: ViewStore, exact: bool) -> None:
    """Equal rows in one file and in several: exactly so many are gone, from whichever files."""
    append(store, (1, "x", 5), (2, "x", 1), (1, None, 2))
    append(store, (1, "x", 3), (2, None, 2))
    append(store, (1, "x", -6), exact=exact)
    assert counted(store) == {(1, "x"): 2, (2, "x"): 1, (1, None): 2, (2, None): 2}
    assert feed(store) == {(1, "x"): -6}
    append(store, (1, "x", -2), (1, None, -1), (2, None, -2), exact=exact)
    assert counted(store) == {(2, "x"): 1, (1, None): 1}
    assert feed(store) == {(1, "x"): -2, (1, None): -1, (2, None): -2}
    assert store.head.owed == ""


@pytest.mark.parametrize("exact", [True, False])
def test_rows_of_one_hash_are_never_mixed_up(store: ViewStore, exact: bool) -> None:
    """Every row of a hundred goes by itself, and no other one: some of a hash, and in the end all of it."""
    rows: list[tuple[int, str]] = [(number, text) for number in range(50) for text in "pq"]
    append(store, *((*row, 1) for row in rows[:60]))
    append(store, *((*row, 1) for row in rows[60:]))
    left = Counter[Row](rows)
    for begin in (0, 33, 66):
        gone = rows[begin : begin + 33 : 2]
        append(store, *((*row, -1) for row in gone), exact=exact)
        left -= Counter(gone)
        assert counted(store) == left
        assert feed(store) == dict.fromkeys(gone, -1)
    append(store, *((*row, -1) for row in sorted(left)), exact=exact)
    assert (counted(store), store.log.state().files, store.head.owed) == ({}, {}, "")


@pytest.mark.parametrize("exact", [True, False])
def test_a_row_brought_anew_beside_one_of_its_hash(store: ViewStore, exact: bool) -> None:
    """Updates in place: what is taken is what was there, and what is brought stays."""
    append(store, *((number, "old", 1) for number in range(20)))
    append(store, *((number, "old", -1) for number in range(20)), *((n, "new", 1) for n in range(20)), exact=exact)
    assert counted(store) == {(number, "new"): 1 for number in range(20)}
    append(store, (3, "new", -1), (3, "old", 1), (4, "new", -1), (4, "old", 1), exact=exact)
    assert counted(store)[3, "old"] == counted(store)[4, "old"] == 1
    assert feed(store) == {(3, "new"): -1, (3, "old"): 1, (4, "new"): -1, (4, "old"): 1}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("reopened", [False, True])
def test_parts_that_bring_and_take_the_same_row(store: ViewStore, exact: bool, reopened: bool) -> None:
    """Swept apart and committed together: the row is neither in the table nor in the feed."""
    append(store, (1, "x", 1), (2, "y", 1))
    parts = [
        store.stage(ab((7, "brief", 1), (8, "stays", 1), arrival=2), 2),
        store.stage(ab((7, "brief", -1), (1, "x", -1), arrival=2), 2),
        store.stage(ab((9, "brief", 2), arrival=2), 2),
        store.stage(ab((9, "brief", -2), arrival=2), 2),
        store.stage(ab((6, "also", 1), arrival=2), 2),
    ]
    again = ViewStore.open(store.place.uri) if reopened else store
    again.append(sum(parts[1:], parts[0]), {"s": 2}, (2, 2), 2, exact=exact)
    assert counted(again) == {(2, "y"): 1, (8, "stays"): 1, (6, "also"): 1}
    assert feed(again) == {(8, "stays"): 1, (1, "x"): -1, (6, "also"): 1}
    assert again.head.owed == ""
    assert again.clean_orphans(timedelta(0)) == []
    append(again, (8, "stays", -1), (6, "also", -1), exact=exact)
    assert counted(again) == {(2, "y"): 1}


def test_parts_that_leave_nothing(store: ViewStore) -> None:
    """All that is brought is taken: a version without a file and without a change."""
    append(store, (1, "x", 1))
    before = store.log.state().files
    parts = store.stage(ab((7, "brief", 1), arrival=2), 2) + store.stage(ab((7, "brief", -1), arrival=2), 2)
    store.append(parts, {"s": 2}, (2, 2), 2)
    assert (store.log.state().files, feed(store), store.positions()) == (before, {}, {"s": 2})
    assert store.clean_orphans(timedelta(0)) == []


def test_a_state_inside_a_batch_of_parts(store: ViewStore) -> None:
    """A row that came with one arrival and went with a later one of the batch is there in between, and only there."""
    append(store, (1, "x", 1))
    stager = store.stager(last=4)
    early, late = ((7, "brief"), 1, 2), [((7, "brief"), -1, 3), ((1, "x"), -1, 4), ((5, "v"), 1, 4)]
    store.append(stager.write(batch(AB, [early])) + stager.write(batch(AB, late)), {"s": 4}, (2, 4), 2)
    states = [rows_of(store.read_arrow(AsOf(arrival=number))) for number in (1, 2, 3, 4)]
    assert states == [[(1, "x")], [(1, "x"), (7, "brief")], [(1, "x")], [(5, "v")]]
    assert feed(store) == {(1, "x"): -1, (5, "v"): 1}
    steps = sorted(tuple(row.values()) for row in store.read_steps(2).to_pylist())
    assert steps == [(1, "x", -1, 4), (5, "v", 1, 4), (7, "brief", -1, 3), (7, "brief", 1, 2)]


def test_a_part_that_is_only_steps(store: ViewStore) -> None:
    """Rows that came and went inside the batch beside a part that takes some."""
    append(store, (1, "x", 1))
    stager = store.stager(last=3)
    brief = stager.write(batch(AB, [((7, "brief"), 1, 2), ((7, "brief"), -1, 3)]))
    store.append(brief + stager.write(ab((1, "x", -1), arrival=3)), {"s": 3}, (2, 3), 2)
    states = [rows_of(store.read_arrow(AsOf(arrival=number))) for number in (1, 2, 3)]
    assert states == [[(1, "x")], [(1, "x"), (7, "brief")], []]
    assert feed(store) == {(1, "x"): -1}


# -- counts below zero -------------------------------------------------------------------------------------------------


def owed(store: ViewStore) -> Counter[Row]:
    names = [store.head.owed] if store.head.owed else []
    assert all(name.startswith("_weir/owed/") for name in names)
    return Counter(tuple(row.values()) for row in store.place.read_parquet(names, arrow(store)).to_pylist())


def arrow(store: ViewStore) -> Any:
    return store.read_arrow().schema


def test_counts_below_zero_are_kept_and_not_shown(store: ViewStore) -> None:
    """What is taken before it is brought leaves nothing behind, through compaction and reopening; the feed tells only
    what a reader has seen."""
    append(store, (1, "x", -2), (2, "y", -1), (3, "z", 1))
    assert (counted(store), owed(store)) == ({(3, "z"): 1}, {(1, "x"): 2, (2, "y"): 1})
    assert feed(store) == {(3, "z"): 1}
    store = ViewStore.open(store.place.uri)
    append(store, (1, "x", 1), (4, "w", 1))
    assert (counted(store), owed(store)) == ({(3, "z"): 1, (4, "w"): 1}, {(1, "x"): 1, (2, "y"): 1})
    assert feed(store) == {(4, "w"): 1}
    assert store.compact() is not None
    assert owed(store) == {(1, "x"): 1, (2, "y"): 1}
    append(store, (2, "y", -1))
    assert owed(store) == {(1, "x"): 1, (2, "y"): 2}
    store = ViewStore.open(store.place.uri)
    append(store, (1, "x", 2), (2, "y", 2))
    assert (counted(store), owed(store)) == ({(1, "x"): 1, (3, "z"): 1, (4, "w"): 1}, {})
    assert feed(store) == {(1, "x"): 1}
    assert store.read_arrow(counted=True).num_rows == 3
    assert store.head.owed == ""


def test_a_debt_is_kept_by_commits_that_do_not_touch_it(store: ViewStore) -> None:
    """Empty deltas, rows of other kinds, and a note of who decides carry it on; the file is the same."""
    append(store, (1, "x", -1))
    name = store.head.owed
    append(store)
    append(store, (2, "y", 1), (3, "z", 1))
    append(store, (2, "y", -1))
    leader = ViewStore.create(Path(store.place.uri).parent / "leader", AB)
    leader.append(None, {"s": 9}, (9, 9), 9, followers=[Follower(store, None)])
    assert (store.head.owed, owed(store)) == (name, {(1, "x"): 1})
    assert store.clean_orphans(timedelta(0)) == []
    append(store, (1, "x", 1))
    assert (counted(store), store.head.owed) == ({(3, "z"): 1}, "")


def test_states_inside_a_batch_know_what_is_owed(store: ViewStore) -> None:
    """A row that pays a debt is not shown on the way."""
    append(store, (1, "x", -1))
    signed = [((1, "x"), 1, 2), ((2, "y"), -1, 2), ((1, "x"), 1, 3), ((2, "y"), 1, 4), ((2, "y"), 1, 5)]
    store.append(batch(AB, signed), {"s": 5}, (2, 5), 2)
    states = [rows_of(store.read_arrow(AsOf(arrival=number))) for number in (1, 2, 3, 4, 5)]
    assert states == [[], [], [(1, "x")], [(1, "x")], [(1, "x"), (2, "y")]]


def test_a_load_settles_all_debts(store: ViewStore) -> None:
    """Rows put in place of others are what is there: nothing of before is taken from them, now or later."""
    append(store, (1, "x", -1), (2, "y", 1))
    store.load(ab((1, "x", 1), (2, "y", 1), arrival=2), {"s": 2}, (2, 2), 2)
    assert (counted(store), store.head.owed) == ({(1, "x"): 1, (2, "y"): 1}, "")
    append(store, (1, "x", 1))
    assert counted(store) == {(1, "x"): 2, (2, "y"): 1}


def test_debts_that_parts_leave_and_pay(store: ViewStore) -> None:
    """Taken by two parts and brought once by a third: once it is owed; the next delta of two parts pays it."""
    append(store, (5, "v", 1))
    taken = ab((1, "x", -1), (5, "v", -1), arrival=2), ab((1, "x", -1), arrival=2)
    staged = store.stage(ab((1, "x", 1), arrival=2), 2) + store.stage(taken[0], 2) + store.stage(taken[1], 2)
    store.append(staged, {"s": 2}, (2, 2), 2)
    assert (counted(store), owed(store), feed(store)) == ({}, {(1, "x"): 1}, {(5, "v"): -1})
    paid = store.stage(ab((1, "x", 1), arrival=3), 3) + store.stage(ab((1, "x", 1), arrival=3), 3)
    store.append(paid, {"s": 3}, (3, 3), 3)
    assert (counted(store), owed(store), feed(store)) == ({(1, "x"): 1}, {}, {(1, "x"): 1})
    assert store.clean_orphans(timedelta(0)) == []
