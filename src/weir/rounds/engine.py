"""A round: the runtime's one step. Hold one snapshot per source, deliver what each shows, run to rest, write.

1. Every source is visited in its own thread; its snapshot stays open, and the transactions that became visible are
   delivered to the views' algorithms, source by source: that is the order of arrival.
2. The algorithms run to rest. All their questions are answered in the held snapshots, so whatever an answer shows has
   been delivered before it: the promise they stand on. Batched sweeps of all views are one Spark job.
3. The snapshots are released, and what was committed is written, one Delta version per view, while the next round is
   already on its way. What is durable is acknowledged to the sources.

At the end of a round an algorithm has nothing under way, so the vector of the visits' positions is where every source
can be resumed: the last Delta commit is all the state there is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from weir import points
from weir.algebra.view import needed_schemas
from weir.rounds.answering import Answering
from weir.rounds.channels import Channel
from weir.rounds.delivery import Block
from weir.rounds.deltas import RoundCommits
from weir.rounds.loading import Frames, HeldTables, evaluate
from weir.rounds.readiness import Readiness
from weir.rounds.units import NEW, RUNNING, Unit
from weir.rounds.views import MaintainedView
from weir.rounds.whole_states import WholeStates
from weir.rounds.writer import UnitWrite, Writer, commit_together
from weir.sources.source import Source, Visit
from weir.spark.frame_bag import FrameBag
from weir.sweeping.order import Asked
from weir.warehouse.store import ViewStore

log = logging.getLogger("weir")
Auditor = Callable[[MaintainedView, Frames], None]


@dataclass(frozen=True)
class Settings:
    """How rounds are formed."""

    max_age: float = 0.0
    poll: float = 0.05
    tasks: int = 2
    idle_commit: float = 60.0  # seconds after which positions are committed though nothing has changed
    host: str = "127.0.0.1"  # under which tasks reach the driver
    scratch: str = ""


@dataclass
class RoundReport:
    """What a round did."""

    transactions: int = 0
    loaded: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def busy(self) -> bool:
        """Something came or was loaded: another round may find more."""
        return bool(self.transactions or self.loaded)


class Engine:
    """Sources, units, and the round that joins them."""

    def __init__(
        self, spark: SparkSession, channels: dict[str, Channel], units: list[Unit], settings: Settings
    ) -> None:
        self.spark, self.channels, self.units, self.settings = spark, channels, units, settings
        self.schemas = needed_schemas(view.view for unit in units for view in unit.views)
        self.readiness = Readiness(channels, units, self.schemas)
        self.answering = Answering(spark, self.readiness, self.schemas, settings.tasks, settings.host)
        self.writer = Writer(spark, self.readiness)
        self.rounds = 0

    def admit(self, units: Sequence[Unit], channels: Mapping[str, Channel]) -> None:
        """More units, between two rounds. Their sources are resumed for them too: other columns, other positions."""
        self.units.extend(units)
        self.channels.update(channels)
        self.schemas.update(needed_schemas(view.view for unit in self.units for view in unit.views))
        for source in {source for unit in units for source in unit.sources}:
            self.channels[source].reopen()

    @property
    def asked(self) -> Asked:
        return self.answering.asked

    def round(self, audits: Mapping[str, Auditor] | None = None) -> RoundReport:
        """One round. ``audits``: for the view of that name, what to do with its tables as the snapshots show them."""
        began, seen, report = time.monotonic(), time.time(), RoundReport()
        self.writer.collect(self.units)
        self.readiness.make_ready()
        held = self._visit_all(bool(audits))
        try:
            points.reach(points.AFTER_VISIT)
            units = [unit for unit in self.readiness.ready() if all(source in held for source in unit.sources)]
            busy = [unit for unit in units if self._receive(unit, held, report)]
            self.answering.run_to_rest(busy)
            self._audit(audits or {}, units)
        finally:
            self._release(held)
        self._write(units, seen)
        self.rounds = self.answering.round = self.rounds + 1
        report.seconds = time.monotonic() - began
        return report

    # -- visits --------------------------------------------------------------------------------------------------------

    def _visit_all(self, must_hold: bool) -> dict[str, Block]:
        """Visits every source, all at once; what is delivered, by source.

        Where holding makes writers wait for a moment, a plain visit comes first, and the other only if there is work.
        """
        channels = [channel for channel in self.readiness.needed_channels() if channel.followed]
        blocks = self._visit(channels, lambda source: not source.locks_to_hold)
        must_hold |= any(unit.state == NEW for unit in self.readiness.live_units())
        if must_hold or any(block.transactions for block in blocks.values()):
            later = [channel for channel in channels if channel.name in blocks and channel.visit is None]
            for name, block in self._visit(later, lambda source: True).items():
                blocks[name] = blocks[name].followed_by(block)
        return {name: block for name, block in blocks.items() if self.channels[name].followed}

    def _visit(self, channels: Sequence[Channel], hold: Callable[[Source], bool]) -> dict[str, Block]:
        def visit(source: Source) -> tuple[Visit, bool]:
            holding = hold(source)
            return source.visit(hold=holding), holding

        blocks = {}
        for channel, future in [(channel, channel.call(visit)) for channel in channels]:
            if self.readiness.went_well(channel, future):
                found, holding = future.result()
                if holding:
                    channel.hold(found)
                channel.transactions += len(found.transactions)
                blocks[channel.name] = Block(channel.name, found, self.schemas)
        return blocks

    def _release(self, held: Iterable[str]) -> None:
        for channel in (self.channels[name] for name in held):
            if channel.visit is not None:
                released = channel.call(lambda source: source.release())
                if self.readiness.went_well(channel, released):
                    channel.let_go()

    # -- delivery ------------------------------------------------------------------------------------------------------

    def _receive(self, unit: Unit, held: Mapping[str, Block], report: RoundReport) -> bool:
        """Hands a unit the round's transactions, or loads it; whether its algorithms have work now."""
        if unit.state not in (NEW, RUNNING):  # a source has failed it since the round began
            return False
        try:
            blocks = [self._unseen(unit, held[source]) for source in unit.sources]
            if unit.state == NEW or any(block.truncated & set(unit.relations) for block in blocks):
                if self._load(unit, blocks):
                    report.loaded.append(unit.name)
                return False
            before = unit.transactions
            unit.receive(blocks)
        except Exception as problem:
            self.readiness.trouble(unit, problem)
            return False
        report.transactions += unit.transactions - before
        return unit.transactions > before

    def _unseen(self, unit: Unit, block: Block) -> Block:
        """The block without what the unit has already: its source was resumed for another one."""
        if block.source not in unit.overlap:
            return block
        unit.overlap.discard(block.source)
        position = str(unit.positions[block.source])

        def known(source: Source) -> list[int]:
            return [n for n, transaction in enumerate(block.transactions) if source.holds(position, transaction)]

        return block.without(self.channels[block.source].call(known).result())

    # -- whole views ---------------------------------------------------------------------------------------------------

    def _load(self, unit: Unit, blocks: Sequence[Block]) -> bool:
        """The first load, and what a TRUNCATE without rows in the log makes necessary: all from the held snapshots.

        False: what was to be written before it could not be, so the unit waits.
        """
        self.writer.finish_write(unit)
        if unit.state not in (NEW, RUNNING):
            return False
        load = WholeStates.of(unit, blocks)
        log.info("loading %s (%s)", unit.name, load.why(unit.leader))
        with self._tables(unit) as tables:
            points.reach(points.LOADING)
            parts = [part for view in unit.views for part in load.parts(view, self._evaluated(view, tables))]
            points.reach(points.LOADING)
            commit_together(parts, {block.source: block.position for block in blocks})
        unit.transactions += load.transactions or 0
        unit.forget()
        unit.recover()
        unit.commits += 1
        unit.committed_at = unit.caught_up_at = time.time()
        return True

    def _evaluated(self, view: MaintainedView, tables: Frames) -> dict[str, tuple[ViewStore, FrameBag]]:
        """A view's content and that of its auxiliary views, each with the table that it goes to."""
        values = {name: evaluate(query, tables) for name, query in view.queries().items()}
        return {name: (view.table_for(name, value.schema, self.spark), value) for name, value in values.items()}

    def _tables(self, unit: Unit, plainly: bool = False) -> HeldTables:
        channels = [self.channels[source] for source in unit.sources]
        schemas = needed_schemas(view.view for view in unit.views)
        return HeldTables(self.spark, channels, schemas, self.settings.scratch, plainly)

    def _audit(self, audits: Mapping[str, Auditor], units: Sequence[Unit]) -> None:
        """Hands the tables as the held snapshots show them, read plainly, to whoever wants to compare a view."""
        for unit in units:
            wanted = [view for view in unit.views if view.name in audits and unit.state == RUNNING]
            if wanted:
                with self._tables(unit, plainly=True) as tables:
                    for view in wanted:
                        audits[view.name](view, tables)

    # -- writing -------------------------------------------------------------------------------------------------------

    def _write(self, units: Sequence[Unit], seen: float) -> None:
        for unit in units:
            if unit.state != RUNNING:
                continue
            rounds = {view.name: found for view in unit.views if (found := _taken(view)) is not None}
            if unit.holds_back:
                continue
            if rounds or self._wants_idle_commit(unit):
                self.writer.start(UnitWrite(unit, rounds, dict(unit.positions), unit.transactions), seen)
            elif not self.writer.is_writing(unit):
                unit.caught_up_at, unit.written = seen, unit.transactions

    def _wants_idle_commit(self, unit: Unit) -> bool:
        """So that a source whose other tables change can drop its log. What is being written says its own positions."""
        if self.writer.is_writing(unit):
            return False
        return unit.positions != unit.durable and time.time() - unit.committed_at > self.settings.idle_commit

    def flush(self) -> None:
        """Waits until everything is written."""
        for unit in self.units:
            self.writer.finish_write(unit)

    def close(self) -> None:
        self.writer.close(self.units)
        self.answering.close()
        for channel in self.channels.values():
            channel.close()


def _taken(view: MaintainedView) -> RoundCommits | None:
    return view.conversation.take_round() if view.conversation is not None else None
