"""Transactions out of the binlog: delivered whole, once, in order, at their commit."""

from __future__ import annotations

import pymysql
import pytest

from tests.sources.mariadb.conftest import Place, changes, whole
from weir.algebra.catalog import Relation
from weir.messages import GlobalTransaction
from weir.proving.oracle import Replay, ask, rows_of
from weir.sources.source import LoadAgain, SchemaChanged, SourceError

T = Relation("shop", "t")
BOTH = pytest.mark.parametrize("kind", ["mariadb", "mariadb-locks"])


@BOTH
def test_insert_update_delete_in_one_transaction(place: Place, kind: str) -> None:
    """The rows before and after every change, under the number of their transaction, needed columns only."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY, unused TEXT, b INT)")
    source = place.source({"t": ("b", "a")}, kind=kind)
    place.run(
        "BEGIN",
        "INSERT INTO t VALUES (1, 'x', 10), (2, NULL, 20)",
        "UPDATE t SET b = b + 1 WHERE a = 1",
        "DELETE FROM t WHERE a = 2",
        "COMMIT",
    )
    place.run("UPDATE t SET a = 5")
    visit, (answer,) = ask(source, [whole("t", "a", "b")])
    first = [(0, 1, 10, 1), (0, 1, 20, 2), (0, -1, 10, 1), (0, 1, 11, 1), (0, -1, 20, 2)]
    assert changes(visit, "t", "b", "a") == [*first, (1, -1, 11, 1), (1, 1, 11, 5)]
    assert len(visit.transactions) == 2
    assert list(rows_of(answer, ("a", "b"))) == [(5, 11)]
    assert source.visit().transactions == ()


@BOTH
def test_rollbacks_and_savepoints(place: Place, kind: str) -> None:
    """What was rolled back, wholly or to a savepoint, is not delivered; a savepoint ends nothing."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    source = place.source({"t": ("a",)}, kind=kind)
    place.run("BEGIN", "INSERT INTO t VALUES (1)", "ROLLBACK")
    place.run(
        "BEGIN",
        "INSERT INTO t VALUES (2)",
        "SAVEPOINT `a;``COMMIT`",
        "INSERT INTO t VALUES (3)",
        "ROLLBACK TO `a;``COMMIT`",
    )
    if kind == "mariadb":  # with locks a question waits for the writer
        assert ask(source, [whole("t", "a")])[1][0].num_rows == 0
    place.run("INSERT INTO t VALUES (4)", "RELEASE SAVEPOINT `a;``COMMIT`", "COMMIT")
    assert changes(source.visit(), "t", "a") == [(0, 1, 2), (0, 1, 4)]


def test_a_savepoint_rolled_back_beside_a_table_without_transactions(place: Place) -> None:
    """MariaDB then logs the rows and the ROLLBACK TO: the rows behind the savepoint are not delivered."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY)", "CREATE TABLE m (a INT) ENGINE = MyISAM")
    source = place.source({"t": ("a",)})
    place.run(
        "BEGIN", "INSERT INTO t VALUES (1)", "SAVEPOINT S", "INSERT INTO t VALUES (2)", "INSERT INTO m VALUES (1)"
    )
    place.run("ROLLBACK WORK TO SAVEPOINT s", "INSERT INTO t VALUES (3)", "COMMIT")
    visit, _ = ask(source, [whole("t", "a")])
    assert changes(visit, "t", "a") == [(0, 1, 1), (0, 1, 3)]
    place.run("BEGIN", "INSERT INTO t VALUES (7)", "INSERT INTO m VALUES (2)", "ROLLBACK")
    assert source.visit().transactions == ()


@BOTH
def test_truncate_is_its_own_transaction(place: Place, kind: str) -> None:
    """TRUNCATE logs no rows: the visit says in which transaction everything before was deleted."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = place.source({"t": ("a",)}, kind=kind)
    place.run(
        "INSERT INTO t VALUES (2)",
        "TRUNCATE t",
        "INSERT INTO t VALUES (3)",
        f"TRUNCATE TABLE `{place.database}`.`t` /* all */",
    )
    visit, (answer,) = ask(source, [whole("t", "a")])
    assert visit.truncations == {T: (1, 3)}
    assert changes(visit, "t", "a") == [(0, 1, 2), (2, 1, 3)]
    assert answer.num_rows == 0


