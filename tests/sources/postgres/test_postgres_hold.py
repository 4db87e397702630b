"""Held snapshots in this process and in others, and views at different positions of one log."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.sources.connections import open_connections
from tests.sources.postgres.conftest import Lab, wait_for
from tests.sources.rounds import (
    Content,
    check_begins_with_next_visit,
    check_connections,
    check_held,
    check_lost,
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
from weir.proving.oracle import Replay
from weir.sources.postgres.base import PostgresBase
from weir.sources.postgres.held import HeldPostgresSnapshot
from weir.sources.postgres.position import PostgresPosition
from weir.sources.postgres.reader import SnapshotToken
from weir.sources.source import HeldSnapshot, LoadAgain, SourceError

T, U = Relation("pg", "t"), Relation("pg", "u")
COLUMNS = {T: ("id", "name"), U: ("c",)}


def make(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, name text)", "CREATE TABLE u (c int)")
    lab.execute("INSERT INTO t VALUES (1, 'one'), (2, NULL)", "INSERT INTO u VALUES (1), (1)")
    lab.capture("t", "u")


def reopen(lab: Lab) -> PostgresBase:
    source = lab.open()
    source.watch(COLUMNS)
    return source


def loaded(lab: Lab) -> tuple[PostgresBase, Replay]:
    source, replay = reopen(lab), Replay(COLUMNS)
    replay.load(source)
    return source, replay


def test_a_held_snapshot_stays(lab: Lab) -> None:
    """Lookups and whole tables in it are what was delivered, whatever is written meanwhile; what was written comes
    with the next visit. So it is with several, and without the source.
    """
    make(lab)
    source, replay = loaded(lab)
    keys = Lookup(T, ("id", "name"), ("id",), MemoryBag.of(Schema.parse("id int"), [(1,), (3,)]))
    lab.execute("INSERT INTO t VALUES (3, 'three')")
    write = ("DELETE FROM t WHERE id < 3", "INSERT INTO u VALUES (7)", "UPDATE u SET c = c + 1 WHERE c > 1")
    first, second = check_held(source, replay, lambda: lab.execute(*write), [keys])
    assert (len(first.transactions), len(second.transactions)) == (1, 3)
    assert sorted(replay.rows(U)) == [(1,), (8,), (9,), (10,), (11,)]
    assert replay.rows(T) == [(3, "three")]


def test_connections_are_used_again_and_closed(lab: Lab) -> None:
    """The stream is not begun anew either, for however many snapshots."""
    make(lab)
    source = reopen(lab)
    source.load().held.release()
    senders = "SELECT active_pid FROM pg_replication_slots WHERE database = current_database()"
    before = lab.query(senders)
    streams = []

    def write() -> None:
        lab.execute("UPDATE u SET c = c + 1")
        streams.append(lab.query(senders))

    check_connections(source, write, lambda: open_connections(lab.made), most=6, idle=9)
    assert streams == [before] * len(streams)


def test_a_held_snapshot_whose_connection_is_cut(lab: Lab) -> None:
    """is lost, and says so; another one stays, and the next visit is as good as any."""
    make(lab)
    source, replay = loaded(lab)

    def cut(held: HeldSnapshot) -> None:
        assert isinstance(held, HeldPostgresSnapshot)
        pid = held._connection.info.backend_pid
        lab.execute(f"SELECT pg_terminate_backend({pid})", "INSERT INTO t VALUES (3, 'three')")
        wait_for(lambda: pid not in backends(lab))
        lab.execute("DELETE FROM t WHERE id = 3")

    check_lost(source, replay, cut, "the held snapshot was lost with its connection")


def test_another_server_is_noticed_by_a_further_connection(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A visit whose source's connections are all held makes one more: nothing is delivered from another server."""
    make(lab)
    source, _ = loaded(lab)
    source.visit()
    held = [held_by(source.visit(hold=True)) for _ in range(3)]
    position = source._position
    assert position is not None
    monkeypatch.setattr(source, "_position", replace(position, server="1/2"))
    with pytest.raises(LoadAgain, match="restored from a backup, or another server"):
        source.visit()
    for one in held:
        one.release()


