"""Visits to a real server, by logical replication and by trigger log: what is delivered, when, and in which state."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import time
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from tests.sources.postgres.conftest import Lab, changes
from tests.sources.rounds import held_by
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.messages import GlobalTransaction
from weir.proving.oracle import ask
from weir.sources.source import SchemaChanged, SourceError

T = Relation("pg", "t")
EVERYTHING = Lookup(T, ("id", "name"))


def simple(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, name text)", "INSERT INTO t VALUES (1, 'one'), (2, NULL)")
    lab.capture("t")


def test_changes_come_with_their_transactions(lab: Lab) -> None:
    """Inserts, updates, deletes and key changes arrive as signed rows, one transaction at a time, in order."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.execute("INSERT INTO t VALUES (3, 'three')")
    lab.execute("BEGIN; UPDATE t SET name = 'uno' WHERE id = 1; DELETE FROM t WHERE id = 2; COMMIT")
    lab.execute("UPDATE t SET id = 30 WHERE id = 3")
    visit = watch.visit(EVERYTHING)
    assert len(visit.transactions) == 3
    assert sorted(changes(visit, "t"), key=lambda row: (row[-1], row[-2], row[0])) == [
        (3, "three", 1, 0),
        (1, "one", -1, 1),
        (2, None, -1, 1),
        (1, "uno", 1, 1),
        (3, "three", -1, 2),
        (30, "three", 1, 2),
    ]
    watch.assert_complete()


def test_what_is_rolled_back_is_not_delivered(lab: Lab) -> None:
    """Rolled-back transactions and savepoints leave no trace; released savepoints belong to their transaction."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.execute("BEGIN; INSERT INTO t VALUES (4, 'no'); ROLLBACK")
    lab.execute(
        "BEGIN; SAVEPOINT s; INSERT INTO t VALUES (5, 'no'); ROLLBACK TO s; INSERT INTO t VALUES (6, 'yes'); COMMIT"
    )
    lab.execute("BEGIN; INSERT INTO t VALUES (7, 'a'); SAVEPOINT s; INSERT INTO t VALUES (8, 'b'); RELEASE s; COMMIT")
    visit = watch.visit(EVERYTHING)
    assert [(row[0], row[-1]) for row in changes(visit, "t")] == [(6, 0), (7, 1), (8, 1)]
    watch.assert_complete()


def test_a_prepared_transaction_is_delivered_when_it_is_committed(lab: Lab) -> None:
    """Two-phase commit: nothing at PREPARE, everything at COMMIT PREPARED, nothing at ROLLBACK PREPARED."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    for name in ("a", "b"):
        lab.execute(f"BEGIN; INSERT INTO t VALUES ({ord(name)}, '{name}'); PREPARE TRANSACTION '{lab.database}{name}'")
    assert watch.visit(EVERYTHING).transactions == ()
    lab.execute(f"COMMIT PREPARED '{lab.database}a'", f"ROLLBACK PREPARED '{lab.database}b'")
    assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [ord("a")]


def test_an_older_open_transaction_is_delivered_when_it_becomes_visible(lab: Lab) -> None:
    """A transaction that began first and commits last comes last, in a later visit, and its rows not before."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    slow = lab.connect(autocommit=False)
    slow.execute("INSERT INTO t VALUES (10, 'slow')")
    lab.execute("INSERT INTO t VALUES (11, 'fast')")
    assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [11]
    slow.commit()
    assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [10]
    assert watch.visit(EVERYTHING).transactions == ()


def test_a_large_value_that_did_not_change_is_delivered(lab: Lab) -> None:
    """An update of another column carries the large value, in the old row and in the new."""
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, n int, big text)", "ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    lab.execute("INSERT INTO t VALUES (1, 0, repeat('x', 100000)), (2, 0, NULL)")
    lab.capture("t")
    watch = lab.watch(t=("big", "n"))
    lab.execute("UPDATE t SET n = n + 1")
    visit = watch.visit(Lookup(T, ("big", "n")))
    lengths = sorted((len(row[0] or ""), row[1], row[2]) for row in changes(visit, "t"))
    assert lengths == [(0, 0, -1), (0, 1, 1), (100000, 0, -1), (100000, 1, 1)]


def test_truncate_empties_the_table_in_its_place(lab: Lab) -> None:
    """What a transaction did before its TRUNCATE is gone with the rest; what it did after it stays."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.execute("INSERT INTO t VALUES (3, 'before')")
    lab.execute("BEGIN; INSERT INTO t VALUES (4, 'gone'); TRUNCATE t; INSERT INTO t VALUES (5, 'after'); COMMIT")
    lab.execute("INSERT INTO t VALUES (6, 'later')")
    visit = watch.visit(EVERYTHING)
    assert sorted(row[0] for row in watch.replay.rows(T)) == [5, 6]
    if lab.kind == "postgres":
        assert visit.truncations == {T: (1,)}
    watch.assert_complete()