@BOTH
def test_two_phase_commit(place: Place, kind: str) -> None:
    """Rows of an XA transaction come at XA COMMIT, not at XA PREPARE, and never after XA ROLLBACK; also after a
    restart between the two.
    """
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    source = place.source({"t": ("a",)}, kind=kind)
    other, third = place.another(), place.another()
    for connection, name, value in ((other, "one", 1), (third, "two", 2)):
        with connection.cursor() as cursor:
            for statement in (
                f"XA START '{name}', 'branch', 7",
                f"INSERT INTO t VALUES ({value})",
                f"XA END '{name}', 'branch', 7",
            ):
                cursor.execute(statement)
            cursor.execute(f"XA PREPARE '{name}', 'branch', 7")
    other.close()  # a prepared transaction outlives its connection
    place.run("CREATE TABLE u (a INT)", "INSERT INTO u VALUES (1)")
    between = source.visit()
    assert between.transactions == ()
    source.close()
    source = place.source({"t": ("a",)}, load=False, kind=kind)
    source.resume(between.position)
    _until_free(place, "XA COMMIT 'one', 'branch', 7")
    with third.cursor() as cursor:
        cursor.execute("XA ROLLBACK 'two', 'branch', 7")
    third.close()
    visit, (answer,) = ask(source, [whole("t", "a")])
    assert changes(visit, "t", "a") == [(0, 1, 1)]
    assert list(rows_of(answer, ("a",))) == [(1,)]
    place.run("XA START 'x'", "INSERT INTO t VALUES (9)", "XA END 'x'", "XA COMMIT 'x' ONE PHASE")
    assert changes(source.visit(), "t", "a") == [(0, 1, 9)]


def _until_free(place: Place, statement: str) -> None:
    """The server needs a moment to let go of a closed connection's transaction."""
    import time

    for _ in range(6000):
        try:
            place.run(statement)
            return
        except Exception:
            time.sleep(0.02)
    raise AssertionError(f"never possible: {statement}")


def test_a_load_waits_for_prepared_transactions(place: Place) -> None:
    """An XA transaction that is prepared before a load would be in neither load nor changes: the load waits, then
    says so.
    """
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    other = place.another()
    with other.cursor() as cursor:
        for statement in ("XA START 'p'", "INSERT INTO t VALUES (1)", "XA END 'p'", "XA PREPARE 'p'"):
            cursor.execute(statement)
        source = place.source({"t": ("a",)}, load=False, snapshot_seconds=1)
        with pytest.raises(SourceError, match=r"prepared XA transactions stay open \(X'70',X'',1\)"):
            source.load()
        cursor.execute("XA COMMIT 'p'")
    other.close()
    replay = Replay({T: ("a",)})
    replay.load(source)
    assert replay.rows(T) == [(1,)]


def test_global_transactions(place: Place) -> None:
    """A row in the marker table names the global transaction that its transaction is part of."""
    place.run(
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "CREATE TABLE weir_global_transaction (id VARCHAR(50) PRIMARY KEY, sources TEXT)",
    )
    source = place.source({"t": ("a",)})
    place.run("INSERT INTO t VALUES (1)")
    place.run(
        "BEGIN", "INSERT INTO t VALUES (2)", "INSERT INTO weir_global_transaction VALUES ('g1', 'crm, shop')", "COMMIT"
    )
    place.run("DELETE FROM weir_global_transaction")
    visit = source.visit()
    assert [t.part_of for t in visit.transactions] == [None, GlobalTransaction("g1", frozenset({"crm", "shop"})), None]
    assert changes(visit, "t", "a") == [(0, 1, 1), (1, 1, 2)]