def test_rounds_need_no_new_connections(lab: Lab) -> None:
    """Visit, hold, read, release, many times over: always the same few."""
    make(lab)
    source, _ = loaded(lab)
    assert len({pid for _ in range(10) for pid in _round(lab, source)}) <= 4


def _round(lab: Lab, source: PostgresBase) -> set[int]:
    lab.execute("UPDATE u SET c = c + 1")
    held = held_by(source.visit(hold=True))
    content_of(held)
    found = backends(lab)
    held.release()
    return found


def backends(lab: Lab) -> set[int]:
    rows = lab.query(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'weir'"
        " AND backend_type = 'client backend'"
    )
    return {pid for (pid,) in rows}


def test_a_held_snapshot_is_asked_from_another_thread(lab: Lab) -> None:
    """One thread at a time, whichever."""
    make(lab)
    source, _ = loaded(lab)
    held = held_by(source.visit(hold=True))
    assert elsewhere(lambda: held.look(whole({U: ("c",)})))[0].num_rows == 2
    elsewhere(held.release)


# -- other processes -------------------------------------------------------------------------------------------------


def answer_tokens(tokens: Any, results: Any) -> None:
    """A worker: reads the snapshots of its tokens one after the other, two readers at a time."""
    while (token := tokens.get()) is not None:
        readers = [pickle.loads(token).reader() for _ in range(2)]
        found = [reader.answer(whole(COLUMNS))[0].to_pylist() for reader in readers]
        pids = [reader._connection.info.backend_pid for reader in readers]
        for reader in readers:
            reader.close()
        results.put((found, pids))


def test_worker_processes_read_held_snapshots_over_lasting_connections(lab: Lab) -> None:
    """Every answer is the held snapshot's while writers go on, and each worker needs two connections for all."""
    make(lab)
    source, replay = loaded(lab)
    context = multiprocessing.get_context("spawn")
    tokens, results = [context.SimpleQueue() for _ in range(2)], context.SimpleQueue()
    workers = [context.Process(target=answer_tokens, args=(queue, results), daemon=True) for queue in tokens]
    for worker in workers:
        worker.start()
    pids: Counter[int] = Counter()
    for number in range(10, 15):
        lab.execute(f"INSERT INTO t VALUES ({number}, 'x')")
        visit = source.visit(hold=True)
        assert replay.apply(visit) == []
        lab.execute("UPDATE t SET name = name || 'y'")
        for queue in tokens:
            queue.put(pickle.dumps(held_by(visit).token))
        expected = sorted(replay.rows(T))
        for found, used in (results.get() for _ in workers):
            assert [sorted((row["id"], row["name"]) for row in rows) for rows in found] == [expected, expected]
            pids.update(used)
        held_by(visit).release()
    assert sorted(pids.values()) == [5, 5, 5, 5]
    for queue, worker in zip(tokens, workers, strict=True):
        queue.put(None)
        worker.join()


def test_a_broken_connection_is_replaced_once(lab: Lab) -> None:
    """One that was cut while it waited does not cost a task its answer; one that is cut while it reads does."""
    make(lab)
    source, replay = loaded(lab)
    held = held_by(source.visit(hold=True))
    token = held.token
    token.reader().close()
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = {}"
    reader = token.reader()
    pid = reader._connection.info.backend_pid
    reader.close()
    lab.execute(cut.format(pid))
    wait_for(lambda: pid not in backends(lab))
    reader = token.reader()
    assert reader._connection.info.backend_pid != pid
    assert replay.compare(reader.answer(whole(COLUMNS)), whole(COLUMNS)) == []
    lab.execute(cut.format(reader._connection.info.backend_pid))
    with pytest.raises(SourceError):
        reader.answer(whole(COLUMNS))
    reader.close()
    held.release()
    with pytest.raises(SourceError, match="snapshot is gone"):
        token.reader()
    with pytest.raises(SourceError, match="closed"):
        reader.answer([])


