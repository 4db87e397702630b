"""Crashes, lost logs, other servers: resumed exactly, or refused with "load again"; never a silent gap."""

from __future__ import annotations

import threading
import time

import pytest

from tests.sources.postgres.conftest import Lab, changes, wait_for
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.proving.databases import Servers
from weir.sources.postgres import stream
from weir.sources.postgres.position import PostgresPosition
from weir.sources.postgres.trigger_log import install_triggers, remove_triggers
from weir.sources.source import LoadAgain, SchemaChanged, SourceError

T = Relation("pg", "t")
EVERYTHING = Lookup(T, ("id", "name"))


def simple(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, name text)", "INSERT INTO t VALUES (1, 'one')")
    lab.capture("t")


def test_a_crash_of_the_server_is_survived(lab: Lab) -> None:
    """kill -9 and restart: what was delivered does not come again, what was not comes; visits go on by themselves."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.execute("INSERT INTO t VALUES (2, 'two')")
    watch.visit(EVERYTHING)
    lab.execute("INSERT INTO t VALUES (3, 'three')")
    lab.server.kill()
    with pytest.raises(SourceError, match="cannot connect"):
        watch.source.visit()
    lab.server.start()
    lab.admin = lab.server.connect(lab.database)
    assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [3]
    watch.resume()
    assert watch.visit(EVERYTHING).transactions == ()
    watch.assert_complete()


def test_nothing_is_delivered_that_a_crash_could_take_back(lab: Lab) -> None:
    """A commit without synchronous_commit is visible before it is on disk; once delivered, it survives kill -9."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    loose = lab.connect()
    loose.execute("SET synchronous_commit = off")
    for number in range(100, 110):
        loose.execute("INSERT INTO t VALUES (%s, 'async')", (number,))
        watch.visit(EVERYTHING)
    lab.server.kill()
    lab.server.start()
    lab.admin = lab.server.connect(lab.database)
    watch.resume()
    watch.visit(EVERYTHING)
    watch.assert_complete()


def test_acknowledging_lets_the_slot_go_forward(replication_lab: Lab) -> None:
    """The slot moves with acknowledged positions, and only with them."""
    simple(replication_lab)
    watch = replication_lab.watch(t=("id", "name"))
    where = (
        f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{replication_lab.database}'"
    )
    replication_lab.execute("INSERT INTO t VALUES (2, 'two')")
    before = replication_lab.query(where)[0][0]
    first = watch.visit().position
    replication_lab.execute("INSERT INTO t VALUES (3, 'three')")
    watch.visit()
    time.sleep(0.3)
    assert replication_lab.query(where)[0][0] == before
    watch.source.acknowledge(first)
    bound = PostgresPosition.parse(first, "pg").bound
    wait_for(lambda: replication_lab.query(where)[0][0] != before)
    assert replication_lab.query(where)[0][0] == bound
    watch.resume()
    assert watch.visit(EVERYTHING).transactions == ()


