"""How far a source may forget its log: no further than any view of the warehouse has come that reads it.

Every view counts, whether it runs, waits, has failed, or was not admitted because another of its sources is away or its
definition was changed: when it goes on it goes on from its last commit, and what it has not got must still be there. A
view stops counting when it is dropped from the project, or when it is to be loaded again. What is kept for whom is told
in ``weir status``: somebody has to look after a view that waits for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weir.messages import Position
from weir.rounds.units import Unit


@dataclass
class Retention:
    """``outside``: of views that are not run, by name, where each of their sources was at the last commit."""

    units: Sequence[Unit]
    outside: dict[str, Mapping[str, Position]] = field(default_factory=dict)

    def needed(self, source: str) -> dict[str, str]:
        """By view or unit, the position from which on it needs the log."""
        within = {unit.name: _last(unit) for unit in self.units}
        known = {**self.outside, **within}
        return {name: str(positions[source]) for name, positions in known.items() if source in positions}


def _last(unit: Unit) -> Mapping[str, Position]:
    """One that is being loaded will go on from there; one that is yet to be loaded needs nothing that was before."""
    if unit.durable and not unit.anew:
        return unit.durable
    return unit.positions if unit.at_work else {}