def test_a_forked_process_makes_connections_of_its_own(lab: Lab) -> None:
    """Sockets that a fork inherits are its parent's."""
    make(lab)
    source, replay = loaded(lab)
    held = held_by(source.visit(hold=True))
    token: SnapshotToken = held.token
    token.reader().close()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        rows = token.reader().answer(whole(COLUMNS))[0].num_rows
        os.write(writing, bytes([rows]))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1) == bytes([2])
    assert replay.compare(token.reader().answer(whole(COLUMNS)), whole(COLUMNS)) == []
    held.release()


# -- two positions ---------------------------------------------------------------------------------------------------


def test_a_view_that_is_ahead_skips_what_it_has(lab: Lab) -> None:
    """Also a transaction that was open at both positions, one that was open at the first only, and one that was
    prepared before both.
    """
    make(lab)
    source, _ = loaded(lab)
    slow, slower, prepared = (lab.connect(autocommit=False) for _ in range(3))
    slow.execute("INSERT INTO t VALUES (10, 'slow')")
    slower.execute("INSERT INTO t VALUES (20, 'slower')")
    prepared.execute("INSERT INTO t VALUES (30, 'prepared')")
    prepared.execute(f"PREPARE TRANSACTION '{lab.database}'")
    lab.execute("INSERT INTO t VALUES (3, 'three')")
    first = source.visit().position
    lab.execute("DELETE FROM t WHERE id = 1", "BEGIN; INSERT INTO u VALUES (2); UPDATE t SET name = 'x'; COMMIT")
    slow.commit()
    second = source.visit().position
    source.close()
    lab.execute(f"COMMIT PREPARED '{lab.database}'", "INSERT INTO u VALUES (3)")
    slower.commit()
    between: Content = {
        T: Counter({(1, "one"): -1, (2, None): -1, (2, "x"): 1, (3, "three"): -1, (3, "x"): 1, (10, "slow"): 1}),
        U: Counter({(2,): 1}),
    }
    assert len(check_redelivery(lambda: reopen(lab), first, second, between)) == 6


def test_a_table_that_a_later_view_brought_begins_there(lab: Lab) -> None:
    """It was made, captured, written to and altered after the older position: none of that stops the source, and what
    comes after the position of its load is delivered.
    """
    make(lab)
    old = lab.open()
    old.watch({T: COLUMNS[T]})
    first = loaded_position(old)
    old.close()
    lab.execute("CREATE TABLE v (d int)", "INSERT INTO t VALUES (3, 'three')")
    _capture_also(lab, "v")
    lab.execute("INSERT INTO v VALUES (1)", "TRUNCATE v")
    if lab.kind == "postgres":
        lab.execute("ALTER TABLE v ADD e text, ALTER d TYPE bigint")
    else:
        lab.execute("ALTER TABLE v ADD e text")
        _capture_also(lab, "v")
    both = lab.open()
    v = Relation("pg", "v")
    both.watch({T: COLUMNS[T], v: ("d", "e")})
    second = loaded_position(both)
    lab.execute("INSERT INTO v VALUES (4, 'z')")
    both.resume(first, [second])
    delivered = deliver(both)
    behind = [effect[2] for transaction, effect in delivered if both.holds(second, transaction)]
    ahead = [effect[2] for transaction, effect in delivered if not both.holds(second, transaction)]
    assert behind == [{T: Counter({(3, "three"): 1})}]
    assert ahead == [{v: Counter({(4, "z"): 1})}]


