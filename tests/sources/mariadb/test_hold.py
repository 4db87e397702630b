"""Held snapshots, and views at different positions of one log."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pymysql
import pytest

from tests.sources.connections import open_connections
from tests.sources.mariadb.conftest import Place, changes
from tests.sources.rounds import (
    Content,
    assert_shows,
    check_begins_with_next_visit,
    check_connections,
    check_held,
    check_lost,
    check_redelivery,
    content_of,
    deliver,
    elsewhere,
    held_by,
    whole,
)
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.proving.oracle import Replay
from weir.sources.mysql.held import HeldMysqlSnapshot
from weir.sources.mysql.options import Unreachable
from weir.sources.source import HeldSnapshot

BOTH = pytest.mark.parametrize("kind", ["mariadb", "mariadb-locks"])
T, U = Relation("shop", "t"), Relation("shop", "u")
TABLES = {"t": ("a", "b"), "u": ("c",)}
COLUMNS = {T: ("a", "b"), U: ("c",)}
MAKE = (
    "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20))",
    "CREATE TABLE u (c INT)",
    "INSERT INTO t VALUES (1, 'one'), (2, NULL)",
    "INSERT INTO u VALUES (1), (1)",
)


@BOTH
def test_a_held_snapshot_stays(place: Place, kind: str) -> None:
    """Lookups and whole tables in it are what was delivered, whatever is written meanwhile; what was written comes
    with the next visit. So it is with several, and without the source.
    """
    place.run(*MAKE)
    source = place.source(TABLES, load=False, kind=kind)
    replay = Replay(COLUMNS)
    replay.load(source)
    keys = Lookup(T, ("a", "b"), ("a",), MemoryBag.of(Schema.parse("a int"), [(1,), (3,)]))
    place.run("INSERT INTO t VALUES (3, 'three')")
    write = ("DELETE FROM t WHERE a < 3", "INSERT INTO u VALUES (7)", "UPDATE u SET c = c + 1 WHERE c > 1")
    first, second = check_held(source, replay, lambda: place.run(*write), [keys])
    assert (len(first.transactions), len(second.transactions)) == (1, 3)
    assert sorted(replay.rows(U)) == [(1,), (8,), (9,), (10,), (11,)]
    assert replay.rows(T) == [(3, "three")]


@BOTH
def test_connections_are_used_again_and_closed(place: Place, kind: str) -> None:
    """As the server counts them: one to ask, one that locks, the log, and those of snapshots."""
    place.run(*MAKE)
    source = place.source(TABLES, kind=kind)
    check_connections(
        source, lambda: place.run("UPDATE u SET c = c + 1"), lambda: open_connections(place.made), most=7, idle=8
    )


def test_a_part_that_is_half_read_leaves_nothing_behind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its other rows are not taken for the answer to the next question."""
    monkeypatch.setattr("weir.sources.mysql.lookup._ROWS_PER_BATCH", 1)
    place.run(*MAKE)
    source = place.source(TABLES, load=False)
    replay = Replay(COLUMNS)
    replay.load(source)
    held = held_by(source.visit(hold=True))
    for part in held.parts():
        half = held.read(part)
        assert next(half).num_rows == 1
        del half
        assert_shows(held, replay)
    held.release()
    assert source.visit().transactions == ()


@BOTH
def test_writers_do_not_wait_for_a_held_snapshot(place: Place, kind: str) -> None:
    """The lock of the lock way is gone when the snapshot is open; TRUNCATE waits for its release."""
    place.run(*MAKE)
    source = place.source(TABLES, kind=kind)
    held = held_by(source.visit(hold=True))
    place.run("SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1", "UPDATE t SET b = 'x'")
    with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
        place.run("TRUNCATE TABLE t")
    held.release()
    place.run("TRUNCATE TABLE t")


def test_a_held_snapshot_is_asked_from_another_thread(place: Place) -> None:
    """One thread at a time, whichever."""
    place.run(*MAKE)
    source = place.source(TABLES)
    held = held_by(source.visit(hold=True))
    assert elsewhere(lambda: held.look(whole({U: ("c",)})))[0].num_rows == 2
    elsewhere(held.release)


def test_a_held_snapshot_whose_connection_is_cut(place: Place) -> None:
    """is lost, and says so; another one stays, and the next visit is as good as any."""
    place.run(*MAKE)
    source = place.source(TABLES, load=False)
    replay = Replay(COLUMNS)
    replay.load(source)

    def cut(held: HeldSnapshot) -> None:
        assert isinstance(held, HeldMysqlSnapshot)
        place.run(f"KILL CONNECTION {held.connection.thread_id()}", "INSERT INTO t VALUES (3, 'three')")
        with pytest.raises(Unreachable):
            held.look(whole(COLUMNS))
        place.run("DELETE FROM t WHERE a = 3")

    check_lost(source, replay, cut, "the held snapshot was lost with its connection")


