"""SQLite: held snapshots, and views at different positions of one log."""

from __future__ import annotations

import contextlib
import multiprocessing
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sources.rounds import Content, check_begins_with_next_visit, check_held, check_redelivery, deliver, whole
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.messages import GlobalTransaction
from weir.proving.oracle import Replay
from weir.sources.source import LoadAgain, SourceError
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
    with the next visit, transaction by transaction.
    """
    source, replay = reopen(), Replay(COLUMNS)
    replay.load(source)
    keys = Lookup(ITEM, ("id", "name"), ("id",), MemoryBag.of(Schema.parse("id bigint"), [(1,), (3,)]))
    run(writer, "INSERT INTO item VALUES (3, 'three')")
    check_held(source, replay, lambda: run(writer, "DELETE FROM item", "INSERT INTO part VALUES (7, 7)"), [keys])
    assert len(check_held(source, replay, lambda: None).transactions) == 2
    assert replay.rows(ITEM) == []
    source.visit(hold=True)
    source.close()
    with pytest.raises(SourceError, match="no snapshot is held"):
        source.look([keys])


def test_the_write_ahead_log_starts_anew_after_a_long_hold(path: Path, writer: sqlite3.Connection) -> None:
    """While a snapshot is held the log only grows; a visit after its release lets SQLite begin it again, and no
    transaction is lost or merged by that.
    """
    source = SqliteSource(SqliteOptions("shop", str(path)), large_wal=100_000)
    source.watch(COLUMNS)
    replay, wal = Replay(COLUMNS), Path(f"{path}-wal")
    replay.load(source)
    sizes = []

    def write_much() -> None:
        for number in range(100, 150):
            run(writer, f"INSERT INTO item VALUES ({number}, '{'x' * 5000}')", f"DELETE FROM item WHERE id = {number}")
        sizes.append(wal.stat().st_size)

    check_held(source, replay, write_much)
    for _ in range(6):
        assert len(check_held(source, replay, write_much).transactions) == 100
    assert sizes[0] > 500_000
    assert sizes[-1] < 4 * sizes[0]
    source.close()


def test_a_held_snapshot_is_asked_from_another_thread(
    reopen: Callable[[], SqliteSource], writer: sqlite3.Connection
) -> None:
    """Visit, look, read, release and close may each be in another thread, one at a time."""
    source = reopen()
    source.load().held.release()
    run(writer, "DELETE FROM part WHERE line = 1")
    found: list[int] = []
    for act in (
        lambda: found.append(len(source.visit(hold=True).transactions)),
        lambda: found.append(source.look(whole(COLUMNS))[1].num_rows),
        lambda: found.append(sum(batch.num_rows for part in source.parts() for batch in source.read(part))),
        source.release,
        source.close,
    ):
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()
    assert found == [1, 1, 3]


def test_a_load_and_a_held_snapshot_exclude_each_other(reopen: Callable[[], SqliteSource]) -> None:
    """Parts do not say which of the two they are of."""
    source = reopen()
    source.load()
    with pytest.raises(SourceError, match="a load is open"):
        source.visit(hold=True)
    source.end_load()
    source.visit(hold=True)
    source.load()
    with pytest.raises(SourceError, match="no snapshot is held"):
        source.parts()
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
    first = source.load().position
    source.end_load()
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
    first = source.load().position
    source.end_load()
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
    first = source.load().position
    source.close()
    run(writer, "INSERT INTO item VALUES (3, 'three')")
    install(path, ["later"])
    run(writer, "INSERT INTO later VALUES (1)", "ALTER TABLE later ADD COLUMN y TEXT")
    install(path, ["later"])
    later = Relation("shop", "later")
    both = SqliteSource(SqliteOptions("shop", str(path)))
    both.watch({ITEM: COLUMNS[ITEM], later: ("x", "y")})
    run(writer, "INSERT INTO later VALUES (2, 'b')")
    second = both.load().position
    both.end_load()
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
    position = source.load().position
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
    first = source.load().position
    with pytest.raises(LoadAgain, match="history is another"):
        source.resume(first, [first.replace(":2:", ":99:")])
    source.close()
