"""A mutation: an algorithm with one bug, the scenario that shows it, and what exploring it finds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from weir.algorithms.base import Algorithm
from weir.algorithms.registry import algorithm
from weir.consistency.levels import NAMES
from weir.simulator.builtin import find
from weir.simulator.cases import kind_of
from weir.simulator.explore import TooManyStates, every_schedule
from weir.simulator.generate import Shape, generate
from weir.simulator.scenario import Scenario

STATES = 5_000  # no algorithm needs more for a scenario here; with a bug it may never come to rest
ENDLESS = "endless"  # a run that never comes to rest, where the unmutated algorithm does


@dataclass(frozen=True)
class Case:
    """A built-in scenario by name, or one made from a seed."""

    name: str
    seed: int = 0
    sources: int = 3
    updates: int = 2
    keyed: bool = True
    fifo: bool = True

    def scenario(self) -> Scenario:
        if not self.seed:
            return find(self.name)
        shape = Shape(self.name, self.sources, 3, self.updates, self.keyed, fifo=self.fifo)
        return generate(shape, self.seed)


@dataclass(frozen=True)
class Mutation:
    """One planted bug: ``says`` in one sentence, made by a subclass or by patches of what the algorithm calls.

    ``options`` go to both, the algorithm and its mutant; ``broken_options`` to the mutant only.
    """

    name: str
    says: str
    of: str
    case: Case
    mutant: type[Algorithm] | None = None
    patches: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    broken_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def claim(self) -> str:
        """The level that the algorithm promises for such a scenario."""
        return algorithm(self.of).facts.claims[kind_of(self.case.scenario())]

    def held_without(self) -> str:
        """The level that the algorithm itself holds."""
        return _held(self.case.scenario(), algorithm(self.of), self.options)

    def held_with(self) -> str:
        """The level that is left with the bug. On a scenario of its own: sources remember what nodes did there."""
        with ExitStack() as stack:
            for target, value in self.patches.items():
                stack.enter_context(patch(target, value))
            options = {**self.options, **self.broken_options}
            return _held(self.case.scenario(), self.mutant or algorithm(self.of), options)


def is_below(level: str, claim: str) -> bool:
    return level == ENDLESS or NAMES.index(level) < NAMES.index(claim)


def _held(scenario: Scenario, kind: type[Algorithm], options: Mapping[str, Any]) -> str:
    try:
        return every_schedule(scenario, lambda: scenario.begin(kind, **options), STATES).held
    except TooManyStates:
        return ENDLESS
