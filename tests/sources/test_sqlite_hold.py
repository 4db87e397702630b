"""SQLite: held snapshots, and views at different positions of one log."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.sources.connections import open_files
from tests.sources.rounds import (
    Content,
    assert_shows,
    check_begins_with_next_visit,
    check_beside_others,
    check_connections,
    check_held,
    check_redelivery,
    content_of,
    deliver,
    elsewhere,
    held_by,
    loaded_position,
    whole,
)
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.messages import GlobalTransaction
from weir.proving.oracle import Replay
from weir.sources.source import HeldSnapshot, LoadAgain, SourceError
from weir.sources.sqlite import SqliteOptions, SqliteSource, install

ITEM, PART = Relation("shop", "item"), Relation("shop", "part")
COLUMNS = {ITEM: ("id", "name"), PART: ("item", "line")}
TABLES = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE part (item INTEGER, line INTEGER, PRIMARY KEY (item, line)) WITHOUT ROWID;
CREATE TABLE later (x INTEGER);
INSERT INTO item VALUES (1, 'one'), (2, NULL);
INSERT INTO part VALUES (1, 1), (1, 2);
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(file)) as made:
        made.executescript(TABLES)
    install(file, ["item", "part"])
    return file


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        yield database


@pytest.fixture
def reopen(path: Path) -> Callable[[], SqliteSource]:
    def open_source() -> SqliteSource:
        source = SqliteSource(SqliteOptions("shop", str(path)))
        source.watch(COLUMNS)
        return source

    return open_source


def run(database: sqlite3.Connection, *statements: str) -> None:
    for statement in statements:
        database.execute(statement)


def test_a_held_snapshot_stays(reopen: Callable[[], SqliteSource], writer: sqlite3.Connection) -> None:
    """Lookups and whole tables in it are what was delivered, whatever is written meanwhile; what was written comes
    with the next visit, transaction by transaction. So it is with several, and without the source.
    """
    source, replay = reopen(), Replay(COLUMNS)
    replay.load(source)
    keys = Lookup(ITEM, ("id", "name"), ("id",), MemoryBag.of(Schema.parse("id bigint"), [(1,), (3,)]))
    run(writer, "INSERT INTO item VALUES (3, 'three')")
    numbers = itertools.count(7)

    def write() -> None:
        run(writer, f"INSERT OR REPLACE INTO item VALUES (1, '{next(numbers)}')")
        run(writer, "DELETE FROM item WHERE id > 1", f"INSERT INTO part VALUES (7, {next(numbers)})")

    first, second = check_held(source, replay, write, [keys])
    assert (len(first.transactions), len(second.transactions)) == (1, 3)
    assert replay.rows(ITEM) == [(1, "13")]
    source.close()


def test_connections_are_used_again_and_closed(reopen: Callable[[], SqliteSource], path: Path) -> None:
    """Counted by the operating system: a file and its write-ahead log for each (SQLite itself keeps the file of a
    closed connection for the next one), and one shared memory.
    """
    source = reopen()
    source.load().held.release()

    def write() -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
            run(writer, "UPDATE item SET name = 'x'")

    check_connections(source, write, lambda: open_files(path), most=9, idle=20)


def test_a_part_that_is_half_read_ends_with_its_snapshot(
    reopen: Callable[[], SqliteSource], writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the next transaction on its connection would still see the old moment, and the next visit an older log."""
    monkeypatch.setattr("weir.sources.sqlite.snapshot.ROWS_IN_BATCH", 1)
    source, replay = reopen(), Replay(COLUMNS)
    replay.load(source)
    halves = []
    for number in range(10, 16):
        held = held_by(source.visit(hold=True))
        halves.append(held.read(held.parts()[0]))
        assert next(halves[-1]).num_rows == 1
        held.release()
        run(writer, f"INSERT INTO item VALUES ({number}, 'x')")
    for half in halves:
        with pytest.raises(SourceError, match="closed cursor"):
            next(half)
    visit = source.visit(hold=True)
    replay = Replay(COLUMNS)
    held_by(visit).release()
    assert replay.load(source) == visit.position
    source.close()


def test_the_write_ahead_log_starts_anew_after_a_long_hold(path: Path, writer: sqlite3.Connection) -> None:
    """While a snapshot is held the log only grows; a visit after its release lets SQLite begin it again, and no
    transaction is lost or merged by that. A snapshot of the time before stays as it is.
    """
    source = SqliteSource(SqliteOptions("shop", str(path)), large_wal=100_000)
    source.watch(COLUMNS)
    replay, wal = Replay(COLUMNS), Path(f"{path}-wal")
    replay.load(source)
    sizes = []

    def write_much() -> None:
        _write_much(writer)
        sizes.append(wal.stat().st_size)

    for number in range(6):
        first, second = check_beside_others(source, replay, write_much)
        assert [len(first.transactions), len(second.transactions)] == [0, 100], number
    assert sizes[0] > 500_000
    assert sizes[-1] < 4 * sizes[0]
    source.close()


