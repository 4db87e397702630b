"""Which sources can be visited and which units can take part in a round; what happens to those that cannot.

A source that is down is tried again with growing pauses; its views wait, the others go on. What cannot go on as it is
(its log no longer reaches back, a table has another shape) stops the views that it concerns (``concerns``), with what
to do. A unit that waits holds nothing in memory: it is made again from its tables, and its sources are resumed at the
oldest position of all their units.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.types import Schema
from weir.rounds.channels import Channel
from weir.rounds.concerns import TROUBLE, concerned, needed_at, way_out
from weir.rounds.units import FAILED, NEW, RUNNING, WAITING, Unit
from weir.sources.source import CannotWatch, Source
from weir.sweeping.failures import SourceFailed, explained

log = logging.getLogger("weir")
T = TypeVar("T")
_PAUSE = 1.0  # seconds that a new unit lets others go first


class Readiness:
    """The state of sources and units."""

    def __init__(
        self, channels: Mapping[str, Channel], units: Sequence[Unit], schemas: dict[Relation, Schema]
    ) -> None:
        self.channels, self.units, self.schemas = channels, units, schemas

    def live_units(self) -> list[Unit]:
        return [unit for unit in self.units if unit.state != FAILED]

    def ready(self) -> list[Unit]:
        """Those that can take part in a round; one that waits holds nothing in memory."""
        return [unit for unit in self.units if unit.state in (NEW, RUNNING)]

    def needed_channels(self) -> list[Channel]:
        names = dict.fromkeys(source for unit in self.live_units() for source in unit.sources)
        return [self.channels[name] for name in names]

    def make_ready(self) -> None:
        """Revives units that can go on, and opens sources that are closed."""
        for unit in self.live_units():
            reachable = all(self.channels[source].may_be_tried for source in unit.sources)
            if unit.state == WAITING and reachable and time.monotonic() >= unit.retry_at:
                self._revive(unit)
        closed = [channel for channel in self.needed_channels() if not channel.followed and channel.may_be_tried]
        for channel, future in [(channel, channel.call(self._opening(channel.name))) for channel in closed]:
            was_down = channel.problem is not None
            if self.went_well(channel, future):
                channel.opened()
                if was_down:
                    log.info("source %s is back", channel.name)

    def _revive(self, unit: Unit) -> None:
        """Its sources are to be resumed where the oldest unit stands."""
        try:
            unit.revive()
        except WeirError as problem:
            self.stop_unit(unit, problem)
            return
        for source in unit.sources:
            self.channels[source].reopen()

    def _opening(self, name: str) -> Callable[[Source], None]:
        """Watches the tables and goes on at the oldest position; where nobody has one, the log is followed from now."""
        for relation in [relation for relation in self.schemas if relation.source == name]:
            del self.schemas[relation]  # what units needed that have stopped may not be there any more
        self.schemas.update(needed_at(name, self.live_units()))
        columns = {relation: schema.names for relation, schema in self.schemas.items() if relation.source == name}
        units = [unit for unit in self.live_units() if name in unit.positions]

        def open_(source: Source) -> None:
            source.watch(columns)
            if not units:
                source.load()
                source.end_load()
                return
            oldest, *later = sorted({str(unit.positions[name]) for unit in units}, key=source.order)
            source.resume(oldest, later)
            for unit in units:
                if unit.positions[name] != oldest:
                    unit.overlap.add(name)

        return open_

    # -- what became of a call -----------------------------------------------------------------------------------------

    def went_well(self, channel: Channel, future: Future[T]) -> bool:
        """Waits for a call; where it has failed, the source's views wait or stop."""
        try:
            future.result()
        except WeirError as problem:
            self.blame(channel, problem)
            return False
        return True

    def blame(self, channel: Channel, problem: WeirError) -> None:
        """The source has failed."""
        units = [unit for unit in self.live_units() if channel.name in unit.sources]
        if isinstance(problem, TROUBLE) and self._stop_concerned(channel, units, problem):
            return
        if channel.problem is None:
            log.warning("%s; its views wait, and go on when it is back", problem)
        channel.fail(problem)
        for unit in units:
            unit.interrupt(f"waits for source {channel.name}: {problem}")

    def _stop_concerned(self, channel: Channel, units: Sequence[Unit], problem: WeirError) -> bool:
        """Stops those of a source's units that cannot go on, and lets the others begin anew; False: it is the source's
        own trouble.
        """
        anew = {unit.name for unit in units if unit.state == NEW}
        channel.give_up()
        for unit in units:
            unit.interrupt(f"waits for source {channel.name}: {problem}")
        try:
            found = channel.call(partial(concerned, units=units)).result() if len(units) > 1 else {}
        except WeirError:
            return False  # it is away
        if isinstance(problem, CannotWatch) and len(found) in (0, len(units)):
            return False
        if not found and 0 < len(anew) < len(units):  # those that are loaded go first: what came before is theirs
            for unit in units:
                unit.interrupt(unit.problem, _PAUSE if unit.name in anew else 0.0)
            return True
        for unit in units:
            if unit.name in found or not found:
                self.stop_unit(unit, way_out(unit, found.get(unit.name, problem)))
        return True

    def trouble(self, unit: Unit, problem: Exception) -> None:
        """A unit could not be brought on: its views wait for the source that is to blame, or stop."""
        told = explained(problem, unit.name)
        if isinstance(told, SourceFailed):
            self.blame(self.channels[told.source], told.problem)
        else:
            self.stop_unit(unit, told)

    def stop_unit(self, unit: Unit, problem: WeirError) -> None:
        log.error("view %s stops: %s", unit.name, problem)
        unit.stop(problem)