def test_other_databases_and_tables_are_passed_over(place: Place) -> None:
    """A table of the same name elsewhere is another table; whatever is written there delivers nothing."""
    place.run(
        "CREATE TABLE t (a INT PRIMARY KEY)",
        f"CREATE DATABASE {place.database}b",
        f"CREATE TABLE {place.database}b.t (z TEXT)",
    )
    source = place.source({"t": ("a",)})
    place.run(
        f"INSERT INTO {place.database}b.t VALUES ('x')",
        f"TRUNCATE {place.database}b.t",
        f"ALTER TABLE {place.database}b.t ADD y INT FIRST",
    )
    place.run("CREATE TABLE v (a INT)", "INSERT INTO v VALUES (1)", f"DROP DATABASE {place.database}b")
    assert ask(source, [])[0].transactions == ()


def test_the_same_rows_through_triggers(place: Place) -> None:
    """What a trigger writes is logged as rows, in the transaction that fired it."""
    place.run(
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "CREATE TABLE u (a INT)",
        "CREATE TRIGGER w AFTER INSERT ON u FOR EACH ROW INSERT INTO t VALUES (NEW.a)",
    )
    source = place.source({"t": ("a",)})
    place.run("INSERT INTO u VALUES (4), (5)")
    assert changes(source.visit(), "t", "a") == [(0, 1, 4), (0, 1, 5)]


# -- what must stop the source
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_a_session_with_a_partial_row_image_is_refused(place: Place, image: str) -> None:
    """A session may choose its own row image: its updates lack columns, which is noticed and refused by name."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c TEXT)", "INSERT INTO t VALUES (1, 2, 'x')")
    source = place.source({"t": ("a", "b", "c")})
    place.run(f"SET SESSION binlog_row_image = '{image}'", "UPDATE t SET b = 3")
    for _ in range(2):
        with pytest.raises(SourceError, match=r"(only part of a row of shop\.t|unlike columns).*binlog_row_image"):
            source.visit()


@pytest.mark.parametrize(
    "statement", ["INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)", "UPDATE w SET a = a + 1", "CALL p()"]
)
def test_a_session_in_statement_format_is_refused(place: Place, statement: str) -> None:
    """Statements do not say which rows changed, also through a view, a trigger or a procedure: refused, never
    skipped.
    """
    place.run(
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "INSERT INTO t VALUES (7)",
        "CREATE TABLE u (a INT)",
        "CREATE VIEW w AS SELECT a FROM t",
    )
    place.run(
        "CREATE TRIGGER g AFTER INSERT ON u FOR EACH ROW INSERT INTO t VALUES (NEW.a)",
        "CREATE PROCEDURE p() INSERT INTO t VALUES (3)",
    )
    source = place.source({"t": ("a",)})
    place.run("SET SESSION binlog_format = 'STATEMENT'", statement)
    for _ in range(2):
        with pytest.raises(SourceError, match="a session writes in statement format"):
            source.visit()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t MODIFY b INT AFTER c",
        "ALTER TABLE t ADD x INT FIRST",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t CHANGE b bb INT",
        "ALTER TABLE t MODIFY b BIGINT",
        "RENAME TABLE t TO t_old, s TO t",
        "DROP TABLE t",
        "CREATE OR REPLACE TABLE t (b INT, a INT)",
        "ALTER TABLE s RENAME TO s2, ADD z INT",
        "ALTER TABLE t CONVERT TO CHARACTER SET latin1",
        "ALTER TABLE t RENAME COLUMN b TO q",
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES s (a) ON DELETE CASCADE",
    ],
)
@pytest.mark.parametrize("hold", [False, True])
def test_ddl_on_a_watched_table_stops_the_source(place: Place, statement: str, hold: bool) -> None:
    """A change of a needed column, of the columns' order or of the table itself stops the source before a wrong row
    comes out.
    """
    place.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT)", "CREATE TABLE s (a INT PRIMARY KEY, b INT, c INT)")
    source = place.source({"t": ("a", "b")})
    place.run("INSERT INTO s VALUES (2, 0, 0)", "INSERT INTO t VALUES (1, 2, 3)", statement)
    if statement.startswith("ALTER TABLE s"):
        assert len(source.visit().transactions) == 1
        return
    gone = hold and statement == "DROP TABLE t"  # then no snapshot of it can be opened: the log is not asked
    for _ in range(2):
        with pytest.raises(SchemaChanged, match=r"t' doesn't exist" if gone else r"shop\.t was changed by"):
            source.visit(hold)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD INDEX (b)",
        "CREATE INDEX i ON t (b)",
        "ALTER TABLE t ADD x INT DEFAULT 5, COMMENT 'FIRST'",
        "OPTIMIZE TABLE t",
        "ALTER TABLE t ADD COLUMN (x INT, y TEXT)",
        "ALTER TABLE t ALTER b SET DEFAULT 9",
        "ANALYZE TABLE t",
        "ALTER TABLE t ENGINE = InnoDB",
        "CREATE TABLE IF NOT EXISTS t (z INT)",
        "GRANT SELECT ON t TO nobody@localhost IDENTIFIED BY 'x'",
        "CREATE TEMPORARY TABLE t (z INT)",
    ],
)
def test_ddl_that_leaves_the_needed_columns_alone_goes_on(place: Place, statement: str) -> None:
    """Indexes, table options and columns at the end do not stop the source; rows before and after come out right."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    source = place.source({"t": ("a", "b")})
    other = place.another()
    place.run("INSERT INTO t (a, b) VALUES (1, 2)", statement)
    with other.cursor() as cursor:
        cursor.execute("INSERT INTO t (a, b) VALUES (3, 4)")
    other.commit()
    other.close()
    visit, (answer,) = ask(source, [whole("t", "a", "b")])
    assert changes(visit, "t", "a", "b") == [(0, 1, 1, 2), (1, 1, 3, 4)]
    assert list(rows_of(answer, ("a", "b"))) == [(1, 2), (3, 4)]


