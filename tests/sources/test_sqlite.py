"""SQLite as a source: visits, transactions, resuming, schema changes and errors, on real files."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.sources.rounds import held_by
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.messages import GlobalTransaction
from weir.proving.oracle import Replay, ReplayedSource
from weir.sources.source import TRANSACTION, WEIGHT, LoadAgain, SchemaChanged, SourceError
from weir.sources.sqlite import SqliteOptions, SqliteSource
from weir.sources.sqlite.capture import install, remove
from weir.sources.sqlite.connection import explained

ITEM, PART = Relation("shop", "item"), Relation("shop", "part")
COLUMNS = {ITEM: ("id", "name"), PART: ("item", "line", "size")}
TABLES = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL);
CREATE TABLE part (item INTEGER REFERENCES item, line INTEGER, size REAL, PRIMARY KEY (item, line)) WITHOUT ROWID;
CREATE INDEX part_size ON part (size);
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
    """The application's connection, in autocommit mode."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        yield database


@pytest.fixture
def source(path: Path) -> Iterator[SqliteSource]:
    made = SqliteSource(SqliteOptions("shop", str(path), busy_seconds=0.2))
    yield made
    made.close()


def run(database: sqlite3.Connection, *statements: str) -> None:
    for statement in statements:
        database.execute(statement)


def transaction(database: sqlite3.Connection, *statements: str) -> None:
    run(database, "BEGIN IMMEDIATE", *statements, "COMMIT")


# -- visits and transactions -----------------------------------------------------------------------------------------


