"""First loads: no gap and no overlap with the changes, read in parts, from any process."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

from tests.sources.postgres.conftest import Lab, wait_for
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.proving.oracle import Replay, ask
from weir.sources.postgres import reader
from weir.sources.postgres.reader import SnapshotToken
from weir.sources.source import Partition, SourceError

T = Relation("pg", "t")


def _write(lab: Lab, stop: threading.Event, number: int) -> None:
    """Transactions without pause, some of them slow to commit."""
    connection = lab.server.connect(lab.database, autocommit=False)
    key = number * 1_000_000
    while not stop.is_set():
        key += 1
        connection.execute("INSERT INTO t VALUES (%s, 'new')", (key,))
        connection.execute("UPDATE t SET name = %s WHERE id = %s", (f"n{key}", key - 3))
        connection.execute("DELETE FROM t WHERE id = %s", (key - 6,))
        connection.commit()
    connection.close()


def test_load_plus_changes_is_the_table_many_times(lab: Lab) -> None:
    """Loaded twenty times under three writers (each time with a new slot), every answer equals the replay."""
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    lab.capture("t")
    stop = threading.Event()
    writers = [threading.Thread(target=_write, args=(lab, stop, number)) for number in range(1, 4)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(20):
            _load_and_follow(lab)
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_a_commit_that_is_in_the_log_but_not_yet_visible_is_not_lost(replication_lab: Lab) -> None:
    """The gap between slot and snapshot, staged: a commit record older than the slot, visible after the snapshot.

    Slot creation waits in two phases. A transaction that begins in the second and commits before its end is neither
    waited for nor sent; held back from becoming visible (its standby does not answer), it is not in a snapshot
    taken at once either. The load must wait for it.
    """
    lab = replication_lab
    lab.execute("CREATE TABLE t (id int, name text)")
    lab.capture("t")
    source = lab.open()
    source.watch({T: ("id", "name")})
    replay = Replay({T: ("id", "name")})
    lab.stall_commits()
    loading = threading.Thread(target=replay.load, args=(source,))
    first, second, stalled = lab.connect(False), lab.connect(False), lab.connect()
    committing = threading.Thread(target=stalled.execute, args=("INSERT INTO t VALUES (1, 'late')",))
    try:
        first.execute("SELECT pg_current_xact_id()")
        loading.start()
        _await(lab, "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted")
        xid = second.execute("SELECT pg_current_xact_id()::text").fetchone()
        first.rollback()
        _await(lab, f"SELECT count(*) FROM pg_locks WHERE transactionid::text = '{xid and xid[0]}' AND NOT granted")
        committing.start()
        _await(lab, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        second.rollback()
        loading.join(2)
    finally:
        lab.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        committing.join()
        loading.join()
    assert replay.apply(source.visit()) == []
    assert replay.rows(T) == [(1, "late")]


def _await(lab: Lab, count: str) -> None:
    wait_for(lambda: lab.query(count) != [(0,)])


def _load_and_follow(lab: Lab) -> None:
    watch = lab.watch(t=("id", "name"))
    for _ in range(4):
        watch.visit(Lookup(T, ("id", "name")))
    watch.source.close()
    if lab.kind == "postgres":
        lab.drop_slot()


def _read_elsewhere(token: SnapshotToken, partitions: list[Partition], results: Any) -> None:
    with closing(token.reader()) as entered:
        rows = [row for p in partitions for batch in entered.read(p) for row in batch.to_pylist()]
    results.put([tuple(row.values()) for row in rows])


def test_the_parts_of_a_load_are_read_in_other_processes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many parts of one snapshot, read by two processes while the table changes, are the table once."""
    monkeypatch.setattr(reader, "PAGES_PER_PART", 3)
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    lab.execute("INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 5000) i")
    lab.capture("t")
    source = lab.open()
    source.watch({T: ("name", "id")})
    expected = Counter(lab.query("SELECT name, id FROM t"))
    load = source.load().held
    parts = load.parts()
    assert len(parts) > 5
    lab.execute("DELETE FROM t WHERE id % 2 = 0", "UPDATE t SET name = 'x'", "INSERT INTO t VALUES (0, 'new')")
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    halves = (list(parts[::2]), list(parts[1::2]))
    processes = [context.Process(target=_read_elsewhere, args=(load.token, half, results)) for half in halves]
    for process in processes:
        process.start()
    rows = [row for _ in processes for row in results.get(timeout=300)]
    for process in processes:
        process.join()
    assert Counter(rows) == expected
    token = load.token
    load.release()
    with pytest.raises(SourceError, match="snapshot is gone"):
        token.reader()
    with pytest.raises(SourceError, match="snapshot was released"):
        next(load.read(parts[0]))


def test_large_parts_come_in_several_batches(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is streamed, not gathered; no row is cut in two."""
    monkeypatch.setattr(reader, "BATCH_BYTES", 10_000)
    lab.execute("CREATE TABLE t (id int, name text)")
    lab.execute("INSERT INTO t SELECT i, E'a\\nb\"c,' || i FROM generate_series(1, 3000) i")
    lab.capture("t")
    source = lab.open()
    source.watch({T: ("id", "name")})
    load = source.load().held
    batches = [batch for part in load.parts() for batch in load.read(part)]
    assert len(batches) > 3
    assert sorted(value for batch in batches for value in batch["id"].to_pylist()) == list(range(1, 3001))
    assert {batch["name"][0].as_py() for batch in batches} <= {f'a\nb"c,{i}' for i in range(1, 3001)}
    load.release()


def test_a_load_waits_for_older_transactions_and_says_so(replication_lab: Lab) -> None:
    """A transaction that was open when the slot was made must end first; one that does not is named in time."""
    lab = replication_lab
    lab.execute("CREATE TABLE t (id int, name text)")
    lab.capture("t")
    slow = lab.connect(autocommit=False)
    slow.execute("INSERT INTO t VALUES (1, 'slow')")
    source = lab.open(load_timeout=0.5)
    source.watch({T: ("id",)})
    with pytest.raises(SourceError, match=r"has been open for more than 0\.5 s"):
        source.load()
    slow.commit()
    source = lab.open()
    source.watch({T: ("id",)})
    replay = Replay({T: ("id",)})
    replay.load(source)
    assert replay.rows(T) == [(1,)]


def test_an_empty_table_is_loaded(lab: Lab) -> None:
    """No rows are one part without rows."""
    lab.execute("CREATE TABLE t (id int, name text)")
    lab.capture("t")
    watch = lab.watch(t=("id", "name"))
    assert [rows.num_rows for rows in ask(watch.source, [Lookup(T, ("id", "name"))])[1]] == [0]
    watch.assert_complete()