def test_truncate_of_several_tables_and_of_one_that_is_not_watched(lab: Lab) -> None:
    """Each watched table is emptied; the others are nobody's business."""
    simple(lab)
    lab.execute("CREATE TABLE u (id int)", "CREATE TABLE other (id int)", "INSERT INTO u VALUES (1)")
    if lab.kind == "postgres":
        lab.execute("DROP PUBLICATION weir")
    lab.capture("t", "u", "other")
    watch = lab.watch(t=("id", "name"), u=("id",))
    lab.execute("TRUNCATE t, u, other")
    watch.visit(EVERYTHING, Lookup(Relation("pg", "u"), ("id",)))
    watch.assert_complete()


def test_truncate_under_repeatable_read_is_exact(lab: Lab) -> None:
    """Rows that the truncating transaction's own snapshot does not show are removed too, and so delivered."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    other = lab.connect(autocommit=False)
    other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    other.execute("SELECT 1 FROM pg_class LIMIT 1")
    lab.execute("INSERT INTO t VALUES (77, 'unseen')")
    watch.visit(EVERYTHING)
    other.execute("TRUNCATE t")
    other.commit()
    assert watch.visit(EVERYTHING).truncations == {T: (0,)}
    watch.assert_complete()


def test_a_quiet_source_is_visited_without_writing(lab: Lab) -> None:
    """Where nothing happens, visits use up no transaction ids and write no log, and still answer."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.execute("INSERT INTO t VALUES (9, 'nine')")
    watch.visit()
    watch.visit()
    ask = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text, pg_current_wal_insert_lsn()::text"
    before = lab.query(ask)
    for _ in range(5):
        assert watch.visit(EVERYTHING).transactions == ()
    assert lab.query(ask) == before


def test_a_large_transaction_arrives_whole(lab: Lab) -> None:
    """Thirty thousand rows in one transaction are one delivery."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.execute("INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1000, 31000) i")
    visit = watch.visit()
    assert len(visit.transactions) == 1
    assert len(changes(visit, "t")) == 30001
    watch.assert_complete()


def test_cascades_and_merges_of_writers(lab: Lab) -> None:
    """ON CONFLICT, foreign-key cascades and COPY are captured like everything else."""
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    lab.execute(
        "CREATE TABLE u (id int REFERENCES t ON DELETE CASCADE, n int)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')"
    )
    lab.execute("INSERT INTO u VALUES (1, 1), (1, 2), (2, 3)")
    lab.capture("t", "u")
    watch = lab.watch(t=("id", "name"), u=("id", "n"))
    lab.execute("INSERT INTO t VALUES (1, 'x'), (3, 'c') ON CONFLICT (id) DO UPDATE SET name = excluded.name")
    lab.execute("DELETE FROM t WHERE id = 1")
    with lab.admin.cursor().copy("COPY u FROM STDIN") as copy:
        copy.write("2\t9\n3\t\\N\n")
    watch.visit(EVERYTHING)
    watch.assert_complete()


def test_a_lost_visit_comes_again(lab: Lab) -> None:
    """Without acknowledgement and after a restart of Weir, what was not committed is delivered again, once."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.execute("INSERT INTO t VALUES (3, 'x')")
    lost = watch.source.visit()
    assert len(lost.transactions) == 1
    watch.resume()
    assert len(watch.visit(EVERYTHING).transactions) == 1
    watch.source.acknowledge(watch.position)
    watch.resume()
    assert watch.visit(EVERYTHING).transactions == ()


