"""A unit that cannot go on while it is at work: it finishes that, and nobody asks its sources for it meanwhile."""

from __future__ import annotations

from weir.algebra.errors import WeirError
from weir.rounds.readiness import Readiness
from weir.rounds.units import FAILED, NEW, Unit


def test_it_is_told_once() -> None:
    """Else the same trouble would be found, and told, at every round of a long load."""
    unit = Unit("lines", [])
    readiness = Readiness({}, [unit], {})
    unit.at_work = True
    unit.stop(WeirError("its log is gone"))
    assert (unit.state, readiness.live_units()) == (NEW, [])
    unit.end_work()
    assert (unit.state, unit.problem) == (FAILED, "its log is gone")
