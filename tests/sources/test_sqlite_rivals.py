"""The application's own triggers beside the capture's: none hides a change without being noticed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.algebra.catalog import Relation
from weir.proving.oracle import ReplayedSource
from weir.sources.source import LoadAgain, SourceError
from weir.sources.sqlite import SqliteOptions, SqliteSource, install
from weir.sources.sqlite.capture import captures
from weir.sources.sqlite.installing import SqliteCapture

T = Relation("shop", "t")
COLUMNS = {T: ("a", "b")}
IGNORING = "CREATE TRIGGER mine AFTER INSERT ON t BEGIN SELECT RAISE(IGNORE); END"
FAILING = "CREATE TRIGGER mine AFTER INSERT ON t BEGIN INSERT INTO audit VALUES (1); END"
REPLACING = "CREATE TRIGGER mine AFTER INSERT ON t BEGIN UPDATE t SET b = b + 10 WHERE a = NEW.a; END"
HIDDEN = {  # a trigger, and a change that it keeps from the log if it fires first
    IGNORING: "INSERT INTO t VALUES (2, 2)",
    FAILING: "INSERT OR FAIL INTO t VALUES (2, 2)",  # fails, and the row stays
    REPLACING: "INSERT OR REPLACE INTO t VALUES (2, 1)",
}
NEWER = "has an AFTER trigger 'mine' that is newer than its capture"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript("CREATE TABLE t (a INTEGER PRIMARY KEY, b INT UNIQUE); CREATE TABLE audit (n UNIQUE)")
        database.execute("INSERT INTO t VALUES (1, 1)")
        database.execute("INSERT INTO audit VALUES (1)")
        yield database


@pytest.fixture
def source(path: Path) -> Iterator[SqliteSource]:
    with contextlib.closing(SqliteSource(SqliteOptions("shop", str(path)))) as made:
        yield made


def change(writer: sqlite3.Connection, statement: str) -> None:
    with contextlib.suppress(sqlite3.IntegrityError):
        writer.execute(statement)


@pytest.mark.parametrize("trigger", HIDDEN)
def test_an_older_trigger_hides_nothing(
    path: Path, writer: sqlite3.Connection, source: SqliteSource, trigger: str
) -> None:
    """The capture's own are newest, and so have logged the change before."""
    writer.execute(trigger)
    install(path, ["t"])
    follower = ReplayedSource(source, COLUMNS)
    change(writer, HIDDEN[trigger])
    assert len(follower.check().transactions) == 1


@pytest.mark.parametrize("trigger", HIDDEN)
def test_a_newer_trigger_is_noticed_while_running(
    path: Path, writer: sqlite3.Connection, source: SqliteSource, trigger: str
) -> None:
    """Changes may be hidden since then: the views are loaded again, after the capture was put in front."""
    install(path, ["t"])
    follower = ReplayedSource(source, COLUMNS)
    writer.execute(trigger)
    change(writer, HIDDEN[trigger])
    for _ in range(2):
        with pytest.raises(LoadAgain, match=f"{NEWER}.*run `weir capture install sqlite`, then load"):
            follower.check()
    assert install(path, ["t"]) == ["t"]
    with pytest.raises(LoadAgain, match="were not captured all the time"):
        follower.check()
    again = ReplayedSource(source, COLUMNS)
    change(writer, HIDDEN[trigger])
    again.check()
    change(writer, "INSERT OR REPLACE INTO t VALUES (3, 1)")
    again.check()
    assert install(path, ["t"]) == []


@pytest.mark.parametrize("trigger", HIDDEN)
def test_a_newer_trigger_is_noticed_at_the_start(
    path: Path, writer: sqlite3.Connection, source: SqliteSource, trigger: str
) -> None:
    """Before a first load, after a restart, and by what ``describe`` and ``weir capture status`` tell."""
    install(path, ["t"])
    position = ReplayedSource(source, COLUMNS).position
    source.close()
    writer.execute(trigger)
    change(writer, HIDDEN[trigger])
    again = SqliteSource(SqliteOptions("shop", str(path)))
    with pytest.raises(SourceError, match=f"{NEWER}.*run `weir capture install sqlite`"):
        again.watch(COLUMNS)
    assert [NEWER in finding.problem for finding in again.describe().findings if finding.table == "t"] == [True]
    told = SqliteCapture(SqliteOptions("shop", str(path)))
    assert [line.text for line in told.status() if NEWER in line.text and not line.well]
    assert told.install(["t"], dry_run=True) == ["t: make the triggers weir_capture_<event>_t, which log into weir_log"]
    install(path, ["t"])
    again.watch(COLUMNS)
    with pytest.raises(LoadAgain, match="were not captured all the time"):
        again.resume(position)
    again.close()


