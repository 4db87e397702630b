"""Writing in the background: the next round is on its way while the last one's commit is made, always in order.

A unit has at most one write under way. What is durable is acknowledged, so that a source may drop its log up to the
oldest position of all its units. A write that fails loses nothing: the unit waits and is made again from its tables.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from pyspark.sql import SparkSession

from weir import points
from weir.messages import Position
from weir.rounds.failures import explained
from weir.rounds.readiness import Readiness
from weir.rounds.units import RUNNING, Unit, UnitWrite, write
from weir.sources.source import Source

log = logging.getLogger("weir")
_PAUSE = 2.0  # seconds before a failed write is tried again


class Writer:
    """One thread that writes."""

    def __init__(self, spark: SparkSession, readiness: Readiness) -> None:
        self._spark, self._readiness = spark, readiness
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weir-writer")
        self._writing: dict[str, Future[None]] = {}
        self._acknowledged: dict[str, Position] = {}

    def start(self, job: UnitWrite, seen: float) -> None:
        """``seen``: when the sources were visited."""
        self.wait(job.unit)
        if job.unit.state == RUNNING:
            self._writing[job.unit.name] = self._thread.submit(self._write, job, seen)

    def _write(self, job: UnitWrite, seen: float) -> None:
        write(job, self._spark)
        unit = job.unit
        unit.durable, unit.written = dict(job.positions), job.transactions
        unit.commits += 1
        unit.committed_at, unit.caught_up_at = time.time(), seen

    def busy(self, unit: Unit) -> bool:
        return unit.name in self._writing

    def collect(self, units: Sequence[Unit]) -> None:
        """Takes note of the writes that are done."""
        for unit in units:
            if unit.name in self._writing and self._writing[unit.name].done():
                self.wait(unit)

    def wait(self, unit: Unit) -> None:
        writing = self._writing.pop(unit.name, None)
        if writing is None:
            return
        try:
            writing.result()
        except Exception as problem:
            told = explained(problem, unit.name, unit.sources)
            log.error("view %s could not be written, and will be tried again: %s", unit.name, told)
            self._readiness.let_wait(unit, str(told), _PAUSE)
        else:
            self.acknowledge(unit)

    def acknowledge(self, unit: Unit) -> None:
        """Each of the unit's sources may forget what all its units have committed."""
        for name in unit.sources:
            channel = self._readiness.channels[name]
            units = [other for other in self._readiness.units if name in other.sources]
            if channel.open and all(name in other.durable for other in units):
                positions = {str(other.durable[name]) for other in units}
                points.reach(points.BEFORE_ACKNOWLEDGE)
                self._readiness.settled(channel, channel.call(partial(_acknowledge_oldest, positions)))
                points.reach(points.AFTER_ACKNOWLEDGE)

    def close(self, units: Sequence[Unit]) -> None:
        for unit in units:
            self.wait(unit)
        self._thread.shutdown(wait=True)


def _acknowledge_oldest(positions: set[str], source: Source) -> None:
    source.acknowledge(min(positions, key=source.order))