@pytest.mark.parametrize("hold", [False, True])
def test_a_failed_visit_takes_nothing_with_it(lab: Lab, hold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a visit that failed half-way, the next one delivers everything that the failed one had seen."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.execute("INSERT INTO t VALUES (3, 'x')")

    def fail(*_: Any) -> Any:
        raise SourceError("half-way")

    with monkeypatch.context() as patch:
        patch.setattr(watch.source, "_log_after", fail)
        with pytest.raises(SourceError, match="half-way"):
            watch.source.visit(hold)
    assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [3]
    with pytest.raises(SourceError, match="not watched"):
        ask(watch.source, [Lookup(Relation("pg", "nowhere"), ("id",))])


def test_a_dropped_connection_is_made_again(lab: Lab) -> None:
    """All our connections are cut; the next visit goes on as if nothing had happened."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.execute("INSERT INTO t VALUES (3, 'x')")
    watch.visit()
    lab.execute("INSERT INTO t VALUES (4, 'y')")
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'weir' AND datname = '{}'"
    assert len(lab.query(cut.format(lab.database))) >= 1
    assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [4]
    watch.assert_complete()


def test_a_table_locked_for_long_is_an_error_that_loses_nothing(lab: Lab) -> None:
    """A TRUNCATE in an open transaction makes a visit wait, then fail with the reason; later all is delivered."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    watch.source.close()
    watch.source = lab.open(lock_timeout=0.3)
    watch.source.watch(watch.columns)
    watch.source.resume(watch.position)
    blocker = lab.connect(autocommit=False)
    blocker.execute("TRUNCATE t")
    with pytest.raises(SourceError, match="locked exclusively"):
        watch.source.visit()
    blocker.commit()
    watch.visit(EVERYTHING)
    watch.assert_complete()


# -- held snapshots ---------------------------------------------------------------------------------------------------


def _answer_elsewhere(token: bytes, results: Any) -> None:
    reader = pickle.loads(token).reader()
    (answer,) = reader.answer([EVERYTHING])
    reader.close()
    results.put(answer.to_pydict())


def test_a_held_snapshot_is_read_from_another_process(lab: Lab) -> None:
    """Tasks elsewhere answer lookups in the visit's own snapshot, while writers go on, until it is released."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    visit = watch.source.visit(hold=True)
    lab.execute("INSERT INTO t VALUES (3, 'later')")
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    held = held_by(visit)
    arguments = (pickle.dumps(held.token), results)
    process = context.Process(target=_answer_elsewhere, args=arguments)
    process.start()
    process.join(300)
    assert results.get() == {"id": [1, 2], "name": ["one", None]}
    assert [row[0] for row in changes(watch.visit(), "t")] == [3]
    reader = held.token.reader()
    assert reader.answer([EVERYTHING])[0].num_rows == 2
    reader.close()
    held.release()
    with pytest.raises(SourceError, match="snapshot is gone"):
        held.token.reader()
    watch.visit(EVERYTHING)


# -- shapes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE t ADD extra int DEFAULT 7", "VACUUM FULL t", "ALTER TABLE t ALTER name SET DEFAULT 'd'"],
)
def test_a_harmless_change_of_shape_goes_on(lab: Lab, statement: str) -> None:
    """Columns that no view needs may come and go, and files may be rewritten."""
    lab.execute("CREATE TABLE t (spare int, id int PRIMARY KEY, name text)", "INSERT INTO t VALUES (0, 1, 'one')")
    lab.capture("t")
    watch = lab.watch(t=("id", "name"))
    lab.execute("INSERT INTO t (id, name) VALUES (2, 'two')", statement, "INSERT INTO t (id, name) VALUES (3, 'three')")
    assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [2, 3]
    watch.assert_complete()


def test_a_column_that_nobody_needs_may_be_dropped(replication_lab: Lab) -> None:
    """The stream's rows get narrower in between; columns are found by name. (A trigger log holds every column.)"""
    replication_lab.execute("CREATE TABLE t (spare int, id int PRIMARY KEY, name text)")
    replication_lab.capture("t")
    watch = replication_lab.watch(t=("id", "name"))
    insert = "INSERT INTO t (id, name) VALUES ({0}, '{0}')"
    replication_lab.execute(insert.format(1), "ALTER TABLE t DROP spare", insert.format(2))
    assert [row[:2] for row in changes(watch.visit(EVERYTHING), "t")] == [(1, "1"), (2, "2")]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("ALTER TABLE t DROP name", "t.name was dropped or renamed"),
        ("ALTER TABLE t RENAME name TO title", "t.name was dropped or renamed"),
        ("ALTER TABLE t ALTER name TYPE varchar(50)", "t.name now has the type character varying"),
        ("ALTER TABLE t ALTER name TYPE text USING name || '!'", "t.name was altered and the table rewritten"),
        ("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, name text); GRANT SELECT ON t TO {}", "pg.t was dropped"),
        ("DROP TABLE t", "dropped or renamed"),
        ("ALTER TABLE t RENAME TO other", "dropped or renamed"),
    ],
)
def test_a_change_of_shape_stops_before_a_wrong_row(lab: Lab, statement: str, problem: str) -> None:
    """A needed column that changed stops the source by name, again and again, and also after a restart."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.execute("INSERT INTO t VALUES (3, 'three')", statement.format(lab.role))
    for _ in range(2):
        with pytest.raises(SchemaChanged, match=problem):
            watch.source.visit(hold=True)


def test_a_rewrite_while_weir_was_down_is_noticed(lab: Lab) -> None:
    """The position knows the shape: an alteration between two runs does not slip through."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    watch.source.close()
    lab.execute("ALTER TABLE t ALTER name TYPE text USING upper(name)")
    watch.source = lab.open()
    watch.source.watch(watch.columns)
    watch.source.resume(watch.position)
    with pytest.raises(SchemaChanged, match="rewritten"):
        watch.source.visit()