def test_the_slot_never_passes_a_transaction_that_waits(replication_lab: Lab) -> None:
    """A commit that is in the log but not visible yet (its standby does not answer) is held back, and kept.

    A later commit that is visible is delivered before it. The slot is told no more than what lies before the waiting
    one, so after a restart of Weir it comes, once it is visible.
    """
    lab = replication_lab
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    lab.stall_commits()
    stalled = lab.connect()
    committing = threading.Thread(target=stalled.execute, args=("INSERT INTO t VALUES (5, 'stalled')",))
    try:
        committing.start()
        while lab.query("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == [(0,)]:
            time.sleep(0.02)
        lab.execute("INSERT INTO t VALUES (6, 'visible')")
        assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [6]
        watch.source.acknowledge(watch.position)
        watch.resume()
        assert watch.visit(EVERYTHING).transactions == ()
        watch.source.acknowledge(watch.position)
    finally:
        lab.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        committing.join()
    watch.resume()
    assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [5]
    watch.assert_complete()


def test_a_dropped_slot_asks_for_a_load(replication_lab: Lab) -> None:
    """The slot is gone, or made anew under the same name: its log has a gap, and that is said."""
    simple(replication_lab)
    watch = replication_lab.watch(t=("id", "name"))
    watch.source.close()
    create = "SELECT pg_create_logical_replication_slot('{0}', 'pgoutput')"
    replication_lab.drop_slot()
    replication_lab.execute("INSERT INTO t VALUES (7, 'lost')")
    with pytest.raises(LoadAgain, match=r"is gone.*load the views that use this source again"):
        watch.resume()
    replication_lab.execute(create.format(replication_lab.database))
    with pytest.raises(LoadAgain, match="past the position"):
        watch.resume()
    again = replication_lab.watch(t=("id", "name"))
    again.assert_complete()


def test_a_lost_slot_asks_for_a_load(replication_lab: Lab) -> None:
    """The server dropped log that the slot needed (max_slot_wal_keep_size): said, and a load makes a new slot."""
    simple(replication_lab)
    watch = replication_lab.watch(t=("id", "name"))
    watch.source.close()
    replication_lab.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    try:
        for number in range(10, 14):
            replication_lab.execute(f"INSERT INTO t VALUES ({number}, 'x')", "SELECT pg_switch_wal()")
        replication_lab.execute("CHECKPOINT")
        status = f"SELECT wal_status FROM pg_replication_slots WHERE slot_name = '{replication_lab.database}'"
        assert replication_lab.query(status) == [("lost",)]
        with pytest.raises(LoadAgain, match=r"is lost.*max_slot_wal_keep_size.*load the views that use"):
            watch.resume()
        again = replication_lab.watch(t=("id", "name"))
        again.assert_complete()
    finally:
        replication_lab.execute("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")


def test_a_slot_in_use_is_an_error_that_names_the_reader(replication_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes cannot share a slot: the second one says so."""
    monkeypatch.setattr(stream, "SLOT_SECONDS", 0.3)
    simple(replication_lab)
    watch = replication_lab.watch(t=("id", "name"))
    second = replication_lab.open()
    second.watch(watch.columns)
    with pytest.raises(SourceError, match=r"another process reads the slot.*PID \d+"):
        second.resume(watch.position)


def test_a_slot_of_something_else_is_left_alone(replication_lab: Lab) -> None:
    """A slot of another plugin is neither read nor dropped."""
    simple(replication_lab)
    replication_lab.execute(f"SELECT pg_create_logical_replication_slot('{replication_lab.database}', 'test_decoding')")
    with pytest.raises(SourceError, match="belongs to something else"):
        replication_lab.watch(t=("id", "name"))


def test_another_server_asks_for_a_load(lab: Lab) -> None:
    """A position made on another cluster or timeline, or on a later state of this one, is not misread."""
    simple(lab)
    watch = lab.watch(t=("id", "name"))
    position = PostgresPosition.parse(watch.position, "pg")
    source = lab.open()
    source.watch(watch.columns)
    watch.source.close()
    foreign = PostgresPosition(position.snapshot, position.bound, "1/2", position.tables)
    with pytest.raises(LoadAgain, match="another server"):
        source.resume(str(foreign))
    later = PostgresPosition(position.snapshot, position.bound + 2**40, position.server, position.tables)
    with pytest.raises(LoadAgain, match="earlier state"):
        source.resume(str(later))


@pytest.mark.parametrize(
    "statements",
    [
        [
            "ALTER PUBLICATION weir DROP TABLE t",
            "INSERT INTO t VALUES (9, 'unseen')",
            "ALTER PUBLICATION weir ADD TABLE t",
        ],
        [
            "ALTER PUBLICATION weir SET (publish = 'insert')",
            "ALTER PUBLICATION weir SET (publish = 'insert, update, delete, truncate')",
        ],
        ["ALTER TABLE t REPLICA IDENTITY DEFAULT"],
        ["DROP PUBLICATION weir", "CREATE PUBLICATION weir FOR TABLE t"],
    ],
)  # fmt: skip
def test_a_gap_in_the_publication_is_noticed(replication_lab: Lab, statements: list[str]) -> None:
    """Whatever is taken out of the publication and put back may have hidden changes."""
    simple(replication_lab)
    watch = replication_lab.watch(t=("id", "name"))
    replication_lab.execute(*statements)
    with pytest.raises(SchemaChanged, match="publication, replica identity"):
        watch.source.visit()


def test_identity_lost_in_between_is_noticed(replication_lab: Lab) -> None:
    """Old rows that were not logged are never made up, even when FULL is back by the time of the visit."""
    simple(replication_lab)
    watch = replication_lab.watch(t=("id", "name"))
    replication_lab.execute("ALTER TABLE t REPLICA IDENTITY DEFAULT", "UPDATE t SET name = 'x'")
    replication_lab.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    with pytest.raises(LoadAgain, match="REPLICA IDENTITY was not FULL"):
        watch.source.visit()


# -- the trigger log --------------------------------------------------------------------------------------------------


def test_acknowledging_trims_the_trigger_log(trigger_lab: Lab) -> None:
    """Committed rows leave the log, others stay; a position before the trim asks for a load."""
    simple(trigger_lab)
    watch = trigger_lab.watch(t=("id", "name"))
    old = watch.position
    trigger_lab.execute("INSERT INTO t VALUES (2, 'two')")
    watch.visit()
    trigger_lab.execute("INSERT INTO t VALUES (3, 'three')")
    oid = trigger_lab.query("SELECT 't'::regclass::oid::int8")[0][0]
    watch.source.acknowledge(watch.position)
    assert trigger_lab.query(f"SELECT count(*) FROM weir.log_{oid}") == [(1,)]
    assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [3]
    with pytest.raises(LoadAgain, match="trimmed beyond the position"):
        watch.source.resume(old)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t DISABLE TRIGGER weir_log; INSERT INTO t VALUES (9, 'unseen');"
        " ALTER TABLE t ENABLE ALWAYS TRIGGER weir_log",
        "DROP TRIGGER weir_log_truncate ON t",
    ],
)  # fmt: skip
def test_a_trigger_that_was_off_is_noticed(trigger_lab: Lab, statement: str) -> None:
    """A trigger that was disabled for a while may have missed changes, even if it is on again."""
    simple(trigger_lab)
    watch = trigger_lab.watch(t=("id", "name"))
    trigger_lab.execute(statement)
    with pytest.raises(SchemaChanged, match="triggers"):
        watch.source.visit()


def test_replica_sessions_are_logged_too(trigger_lab: Lab) -> None:
    """Tools that write with session_replication_role = replica (and fire no ordinary trigger) are captured."""
    simple(trigger_lab)
    watch = trigger_lab.watch(t=("id", "name"))
    trigger_lab.execute("SET session_replication_role = replica", "INSERT INTO t VALUES (2, 'two')")
    assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [2]


def test_the_trigger_log_can_be_removed_and_made_again(trigger_lab: Lab) -> None:
    """Removing leaves the tables as they were; a position from before does not pass over the gap."""
    simple(trigger_lab)
    watch = trigger_lab.watch(t=("id", "name"))
    remove_triggers(trigger_lab.admin, trigger_lab.options())
    assert trigger_lab.query("SELECT 1 FROM pg_namespace WHERE nspname = 'weir'") == []
    assert trigger_lab.query("SELECT 1 FROM pg_trigger WHERE tgrelid = 't'::regclass") == []
    trigger_lab.execute("INSERT INTO t VALUES (2, 'unseen')")
    install_triggers(trigger_lab.admin, trigger_lab.options(), ["t"], trigger_lab.role)
    with pytest.raises(SchemaChanged, match="triggers"):
        watch.source.visit()
    trigger_lab.watch(t=("id", "name")).assert_complete()


def test_installing_twice_keeps_the_log(trigger_lab: Lab) -> None:
    """A second installation changes nothing that is there."""
    simple(trigger_lab)
    watch = trigger_lab.watch(t=("id", "name"))
    trigger_lab.execute("INSERT INTO t VALUES (2, 'two')")
    install_triggers(trigger_lab.admin, trigger_lab.options(), ["t"], trigger_lab.role)
    assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [2]


def test_the_trigger_log_works_at_any_wal_level() -> None:
    """A server at wal_level = replica, which cannot replicate logically, serves the trigger log."""
    with Servers(settings={"postgres": {"wal_level": "replica"}}) as servers:
        lab = Lab(servers, "postgres-triggers")
        simple(lab)
        watch = lab.watch(t=("id", "name"))
        lab.connect().execute("SET synchronous_commit = off; INSERT INTO t VALUES (2, 'two')")
        assert [row[0] for row in changes(watch.visit(EVERYTHING), "t")] == [2]
        lab.close()


def test_a_publication_made_after_the_slot_is_handled(replication_lab: Lab) -> None:
    """The server cannot decode log from before the publication: a resume asks for a load, and a load mends it."""
    simple(replication_lab)
    watch = replication_lab.watch(t=("id", "name"))
    replication_lab.execute(
        "DROP PUBLICATION weir", "INSERT INTO t VALUES (2, 'two')", "CREATE PUBLICATION weir FOR TABLE t"
    )
    watch.source.close()
    again = replication_lab.watch(t=("id", "name"))
    replication_lab.execute("INSERT INTO t VALUES (3, 'three')")
    again.visit(EVERYTHING)
    again.assert_complete()
