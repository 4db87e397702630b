"""Which sources can be asked and which units can take part in a round; what happens to those that cannot.

A source that is down is tried again with growing pauses; its views wait, the others go on. One that is silent (it was
asked, and nothing comes) is waited for: it may be at work, so nothing is thrown away. What cannot go on as it is (its
log no longer reaches back, a table has another shape) stops the views that it concerns (``concerns``), with what to do.
A unit that waits holds nothing in memory: it is made again from its tables, and its sources are resumed at the oldest
position of all their units.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.types import Schema
from weir.rounds.channels import Channel
from weir.rounds.concerns import TROUBLE, Claim, Concerning, needed_at, way_out
from weir.rounds.contacts import Contact, Heard, Resumption
from weir.rounds.supervision import STORE_PAUSES, TASK_PAUSES
from weir.rounds.units import FAILED, NEW, RUNNING, WAITING, Unit
from weir.sources.source import CannotWatch
from weir.sweeping.failures import SourceFailed, Unforeseen, explained
from weir.warehouse.errors import CannotWrite

log = logging.getLogger("weir")
_PAUSE = 1.0  # seconds that a new unit lets others go first


class Readiness:
    """The state of sources and units."""

    def __init__(
        self, channels: Mapping[str, Channel], units: Sequence[Unit], schemas: dict[Relation, Schema]
    ) -> None:
        self.channels, self.units, self.schemas = channels, units, schemas

    def live_units(self) -> list[Unit]:
        return [unit for unit in self.units if unit.state != FAILED and not unit.is_last]

    def units_of(self, source: str) -> list[Unit]:
        return [unit for unit in self.live_units() if source in unit.sources]

    def idle(self) -> list[Unit]:
        """Those that can take part in a round now; one that waits holds nothing in memory."""
        return [unit for unit in self.units if unit.state in (NEW, RUNNING) and not unit.at_work]

    def needed_channels(self) -> list[Channel]:
        names = dict.fromkeys(source for unit in self.live_units() for source in unit.sources)
        return [self.channels[name] for name in names]

    def revive(self, is_writing: frozenset[str]) -> None:
        """Units that can go on: their sources answer, and what they wrote last is known."""
        for unit in self.live_units():
            channels = [self.channels[source] for source in unit.sources]
            answering = all(channel.may_be_tried and not channel.is_slow for channel in channels)
            rested = unit.name not in is_writing and time.monotonic() >= unit.retry_at
            if unit.state == WAITING and answering and rested:
                self._revive(unit)

    def _revive(self, unit: Unit) -> None:
        """Its sources are to be resumed where the oldest unit stands."""
        try:
            unit.revive()
        except WeirError as problem:
            self.stop_unit(unit, problem)
            return
        for source in unit.sources:
            self.reopen(self.channels[source])

    def reopen(self, channel: Channel) -> None:
        """What it has delivered and nobody has received yet will come again."""
        channel.reopen()
        for unit in self.units_of(channel.name):
            unit.give_back(channel.name)

    # -- contacts ------------------------------------------------------------------------------------------------------

    def contact(self, channel: Channel, needed: Mapping[str, str], lock: bool = False) -> Contact:
        """What there is to say to a source now; its snapshot is held if somebody could work in it."""
        units = self.units_of(channel.name)
        ahead = {unit.name: str(unit.positions[channel.name]) for unit in units if channel.name in unit.ahead}
        hold = any(unit.state in (NEW, RUNNING) and not unit.at_work for unit in units)
        opening = None if channel.followed else self._opening(channel.name)
        followers = {unit.name: Claim.of(unit, channel.name) for unit in units}
        furthest = channel.furthest if channel.repeating and channel.furthest else None
        return Contact(
            opening, needed, self.may_forget(channel, needed), True, hold, lock, ahead, furthest, followers
        )  # fmt: skip

    @staticmethod
    def may_forget(channel: Channel, needed: Mapping[str, str]) -> bool:
        """Whether there is something new to tell it."""
        return channel.followed and bool(needed) and needed != channel.acknowledged

    def _opening(self, name: str) -> Resumption:
        needed = needed_at(name, self.live_units())
        self.schemas.update(needed)  # units at work read them meanwhile: what is needed is there all the time
        for relation in [one for one in self.schemas if one.source == name and one not in needed]:
            del self.schemas[relation]  # what units needed that have stopped may not be there any more
        columns = {relation: schema.names for relation, schema in self.schemas.items() if relation.source == name}
        units = [unit for unit in self.live_units() if name in unit.positions]
        return Resumption(columns, {unit.name: str(unit.positions[name]) for unit in units})

    def answered(self, channel: Channel) -> Heard | None:
        """What a contact has brought; where it has failed, the source's views wait or stop."""
        try:
            heard = channel.answered()
        except WeirError as problem:
            self.blame(channel, problem)
            return None
        if heard is not None and heard.opened:
            if channel.problem is not None:
                log.info("source %s is back", channel.name)
            channel.opened()
        return heard

    # -- what went wrong -----------------------------------------------------------------------------------------------

    def blame(self, channel: Channel, problem: WeirError) -> None:
        """The source has failed."""
        units = self.units_of(channel.name)
        if isinstance(problem, Concerning) and self._stop_concerned(channel, units, problem):
            return
        if channel.problem is None:
            log.warning("%s; its views wait, and go on when it is back", problem)
        channel.fail(problem)
        for unit in units:
            unit.interrupt(f"waits for source {channel.name}: {problem}")

    def _stop_concerned(self, channel: Channel, units: Sequence[Unit], problem: Concerning) -> bool:
        """Stops those of a source's units that cannot go on, and lets the others begin anew; False: it is the source's
        own trouble.
        """
        found, new = problem.units, {unit.name for unit in units if unit.state == NEW}
        if isinstance(problem.problem, CannotWatch) and len(found) in (0, len(units)):
            return False
        channel.give_up()
        first = not found and 0 < len(new) < len(units)  # those that are loaded go first: what came before is theirs
        for unit in units:
            unit.interrupt(f"waits for source {channel.name}: {problem}", _PAUSE if first and unit.name in new else 0.0)
            if not first and (unit.name in found or not found):
                self.stop_unit(unit, way_out(unit, found.get(unit.name, problem.problem)))
        return True

    def trouble(self, unit: Unit, problem: Exception) -> None:
        """A unit could not be brought on: its views wait for the source that is to blame, or stop."""
        told = explained(problem, unit.name)
        if isinstance(told, CannotWrite):
            unit.interrupt(str(told), STORE_PAUSES.first)
        elif isinstance(told, SourceFailed) and not isinstance(told.problem, TROUBLE):
            self.blame(self.channels[told.source], told.problem)
            unit.interrupt(f"waits for source {told.source}: {told.problem}")
        elif isinstance(told, SourceFailed):  # whom it concerns shows when the source is opened again
            self._set_back(unit, told.problem, f"waits for source {told.source}: {told.problem}", way_out)
        elif isinstance(told, Unforeseen):
            self._set_back(unit, told, f"{told}; it is tried again")
        else:
            self.stop_unit(unit, told)

    @staticmethod
    def give_way(unit: Unit, why: str) -> None:
        """Its work was called off: a source says nothing, and others need the cores."""
        unit.called_off += 1
        unit.interrupt(why)

    def _set_back(
        self, unit: Unit, problem: WeirError, why: str, last: Callable[[Unit, WeirError], WeirError] | None = None
    ) -> None:
        """Tried again a few times in a row."""
        if unit.setbacks < (TASK_PAUSES.times or 0):
            unit.setbacks += 1
            log.warning("view %s: %s", unit.name, why)
            unit.interrupt(why, TASK_PAUSES.after(unit.setbacks))
        else:
            self.stop_unit(unit, problem if last is None else last(unit, problem))

    def stop_unit(self, unit: Unit, problem: WeirError) -> None:
        log.error("view %s stops: %s", unit.name, problem)
        unit.stop(problem)
