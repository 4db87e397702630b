"""Writing in the background: the next round is on its way while the last one's commit is made, always in order.

A unit has at most one write under way. What is durable is acknowledged, so that a source may drop its log up to the
oldest position of all its units. A write that fails loses nothing: the unit waits and is made again from its tables.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from weir import points
from weir.messages import Commit, Position
from weir.rounds.deltas import RoundCommits, delta_of
from weir.rounds.readiness import Readiness
from weir.rounds.units import RUNNING, Unit
from weir.rounds.views import MaintainedView
from weir.sources.source import Source
from weir.spark.arrow_bag import ArrowBag
from weir.sweeping.failures import explained
from weir.warehouse.bags import batch_of
from weir.warehouse.following import Follower
from weir.warehouse.record import APPEND, LOAD

log = logging.getLogger("weir")
_PAUSE = 2.0  # seconds before a failed write is tried again


@dataclass(frozen=True)
class UnitWrite:
    """What a round brings to a unit's tables."""

    unit: Unit
    rounds: Mapping[str, RoundCommits]  # by view
    positions: Mapping[str, Position]
    transactions: int  # that the unit has received by then


class Writer:
    """One thread that writes."""

    def __init__(self, spark: SparkSession, readiness: Readiness) -> None:
        self._spark, self._readiness = spark, readiness
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weir-writer")
        self._writing: dict[str, Future[None]] = {}

    def start(self, job: UnitWrite, seen: float) -> None:
        """``seen``: when the sources were visited."""
        self.finish_write(job.unit)
        if job.unit.state == RUNNING:
            self._writing[job.unit.name] = self._thread.submit(self._write, job, seen)

    def _write(self, job: UnitWrite, seen: float) -> None:
        write(job, self._spark)
        unit = job.unit
        unit.durable, unit.written = dict(job.positions), job.transactions
        unit.commits += 1
        unit.committed_at, unit.caught_up_at = time.time(), seen

    def is_writing(self, unit: Unit) -> bool:
        return unit.name in self._writing

    def collect(self, units: Sequence[Unit]) -> None:
        """Takes note of the writes that are done."""
        for unit in units:
            if unit.name in self._writing and self._writing[unit.name].done():
                self.finish_write(unit)

    def finish_write(self, unit: Unit) -> None:
        writing = self._writing.pop(unit.name, None)
        if writing is None:
            return
        try:
            writing.result()
        except Exception as problem:
            told = explained(problem, unit.name)
            log.error("view %s could not be written, and will be tried again: %s", unit.name, told)
            unit.interrupt(str(told), _PAUSE)
        else:
            self.acknowledge(unit)

    def acknowledge(self, unit: Unit) -> None:
        """Each of the unit's sources may forget what all its units have committed."""
        for name in unit.sources:
            channel = self._readiness.channels[name]
            units = [other for other in self._readiness.units if name in other.sources]
            if channel.followed and all(name in other.durable for other in units):
                positions = {str(other.durable[name]) for other in units}
                points.reach(points.BEFORE_ACKNOWLEDGE)
                self._readiness.went_well(channel, channel.call(partial(_acknowledge_oldest, positions)))
                points.reach(points.AFTER_ACKNOWLEDGE)

    def close(self, units: Sequence[Unit]) -> None:
        for unit in units:
            self.finish_write(unit)
        self._thread.shutdown(wait=True)


def _acknowledge_oldest(positions: set[str], source: Source) -> None:
    source.acknowledge(min(positions, key=source.order))


# -- one commit of a unit ----------------------------------------------------------------------------------------------


def write(job: UnitWrite, spark: SparkSession) -> None:
    """One commit of the unit: the leader's table decides, the others follow."""
    parts = [part for view in job.unit.views for part in _parts(view, job.rounds.get(view.name), spark)]
    commit_together(parts, job.positions)


def commit_together(parts: Sequence[Follower], positions: Mapping[str, Position]) -> None:
    """The first part's table decides for all."""
    leading, *following = parts
    transaction = 1 + max(part.store.head.transaction for part in parts)
    act = leading.store.load if leading.kind == LOAD else leading.store.append
    steps = {} if leading.kind == LOAD else {"steps": tuple(leading.steps or ())}
    act(leading.batch, positions, leading.arrivals, transaction, notes=leading.notes, followers=following, **steps)
    points.reach(points.AFTER_COMMIT)


def _parts(view: MaintainedView, round_: RoundCommits | None, spark: SparkSession) -> Iterator[Follower]:
    assert view.store is not None
    if round_ is None:
        yield Follower(view.store, None, notes=view.notes)
        return
    kind, batch = delta_of(view.store, round_, spark)
    changes = list(_auxiliary(view, (commit for _, commit in round_.commits), spark))
    yield Follower(view.store, batch, kind, None, (round_.first, round_.last), tuple(round_.steps()), view.notes)
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
        yield Follower(store, rows if rows.num_rows else None, APPEND, steps=())