def test_a_large_log_waits_for_held_snapshots(path: Path, writer: sqlite3.Connection) -> None:
    """A visit that finds the log large lets those that are held be released first, by other threads: so it begins anew
    although there was one at every visit. One that is not released stays as it is, and visits go on.
    """
    source = SqliteSource(SqliteOptions("shop", str(path)), large_wal=100_000)
    source.watch(COLUMNS)
    replay, wal = Replay(COLUMNS), Path(f"{path}-wal")
    replay.load(source)
    held: list[HeldSnapshot] = []
    sizes = []
    for _ in range(12):
        _write_much(writer)
        sizes.append(wal.stat().st_size)
        releasing = threading.Thread(target=lambda ones=tuple(held): [one.release() for one in ones])
        visiting = ThreadPoolExecutor(1)
        visit = visiting.submit(source.visit, True)
        releasing.start()
        assert replay.apply(visit.result()) == []
        assert len(visit.result().transactions) == 100
        releasing.join()
        visiting.shutdown()
        held = [held_by(visit.result())]
        assert_shows(held[0], replay)
    assert max(sizes) < 4 * sizes[0]
    then = replay.as_it_is()
    for _ in range(2):
        _write_much(writer)
        assert replay.apply(source.visit()) == []
    assert_shows(held[0], then)
    held[0].release()
    source.close()


def _write_much(writer: sqlite3.Connection) -> None:
    for number in range(100, 150):
        run(writer, f"INSERT INTO item VALUES ({number}, '{'x' * 5000}')", f"DELETE FROM item WHERE id = {number}")


def test_a_held_snapshot_is_asked_from_another_thread(
    reopen: Callable[[], SqliteSource], writer: sqlite3.Connection
) -> None:
    """Visit, look, read, release and close may each be in another thread, one at a time."""
    source = reopen()
    source.load().held.release()
    run(writer, "DELETE FROM part WHERE line = 1")
    visit = elsewhere(lambda: source.visit(hold=True))
    held = held_by(visit)
    assert len(visit.transactions) == 1
    assert elsewhere(lambda: held.look(whole(COLUMNS)))[1].num_rows == 1
    assert sum(elsewhere(lambda: content_of(held)).values(), Counter()).total() == 3
    elsewhere(held.release)
    elsewhere(source.close)


def test_a_load_and_a_held_snapshot_stand_side_by_side(
    reopen: Callable[[], SqliteSource], writer: sqlite3.Connection
) -> None:
    """Each reads its own parts, whichever was opened first."""
    source = reopen()
    load = source.load()
    run(writer, "DELETE FROM item")
    held = held_by(source.visit(hold=True))
    run(writer, "DELETE FROM part")
    again = source.load()
    shown = [{relation.table for relation in content_of(one)} for one in (load.held, held, again.held)]
    assert shown == [{"item", "part"}, {"part"}, set()]
    for one in (load.held, held, again.held):
        one.release()
    source.close()


# -- two positions ---------------------------------------------------------------------------------------------------


def test_a_view_that_is_ahead_skips_what_it_has(reopen: Callable[[], SqliteSource], writer: sqlite3.Connection) -> None:
    """Changes of the time away are never taken together across its position, even where the write-ahead log, which
    tells transactions apart, is gone.
    """
    source = reopen()
    source.load().held.release()
    run(writer, "INSERT INTO item VALUES (3, 'three')")
    first = source.visit().position
    run(writer, "DELETE FROM item WHERE id = 1", "BEGIN", "UPDATE item SET name = 'x'", "DELETE FROM part", "COMMIT")
    second = source.visit().position
    source.close()
    run(writer, "INSERT INTO part VALUES (9, 9)", "DELETE FROM item WHERE id = 2")
    between: Content = {
        ITEM: Counter({(1, "one"): -1, (2, None): -1, (2, "x"): 1, (3, "three"): -1, (3, "x"): 1}),
        PART: Counter({(1, 1): -1, (1, 2): -1}),
    }
    together = check_redelivery(reopen, first, second, between)
    assert 2 <= len(together) <= 4
    run(writer, "PRAGMA wal_checkpoint(TRUNCATE)")
    assert len(check_redelivery(reopen, first, second, between)) == 2