def test_a_table_swapped_between_snapshot_and_query_is_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata locks come before the snapshot: a table that is renamed in between waits, so the answer is from the
    right table.
    """
    place.run(
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "CREATE TABLE s (a INT PRIMARY KEY)",
        "INSERT INTO s VALUES (9)",
    )
    source = place.source({"t": ("a",)})
    snapshots = source._snapshots_now
    began = type(snapshots)._begin

    def begin_and_swap(self: object) -> None:
        began(snapshots)
        place.run("SET SESSION lock_wait_timeout = 1")
        with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
            place.run("RENAME TABLE t TO old, s TO t")

    monkeypatch.setattr(type(snapshots), "_begin", begin_and_swap)
    assert list(rows_of(ask(source, [whole("t", "a")])[1][0], ("a",))) == [(1,)]


def test_names_in_the_log_let_columns_come_and_go(own_place: object) -> None:
    """With binlog_row_metadata = FULL columns are found by name: unneeded ones may be added anywhere and dropped."""
    place = own_place(binlog_row_metadata="FULL")  # type: ignore[operator]
    place.run("CREATE TABLE t (z INT, a INT PRIMARY KEY, b INT)")
    source = place.source({"t": ("a", "b")})
    place.run(
        "INSERT INTO t VALUES (0, 1, 2)",
        "ALTER TABLE t DROP z, ADD x INT FIRST, ADD y INT AFTER a",
        "INSERT INTO t VALUES (7, 3, 8, 4)",
    )
    assert changes(source.visit(), "t", "a", "b") == [(0, 1, 1, 2), (1, 1, 3, 4)]
    place.run("ALTER TABLE t DROP b")
    with pytest.raises(SchemaChanged):
        source.visit()


def test_foreign_keys_into_another_database_are_seen(place: Place) -> None:
    """Weir's role may not look at that database, and the rows that it makes go are refused all the same."""
    other = f"{place.database}_other"
    place.run(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.p (a INT PRIMARY KEY)")
    try:
        key = f"FOREIGN KEY (p) REFERENCES {other}.p (a) ON DELETE SET NULL"
        place.run(f"CREATE TABLE c (a INT PRIMARY KEY, p INT, {key})")
        with pytest.raises(SourceError, match=r"table shop\.c cannot be used.*DROP FOREIGN KEY"):
            place.source({"c": ("a",)})
    finally:
        place.run("DROP TABLE IF EXISTS c", f"DROP DATABASE {other}")


def test_hidden_changes_by_foreign_keys_are_refused(place: Place) -> None:
    """InnoDB does not log what ON DELETE CASCADE does (shown here), so such a table cannot be watched."""
    place.run(
        "CREATE TABLE p (a INT PRIMARY KEY)",
        "CREATE TABLE c (a INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (a) ON DELETE CASCADE)",
    )
    place.run("INSERT INTO p VALUES (1)", "INSERT INTO c VALUES (1, 1)")
    source = place.source({"p": ("a",)})
    assert any("c cannot be used" in finding.problem for finding in source.describe().findings)
    with pytest.raises(SourceError, match=r"table shop\.c cannot be used.*DROP FOREIGN KEY"):
        place.source({"c": ("a",)})
    before = place.run("SHOW MASTER STATUS")[0]
    place.run("DELETE FROM p")
    logged = place.run(f"SHOW BINLOG EVENTS IN '{before[0]}' FROM {before[1]}")
    assert place.run("SELECT * FROM c") == []
    assert [event[2] for event in logged if "rows" in event[2].lower()] == [
        "Annotate_rows",
        "Delete_rows_v1",
    ]  # those of p


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"binlog_format": "STATEMENT"}, "binlog_format is STATEMENT.*SET GLOBAL binlog_format = 'ROW'"),
        ({"binlog_row_image": "MINIMAL"}, "binlog_row_image is MINIMAL.*SET GLOBAL binlog_row_image = 'FULL'"),
        ({"skip_log_bin": "ON"}, "writes no binlog.*set log_bin"),
        ({"binlog_ignore_db": "own"}, "own is left out of the binlog"),
    ],
)
def test_wrong_settings_are_refused_with_the_remedy(own_place: object, settings: dict[str, str], problem: str) -> None:
    """Capture does not begin on a server whose log cannot be exact; the error says what to set."""
    place = own_place(**settings)  # type: ignore[operator]
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    with pytest.raises(SourceError, match=problem):
        place.source({"t": ("a",)})


def test_compressed_events_are_read(own_place: object) -> None:
    """log_bin_compress changes nothing in what is delivered."""
    place = own_place(log_bin_compress="ON", log_bin_compress_min_len="10")  # type: ignore[operator]
    place.run("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)")
    source = place.source({"t": ("a", "b")})
    place.run("INSERT INTO t VALUES (1, REPEAT('é', 3000))", "UPDATE t SET a = 2", "DELETE FROM t")
    text = "é" * 3000
    expected = [(0, 1, 1, text), (1, -1, 1, text), (1, 1, 2, text), (2, -1, 2, text)]
    assert changes(source.visit(), "t", "a", "b") == expected


def test_visit_needs_a_beginning(place: Place) -> None:
    """Without load or resume there is nothing to go on from; a foreign position is refused."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    source = place.source({"t": ("a",)}, load=False)
    with pytest.raises(SourceError, match="call load or resume"):
        source.visit()
    with pytest.raises(SourceError, match="not a position"):
        source.resume("0/1234")
    assert not isinstance(SourceError("x"), LoadAgain)
