"""Exploration: every schedule of a small scenario, or many random ones of a larger one.

``every_schedule`` walks the graph of states breadth first. Two orders of independent steps lead to the same state and
are followed once; so are two schedules whose states behave alike from here on and showed the reader the same. How many
schedules that stands for is counted along the way, as the number of paths. What comes out is the set of different
*histories* (sequences of view states), each with a shortest schedule that leads to it, which is all a checker needs.

A perpetual algorithm never stops by itself, and its idle turns lead back to a state that was there before. Such a state
is not followed again, so no history is missed; the schedules counted are then those that reach every state as early as
can be. Everything ends when all transactions have run and only idle messages are left (``World.resting``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from weir.algebra.errors import WeirError
from weir.algebra.memory import MemoryBag
from weir.consistency.checker import highest_level
from weir.consistency.levels import NAMES
from weir.simulator.scenario import Scenario
from weir.simulator.step import ANSWER, DELIVER, IDLE, RUN, Schedule, Step
from weir.simulator.world import World


class TooManyStates(WeirError):
    """A scenario too large for every schedule of it to be explored."""


ViewStates = tuple[MemoryBag, ...]
STATE_LIMIT = 3_000_000
_DEFAULT_ORDER = (DELIVER, ANSWER, RUN, IDLE)
_RESTING_ORDER = (RUN, DELIVER, ANSWER, IDLE)  # idle messages never end: nobody waits for them


@dataclass
class Exploration:
    """What exploring found: every different history with the shortest schedule to it."""

    scenario: Scenario
    histories: dict[ViewStates, Schedule] = field(default_factory=dict)
    schedules: int = 0  # how many schedules that stands for
    states: int = 0  # how many different states were visited

    def levels(self) -> dict[str, Schedule]:
        """Every level that some history holds at the most, with a shortest such schedule."""
        found: dict[str, Schedule] = {}
        for history, schedule in self.histories.items():
            level = highest_level(self.scenario.lattice, history)
            if level not in found or len(schedule) < len(found[level]):
                found[level] = schedule
        return found

    @property
    def held(self) -> str:
        """The highest level that every history holds."""
        return min(self.levels(), key=NAMES.index)

    def counterexample(self, level: str) -> Schedule | None:
        """A shortest schedule that breaks ``level``."""
        below = [schedule for name, schedule in self.levels().items() if NAMES.index(name) < NAMES.index(level)]
        return min(below, key=len) if below else None


@dataclass
class _Node:
    """A state on the way: its world, how many schedules lead to it, and one shortest of them."""

    world: World
    paths: int
    parent: _Trail | None


@dataclass(frozen=True, slots=True)
class _Trail:
    """A schedule as a chain from its last step back to its first."""

    step: Step
    before: _Trail | None

    def schedule(self) -> Schedule:
        steps: list[Step] = []
        at: _Trail | None = self
        while at is not None:
            steps.append(at.step)
            at = at.before
        return tuple(reversed(steps))


def every_schedule(scenario: Scenario, begin: Callable[[], World], limit: int = STATE_LIMIT) -> Exploration:
    """Explores every schedule; TooManyStates when there are more states than ``limit``."""
    found = Exploration(scenario)
    start = begin()
    layer: dict[object, _Node] = {start.key(): _Node(start, 1, None)}
    earlier: set[object] = set()  # states of the layers before, where they can come again
    while layer:
        if start.algorithm.perpetual:
            layer = {key: node for key, node in layer.items() if key not in earlier}
            earlier |= layer.keys()
        following: dict[object, _Node] = {}
        for node in layer.values():
            found.states += 1
            if found.states > limit:
                raise TooManyStates(
                    f"more than {limit} states in '{scenario.title}': explore it at random (--seed), or make it smaller"
                )
            steps = node.world.enabled()
            if not steps:
                found.schedules += node.paths
                found.histories.setdefault(node.world.states, node.parent.schedule() if node.parent else ())
            for step, world in _successors(node.world, steps):
                _visit(following, world, node, step)
        layer = following
    return found


def _successors(world: World, steps: list[Step]) -> Iterator[tuple[Step, World]]:
    for step in steps[:-1]:
        twin = world.fork()
        twin.take(step)
        yield step, twin
    if steps:  # the last one may use up the world itself
        world.take(steps[-1])
        yield steps[-1], world


def _visit(layer: dict[object, _Node], world: World, parent: _Node, step: Step) -> None:
    key = world.key()
    known = layer.get(key)
    if known is None:
        layer[key] = _Node(world, parent.paths, _Trail(step, parent.parent))
    else:
        known.paths += parent.paths


def random_schedules(scenario: Scenario, begin: Callable[[], World], count: int, seed: int = 0) -> Exploration:
    """Runs ``count`` schedules, each choosing every step by lot; the seed reproduces all of them."""
    found = Exploration(scenario)
    start = begin()
    for number in range(count):
        world = start.fork()
        steps = run_at_random(world, random.Random(f"{seed}/{number}"))
        found.schedules += 1
        found.states += len(steps)
        known = found.histories.get(world.states)
        if known is None or len(steps) < len(known):
            found.histories[world.states] = steps
    return found


def run_at_random(world: World, dice: random.Random, haste: float | None = None) -> Schedule:
    """Runs a world to its end by lot and tells the schedule.

    Without ``haste`` every possible step is as likely as any other. With it, the next step is a further transaction
    with that probability: near 0 messages arrive long before the next transaction runs, near 1 all transactions run
    first.
    """
    taken = []
    while steps := world.enabled():
        if haste is not None:
            runs = [step for step in steps if step.kind == RUN]
            messages = [step for step in steps if step.kind != RUN]
            steps = runs if not messages or (runs and dice.random() < haste) else messages
        step = dice.choice(steps)
        world.take(step)
        taken.append(step)
    return tuple(taken)


def run_listed(world: World, steps: Schedule) -> Schedule:
    """Runs the given steps, then what is left in the default order: deliver, answer, and only then further
    transactions.
    """
    taken = list(steps)
    for number, step in enumerate(steps, 1):
        try:
            world.take(step)
        except WeirError as problem:
            raise WeirError(f"step {number}, '{step}', is not possible: {problem}") from None
    while enabled := world.enabled():
        order = _RESTING_ORDER if world.algorithm.perpetual and world.resting else _DEFAULT_ORDER
        step = min(enabled, key=lambda step: order.index(step.kind))
        world.take(step)
        taken.append(step)
    return tuple(taken)