# -- global transactions ----------------------------------------------------------------------------------------------


def test_a_marker_row_names_the_global_transaction(lab: Lab) -> None:
    """A row in weir_global_transaction makes its transaction part of the whole it names; the next one is not."""
    simple(lab)
    lab.execute("CREATE TABLE weir_global_transaction (id text, sources text[])")
    if lab.kind == "postgres":
        lab.execute("DROP PUBLICATION weir")
    lab.capture("t", "weir_global_transaction")
    watch = lab.watch(t=("id", "name"))
    marker = "INSERT INTO weir_global_transaction VALUES ('order-7', '{pg,\"other one\"}')"
    lab.execute(f"BEGIN; {marker}; INSERT INTO t VALUES (3, 'x'); COMMIT", "INSERT INTO t VALUES (4, 'y')")
    first, second = watch.visit().transactions
    assert first.part_of == GlobalTransaction("order-7", frozenset({"pg", "other one"}))
    assert second.part_of is None


def test_a_logged_message_names_the_global_transaction(replication_lab: Lab) -> None:
    """pg_logical_emit_message does the same without a table; other messages are nobody's business."""
    simple(replication_lab)
    watch = replication_lab.watch(t=("id", "name"))
    emit = "SELECT pg_logical_emit_message({}, '{}', '{}')"
    mark = emit.format("true", "weir.global", '{"id": "g1", "sources": ["pg", "b"]}')
    replication_lab.execute(
        emit.format("true", "someone", "else"),
        emit.format("false", "weir.global", "not transactional"),
        f"BEGIN; {mark}; INSERT INTO t VALUES (3, 'x'); COMMIT",
    )
    (transaction,) = watch.visit().transactions
    assert transaction.part_of == GlobalTransaction("g1", frozenset({"pg", "b"}))


def test_an_unreadable_mark_stops_the_source_by_name(replication_lab: Lab) -> None:
    """A broken mark is not taken for a local transaction."""
    simple(replication_lab)
    watch = replication_lab.watch(t=("id", "name"))
    replication_lab.execute("SELECT pg_logical_emit_message(true, 'weir.global', 'nonsense')")
    with pytest.raises(SourceError, match=r"part of a global one, but not readably: b'nonsense'"):
        watch.source.visit()


def test_visit_needs_a_beginning(lab: Lab) -> None:
    """A visit before load or resume has no state to start from."""
    simple(lab)
    source = lab.open()
    source.watch({T: ("id",)})
    with pytest.raises(SourceError, match="call load or resume"):
        source.visit()