def test_a_table_that_no_position_covers_begins_with_the_next_visit(lab: Lab) -> None:
    """Also where a transaction that wrote to it before it was published is still open: that one is waited for."""
    make(lab)
    old = lab.open()
    old.watch({T: COLUMNS[T]})
    position = loaded_position(old)
    old.close()
    lab.execute("CREATE TABLE v (d int)", "INSERT INTO t VALUES (3, 'three')")
    v = Relation("pg", "v")
    slow = lab.connect(autocommit=False)
    if lab.kind == "postgres":
        lab.execute(f"GRANT SELECT ON v TO {lab.role}", "ALTER TABLE v REPLICA IDENTITY FULL")
        slow.execute("INSERT INTO v VALUES (100)")
        lab.execute("ALTER PUBLICATION weir ADD TABLE v")
    else:
        lab.capture("v")
    ending = threading.Timer(0.5, slow.commit)
    ending.start()

    def open_both() -> PostgresBase:
        both = lab.open()
        both.watch({T: COLUMNS[T], v: ("d",)})
        return both

    numbers = iter(range(1, 9))
    check_begins_with_next_visit(open_both, position, v, lambda: lab.execute(f"INSERT INTO v VALUES ({next(numbers)})"))
    ending.join()


def test_the_next_visit_of_a_quiet_database_is_a_beginning_too(lab: Lab) -> None:
    """Nothing at all happens between position and visit: the new table still begins there."""
    make(lab)
    old = lab.open()
    old.watch({T: COLUMNS[T]})
    old.load().held.release()
    position = old.visit().position
    old.close()
    for _ in range(2):
        both = reopen(lab)
        both.resume(position)
        visits = [both.visit(hold=True)]
        held_by(visits[0]).release()
        visits.append(both.visit())
        assert [visit.transactions for visit in visits] == [(), ()]
        lab.execute("INSERT INTO u VALUES (5)")
        assert U in both.visit().changes
        both.close()
        both = reopen(lab)
        both.resume(visits[0].position)
        assert U in both.visit().changes
        both.close()


def _capture_also(lab: Lab, table: str) -> None:
    if lab.kind == "postgres":
        lab.execute(f"GRANT SELECT ON {table} TO {lab.role}", f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        lab.execute(f"ALTER PUBLICATION weir ADD TABLE {table}")
    else:
        lab.capture(table)


# -- idle --------------------------------------------------------------------------------------------------------------


def test_a_slot_moves_on_while_nothing_watched_changes(replication_lab: Lab) -> None:
    """Acknowledging the position of an idle visit lets the server forget log that is none of ours."""
    lab = replication_lab
    make(lab)
    lab.execute("CREATE TABLE unwatched (x int)")
    source, _ = loaded(lab)
    where = f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{lab.database}'"
    for _ in range(2):
        lab.execute("INSERT INTO unwatched SELECT generate_series(1, 1000)")
        ((written,),) = lab.query("SELECT pg_current_wal_flush_lsn() - '0/0'")
        visit = source.visit(hold=True)
        held_by(visit).release()
        assert visit.transactions == ()
        assert PostgresPosition.parse(visit.position, "pg").bound >= written
        source.acknowledge(visit.position)
        wait_for(lambda: lab.query(where)[0][0] >= written)  # noqa: B023
    source.close()


def test_a_slot_moves_on_past_log_without_transactions(replication_lab: Lab) -> None:
    """Checkpoints and switched files, say: the visits see nothing new, and the server tells how far it has read."""
    lab = replication_lab
    make(lab)
    source, _ = loaded(lab)
    source.visit()
    lab.execute("SELECT pg_switch_wal()", "CHECKPOINT")
    ((written,),) = lab.query("SELECT pg_current_wal_flush_lsn() - '0/0'")
    where = f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{lab.database}'"

    def moved() -> bool:
        source.acknowledge(source.visit().position)
        return bool(lab.query(where)[0][0] >= written - 1024)

    wait_for(moved)
    source.close()
