"""Refresh times in virtual time: from the moment an update reaches the warehouse until the view shows it.

A message takes one unit of time (the paper's t) either way; work at the sources and at the warehouse takes none, as the
paper assumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir.algebra.memory import MemoryBag
from weir.algorithms.base import Algorithm
from weir.messages import Ask, Commit, Message, Update
from weir.simulator.clock import Clock
from weir.simulator.scenario import Scenario
from weir.simulator.world import Observer, World


@dataclass(frozen=True)
class Timed:
    """One run: when each update was received and shown, how many questions were asked."""

    received: Mapping[str, float]
    shown: Mapping[str, float]
    questions: int

    def refresh(self, update: str) -> float:
        return self.shown[update] - self.received[update]

    @property
    def average(self) -> float:
        return sum(map(self.refresh, self.shown)) / len(self.shown)

    @property
    def span(self) -> float:
        """From the first update received to the last one shown."""
        return max(self.shown.values()) - min(self.received.values())


class _Watch(Observer):
    """An observer with an eye on the clock."""

    def __init__(self, scenario: Scenario, clock: Clock) -> None:
        self.updates, self.clock = scenario.updates, clock
        self.arrived: dict[str, float] = {}
        self.shown: dict[str, float] = {}
        self.questions = 0

    def asked(self, ask: Ask) -> None:
        self.questions += 1

    def delivered(self, message: Message) -> None:
        if isinstance(message, Update):
            self.arrived[message.name] = self.clock.now

    def committed(self, commit: Commit, view: MemoryBag) -> None:
        for update in self.updates:
            position = commit.positions.get(update.source, 0)
            if isinstance(position, int) and position >= update.position:  # type: ignore[operator]
                self.shown.setdefault(update.name, self.clock.now)


def timed(scenario: Scenario, algorithm: type[Algorithm], when: Mapping[str, float], **options: Any) -> Timed:
    """Runs with the transactions at the given times."""
    world = scenario.begin(algorithm, **options)
    clock = Clock(world, when=when)
    watch = _Watch(scenario, clock)
    world.observers = (watch,)
    clock.run()
    return Timed(watch.arrived, watch.shown, watch.questions)


def auxiliary_rows(world: World) -> int:
    """What the auxiliary views of a world hold, every row as often as it is held."""
    return sum(bag.cardinality for bag in world.algorithm.auxiliary.values())  # type: ignore[attr-defined]
