"""A round: the runtime's one step. Ask every source, give out what comes, let those work who have something to do.

1. Every source is asked in its own thread: its log is read, and a snapshot held up to which it was read. The round
   waits for the answers, but for nobody longer than a moment: who is late is heard in a later round.
2. What was delivered goes to the inbox of every unit that it may concern, source by source: that is the order of
   arrival. Units that are at rest, have something in there, and of every source a snapshot that shows just what it has
   delivered, set out in parties, each in a thread of its own (``parties``). Their questions are answered in the held
   snapshots, so whatever an answer shows has been delivered before it: the promise the algorithms stand on.
3. Who has come back is written, one Delta version per view, in the background. What is durable is acknowledged to the
   sources at the next contact.

When a unit is at rest its algorithm has nothing under way, so the vector of the positions that it has received is where
every source can be resumed: the last Delta commit is all the state there is. And whatever holds a unit up, a silent
source, a long load, a slow strategy or a store that hangs, the rounds of the others go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from weir import points
from weir.algebra.errors import WeirError
from weir.algebra.view import needed_schemas
from weir.rounds.answering import Answering
from weir.rounds.audits import AuditRequest, Audits
from weir.rounds.channels import Channel, discard
from weir.rounds.contacts import Contact, Heard
from weir.rounds.delivery import Block
from weir.rounds.deltas import RoundCommits
from weir.rounds.holds import Hold
from weir.rounds.loading import Frames, HeldTables, evaluate
from weir.rounds.parties import Party, parties
from weir.rounds.readiness import Readiness
from weir.rounds.retention import Retention
from weir.rounds.supervision import AUDIT_CORES_FOR, CORES_FOR
from weir.rounds.threads import spawn
from weir.rounds.units import NEW, RUNNING, Unit
from weir.rounds.views import MaintainedView
from weir.rounds.whole_states import WholeStates
from weir.rounds.writer import UnitWrite, Writer, commit_together
from weir.spark.frame_bag import FrameBag
from weir.spark.session import call_off, share_cores
from weir.sweeping.failures import explained
from weir.sweeping.order import Asked
from weir.warehouse.store import ViewStore

log = logging.getLogger("weir")
LAST_PATIENCE = 20.0  # seconds that the end waits for those at work
MOST_WRITES = 2  # of one unit under way; then it has to wait with more
MOST_LOADS = 2  # at a time: each reads whole tables
MOST_INBOX = 64 << 20  # bytes that are kept for a unit at work; beyond that they are delivered again later


@dataclass(frozen=True)
class Settings:
    """How rounds are formed."""

    max_age: float = 0.0  # seconds after which a unit that had set out may do so again, unless somebody is in a hurry
    poll: float = 0.05
    tasks: int = 2
    idle_commit: float = 60.0  # seconds after which positions are committed though nothing has changed
    host: str = "127.0.0.1"  # under which tasks reach the driver
    scratch: str = ""
    patience: float = 0.25  # seconds that a round waits for a source or a party before it goes on without


@dataclass
class RoundReport:
    """What a round did."""

    transactions: int = 0
    loaded: list[str] = field(default_factory=list)
    seconds: float = 0.0
    working: bool = False  # somebody is still at work
    settled: bool = False  # nobody is at work or waits for anything

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
        self.retention = Retention(units)
        self.answering = Answering(spark, self.schemas, settings.tasks, settings.host)
        self.writer = Writer(spark)
        self.audits = Audits(channels, units)
        self.rounds = 0
        self.ended = False
        self._timed_at = time.monotonic()
        self._parties: list[Party] = []

    def admit(self, units: Sequence[Unit], channels: Mapping[str, Channel]) -> None:
        """More units, between two rounds. Their sources are resumed for them too: other columns, other positions."""
        self.units.extend(units)
        self.channels.update(channels)
        self.schemas.update(needed_schemas(view.view for unit in self.units for view in unit.views))
        for source in {source for unit in units for source in unit.sources}:
            self.readiness.reopen(self.channels[source])

    @property
    def asked(self) -> Asked:
        return self.answering.asked

    def round(self, hurry: bool = False) -> RoundReport:
        """One round. ``hurry``: changes need not gather (``max_age``)."""
        began, report = time.monotonic(), RoundReport()
        self.writer.collect(self.units)
        self._take_back(report)
        self.readiness.revive(self.writer.busy)
        holds = self._ask_all(hurry)
        try:
            points.reach(points.AFTER_VISIT)
            self._set_out(hurry)
        finally:
            for hold in holds.values():
                hold.leave()
        self._wait_for_parties()
        self._call_off_the_hanging()
        self._take_back(report)
        self.rounds += 1
        report.seconds, report.working = time.monotonic() - began, bool(self._parties)
        report.settled = self._is_settled()
        return report

    def _is_settled(self) -> bool:
        heard = all(channel.pending is None for channel in self.readiness.needed_channels())
        return heard and all(
            unit.state == RUNNING and not unit.at_work and not unit.has_work for unit in self.readiness.live_units()
        )

    # -- asking the sources --------------------------------------------------------------------------------------------

    def _ask_all(self, hurry: bool) -> dict[str, Hold]:
        """Asks every source, all at once; gives out what is heard, and returns the snapshots that are held.

        Where holding makes writers wait for a moment, a plain visit comes first, and the other only if there is work.
        """
        channels = self.readiness.needed_channels()
        wanting = self._wanting(hurry)
        for channel in channels:
            if channel.pending is None and (channel.followed or channel.may_be_tried):
                needed, lock = self.retention.needed(channel.name), channel.name in wanting
                channel.ask(self.readiness.contact(channel, needed, lock))
        holds = self._hear(channels)
        wanting = self._wanting(hurry)
        later = [self.channels[name] for name in wanting - holds.keys() if self._heard(self.channels[name])]
        for channel in later:
            channel.ask(self.readiness.contact(channel, channel.acknowledged, lock=True))
        return holds | self._hear(later)

    def _wanting(self, hurry: bool) -> set[str]:
        """The sources whose snapshots somebody wants to work in now."""
        return {source for unit in self.readiness.idle() if self._wants_out(unit, hurry) for source in unit.sources}

    @staticmethod
    def _heard(channel: Channel) -> bool:
        return channel.followed and channel.pending is None

    def _hear(self, channels: Iterable[Channel]) -> dict[str, Hold]:
        """Waits a moment for the contacts under way; those that were late already are not waited for again."""
        patience = self.settings.patience
        asked = [channel for channel in channels if channel.pending is not None]
        prompt = [channel.pending for channel in asked if channel.silent_for < patience]
        wait([future for future in prompt if future is not None], patience)
        holds = {}
        for channel in asked:
            if channel.pending is not None and channel.pending.done():
                heard = self.readiness.answered(channel)
                if heard is not None and (hold := self._given_out(channel, heard)) is not None:
                    holds[channel.name] = hold
        return holds

    def _given_out(self, channel: Channel, heard: Heard) -> Hold | None:
        """What cannot be taken is that source's trouble, whatever it is: it is asked again."""
        try:
            return self._give_out(channel, heard)
        except Exception as problem:
            discard(heard)
            self.readiness.blame(channel, explained(problem, f"source {channel.name}"))
            return None

    def _give_out(self, channel: Channel, heard: Heard) -> Hold | None:
        """To the units' inboxes; the snapshot, if it is held."""
        visit = heard.visit
        if visit is None:
            return None
        channel.transactions += heard.fresh
        channel.repeating = heard.repeating
        if not heard.repeating:
            channel.furthest = visit.position
        channel.retained = heard.retained or channel.retained
        block = Block(channel.name, visit, self.schemas)
        hold = None if visit.held is None else self.answering.holds.add(Hold(channel.name, visit.held))
        for unit in self.readiness.units_of(channel.name):
            if unit.name in heard.ahead:  # it has all of this, and more
                unit.ahead.add(channel.name)
                unit.let_go(channel.name)
                continue
            unit.ahead.discard(channel.name)
            unit.give(block.without(heard.known.get(unit.name, ())), hold)
        return hold

    # -- work ----------------------------------------------------------------------------------------------------------

    def _set_out(self, hurry: bool) -> None:
        """Units with work, for which a snapshot of each of their sources is held."""
        able = [unit for unit in self.readiness.idle() if not unit.ahead and len(unit.holds) == len(unit.sources)]
        able = [unit for unit in able if self.writer.under_way(unit) < (1 if unit.needs_load else MOST_WRITES)]
        working = self.audits.gathered(able)
        working += [unit for unit in able if self._wants_out(unit, hurry) and not self._waits_for_audit(unit)]
        new = [unit for unit in working if unit.needs_load]
        working = [unit for unit in working if not unit.needs_load] + new[: self._more_loads()]
        for units in parties(working):
            shared = units[0].take_holds()
            for unit in units[1:]:
                unit.let_go()  # the same ones
            seen = min(self.channels[source].seen_at for source in shared)
            loads = any(unit.needs_load for unit in units)
            audits = {unit.name: self.audits.of(unit) for unit in units}
            party = Party(units, {unit.name: unit.hand_over() for unit in units}, shared, seen, loads, audits)
            for unit in units:
                unit.at_work, unit.set_out_at = True, time.monotonic()
            party.done = spawn(f"weir-{units[0].name}", partial(self._work, party))
            self._parties.append(party)
        for unit in self.readiness.live_units():
            if unit.inbox_bytes > MOST_INBOX and self._is_held_up(unit):
                unit.inbox.clear()
                unit.interrupt("more has come meanwhile than is kept in memory; it is delivered again")
        for unit in self.readiness.idle():
            if not unit.has_work and not self.audits.stands_still(unit):
                self._pass_over(unit)
            if not self._wants_out(unit, hurry):
                unit.let_go()

    def _wants_out(self, unit: Unit, hurry: bool) -> bool:
        """Whether it waits for nothing but snapshots."""
        return self.audits.wants(unit) or (self._has_due_work(unit, hurry) and not self.audits.stands_still(unit))

    def _has_due_work(self, unit: Unit, hurry: bool) -> bool:
        """Whether it has something to do, and changes have gathered for long enough."""
        gathered = hurry or unit.state == NEW or unit.inbox_bytes > MOST_INBOX
        return unit.has_work and (gathered or time.monotonic() - unit.set_out_at >= self.settings.max_age)

    def _more_loads(self) -> int:
        """How many may begin now. One that hangs at a silent source does not count."""
        loading = [party for party in self._parties if party.loads]
        alive = [party for party in loading if not any(self.channels[source].silent for source in party.holds)]
        return max(MOST_LOADS - len(alive), 0)

    def _waits_for_audit(self, unit: Unit) -> bool:
        """Until the others of its audit can set out too, or it is compared."""
        return self.audits.stands_still(unit) or (self.audits.rests(unit) and not unit.needs_load)

    def _is_held_up(self, unit: Unit) -> bool:
        """By its own work, by its writes, by an audit, or by a source that says nothing."""
        silent = any(self.channels[source].silent for source in unit.sources)
        return unit.at_work or silent or self._waits_for_audit(unit) or self.writer.under_way(unit) >= MOST_WRITES

    def _pass_over(self, unit: Unit) -> None:
        """Nothing concerns it: it has received all that came, and is where its sources are."""
        if unit.state != RUNNING or set(unit.inbox) != set(unit.sources):
            return
        unit.hand_over()
        if not unit.holds_back:
            self._write(unit, min(self.channels[source].seen_at for source in unit.sources))

    def _work(self, party: Party) -> None:
        """In a thread of its own. Loads share the cores among themselves; every other party has its share."""
        share_cores(self.spark, "loads" if party.loads else party.units[0].name, party.work)
        try:
            for unit in party.units:
                try:
                    self._receive(unit, party)
                except Exception as problem:
                    party.problems[unit.name] = problem
            self.answering.run_to_rest(party)
            for unit in party.well:
                self._audit(unit, party)
        finally:
            party.disperse()

    def _receive(self, unit: Unit, party: Party) -> None:
        """Hands a unit the transactions, or loads it."""
        blocks = party.blocks[unit.name]
        if party.loads:
            self._load(unit, blocks, party)
            return
        before = unit.transactions
        unit.receive(blocks)
        party.transactions += unit.transactions - before

    def _wait_for_parties(self) -> None:
        """A moment; for those that were late already none."""
        wait([party.done for party in self._parties if not party.late], self.settings.patience)
        for party in self._parties:
            party.late = True

    def _call_off_the_hanging(self) -> None:
        """Tasks that wait for a source which says nothing must not keep the cores from others that need them.

        It may only be slow: so the next time the same work gets twice as long.
        """
        self._time_contacts()
        hanging = [(party, silent) for party in self._parties if (silent := self._silent_source(party)) is not None]
        well = [party for party in self._parties if self._silent_source(party) is None]
        if not self.writer.busy and all(party.age < CORES_FOR.first for party in well):
            return
        for party, silent in hanging:
            patience = CORES_FOR.after(1 + max(unit.called_off for unit in party.units))
            if party.age > (AUDIT_CORES_FOR if party.is_audited else patience):
                party.began, party.called_off = time.monotonic(), silent.awaited
                log.warning("view %s: its work is called off; it %s", party.units[0].name, party.called_off)
                spawn("weir-call-off", partial(call_off, self.spark, party.work))

    def _time_contacts(self) -> None:
        """Where this process itself has stood still, no source is to blame: a round counts for a moment at most."""
        now, before = time.monotonic(), self._timed_at
        self._timed_at = now
        for channel in self.channels.values():
            if channel.silent_for:
                channel.hung_for += min(now - before, 2 * self.settings.patience)

    def _silent_source(self, party: Party) -> Channel | None:
        patience = AUDIT_CORES_FOR if party.is_audited else CORES_FOR.first
        channels = [self.channels[name] for name in party.holds]
        return next((each for each in channels if each.silent_for > patience and each.hung_for > patience), None)

    def _take_back(self, report: RoundReport) -> None:
        """Those that have come back: what went wrong, and what is to be written."""
        back = [party for party in self._parties if party.done.done()]
        self._parties = [party for party in self._parties if not party.done.done()]
        for party in back:
            report.transactions += party.transactions
            report.loaded += party.loaded
            failure = party.done.exception()
            if failure is not None and not isinstance(failure, Exception):
                raise failure
            for unit in party.units:
                problem = party.problems.get(unit.name, failure)
                well = problem is None and unit.state == RUNNING
                unit.end_work()
                if problem is not None and party.called_off:
                    self.readiness.give_way(unit, party.called_off)
                elif problem is not None:
                    self.readiness.trouble(unit, problem)
                elif well and unit.state == RUNNING:
                    unit.setbacks = unit.called_off = 0
                    self._write(unit, party.seen)

    # -- whole views ---------------------------------------------------------------------------------------------------

    def _load(self, unit: Unit, blocks: Sequence[Block], party: Party) -> None:
        """The first load, and what a TRUNCATE without rows in the log makes necessary: all from the held snapshots."""
        load = WholeStates.of(unit, blocks)
        log.info("loading %s (%s)", unit.name, load.why(unit.leader))
        with self._tables(unit, party) as tables:
            points.reach(points.LOADING)
            parts = [part for view in unit.views for part in load.parts(view, self._evaluated(view, tables))]
            points.reach(points.LOADING)
            if party.abandoned:
                raise WeirError("the runner has ended")
            commit_together(parts, {block.source: block.position for block in blocks})
        unit.transactions += load.transactions or 0
        unit.start_anew()
        unit.commits += 1
        unit.committed_at, unit.caught_up_at = time.time(), party.seen
        party.loaded.append(unit.name)

    def _evaluated(self, view: MaintainedView, tables: Frames) -> dict[str, tuple[ViewStore, FrameBag]]:
        """A view's content and that of its auxiliary views, each with the table that it goes to."""
        values = {name: evaluate(query, tables) for name, query in view.queries().items()}
        return {name: (view.table_for(name, value.schema, self.spark), value) for name, value in values.items()}

    def _tables(self, unit: Unit, party: Party, plainly: bool = False) -> HeldTables:
        schemas = needed_schemas(view.view for view in unit.views)
        return HeldTables(self.spark, party.holds, schemas, self.settings.scratch, plainly)

    def _audit(self, unit: Unit, party: Party) -> None:
        """Hands the tables as the held snapshots show them, read plainly, to whoever wants to compare a view."""
        for request in party.audits.get(unit.name, ()):
            wanted = [view for view in unit.views if view.name in request.names]
            try:
                with self._tables(unit, party, plainly=True) as tables:
                    for view in wanted:
                        request.keep(view, tables)
            except Exception as problem:
                request.problems |= {view.name: explained(problem, view.name) for view in wanted}

    def has_audited(self, request: AuditRequest) -> bool:
        """Whether its views can be compared: what they have received is written, and they stand still."""
        if request.gone is None:
            return False
        units = [unit for unit in self.units if unit.name in request.gone]
        return all(not unit.at_work and not self.writer.under_way(unit) for unit in units)

    # -- writing -------------------------------------------------------------------------------------------------------

    def _write(self, unit: Unit, seen: float) -> None:
        rounds = {view.name: found for view in unit.views if (found := _taken(view)) is not None}
        if unit.holds_back:
            return
        if rounds or self._wants_idle_commit(unit):
            self.writer.start(UnitWrite(unit, rounds, dict(unit.positions), unit.transactions), seen)
        elif not self.writer.under_way(unit):
            unit.caught_up_at, unit.written = max(seen, unit.caught_up_at), unit.transactions

    def _wants_idle_commit(self, unit: Unit) -> bool:
        """So that a source whose other tables change can drop its log. What is being written says its own positions."""
        if self.writer.under_way(unit):
            return False
        return unit.positions != unit.durable and time.time() - unit.committed_at > self.settings.idle_commit

    # -- the end -------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Waits until everybody is back and everything is written, and tells the sources."""
        self._wait_for_the_last()
        told = [channel for channel in self.channels.values() if self._heard(channel) and self._tell(channel)]
        wait([channel.pending for channel in told if channel.pending is not None], self.settings.patience)
        for channel in told:
            if channel.pending is not None and channel.pending.done():
                self.readiness.answered(channel)

    def _tell(self, channel: Channel) -> bool:
        """Lets a source forget what nobody needs; False: it knows already."""
        needed = self.retention.needed(channel.name)
        if not self.readiness.may_forget(channel, needed):
            return False
        channel.ask(Contact(needed=needed, acknowledging=True, visiting=False))
        return True

    def _wait_for_the_last(self) -> None:
        """Work that hangs is left behind: nothing of it is visible before its commit."""
        wait([party.done for party in self._parties], LAST_PATIENCE)
        self._take_back(RoundReport())
        self.writer.flush(self.units, LAST_PATIENCE)

    def close(self) -> None:
        try:
            self._wait_for_the_last()
        finally:
            for party in self._parties:
                party.abandoned = True
            for unit in self.units:
                unit.let_go()
            self.answering.close()
            for channel in self.channels.values():
                channel.close()


def _taken(view: MaintainedView) -> RoundCommits | None:
    return view.conversation.take_round() if view.conversation is not None else None