def test_load_then_changes_equal_the_table(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """The load is what was there, visits bring what came after, in order."""
    run(writer, "INSERT INTO item VALUES (1, 'a', 1), (2, 'b', 2)", "INSERT INTO part VALUES (1, 1, 0.5)")
    follower = ReplayedSource(source, COLUMNS)
    assert follower.replay.tables[ITEM] == {(1, "a"): 1, (2, "b"): 1}
    transaction(writer, "UPDATE item SET name = 'c' WHERE id = 1", "DELETE FROM part")
    run(writer, "UPDATE item SET id = 7 WHERE id = 2")
    visit = follower.check()
    assert len(visit.transactions) == 2
    assert follower.replay.tables[ITEM] == {(1, "c"): 1, (7, "b"): 1}


def test_transactions_are_told_apart(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """Each commit between two visits is a transaction of its own, also when all were made by one connection."""
    follower = ReplayedSource(source, COLUMNS)
    for number in range(5):
        transaction(writer, f"INSERT INTO item VALUES ({number}, 'x', 0)", f"INSERT INTO part VALUES ({number}, 1, 1)")
    visit = follower.check()
    assert len(visit.transactions) == 5
    assert visit.changes[ITEM].column(TRANSACTION).to_pylist() == [0, 1, 2, 3, 4]
    assert visit.changes[PART].column(TRANSACTION).to_pylist() == [0, 1, 2, 3, 4]


def test_odd_file_names_and_links(tmp_path: Path) -> None:
    """A name that looks like part of a URL, and a link in another folder, are files like others."""
    file, link = tmp_path / "we?ird #1%20;'.db", tmp_path / "link.db"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.executescript(TABLES)
        link.symlink_to(file)
        install(link, ["item", "part"])
        for name in (file, link):
            source = SqliteSource(SqliteOptions("shop", str(name)))
            follower = ReplayedSource(source, COLUMNS)
            run(
                writer, "DELETE FROM item", "INSERT INTO item VALUES (1, 'x', 0)", "INSERT INTO item VALUES (2, 'x', 0)"
            )
            assert len(follower.check().transactions) == 3 - (name == file)  # the first delete met no row
            source.close()


def test_rolled_back_work_is_not_delivered(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """Rollbacks and savepoints leave no trace, and numbers that they used are used again."""
    follower = ReplayedSource(source, COLUMNS)
    run(writer, "BEGIN", "INSERT INTO item VALUES (1, 'gone', 0)", "ROLLBACK")
    transaction(
        writer, "INSERT INTO item VALUES (2, 'kept', 0)", "SAVEPOINT s", "INSERT INTO item VALUES (3, 'gone', 0)",
        "ROLLBACK TO s", "INSERT INTO item VALUES (4, 'kept', 0)",
    )  # fmt: skip
    visit = follower.check()
    assert len(visit.transactions) == 1
    assert set(follower.replay.tables[ITEM]) == {(2, "kept"), (4, "kept")}


def test_a_transaction_larger_than_the_cache_stays_whole(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """Pages that spill into the write-ahead log before the commit are no boundary."""
    follower = ReplayedSource(source, COLUMNS)
    run(writer, "PRAGMA cache_size = 5")
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
    many = f"{numbers} SELECT i, hex(randomblob(200)), 0 FROM n"
    transaction(writer, "SAVEPOINT s", f"INSERT INTO item {many}", "ROLLBACK TO s", f"INSERT INTO item {many}")
    transaction(writer, "DELETE FROM item WHERE id > 10")
    assert len(follower.check().transactions) == 2


CARE = {  # and as how many transactions four are told: VACUUM moves the pages whose frames tell them apart
    "VACUUM": 1,
    "PRAGMA wal_checkpoint(TRUNCATE)": 4,
    "PRAGMA wal_checkpoint(PASSIVE)": 4,
    "ANALYZE": 4,
}


@pytest.mark.parametrize(("care", "told"), CARE.items())
def test_care_of_the_database_changes_nothing(
    source: SqliteSource, writer: sqlite3.Connection, care: str, told: int
) -> None:
    """VACUUM and checkpoints between two visits lose, double and split nothing."""
    follower = ReplayedSource(source, COLUMNS)
    writer.execute("PRAGMA busy_timeout = 0")
    for number in range(4):
        run(writer, f"INSERT INTO item VALUES ({number}, 'x', 0)")
        writer.execute(care).fetchall()
    assert len(follower.check().transactions) == told
    run(writer, "INSERT INTO item VALUES (9, 'x', 0)")
    assert len(follower.check().transactions) == 1


def test_the_write_ahead_log_does_not_grow_for_ever(path: Path, writer: sqlite3.Connection) -> None:
    """Although a snapshot is always held, the log is begun anew once it is large, and no boundary is lost."""
    source = SqliteSource(SqliteOptions("shop", str(path)), large_wal=200_000)
    follower = ReplayedSource(source, COLUMNS)
    for number in range(400):
        run(writer, f"INSERT INTO item VALUES ({number}, '{'x' * 3000}', 0)")
        run(writer, f"DELETE FROM item WHERE id = {number}")
        assert len(source.visit().transactions) == 2
    assert Path(f"{path}-wal").stat().st_size < 2_000_000
    assert follower.check().transactions == ()
    source.close()


def test_visits_do_not_block_and_are_not_blocked(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """A writer in the middle of a transaction is not seen, and not waited for."""
    follower = ReplayedSource(source, COLUMNS)
    run(writer, "BEGIN IMMEDIATE", "INSERT INTO item VALUES (1, 'x', 0)")
    assert follower.check().transactions == ()
    run(writer, "COMMIT")
    assert len(follower.check().transactions) == 1


def test_changes_of_tables_that_are_not_watched_are_no_transactions(
    source: SqliteSource, writer: sqlite3.Connection
) -> None:
    """A view that does not use a captured table is not bothered with it."""
    follower = ReplayedSource(source, {ITEM: ("id",)})
    run(writer, "INSERT INTO part VALUES (1, 1, 1)")
    assert follower.check().transactions == ()
    run(writer, "INSERT INTO item VALUES (1, 'x', 0)")
    assert list(follower.check().changes) == [ITEM]


def test_global_transactions(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """A row inserted into weir_global_transaction says which global transaction this one is part of."""
    follower = ReplayedSource(source, COLUMNS)
    marker = "INSERT INTO weir_global_transaction (id, sources) VALUES ('g1', 'shop, crm')"
    transaction(writer, marker, "INSERT INTO item VALUES (1, 'x', 0)")
    run(writer, "INSERT INTO item VALUES (2, 'x', 0)")
    visit = follower.check()
    assert [t.part_of for t in visit.transactions] == [GlobalTransaction("g1", frozenset({"shop", "crm"})), None]


def test_global_transactions_of_the_time_away(path: Path, writer: sqlite3.Connection) -> None:
    """Where transactions of the time away come together, those that name a global one are still apart."""
    follower = ReplayedSource(SqliteSource(SqliteOptions("shop", str(path))), COLUMNS)
    follower.source.close()
    run(writer, "INSERT INTO item VALUES (1, 'x', 0)")
    for number in (2, 3):
        marker = f"INSERT INTO weir_global_transaction VALUES ('g{number}', 'shop,crm')"
        transaction(writer, marker, f"INSERT INTO item VALUES ({number}, 'x', 0)")
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    again = SqliteSource(SqliteOptions("shop", str(path)))
    again.watch(COLUMNS)
    again.resume(follower.position)
    visit = again.visit()
    assert [t.part_of and t.part_of.identifier for t in visit.transactions] == [None, "g2", "g3"]
    again.close()


@pytest.mark.parametrize("values", ["(NULL, 'shop,crm')", "('g', 'crm')", "('g', NULL)"])
def test_a_wrong_marker_is_refused(source: SqliteSource, writer: sqlite3.Connection, values: str) -> None:
    """A marker without a name, or without this source, is an error and not a guess."""
    follower = ReplayedSource(source, COLUMNS)
    run(writer, f"INSERT INTO weir_global_transaction VALUES {values}")
    with pytest.raises(SourceError, match="weir_global_transaction"):
        follower.check()


# -- resuming --------------------------------------------------------------------------------------------------------


def resumed(path: Path, follower: ReplayedSource) -> ReplayedSource:
    """A new connection that goes on where the follower's stopped."""
    source = SqliteSource(SqliteOptions("shop", str(path)))
    again = ReplayedSource(source, COLUMNS, follower.replay)
    source.resume(follower.position)
    return again


def test_resume_delivers_what_was_missed(path: Path, writer: sqlite3.Connection) -> None:
    """What was committed while away comes once; what a lost visit had shown comes again."""
    follower = ReplayedSource(SqliteSource(SqliteOptions("shop", str(path))), COLUMNS)
    run(writer, "INSERT INTO item VALUES (1, 'x', 0)")
    follower.source.visit()  # lost: the warehouse died before its commit
    follower.source.close()
    run(writer, "INSERT INTO item VALUES (2, 'x', 0)")
    again = resumed(path, follower)
    assert set(follower.replay.tables[ITEM]) == set()
    again.check()
    assert set(follower.replay.tables[ITEM]) == {(1, "x"), (2, "x")}
    again.source.close()


def test_what_was_missed_may_come_as_one_but_never_split(path: Path, writer: sqlite3.Connection) -> None:
    """With the write-ahead log gone, the time away is one transaction; the next ones are told apart again."""
    follower = ReplayedSource(SqliteSource(SqliteOptions("shop", str(path))), COLUMNS)
    follower.source.close()
    for number in range(3):
        run(writer, f"INSERT INTO item VALUES ({number}, 'x', 0)")
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    again = resumed(path, follower)
    assert len(again.check().transactions) == 1
    for number in range(3, 6):
        run(writer, f"INSERT INTO item VALUES ({number}, 'x', 0)")
    assert len(again.check().transactions) == 3
    again.source.close()


def test_acknowledged_changes_are_trimmed(path: Path, source: SqliteSource, writer: sqlite3.Connection) -> None:
    """The log keeps only what is not acknowledged, and one row to recognise the position by."""
    follower = ReplayedSource(source, COLUMNS)
    for number in range(50):
        run(writer, f"INSERT INTO item VALUES ({number}, 'x', 0)")
    follower.check()
    source.acknowledge(follower.position)
    run(writer, "DELETE FROM item WHERE id < 3")
    assert writer.execute("SELECT count(*) FROM weir_log").fetchone() == (4,)
    again = resumed(path, follower)
    again.check()
    again.source.close()


def test_acknowledge_gives_way_to_a_writer(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """A busy database is no error: the log is trimmed another time."""
    follower = ReplayedSource(source, COLUMNS)
    for number in range(5):
        run(writer, f"INSERT INTO item VALUES ({number}, 'x', 0)")
    follower.check()
    run(writer, "BEGIN IMMEDIATE")
    source.acknowledge(follower.position)
    run(writer, "COMMIT")
    assert writer.execute("SELECT count(*) FROM weir_log").fetchone() == (7,)  # two captures began, five changes
    source.acknowledge(follower.position)
    assert writer.execute("SELECT count(*) FROM weir_log").fetchone() == (1,)


def test_a_log_made_anew_is_not_trimmed_for_the_old_one(path: Path, writer: sqlite3.Connection) -> None:
    """Its changes have other meanings under the same numbers: who loads from it now must be able to go on."""
    follower = ReplayedSource(SqliteSource(SqliteOptions("shop", str(path))), COLUMNS)
    for number in range(50):
        run(writer, f"INSERT INTO item VALUES ({number}, 'x', 0)")
    follower.check()
    remove(path)
    install(path, ["item", "part"])
    new = ReplayedSource(SqliteSource(SqliteOptions("shop", str(path))), COLUMNS)
    run(writer, *(f"INSERT INTO item VALUES ({number}, 'x', 0)" for number in range(50, 60)))
    follower.source.acknowledge(follower.position)
    follower.source.close()
    new.check()
    new.source.close()


def trim_past(path: Path, writer: sqlite3.Connection) -> None:
    run(writer, "INSERT INTO item VALUES (7, 'x', 0)", "INSERT INTO item VALUES (8, 'x', 0)")
    other = ReplayedSource(SqliteSource(SqliteOptions("shop", str(path))), COLUMNS)
    other.source.acknowledge(other.position)
    other.source.close()


def reinstall(path: Path, writer: sqlite3.Connection) -> None:
    remove(path)
    install(path, ["item", "part"])


def drop_a_trigger(path: Path, writer: sqlite3.Connection) -> None:
    run(writer, "DROP TRIGGER weir_capture_delete_item", "DELETE FROM item")
    install(path, ["item", "part"])


def make_the_table_anew(path: Path, writer: sqlite3.Connection) -> None:
    run(writer, "DROP TABLE part", "CREATE TABLE part (item INTEGER, line INTEGER, size REAL)")
    install(path, ["item", "part"])


def only_remove(path: Path, writer: sqlite3.Connection) -> None:
    remove(path)


@pytest.mark.parametrize("loss", [trim_past, reinstall, drop_a_trigger, make_the_table_anew])
def test_a_lost_log_is_never_passed_over(path: Path, writer: sqlite3.Connection, loss: Any) -> None:
    """Where the log no longer reaches back, resuming says: load again."""
    run(writer, "INSERT INTO item VALUES (1, 'x', 0)")
    follower = ReplayedSource(SqliteSource(SqliteOptions("shop", str(path))), COLUMNS)
    follower.source.close()
    loss(path, writer)
    with pytest.raises(LoadAgain, match="load the views that use this source again"):
        resumed(path, follower)


@pytest.mark.parametrize("loss", [trim_past, reinstall, drop_a_trigger, make_the_table_anew, only_remove])
def test_a_log_lost_while_running_stops_the_source(
    path: Path, source: SqliteSource, writer: sqlite3.Connection, loss: Any
) -> None:
    """The same between two visits: nothing is delivered from a log with a gap."""
    run(writer, "INSERT INTO item VALUES (1, 'x', 0)")
    follower = ReplayedSource(source, COLUMNS)
    run(writer, "INSERT INTO item VALUES (2, 'x', 0)")
    loss(path, writer)
    with pytest.raises((LoadAgain, SchemaChanged), match="load the views that use this source again"):
        follower.check()


def test_an_older_file_put_back_is_recognised(path: Path, tmp_path: Path) -> None:
    """A backup that has meanwhile reached the same number has another history."""

    def write(name: str) -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            run(database, f"INSERT INTO item VALUES (1, '{name}', 0)", f"INSERT INTO item VALUES (2, '{name}', 0)")

    backup = shutil.copy(path, tmp_path / "backup.db")
    write("lost")
    follower = ReplayedSource(SqliteSource(SqliteOptions("shop", str(path))), COLUMNS)
    follower.source.close()
    shutil.copy(backup, path)
    with pytest.raises(LoadAgain, match="before the position"):
        resumed(path, follower)
    write("other")
    with pytest.raises(LoadAgain, match="history"):
        resumed(path, follower)


@pytest.mark.parametrize("position", ["", "12", "a:b:c", "a:1"])
def test_a_position_of_another_kind_is_refused(source: SqliteSource, position: str) -> None:
    """Text that is no position of a SQLite source is said to be none."""
    source.watch(COLUMNS)
    with pytest.raises(SourceError, match="not a position"):
        source.resume(position)


def test_a_visit_needs_a_beginning(source: SqliteSource) -> None:
    """Without load or resume nobody knows what was delivered."""
    source.watch(COLUMNS)
    with pytest.raises(SourceError, match="load or resume"):
        source.visit()


# -- the process dies ------------------------------------------------------------------------------------------------


def keep_visiting(path: Path, position: str, journal: str) -> None:
    """A warehouse in a process of its own: writes down what it got, durably, then goes on."""
    source = SqliteSource(SqliteOptions("shop", str(path)))
    source.watch(COLUMNS)
    source.resume(position)
    with open(journal, "a") as kept:
        while True:
            visit = source.visit()
            changes = {str(r): table.to_pylist() for r, table in visit.changes.items()}
            kept.write(json.dumps([visit.position, len(visit.transactions), changes]) + "\n")
            kept.flush()
            os.fsync(kept.fileno())
            source.acknowledge(visit.position)


def read_journal(journal: Path, replay: Replay) -> str:
    """What survived the kill; a torn last line was never committed. Returns the last position."""
    position = ""
    for line in journal.read_text().split("\n")[:-1]:
        position, _, changes = json.loads(line)
        for name, rows in changes.items():
            relation = ITEM if name == str(ITEM) else PART
            for row in rows:
                replay.tables[relation][tuple(row[c] for c in COLUMNS[relation])] += row[WEIGHT]
    replay.tables = {relation: +rows for relation, rows in replay.tables.items()}
    return position


def test_killed_visitors_resume_exactly(path: Path, tmp_path: Path, writer: sqlite3.Connection) -> None:
    """kill -9 of the visiting process at any moment: the next one goes on without loss or repetition."""
    dice, spawn = random.Random(4), multiprocessing.get_context("spawn")
    first = ReplayedSource(SqliteSource(SqliteOptions("shop", str(path))), COLUMNS)
    first.source.close()
    position, number = first.position, 0
    for life in range(4):
        journal = tmp_path / f"journal{life}"
        process = spawn.Process(target=keep_visiting, args=(path, position, str(journal)), daemon=True)
        process.start()
        end = time.monotonic() + 300  # on a busy machine a process takes its time to start
        while time.monotonic() < end:
            if end > time.monotonic() + 2 and journal.exists() and b"\n" in journal.read_bytes():
                end = time.monotonic() + dice.random()
            number += 1
            delete = f"DELETE FROM item WHERE id = {number // 2}"
            transaction(writer, f"INSERT INTO item VALUES ({number}, 'n', 0)", delete)
        process.kill()
        process.join()
        if journal.exists():
            position = read_journal(journal, first.replay) or position
    assert number > 100
    assert position != first.position
    first.position = position
    last = resumed(path, first)
    last.check()
    last.source.close()


# -- what there is ---------------------------------------------------------------------------------------------------


def test_describe(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """Tables with types, keys and indexes; ours and SQLite's own are left out."""
    run(writer, "CREATE TABLE odd (a, b NUMERIC, c DECIMAL(5,2), d INT UNIQUE)", "CREATE VIEW v AS SELECT 1")
    described = source.describe()
    tables = {table.relation.table: table for table in described.tables}
    assert list(tables) == ["item", "odd", "part"]
    assert str(tables["item"].schema) == "id bigint, name string, price double"
    assert tables["part"].key == ("item", "line")
    assert tables["part"].foreign_keys == ()  # declared, and enforced for nobody who does not ask for it
    assert tables["part"].indexes == (("item", "line"), ("size",))
    assert tables["item"].indexes == (("id",),)
    assert described.unmapped == {Relation("shop", "odd"): {"a": "", "b": "NUMERIC"}}
    assert [(f.severity, f.problem) for f in described.findings] == [("error", "table 'odd' is not captured")]


def test_sizes_are_known_without_counting(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """The highest row number at first, what ANALYZE found once it has run; no number can exceed what the file holds."""
    run(writer, "CREATE TABLE gaps (id INTEGER PRIMARY KEY)", "INSERT INTO gaps VALUES (1), (50)")
    run(writer, "CREATE TABLE random (id INTEGER PRIMARY KEY)", "INSERT INTO random VALUES (9223372036854775807)")
    before = source.describe().rows
    assert before[Relation("shop", "gaps")] == 50
    assert before[Relation("shop", "random")] < 100_000
    run(writer, "ANALYZE")
    assert source.describe().rows[Relation("shop", "gaps")] == 2


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"item": ("nothing",)}, "no column 'nothing'"),
        ({"absent": ("id",)}, "no table 'absent'"),
        ({"odd": ("a",)}, "column 'a'.*does not say what it holds"),
        ({"free": ("a",)}, "is not captured"),
    ],
)
def test_watch_refuses_by_name(
    path: Path, source: SqliteSource, writer: sqlite3.Connection, columns: dict[str, Sequence[str]], words: str
) -> None:
    """What cannot be watched is named, with the way out; what is not used does not matter."""
    run(writer, "CREATE TABLE odd (a, b INT)", "CREATE TABLE free (a INT)")
    install(path, ["odd"])
    with pytest.raises(SourceError, match=words):
        source.watch({Relation("shop", table): names for table, names in columns.items()})
    source.watch({Relation("shop", "odd"): ("b",)})


def test_loads_in_parts_are_the_table_once(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """Rowid ranges cover wide gaps, negative numbers and the largest, each row once."""
    identifiers = [-(2**63), -5, 0, 1, 99_999, 100_000, 2**40, 2**63 - 1]
    writer.executemany("INSERT INTO item VALUES (?, 'x', 0)", [(i,) for i in identifiers])
    source.watch(COLUMNS)
    load = source.load()
    parts = [part for part in load.held.parts() if part.relation == ITEM]
    run(writer, "DELETE FROM item")  # not seen: the load is a snapshot
    found = [row["id"] for part in parts for batch in load.held.read(part) for row in batch.to_pylist()]
    load.held.release()
    assert sorted(found) == identifiers
    assert 1 < len(parts) <= 17
    with pytest.raises(SourceError, match="this snapshot was released"):
        next(load.held.read(parts[0]))


def test_snapshots_are_not_shared(source: SqliteSource) -> None:
    """SQLite has no snapshot that others could read: there is no token."""
    follower = ReplayedSource(source, COLUMNS)
    held = held_by(follower.source.visit(hold=True))
    assert held.token is None
    held.release()


# -- the schema changes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ALTER TABLE item RENAME COLUMN name TO title", "lost column 'name'"),
        ("ALTER TABLE item RENAME TO thing", "item is gone"),
        ("DROP TABLE part", "part is gone"),
        ("CREATE UNIQUE INDEX one_name ON item (name)", "new unique key"),
        ("CREATE UNIQUE INDEX low ON item (lower(name))", "unique index over an expression"),
        ("CREATE TRIGGER own BEFORE INSERT ON item BEGIN DELETE FROM item WHERE id = 3; END", "BEFORE trigger 'own'"),
        ("DROP TRIGGER weir_capture_insert_item", "lost triggers"),
    ],
)
def test_a_change_of_shape_stops_before_anything_is_delivered(
    source: SqliteSource, writer: sqlite3.Connection, change: str, words: str
) -> None:
    """What changed is named, and no row is delivered from a shape that is no longer the watched one."""
    follower = ReplayedSource(source, COLUMNS)
    run(writer, "INSERT INTO item VALUES (1, 'x', 0)", change)
    for _ in range(2):  # it stays stopped
        with pytest.raises((SchemaChanged, LoadAgain), match=words):
            follower.check()


def test_a_changed_type_is_noticed(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """A column declared otherwise is not read as before."""
    follower = ReplayedSource(source, COLUMNS)
    run(writer, "PRAGMA writable_schema = ON")
    run(writer, "UPDATE sqlite_master SET sql = replace(sql, 'name TEXT', 'name BLOB') WHERE name = 'item'")
    (version,) = writer.execute("PRAGMA schema_version").fetchone()
    run(writer, f"PRAGMA schema_version = {version + 1}")
    with pytest.raises(SchemaChanged, match="was string and is now declared 'BLOB'"):
        follower.check()


def test_changes_that_do_not_matter_do_not_stop(path: Path, source: SqliteSource, writer: sqlite3.Connection) -> None:
    """Other tables, plain indexes and columns that nobody watches may come; installing again renews the triggers."""
    follower = ReplayedSource(source, COLUMNS)
    run(writer, "CREATE TABLE other (a)", "CREATE INDEX by_name ON item (name)")
    run(writer, "ALTER TABLE item ADD COLUMN colour TEXT DEFAULT 'red'", "INSERT INTO item VALUES (1, 'x', 0, 'blue')")
    follower.check()
    assert [f.problem for f in source.describe().findings][:1] == ["table 'item' has columns that are not captured yet"]
    run(writer, "INSERT INTO item VALUES (2, 'y', 0, 'blue')")
    assert install(path, ["item", "part"]) == ["item"]
    run(writer, "INSERT INTO item VALUES (3, 'z', 0, 'blue')")
    assert len(follower.check().transactions) == 2
    assert len(follower.replay.tables[ITEM]) == 3


# -- errors ----------------------------------------------------------------------------------------------------------


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    """A wrong path is said to be wrong, and no empty database appears."""
    with pytest.raises(SourceError, match="no SQLite database at"):
        SqliteSource(SqliteOptions("shop", str(tmp_path / "absent.db"))).describe()
    assert not (tmp_path / "absent.db").exists()


def test_other_files_are_refused(tmp_path: Path) -> None:
    """A file that is no database, or an encrypted one, is named as such."""
    (tmp_path / "text.db").write_text("no database at all, but long enough to be looked at" * 50)
    with pytest.raises(SourceError, match="is not a SQLite database"):
        SqliteSource(SqliteOptions("shop", str(tmp_path / "text.db"))).describe()


def test_a_damaged_file_is_named(path: Path, source: SqliteSource, writer: sqlite3.Connection) -> None:
    """Damage is not taken for an empty table."""
    writer.executemany("INSERT INTO item VALUES (?, ?, 0)", [(i, "x" * 500) for i in range(500)])
    source.watch(COLUMNS)
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    (page,) = writer.execute("SELECT rootpage FROM sqlite_master WHERE name = 'item'").fetchone()
    with open(path, "r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xde\xad" * 2048)
    with pytest.raises(SourceError, match="is damaged"):
        ReplayedSource(SqliteSource(SqliteOptions("shop", str(path))), COLUMNS)


def test_a_locked_file_is_named(path: Path, writer: sqlite3.Connection) -> None:
    """A database that somebody else holds exclusively is waited for, then named."""
    run(writer, "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "INSERT INTO item VALUES (1, 'x', 0)", "COMMIT")
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    writer.execute("PRAGMA journal_mode = DELETE").fetchall()
    run(writer, "BEGIN EXCLUSIVE")
    with pytest.raises(SourceError, match="is locked by another program"):
        SqliteSource(SqliteOptions("shop", str(path), busy_seconds=0.1)).describe()


def test_a_file_that_cannot_be_written_is_named(path: Path) -> None:
    """SQLite's own complaint about a read-only database becomes a name and a way out."""
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        with pytest.raises(sqlite3.OperationalError) as refused:
            database.execute("CREATE TABLE t (a)")
        assert "cannot be written to: give the account" in str(explained(refused.value, path))


def test_another_journal_mode_is_refused(path: Path, source: SqliteSource, writer: sqlite3.Connection) -> None:
    """Without WAL mode visits would block writers: it must be on, and installing turns it on."""
    writer.execute("PRAGMA journal_mode = DELETE").fetchall()
    with pytest.raises(SourceError, match="journal mode 'delete', not WAL"):
        source.watch(COLUMNS)
    assert source.describe().findings[0].problem.endswith("is not in WAL mode")
    install(path, [])
    source.watch(COLUMNS)


def test_a_row_read_through_keys_belongs_to_the_same_moment(source: SqliteSource, writer: sqlite3.Connection) -> None:
    """Lookups by key are answered from the visit's snapshot, together with the changes before it."""
    follower = ReplayedSource(source, COLUMNS)
    keys = MemoryBag.of(Schema.parse("item bigint, line bigint"), [(1, 1), (2, 1), (9, 9)])
    run(writer, "INSERT INTO part VALUES (1, 1, 0.5), (2, 1, 1.5), (3, 1, 2.5)")
    follower.check([Lookup(PART, ("size",), ("item", "line"), keys)])
    assert sorted(follower.answers[0].column("size").to_pylist()) == [0.5, 1.5]
