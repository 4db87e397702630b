"""The spectrum: the level that every algorithm holds on all schedules explored, in every transaction scenario.

A **cell** is an algorithm in a transaction scenario. It is measured in two ways, and holds what all schedules of both
hold:

- every schedule of small scenarios (up to 3 sources and 4 updates), as far as a budget of states reaches;
- random schedules of larger ones (up to 5 sources and 30 updates). Here a run only has to show that it holds no less
  than is known of the cell already. By the vectors its commits carry, where they prove that; else by searching the
  lattice.

An algorithm that asks one source for everything is refused over several. It is measured there all the same, hop by
hop, so that the table shows why. Cells are independent of each other: the result is the same, however many processes
share them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

from weir.algorithms.base import GLOBAL, SCENARIOS, Algorithm, Facts, NeedNotMet
from weir.algorithms.procedure import Reply
from weir.algorithms.registry import ALGORITHMS
from weir.algorithms.registry import algorithm as registered
from weir.algorithms.sweep import Sweep
from weir.consistency.carried import check_vectors
from weir.consistency.checker import highest_level
from weir.consistency.levels import NAMES, next_above
from weir.messages import Answer
from weir.simulator.cases import Size, built_in, generated
from weir.simulator.explore import TooManyStates, ViewStates, every_schedule, run_at_random, run_listed
from weir.simulator.scenario import Expectation, ListedSchedule, Scenario, write
from weir.simulator.step import Schedule
from weir.simulator.world import World

MANY_VECTORS = 1000  # from here on the carried vectors are tried first
HASTE = (None, 0.1, 0.4)  # of random runs, in turn (see run_at_random)
# Of long runs: what queues up in a hurry makes some algorithms ask exponentially much.
LITTLE_HASTE, LEAST_HASTE = (0.15,), (0.03,)


class SweepUncompensated(Sweep):
    """A control: SWEEP that believes every answer."""

    facts = Facts(0, "sweep-uncompensated", "control", {}, "2(n-1)")

    def reply_for(self, key: Any, answer: Answer) -> Reply:
        return Reply(answer.bags)


EXPLAINED = {
    (
        "t-strobe",
        GLOBAL,
    ): "the paper's weak asks that each source be in a state of its own, and lets a global transaction be "
    "shown in parts; here a state must hold it wholly or not at all. Part by part it is strong",
}
"""Claims that do not hold as measured here, and why (docs/spectrum.md)."""

CONTROLS: dict[str, type[Algorithm]] = {SweepUncompensated.facts.name: SweepUncompensated}


def chosen(names: Sequence[str] = ()) -> list[type[Algorithm]]:
    """The algorithms of these names, controls among them; without names all there are."""
    return [CONTROLS.get(name) or registered(name) for name in names or (*ALGORITHMS, *CONTROLS)]


# -- how much ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Runs:
    """So many random schedules of each scenario of a size."""

    size: Size
    each: int
    haste: tuple[float | None, ...] = HASTE


@dataclass(frozen=True)
class Effort:
    """How much is tried per cell: sizes explored wholly, within a budget of states, and sizes tried by lot.

    ``refused``: sizes tried by lot where the algorithm would refuse the view; its questions explode there.
    """

    small: tuple[Size, ...]
    states: int
    states_each: int
    large: tuple[Runs, ...]
    refused: tuple[Runs, ...]


FULL = Effort(
    (Size(8, 2, 3, 2), Size(8, 3, 3, 2), Size(6, 2, 3, 3), Size(8, 3, 3, 3), Size(4, 3, 3, 4)),
    states=30_000, states_each=10_000,
    large=(
        Runs(Size(20, 3, 3, 5), 420), Runs(Size(10, 2, 4, 6), 100), Runs(Size(10, 3, 4, 8), 40),
        Runs(Size(10, 4, 4, 12), 12, LITTLE_HASTE), Runs(Size(5, 5, 5, 20), 8, LEAST_HASTE),
        Runs(Size(5, 5, 5, 30), 8, LEAST_HASTE),
    ),
    refused=(Runs(Size(10, 3, 3, 4), 500), Runs(Size(10, 2, 3, 4), 500)),
)  # fmt: skip
QUICK = Effort(
    (Size(4, 2, 3, 2), Size(4, 3, 3, 2), Size(2, 3, 3, 3)),
    states=2_500, states_each=1_500,
    large=(Runs(Size(4, 3, 3, 4), 30), Runs(Size(3, 3, 4, 6), 20), Runs(Size(2, 4, 4, 12), 10, LITTLE_HASTE)),
    refused=(Runs(Size(2, 3, 3, 4), 50), Runs(Size(2, 2, 3, 4), 50)),
)  # fmt: skip


# -- what was found ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoundSchedule:
    """A schedule of a scenario, and the level it holds."""

    scenario: Scenario
    schedule: Schedule


@dataclass
class Cell:
    """One cell. ``shortest``: for every level that some schedule holds at the most, a shortest such schedule."""

    algorithm: type[Algorithm]
    kind: str
    shortest: dict[str, FoundSchedule] = field(default_factory=dict)
    by_parts: str = "complete"  # measured with every part of a global transaction as a transaction of its own
    explored: int = 0  # schedules, all of each small scenario
    by_lot: int = 0  # schedules, random ones
    states: int = 0
    scenarios: int = 0
    refused: str | None = None

    @property
    def claimed(self) -> str:
        return self.algorithm.facts.claims.get(self.kind, "none")

    @property
    def measured(self) -> str:
        return min(self.shortest, key=NAMES.index, default="complete")

    @property
    def schedules(self) -> int:
        return self.explored + self.by_lot

    @property
    def claim_holds(self) -> bool:
        return NAMES.index(self.measured) >= NAMES.index(self.claimed)

    @property
    def explained(self) -> str | None:
        """Why the claim does not hold here, where that is known."""
        return None if self.claim_holds else EXPLAINED.get((self.algorithm.facts.name, self.kind))

    @property
    def broken(self) -> str | None:
        """The next level above the one measured: what the counterexample breaks."""
        return next_above(self.measured)

    def note(self, level: str, scenario: Scenario, schedule: Schedule) -> None:
        known = self.shortest.get(level)
        if known is None or len(schedule) < len(known.schedule):
            self.shortest[level] = FoundSchedule(scenario, schedule)

    def counterexample(self) -> Scenario | None:
        """The shortest schedule that breaks the next level, as a scenario that says what happens there."""
        if self.broken is None:
            return None
        found, name = self.shortest[self.measured], self.algorithm.facts.name
        world = found.scenario.begin(self.algorithm, unchecked=True)
        steps = run_listed(world, found.schedule)
        outcome = Expectation(world.states[-1], world.states, highest_level(found.scenario.lattice, world.states))
        listed = ListedSchedule(f"the shortest schedule found that is not {self.broken}", steps, {name: outcome})
        title = f"{name}, {self.kind}: {self.measured}, not {self.broken}"
        return replace(found.scenario, title=title, schedules=(listed,), expect={}, note=found.scenario.title)

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        example = self.counterexample()
        return {
            "algorithm": self.algorithm.facts.name,
            "scenario": self.kind,
            "claimed": self.claimed,
            "measured": self.measured,
            "schedules": self.schedules,
            "counterexample": write(example) if example else None,
        }


# -- measuring --------------------------------------------------------------------------------------------------------


def measure(
    algorithms: Iterable[type[Algorithm]],
    effort: Effort = FULL,
    seed: int = 0,
    processes: int = 2,
    progress: Callable[[Cell], None] = lambda row: None,
) -> list[Cell]:
    """Every cell of these algorithms, in order; ``progress`` is told of each as it is done."""
    cells = [(algorithm.facts.name, kind) for algorithm in algorithms for kind in SCENARIOS]
    work = partial(_measure_cell, effort=effort, seed=seed)
    rows = []
    with ProcessPoolExecutor(processes) if processes > 1 else nullcontext() as pool:
        for row in pool.map(work, cells) if pool else map(work, cells):
            rows.append(row)
            progress(row)
    return rows


def _measure_cell(cell: tuple[str, str], effort: Effort, seed: int) -> Cell:
    name, kind = cell
    row = Cell(chosen([name])[0], kind)
    explore_small(row, effort, seed)
    run_large(row, effort, seed)
    return row


def explore_small(row: Cell, effort: Effort, seed: int) -> None:
    """Every schedule of small scenarios, smaller ones first, until the budget is spent."""
    made = (scenario for size in effort.small for scenario in generated(row.kind, row.algorithm, size, seed))
    for scenario in (*built_in(row.kind, row.algorithm), *made):
        limit = min(effort.states_each, effort.states - row.states)
        if limit <= 0:
            return
        try:
            found = every_schedule(scenario, partial(scenario.begin, row.algorithm, unchecked=True), limit)
        except TooManyStates:
            row.states += limit
            continue
        _note_refusal(row, scenario)
        row.scenarios += 1
        row.states += found.states
        row.explored += found.schedules
        for level, schedule in found.levels().items():
            row.note(level, scenario, schedule)
        _note_parts(row, scenario, found.histories)


def _note_refusal(row: Cell, scenario: Scenario) -> None:
    if row.refused is None:
        try:
            row.algorithm.check(scenario.view)
        except NeedNotMet as problem:
            row.refused = str(problem)


def _note_parts(row: Cell, scenario: Scenario, histories: Iterable[ViewStates]) -> None:
    if row.kind == GLOBAL:
        lattice = in_parts(scenario).lattice
        levels = [row.by_parts, *(highest_level(lattice, history) for history in histories)]
        row.by_parts = min(levels, key=NAMES.index)


def in_parts(scenario: Scenario) -> Scenario:
    """The scenario with every part of a global transaction as a transaction of its own."""
    return replace(scenario, updates=tuple(replace(update, part_of=None) for update in scenario.updates))


def run_large(row: Cell, effort: Effort, seed: int) -> None:
    """Random schedules of larger scenarios."""
    for runs in effort.refused if row.refused else effort.large:
        for scenario in generated(row.kind, row.algorithm, runs.size, seed):
            _run_at_random(row, scenario, runs, seed)


def _run_at_random(row: Cell, scenario: Scenario, runs: Runs, seed: int) -> None:
    start = scenario.begin(row.algorithm, unchecked=True)
    judged: set[ViewStates] = set()
    _note_refusal(row, scenario)
    row.scenarios += 1
    for number in range(runs.each):
        world = start.fork()
        dice = random.Random(f"{seed}/{scenario.title}/{number}")
        schedule = run_at_random(world, dice, runs.haste[number % len(runs.haste)])
        row.by_lot += 1
        row.states += len(schedule)
        if world.states not in judged:
            judged.add(world.states)
            if (level := level_below(row.measured, scenario, world)) is not None:
                row.note(level, scenario, schedule)


def level_below(floor: str, scenario: Scenario, world: World) -> str | None:
    """The level of a run that is over, when it is below ``floor``; cheap reasons that it is not come first."""
    lattice = scenario.lattice
    if floor == "none":
        return None
    if world.states[-1] != lattice.final_value:
        return "none"
    if floor == "convergence":
        return None
    vectors = prod(position + 1 for position in lattice.final)
    if vectors > MANY_VECTORS and _carried_vectors_prove(floor, scenario, world):
        return None
    level = highest_level(lattice, world.states)
    return level if NAMES.index(level) < NAMES.index(floor) else None


def _carried_vectors_prove(level: str, scenario: Scenario, world: World) -> bool:
    vectors = [scenario.lattice.vector(positions) for positions in world.vectors]
    return check_vectors(scenario.lattice, scenario.lattice.value, world.states, vectors).holds(level)
