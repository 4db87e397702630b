"""Writing in the background: a unit's next work is on its way while the last one's commit is made, always in order.

A write that fails loses nothing: the unit waits and is made again from its tables. A store that hangs holds up the
units that are written there, and nobody else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession

from weir import points
from weir.messages import Commit, Position
from weir.rounds.deltas import RoundCommits, delta_of
from weir.rounds.supervision import STORE_PAUSES
from weir.rounds.threads import spawn
from weir.rounds.units import Unit
from weir.rounds.views import MaintainedView
from weir.spark.arrow_bag import ArrowBag
from weir.spark.session import share_cores
from weir.sweeping.failures import explained
from weir.warehouse.bags import batch_of
from weir.warehouse.following import Follower
from weir.warehouse.record import APPEND

log = logging.getLogger("weir")


@dataclass(frozen=True)
class UnitWrite:
    """What a round brings to a unit's tables."""

    unit: Unit
    rounds: Mapping[str, RoundCommits]  # by view
    positions: Mapping[str, Position]
    transactions: int  # that the unit has received by then


class Writer:
    """Writes in the background: of one unit one after the other, of different ones side by side."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._writing: dict[str, list[Future[None]]] = {}  # by unit, oldest first

    def start(self, job: UnitWrite, seen: float) -> None:
        """``seen``: when the sources were asked."""
        under_way = self._writing.setdefault(job.unit.name, [])
        before = under_way[-1] if under_way else None
        under_way.append(spawn(f"weir-write-{job.unit.name}", partial(self._write, job, seen, before)))

    def _write(self, job: UnitWrite, seen: float, before: Future[None] | None) -> None:
        if before is not None:
            before.result()  # what has failed is not followed by anything
        share_cores(self._spark, job.unit.name)
        write(job, self._spark)
        unit = job.unit
        unit.durable, unit.written = dict(job.positions), job.transactions
        unit.commits += 1
        unit.committed_at, unit.caught_up_at = time.time(), seen

    @property
    def busy(self) -> frozenset[str]:
        """The units that something is being written for."""
        return frozenset(self._writing)

    def under_way(self, unit: Unit) -> int:
        return len(self._writing.get(unit.name, ()))

    def collect(self, units: Iterable[Unit]) -> None:
        """Takes note of the writes that are done. One that has failed loses nothing: the unit waits, and is made again
        from its tables.
        """
        for unit in units:
            under_way = self._writing.get(unit.name, [])
            if not under_way or not under_way[0].done():
                continue
            problem = under_way[0].exception()
            if problem is None:
                del under_way[0]
            elif all(each.done() for each in under_way):  # the others have failed with it
                under_way.clear()
                self._failed(unit, problem)
            if not under_way:
                del self._writing[unit.name]

    def _failed(self, unit: Unit, problem: BaseException) -> None:
        if not isinstance(problem, Exception):
            raise problem
        told = explained(problem, unit.name)
        log.error("view %s could not be written, and will be tried again: %s", unit.name, told)
        unit.interrupt(str(told), STORE_PAUSES.first)

    def flush(self, units: Sequence[Unit], patience: float | None = None) -> None:
        """Waits until everything is written or has failed, so many seconds at most."""
        wait([each for all_ in self._writing.values() for each in all_], patience)
        while any(all(one.done() for one in each) for each in self._writing.values()):
            self.collect(units)


# -- one commit of a unit ----------------------------------------------------------------------------------------------


def write(job: UnitWrite, spark: SparkSession) -> None:
    """One commit of the unit: the leader's table decides, the others follow."""
    parts = [part for view in job.unit.views for part in _parts(view, job.rounds.get(view.name), spark)]
    commit_together(parts, job.positions)


def commit_together(parts: Sequence[Follower], positions: Mapping[str, Position]) -> None:
    """The first part's table decides for all."""
    leading, *following = parts
    transaction = 1 + max(part.store.head.transaction for part in parts)
    leading.store.advance(replace(leading, positions=positions), transaction, following)
    points.reach(points.AFTER_COMMIT)


def _parts(view: MaintainedView, round_: RoundCommits | None, spark: SparkSession) -> Iterator[Follower]:
    assert view.store is not None
    if round_ is None:
        yield Follower(view.store, None, notes=view.notes)
        return
    kind, batch = delta_of(view.store, round_, spark)
    changes = list(_auxiliary(view, (commit for _, commit in round_.commits), spark))
    numbers, steps = (round_.first, round_.last), tuple(round_.steps())
    yield Follower(view.store, batch, kind, None, numbers, steps, view.notes, view.is_exact)
    yield from changes


def _auxiliary(view: MaintainedView, commits: Iterable[Commit], spark: SparkSession) -> Iterator[Follower]:
    """The auxiliary views' changes of a whole round."""
    total: dict[str, ArrowBag] = {}
    for commit in commits:
        for name, delta in commit.auxiliary.items():
            assert isinstance(delta, ArrowBag)
            total[name] = total[name] + delta if name in total else delta
    for name, delta in total.items():
        store = view.table_for(name, delta.schema, spark)
        rows = batch_of(delta.table, store.schema.names)
        yield Follower(store, rows if rows.num_rows else None, APPEND, steps=(), exact=view.is_exact)
