"""Audits that are asked for while rounds go on: all views of one are compared at one vector, and nobody else waits.

The units concerned gather: when all of them are loaded, whoever comes back from work rests until all can set out in the
same round. From then on they stand still until the comparison is done. Who cannot come (it waits, it has failed, a
source of its says nothing) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from weir.rounds.channels import Channel
from weir.rounds.loading import Frames
from weir.rounds.units import NEW, RUNNING, Unit
from weir.rounds.views import MaintainedView

Auditor = Callable[[MaintainedView, Frames], None]


@dataclass(eq=False)
class AuditRequest:
    """``keep``: what to do with a view's tables as the snapshots show them; what went wrong with it is nobody else's
    trouble. ``gone``: the units that have set out.
    """

    names: frozenset[str]  # of views
    keep: Auditor
    gone: Collection[str] | None = None
    problems: dict[str, Exception] = field(default_factory=dict)  # by view

    def concerns(self, unit: Unit) -> bool:
        """Whether one of its views is to be compared."""
        return any(view.name in self.names for view in unit.views)


@dataclass
class Audits:
    """Those that are not done yet."""

    channels: Mapping[str, Channel]
    units: Sequence[Unit]
    requests: list[AuditRequest] = field(default_factory=list)

    def _coming(self, request: AuditRequest) -> list[Unit]:
        """Those that will be able to set out, sooner or later."""
        return [unit for unit in self.units if request.concerns(unit) and self._can_come(unit)]

    def _can_come(self, unit: Unit) -> bool:
        silent = any(self.channels[source].silent for source in unit.sources)
        return not silent and not unit.is_last and (unit.at_work or unit.state in (NEW, RUNNING))

    def wants(self, unit: Unit) -> bool:
        """Whether it is to set out, though it may have nothing to do."""
        return any(request.gone is None and request.concerns(unit) for request in self.requests)

    def rests(self, unit: Unit) -> bool:
        """Whether it is to wait for the others; not for one that is still being loaded."""
        asking = [request for request in self.requests if request.gone is None and request.concerns(unit)]
        return any(all(other.state != NEW for other in self._coming(request)) for request in asking)

    def stands_still(self, unit: Unit) -> bool:
        """Whether it has set out, and is not compared yet."""
        return any(request.gone is not None and unit.name in request.gone for request in self.requests)

    def gathered(self, able: Collection[Unit]) -> list[Unit]:
        """Those that set out for an audit now; others of ``able`` may have to wait for the rest of theirs."""
        ready: list[Unit] = []
        for request in self.requests:
            coming = self._coming(request)
            free = all(unit in able and not unit.needs_load and not self.stands_still(unit) for unit in coming)
            if request.gone is None and free:
                request.gone = {unit.name for unit in coming}
                ready += coming
        return ready

    def of(self, unit: Unit) -> Sequence[AuditRequest]:
        """Those for which it has set out."""
        return [request for request in self.requests if request.gone is not None and unit.name in request.gone]
