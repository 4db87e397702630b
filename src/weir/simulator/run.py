"""One run of a scenario, told whole: its schedule, its trace, what it cost and which level it held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weir.algebra.memory import MemoryBag
from weir.algorithms.base import Algorithm
from weir.consistency.checker import check
from weir.consistency.history import Vector
from weir.consistency.levels import next_above
from weir.consistency.verdict import Verdict
from weir.consistency.witness import Placed
from weir.simulator.counters import Counters
from weir.simulator.explore import run_listed
from weir.simulator.scenario import Expectation, Scenario
from weir.simulator.step import Schedule
from weir.simulator.trace import Event, Trace
from weir.simulator.world import World

WorldDriver = Callable[[World], Schedule]  # takes a world to its end and tells the steps
_PLACING = ("complete", "strong", "consistency", "weak", "weak-eca")  # whose witnesses place every state, best first


@dataclass(frozen=True)
class FinishedRun:
    """What came of one schedule. ``states[0]`` is the view before anything happened."""

    scenario: Scenario
    algorithm: type[Algorithm]
    schedule: Schedule
    events: tuple[Event, ...]
    states: tuple[MemoryBag, ...]
    counters: Counters
    verdict: Verdict

    @property
    def level(self) -> str:
        """The highest level it holds."""
        return self.verdict.highest

    @property
    def final(self) -> MemoryBag:
        return self.states[-1]

    @property
    def expected(self) -> MemoryBag:
        """The true view: over the sources as they are in the end."""
        return self.scenario.lattice.final_value

    def places(self, number: int) -> tuple[str, ...]:
        """The vectors at which the view looks like state ``number``, in words; none for a state that never was.

        First comes the one that the verdict places it at, where there is a verdict that places all states.
        """
        lattice = self.scenario.lattice
        vectors = dict.fromkeys([*self._chosen(number), *lattice.places(self.states[number])])
        return tuple(lattice.describe(vector) for vector in vectors)

    def _chosen(self, number: int) -> list[Vector]:
        placing = (self.verdict.witness(name) for name in _PLACING)
        return [witness.vectors[number] for witness in placing if isinstance(witness, Placed)][:1]

    def shortfall(self) -> tuple[str, str] | None:
        """The next level above the one held, and why it fails; None when there is none above."""
        above = next_above(self.level)
        return (above, self.verdict.explain(above)) if above else None

    def failures(self, expected: Expectation) -> list[str]:
        """What a listed schedule demands and this run does not do, in words."""
        failed = []
        if expected.end is not None and expected.end != self.final:
            failed.append(f"the view ends as {{{self.final}}}, expected {{{expected.end}}}")
        if expected.states is not None and expected.states != self.states:
            failed.append(f"the states are {_sequence(self.states)}, expected {_sequence(expected.states)}")
        if expected.level is not None and expected.level != self.level:
            failed.append(f"the level is {self.level}, expected {expected.level}")
        return failed


def run(scenario: Scenario, algorithm: type[Algorithm], steps: Schedule = (), unchecked: bool = False) -> FinishedRun:
    """Runs the given steps, then what they leave open in the default order."""
    return drive(scenario, algorithm, lambda world: run_listed(world, steps), unchecked)


def drive(scenario: Scenario, algorithm: type[Algorithm], driver: WorldDriver, unchecked: bool = False) -> FinishedRun:
    """Runs a scenario to its end as ``driver`` decides, and watches."""
    world = scenario.begin(algorithm, unchecked)
    trace, counters = Trace.of(world), Counters()
    world.observers += (counters,)
    schedule = driver(world)
    reads = [world.states[at] for at in world.reads] if world.reads else None
    verdict = check(scenario.lattice, world.states, reads)
    return FinishedRun(scenario, algorithm, schedule, tuple(trace.events), world.states, counters, verdict)


def _sequence(states: tuple[MemoryBag, ...]) -> str:
    return ", ".join(f"{{{state}}}" for state in states)
