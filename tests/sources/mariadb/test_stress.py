"""The exactness stress on real servers: 0 wrong as it is built, and wrong as soon as one of its rules is left out."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.sources.mariadb.conftest import Place
from weir.algebra import types as t
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.proving.kinds import Login
from weir.proving.oracle import Replay, ask
from weir.proving.stress import Workload, run_stress
from weir.proving.workloads.mariadb import (
    BESIDE,
    HEADER,
    PROVOKING,
    XA,
    MariadbLocksWorkload,
    MariadbWorkload,
    Traffic,
    XaAsTold,
)
from weir.sources.mysql.source import MysqlSource

pytestmark = pytest.mark.slow
SECONDS = float(os.environ.get("WEIR_STRESS_SECONDS", "60"))
SHORT = min(SECONDS, 15.0)


@pytest.mark.parametrize("kind", [MariadbWorkload, MariadbLocksWorkload])
def test_every_answer_equals_the_replay(kind: type[Workload]) -> None:
    """Writers with savepoints, rollbacks, key changes, two-phase commits and TRUNCATE, 1 MB binlogs, writers killed,
    connections dropped, the server killed and restarted, fresh loads: no answer and no delivery is wrong.
    """
    report = run_stress(kind(), SECONDS, seed=1)
    assert report.wrong == 0, report.failures
    assert report.answers > 0
    assert report.transactions > 0


@pytest.mark.parametrize(
    "traffic",
    [PROVOKING[HEADER], PROVOKING[XA], Traffic(truncating=0.1)],
    ids=["4 KB binlogs", "mostly XA", "much TRUNCATE"],
)
def test_traffic_that_provokes(traffic: Traffic) -> None:
    """Rotation every few transactions, mostly two-phase commits, or TRUNCATE all the time: still nothing wrong."""
    report = run_stress(MariadbWorkload(traffic=traffic), SHORT, seed=2)
    assert report.wrong == 0, report.failures


def test_first_loads_under_writers() -> None:
    """A load and the changes after it are the table, many times over."""
    report = run_stress(MariadbWorkload(), 2 * SHORT, seed=3, loads=int(2 * SHORT))
    assert report.wrong == 0, report.failures


@pytest.mark.parametrize(
    "make",
    [lambda: MariadbWorkload(BESIDE), lambda: MariadbWorkload(HEADER), lambda: MariadbLocksWorkload("no LOCK TABLES")],
    ids=[BESIDE, HEADER, "no LOCK TABLES"],
)
def test_naive_ways_are_caught(make: Callable[[], Workload]) -> None:
    """Each rule of the capture matters: without it the same stress finds wrong answers."""
    assert any(run_stress(make(), 60, seed=seed, until_wrong=True).wrong for seed in range(10))


# -- XA COMMIT is logged before it is visible
# --------------------------------------------------------------------------------------

ROWS = 3


def count_by_xa(login: Login, row: int, stop: Any) -> None:
    """One writer: adds one to its row in XA transactions, without pause."""
    with login.connect().cursor() as cursor:
        for number in range(10**9):
            if stop.is_set():
                return
            name = f"'{row}-{number}'"
            for statement in (
                f"XA START {name}",
                f"UPDATE t SET b = b + 1 WHERE a = {row}",
                f"XA END {name}",
                f"XA PREPARE {name}",
                f"XA COMMIT {name}",
            ):
                cursor.execute(statement)


@contextmanager
def counting(place: Place) -> Iterator[None]:
    place.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)", *(f"INSERT INTO t VALUES ({row}, 0)" for row in range(ROWS)))
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    arguments = [(place.made.login, row, stop) for row in range(ROWS)]
    writers = [context.Process(target=count_by_xa, args=one, daemon=True) for one in arguments]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def wrong_answers(place: Place, source: MysqlSource, seconds: float, enough: int) -> tuple[int, int]:
    """(wrong, answers) of visits without pause while the writers count."""
    table = Relation("shop", "t")
    with counting(place):
        source.watch({table: ("a", "b")})
        replay = Replay({table: ("a", "b")})
        replay.load(source)
        keys = MemoryBag.of(t.Schema.parse("a int"), [(row,) for row in range(ROWS)])
        lookup, wrong, answers, end = Lookup(table, ("a", "b"), ("a",), keys), 0, 0, time.monotonic() + seconds
        while time.monotonic() < end and wrong < enough:
            visit, found = ask(source, [lookup])
            wrong += len(replay.apply(visit)) + len(replay.compare(found, [lookup]))
            answers += 1
    source.close()
    return wrong, answers


def test_xa_transactions_are_exact(place: Place) -> None:
    """Three writers that commit in two phases without pause: every answer shows exactly what was delivered."""
    wrong, answers = wrong_answers(place, MysqlSource(place.options()), 2 * SHORT, enough=1)
    assert wrong == 0
    assert answers > 0


def test_xa_transactions_trusted_at_once_are_caught(place: Place) -> None:
    """Without the wait for XA RECOVER some answers lack a transaction that was delivered before them."""
    wrong, _ = wrong_answers(place, XaAsTold(place.options()), 1200, enough=1)
    assert wrong > 0