def deliver_elsewhere(path: Path, first: str, second: str, results: multiprocessing.SimpleQueue[list[bool]]) -> None:
    source = SqliteSource(SqliteOptions("shop", str(path)))
    source.watch(COLUMNS)
    source.resume(first, [second])
    results.put([source.holds(second, transaction) for transaction, _ in deliver(source)])


def test_in_another_process_it_is_the_same(
    path: Path, reopen: Callable[[], SqliteSource], writer: sqlite3.Connection
) -> None:
    """Nothing of what is needed lives in the process that died."""
    source = reopen()
    first = loaded_position(source)
    run(writer, "INSERT INTO item VALUES (3, 'three')")
    second = source.visit().position
    run(writer, "INSERT INTO item VALUES (4, 'four')")
    source.close()
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.SimpleQueue[list[bool]] = context.SimpleQueue()
    process = context.Process(target=deliver_elsewhere, args=(path, first, second, results))
    process.start()
    assert results.get() == [True, False]
    process.join()


def test_global_transactions_are_told_apart_on_either_side(
    reopen: Callable[[], SqliteSource], writer: sqlite3.Connection
) -> None:
    """A marker begins its transaction, before a boundary and behind it."""
    source = reopen()
    first = loaded_position(source)
    run(writer, "INSERT INTO item VALUES (10, 'a')")
    _marked(writer, "g1", 11)
    second = source.visit().position
    source.close()
    run(writer, "INSERT INTO item VALUES (12, 'a')")
    _marked(writer, "g2", 13)
    run(writer, "PRAGMA wal_checkpoint(TRUNCATE)")
    source = reopen()
    source.resume(first, [second])
    parts = [transaction.part_of for transaction, _ in deliver(source)]
    both = frozenset({"shop", "crm"})
    assert parts == [None, GlobalTransaction("g1", both), None, GlobalTransaction("g2", both)]
    source.close()


def _marked(writer: sqlite3.Connection, name: str, number: int) -> None:
    run(writer, "BEGIN IMMEDIATE", f"INSERT INTO weir_global_transaction VALUES ('{name}', 'shop, crm')")
    run(writer, f"INSERT INTO item VALUES ({number}, 'g')", "COMMIT")


def test_a_table_that_a_later_view_brought_begins_there(path: Path, writer: sqlite3.Connection) -> None:
    """It was captured only after the older position, with fewer columns at first: none of that stops the source, and
    what comes after the position of its load is delivered.
    """
    source = SqliteSource(SqliteOptions("shop", str(path)))
    source.watch({ITEM: COLUMNS[ITEM]})
    first = loaded_position(source)
    source.close()
    run(writer, "INSERT INTO item VALUES (3, 'three')")
    install(path, ["later"])
    run(writer, "INSERT INTO later VALUES (1)", "ALTER TABLE later ADD COLUMN y TEXT")
    install(path, ["later"])
    later = Relation("shop", "later")
    both = SqliteSource(SqliteOptions("shop", str(path)))
    both.watch({ITEM: COLUMNS[ITEM], later: ("x", "y")})
    run(writer, "INSERT INTO later VALUES (2, 'b')")
    second = loaded_position(both)
    run(writer, "INSERT INTO later VALUES (3, 'c')")
    both.resume(first, [second])
    delivered = deliver(both)
    effects = [effect[2] for _, effect in delivered]
    assert effects == [{ITEM: Counter({(3, "three"): 1})}, {later: Counter({(3, "c"): 1})}]
    assert [both.holds(second, transaction) for transaction, _ in delivered] == [True, False]
    both.close()


def test_a_table_that_no_position_covers_begins_with_the_next_visit(path: Path, writer: sqlite3.Connection) -> None:
    """Even one that was captured just now."""
    source = SqliteSource(SqliteOptions("shop", str(path)))
    source.watch({ITEM: COLUMNS[ITEM]})
    position = loaded_position(source)
    source.close()
    run(writer, "INSERT INTO item VALUES (3, 'three')", "INSERT INTO later VALUES (0)")
    install(path, ["later"])
    later = Relation("shop", "later")

    def open_both() -> SqliteSource:
        both = SqliteSource(SqliteOptions("shop", str(path)))
        both.watch({ITEM: COLUMNS[ITEM], later: ("x",)})
        return both

    numbers = iter(range(1, 9))
    check_begins_with_next_visit(
        open_both, position, later, lambda: run(writer, f"INSERT INTO later VALUES ({next(numbers)})")
    )


def test_a_boundary_of_another_history_is_noticed(path: Path, reopen: Callable[[], SqliteSource]) -> None:
    """A view that is ahead of what the file now holds cannot go on."""
    source = reopen()
    first = loaded_position(source)
    with pytest.raises(LoadAgain, match="history is another"):
        source.resume(first, [first.replace(":2:", ":99:")])
    source.close()
