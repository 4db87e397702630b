"""Units that work together, each party in a thread of its own: what holds one up holds up nobody else.

Units that have the same sources, and whose sweeps are delegated to tasks, go together: one Spark job sweeps for all of
them, and a source that fails or hangs concerns every one. Whoever works by questions of its own, or has to be loaded,
goes alone.

A party works in snapshots that were held when it set out: it receives what was delivered up to them, asks until nobody
has a question any more, and is done. Nothing outside its units is changed by it; what went wrong is told to the round.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count

from weir.rounds.audits import AuditRequest
from weir.rounds.delivery import Block
from weir.rounds.holds import Hold
from weir.rounds.units import Unit


@dataclass
class Party:
    """Some units at work."""

    units: Sequence[Unit]
    blocks: Mapping[str, Sequence[Block]]  # by unit: what it is handed over
    holds: Mapping[str, Hold]  # by source
    seen: float  # when the sources were asked for what it is handed over
    loads: bool = False  # its one unit is to be loaded
    audits: Mapping[str, Sequence[AuditRequest]] = field(default_factory=dict)  # by unit: who wants to see its tables
    number: int = field(default_factory=count().__next__)
    began: float = field(default_factory=time.monotonic)
    late: bool = False
    called_off: str = ""  # why: what its units wait for
    abandoned: bool = False  # nobody waits for it any more: it must not commit
    done: Future[None] = field(default_factory=Future)
    problems: dict[str, Exception] = field(default_factory=dict)  # by unit
    loaded: list[str] = field(default_factory=list)
    transactions: int = 0

    @property
    def is_audited(self) -> bool:
        return any(self.audits.values())

    @property
    def age(self) -> float:
        """Seconds since it set out, or was called off."""
        return time.monotonic() - self.began

    @property
    def work(self) -> str:
        """The name of its Spark jobs."""
        return f"weir-party-{os.getpid()}-{self.number}"

    @property
    def well(self) -> list[Unit]:
        """Those without a problem."""
        return [unit for unit in self.units if unit.name not in self.problems]

    def disperse(self) -> None:
        """Its snapshots are not needed any more."""
        for hold in self.holds.values():
            hold.leave()


def parties(units: Iterable[Unit]) -> list[list[Unit]]:
    """Who goes with whom."""
    together: dict[object, list[Unit]] = {}
    for unit in units:
        held = frozenset(hold.number for hold in unit.holds.values())
        together.setdefault(held if _follows(unit) else unit.name, []).append(unit)
    return list(together.values())


def _follows(unit: Unit) -> bool:
    """Whether others can go with it: nothing but delegated sweeps to do."""
    delegating = all(view.choice.algorithm.facts.delegates for view in unit.views)
    return delegating and not unit.needs_load