def test_triggers_that_hide_nothing_do_not_stop(path: Path, writer: sqlite3.Connection, source: SqliteSource) -> None:
    """BEFORE triggers that leave the table alone, whatever they read, and triggers of other tables."""
    install(path, ["t"])
    follower = ReplayedSource(source, COLUMNS)
    few = "SELECT RAISE(ABORT, 'few') WHERE (SELECT count(*) FROM t) > 4"
    never = "SELECT RAISE(IGNORE) WHERE NEW.a = 3"
    writer.execute(f'CREATE TRIGGER "x AFTER y" BEFORE INSERT ON t BEGIN {few}; {never}; END')
    writer.execute("CREATE TRIGGER /* AFTER */ other AFTER INSERT ON audit BEGIN DELETE FROM t WHERE a = NEW.n; END")
    for number in range(2, 9):
        change(writer, f"INSERT INTO t VALUES ({number}, {number})")
    writer.execute("INSERT INTO audit VALUES (2)")
    follower.check()
    assert set(follower.replay.tables[T]) == {(1, 1), (4, 4), (5, 5), (6, 6)}


BEFORE = {
    "says nothing of its time": "CREATE TRIGGER mine INSERT ON t BEGIN UPDATE OR IGNORE t SET b = NEW.b; END",
    "quotes the name": "CREATE TRIGGER mine BEFORE UPDATE ON t BEGIN INSERT INTO [T] VALUES (9, 9); END",
    "by another table": """CREATE TRIGGER mine BEFORE INSERT ON t BEGIN INSERT INTO audit VALUES (NEW.b); END;
        CREATE TRIGGER then_t AFTER INSERT ON audit BEGIN REPLACE INTO t VALUES (7, NEW.n); END""",
    "by a foreign key": """CREATE TABLE p (id INTEGER PRIMARY KEY); ALTER TABLE t ADD COLUMN p INT REFERENCES p
        ON DELETE CASCADE; CREATE TRIGGER mine BEFORE INSERT ON t BEGIN DELETE FROM p WHERE id = NEW.b; END""",
}


@pytest.mark.parametrize("how", BEFORE)
def test_a_before_trigger_that_changes_the_table_is_refused(path: Path, writer: sqlite3.Connection, how: str) -> None:
    """In whatever way it gets there."""
    writer.executescript(BEFORE[how])
    with pytest.raises(SourceError, match="has a BEFORE trigger 'mine' that changes the same table"):
        install(path, ["t"])


def test_a_capture_of_an_earlier_version_is_renewed(
    path: Path, writer: sqlite3.Connection, source: SqliteSource
) -> None:
    """Its triggers could miss changes: they are not taken for good, and installing again puts new ones in place."""
    install(path, ["t"])
    with contextlib.closing(sqlite3.connect(path)) as earlier:
        earlier.executescript("""UPDATE weir_capture SET detail = json_remove(detail, '$.version', '$.partial');
            DROP TABLE weir_replaced; CREATE TABLE weir_replaced (n INTEGER PRIMARY KEY, capture, row, v0, v1)""")
    with pytest.raises(SourceError, match="triggers of an earlier version"):
        source.watch(COLUMNS)
    assert install(path, ["t"]) == ["t"]
    follower = ReplayedSource(source, COLUMNS)
    change(writer, "INSERT OR REPLACE INTO t VALUES (2, 1)")
    follower.check()
    assert [one.version for one in captures(writer).values()] == [1, 2]


def test_a_unique_index_that_becomes_partial_is_noticed(
    path: Path, writer: sqlite3.Connection, source: SqliteSource
) -> None:
    """The same columns, but other updates replace rows now."""
    writer.execute("CREATE TABLE u (a INT, b INT, c INT)")
    writer.execute("CREATE UNIQUE INDEX one ON u (b)")
    install(path, ["u"])
    follower = ReplayedSource(source, {Relation("shop", "u"): ("a", "b")})
    writer.execute("DROP INDEX one")
    writer.execute("CREATE UNIQUE INDEX one ON u (b) WHERE a > 1")
    with pytest.raises(LoadAgain, match="new unique key"):
        follower.check()


def test_notes_are_gone_with_the_next_statement(path: Path, writer: sqlite3.Connection) -> None:
    """Rows that were ignored or updated instead leave notes behind, but not for long."""
    install(path, ["t"])
    writer.execute("INSERT INTO t SELECT value, value FROM json_each('[2, 3, 4, 5, 6, 7]')")
    for conflict in ("DO NOTHING", "DO UPDATE SET b = b + 100"):
        writer.execute(f"INSERT INTO t SELECT a, a FROM t WHERE true ON CONFLICT {conflict}")
    while writer.execute("SELECT count(*) FROM weir_replaced").fetchone() != (0,):  # some may come in one millisecond
        writer.execute("INSERT INTO t VALUES ((SELECT max(a) + 1 FROM t), NULL)")
    (added,) = writer.execute("SELECT count(*) FROM t WHERE b IS NULL").fetchone()
    images = writer.execute("SELECT weight, count(*) FROM weir_log GROUP BY weight ORDER BY weight").fetchall()
    assert images == [(-1, 7), (0, 1), (1, 6 + 7 + added)]