def test_visits_go_on_beside_an_open_load(place: Place) -> None:
    """They have connections of their own: the load shows its own moment, to its end."""
    place.run(*MAKE)
    source = place.source(TABLES, load=False)
    load = source.load()
    before = content_of(load.held)
    place.run("INSERT INTO t VALUES (3, 'three')")
    assert changes(source.visit(), "t", "a", "b") == [(0, 1, 3, "three")]
    assert content_of(load.held) == before == {T: Counter([(1, "one"), (2, None)]), U: Counter([(1,), (1,)])}
    load.held.release()
    assert source.visit().transactions == ()


@pytest.mark.parametrize("options", [{}, {"kind": "mariadb-locks"}, {"positions": "gtid"}], ids=str)
def test_a_view_that_is_ahead_skips_what_it_has(place: Place, options: dict[str, Any]) -> None:
    """Two positions, also with an XA transaction that is prepared before the first and committed between the two, and
    one that is prepared between the two and committed after them.
    """
    place.run(*MAKE)
    source = place.source(TABLES, **options)
    early, late = place.another(), place.another()
    _prepare(early, "early", 10)
    place.run("INSERT INTO t VALUES (3, 'three')")
    first = source.visit().position
    place.run("DELETE FROM t WHERE a = 1", "BEGIN", "INSERT INTO u VALUES (2)")
    place.run("UPDATE t SET b = 'x' WHERE a IN (2, 3)", "COMMIT")
    _prepare(late, "late", 20)
    _run(early, "XA COMMIT 'early'")
    second = source.visit().position
    source.close()
    place.run("INSERT INTO u VALUES (3)", "FLUSH BINARY LOGS", "DELETE FROM t WHERE a = 3")
    _run(late, "XA COMMIT 'late'")
    between: Content = {
        T: Counter({(1, "one"): -1, (2, None): -1, (2, "x"): 1, (3, "three"): -1, (3, "x"): 1, (10, "xa"): 1}),
        U: Counter({(2,): 1}),
    }
    assert len(check_redelivery(lambda: place.source(TABLES, load=False, **options), first, second, between)) == 6
    early.close()
    late.close()


def _prepare(connection: Any, name: str, key: int) -> None:
    _run(connection, f"XA START '{name}'", f"INSERT INTO t VALUES ({key}, 'xa')", f"XA END '{name}'")
    _run(connection, f"XA PREPARE '{name}'")


def _run(connection: Any, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@BOTH
def test_a_table_that_a_later_view_brought_begins_there(place: Place, kind: str) -> None:
    """It was made, altered and written to after the older position: none of that stops the source or is delivered, and
    what comes after the position of its load is.
    """
    place.run(*MAKE)
    old = place.source({"t": ("a", "b")}, kind=kind)
    place.run("INSERT INTO t VALUES (3, 'three')")
    first = old.visit().position
    old.close()
    place.run("CREATE TABLE v (d INT)", "INSERT INTO v VALUES (1)", "ALTER TABLE v ADD COLUMN e VARCHAR(9) FIRST")
    place.run("INSERT INTO t VALUES (4, 'four')", "INSERT INTO v VALUES ('x', 2)", "TRUNCATE TABLE v")
    place.run("INSERT INTO v VALUES ('y', 3)")
    new = place.source({"t": ("a", "b"), "v": ("e", "d")}, kind=kind)
    second = place.position
    place.run("INSERT INTO v VALUES ('z', 4)")
    new.resume(first, [second])
    delivered = deliver(new)
    v = Relation("shop", "v")
    assert [effect[2] for _, effect in delivered] == [{T: Counter({(4, "four"): 1})}, {v: Counter({("z", 4): 1})}]
    assert [new.holds(second, transaction) for transaction, _ in delivered] == [True, False]


@BOTH
def test_a_table_that_no_position_covers_begins_with_the_next_visit(place: Place, kind: str) -> None:
    """Whatever was done to it before; an XA transaction that is open meanwhile is delivered when it is committed."""
    place.run(*MAKE)
    old = place.source({"t": ("a", "b")}, kind=kind)
    position = old.visit().position
    old.close()
    place.run("CREATE TABLE v (d INT)", "INSERT INTO v VALUES (1)", "ALTER TABLE v ADD COLUMN e VARCHAR(9) FIRST")
    tables = {"t": ("a", "b"), "v": ("e", "d")}
    check_begins_with_next_visit(
        lambda: place.source(tables, load=False, kind=kind),
        position,
        Relation("shop", "v"),
        lambda: place.run(
            "INSERT INTO v VALUES ('x', 2)", "DELETE FROM v WHERE d = 2 LIMIT 1", "INSERT INTO v VALUES (1, 5)"
        ),
    )
    if kind == "mariadb":  # the locks way waits for such a transaction
        other = place.another()
        _run(other, "XA START 'v'", "INSERT INTO v VALUES ('xa', 9)", "XA END 'v'", "XA PREPARE 'v'")
        source = place.source(tables, load=False)
        source.resume(position)
        held_by(source.visit(hold=True)).release()
        _run(other, "XA COMMIT 'v'")
        assert changes(source.visit(), "v", "e", "d") == [(0, 1, "xa", 9)]
        other.close()