def test_lookups_see_exactly_the_delivered_state(lab: Lab) -> None:
    """A lookup by key, in the same snapshot as the changes."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.execute("INSERT INTO t VALUES (3, 'x')")
    keys = MemoryBag.of(Schema.parse("id int"), [(1,), (3,), (8,)])
    watch.visit(Lookup(T, ("name", "id"), ("id",), keys))
    assert isinstance(watch.answers[0], pa.Table)
    assert sorted(watch.answers[0].to_pydict()["id"]) == [1, 3]


def test_inheriting_tables_are_their_own(lab: Lab) -> None:
    """A parent is refused; a child has its own rows, in answers and in changes, also those made through the parent."""
    simple(lab)
    lab.execute("CREATE TABLE child () INHERITS (t)", "INSERT INTO child VALUES (50, 'child'), (51, 'child')")
    lab.capture("child")
    with pytest.raises(SourceError, match=r"pg\.t cannot be read by a view: it has child tables \(child\)"):
        lab.watch(t=("id", "name"))
    watch = lab.watch(child=("id", "name"))
    lab.execute("UPDATE t SET name = 'all'", "DELETE FROM t WHERE id = 51", "INSERT INTO t VALUES (70, 'mine')")
    child = Relation("pg", "child")
    watch.visit(Lookup(child, ("id", "name")))
    assert sorted(watch.replay.rows(child)) == [(50, "all")]


def test_row_security_is_refused_rather_than_silently_obeyed(lab: Lab) -> None:
    """A policy that would hide rows from lookups is an error, since the log knows no policy."""
    simple(lab)
    lab.execute("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "CREATE POLICY few ON t USING (id < 2)")
    source = lab.open()
    source.watch({T: ("id",)})
    load = source.load().held
    with pytest.raises(SourceError, match=r"row-level security|row security"):
        list(load.read(load.parts()[0]))
    load.release()


def test_the_driver_is_the_one_that_was_measured() -> None:
    """The streaming code uses libpq through psycopg's C speed-ups; the pure Python driver would be far slower."""
    assert psycopg.pq.__impl__ in ("binary", "c")


def test_a_truncate_that_waits_for_a_held_snapshot_does_not_hang_its_readers(lab: Lab) -> None:
    """A reader that comes after the TRUNCATE queues behind it; it gives up in time, and says why."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    watch.source.close()
    watch.source = lab.open(lock_timeout=0.5)
    watch.source.watch(watch.columns)
    watch.source.resume(watch.position)
    held = held_by(watch.source.visit(hold=True))
    truncating = lab.connect()
    thread = threading.Thread(target=truncating.execute, args=("TRUNCATE t",))
    thread.start()
    while lab.query("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted") == [(0,)]:
        time.sleep(0.02)
    reader = held.token.reader()
    with pytest.raises(SourceError, match="locked exclusively"):
        reader.answer([EVERYTHING])
    reader.close()
    held.release()
    thread.join()
    watch.visit(EVERYTHING)
    watch.assert_complete()


def test_a_visit_is_never_part_of_a_deadlock(lab: Lab) -> None:
    """Two tables truncated in the other order, for a while: neither the writer nor the visits fail."""
    simple(lab)
    lab.execute("CREATE TABLE u (id int)")
    if lab.kind == "postgres":
        lab.execute("DROP PUBLICATION weir")
    lab.capture("t", "u")
    watch = lab.watch(t=("id", "name"), u=("id",))
    problems: list[Exception] = []
    stop = threading.Event()

    def truncate() -> None:
        connection = lab.server.connect(lab.database)
        try:
            while not stop.is_set():
                connection.execute("BEGIN; TRUNCATE u; SELECT pg_sleep(0.01); TRUNCATE t; COMMIT")
                connection.execute("INSERT INTO u VALUES (1); INSERT INTO t VALUES (1, 'x')")
        except psycopg.Error as problem:
            problems.append(problem)

    thread = threading.Thread(target=truncate)
    thread.start()
    try:
        for _ in range(60):
            watch.visit(EVERYTHING, Lookup(Relation("pg", "u"), ("id",)))
    finally:
        stop.set()
        thread.join()
    assert problems == []
