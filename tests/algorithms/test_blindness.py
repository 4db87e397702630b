"""No algorithm looks into a bag to decide: on Spark that would be a job.

Every algorithm of the registry is run on sealed bags, which offer the operations of the protocol and refuse
everything by which one could see what is inside: length, truth, equality, hashing, iteration.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NoReturn

import pytest

from weir.algebra.bag import Pairs
from weir.algebra.expression import Expression
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.algorithms.base import GLOBAL, SCENARIOS, SINGLE_SOURCE, SOURCE_LOCAL
from weir.algorithms.registry import ALGORITHMS
from weir.messages import Effect
from weir.simulator.explore import run_at_random
from weir.simulator.generate import Shape, generate
from weir.simulator.world import World


class LookedInside(AssertionError):
    """Somebody tried."""


class SealedBag:
    """A bag that can be worked with and not looked into."""

    def __init__(self, inside: MemoryBag) -> None:
        self.inside = inside

    @property
    def schema(self) -> Schema:
        return self.inside.schema

    def __add__(self, other: SealedBag) -> SealedBag:
        return SealedBag(self.inside + other.inside)

    def __sub__(self, other: SealedBag) -> SealedBag:
        return SealedBag(self.inside - other.inside)

    def __neg__(self) -> SealedBag:
        return SealedBag(-self.inside)

    def scale(self, factor: int) -> SealedBag:
        return SealedBag(self.inside.scale(factor))

    def select(self, predicate: Expression) -> SealedBag:
        return SealedBag(self.inside.select(predicate))

    def project(self, columns: Sequence[tuple[str, Expression]]) -> SealedBag:
        return SealedBag(self.inside.project(columns))

    def keep(self, names: Sequence[str]) -> SealedBag:
        return SealedBag(self.inside.keep(names))

    def rename(self, names: Sequence[str]) -> SealedBag:
        return SealedBag(self.inside.rename(names))

    def tagged(self, name: str, value: int) -> SealedBag:
        return SealedBag(self.inside.tagged(name, value))

    def join(self, other: SealedBag, on: Pairs = (), where: Expression | None = None) -> SealedBag:
        return SealedBag(self.inside.join(other.inside, on, where))

    def join_as_of(
        self, other: SealedBag, moment: str, validity: str, on: Pairs = (), where: Expression | None = None
    ) -> SealedBag:
        return SealedBag(self.inside.join_as_of(other.inside, moment, validity, on, where))

    def distinct(self) -> SealedBag:
        return SealedBag(self.inside.distinct())

    def occurring(self, names: Sequence[str]) -> SealedBag:
        return SealedBag(self.inside.occurring(names))

    def positive(self) -> SealedBag:
        return SealedBag(self.inside.positive())

    def matching(self, keys: SealedBag, on: Pairs) -> SealedBag:
        return SealedBag(self.inside.matching(keys.inside, on))

    def without(self, keys: SealedBag, on: Pairs, nulls_match: bool = False) -> SealedBag:
        return SealedBag(self.inside.without(keys.inside, on, nulls_match))

    def _refuse(self, *_: object) -> NoReturn:
        raise LookedInside("an algorithm looked into a bag")

    __len__ = __bool__ = __iter__ = __eq__ = __hash__ = items = _refuse


def replaced(value: Any, kind: type, by: Any) -> Any:
    """The same value with every bag of ``kind`` in it replaced."""
    if isinstance(value, kind):
        return by(value)
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(replaced(item, kind, by) for item in value)
    if isinstance(value, dict):
        return {key: replaced(item, kind, by) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type) and type(value).__module__ in MESSAGES:
        new = {f.name: replaced(getattr(value, f.name), kind, by) for f in fields(value) if f.init}
        return replace(value, **new)
    return value


MESSAGES = ("weir.messages", "weir.algebra.hops", "weir.algebra.query", "weir.algorithms.token")


def sealed(value: Any) -> Any:
    return replaced(value, MemoryBag, SealedBag)


def opened(value: Any) -> Any:
    return replaced(value, SealedBag, lambda bag: bag.inside)


def blindfold(world: World) -> None:
    """Seals every bag on its way to the algorithm, and opens those that come from it."""
    machine = world.algorithm
    machine.memory = None  # remembering compares bags
    for name, value in machine.__dict__.items():
        machine.__dict__[name] = sealed(value)
    idle = machine.on_idle

    def blind(receive: Callable[[Any], list[Effect]]) -> Callable[[Any], list[Effect]]:
        return lambda given: [opened(effect) for effect in receive(sealed(given))]

    machine.receive = blind(machine.receive)  # type: ignore[method-assign, assignment]
    machine.receive_updates = blind(machine.receive_updates)  # type: ignore[method-assign, assignment]
    machine.on_idle = lambda: [opened(effect) for effect in idle()]  # type: ignore[method-assign]


@pytest.mark.parametrize("kind", SCENARIOS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_algorithm_looks_into_a_bag(name: str, kind: str) -> None:
    """The same end as with open bags, and nobody looked."""
    algorithm = ALGORITHMS[name]
    tables = 4 if kind in (SOURCE_LOCAL, GLOBAL) else 3
    sources = 1 if kind == SINGLE_SOURCE else 2
    for seed in range(6):
        scenario = generate(Shape(kind, sources=sources, tables=tables, updates=6), seed)
        blind, seeing = (scenario.begin(algorithm, unchecked=True) for _ in range(2))
        blindfold(blind)
        schedule = run_at_random(blind, random.Random(seed))
        for step in schedule:
            seeing.take(step)
        assert blind.states == seeing.states


def test_a_sealed_bag_refuses_to_be_looked_into() -> None:
    """The test above can fail."""
    bag: Any = SealedBag(MemoryBag.of(Schema.parse("a int"), [(1,)]))
    looks: list[Any] = [len, bool, list, hash, lambda b: b == b, lambda b: b.items()]
    for look in looks:
        with pytest.raises(LookedInside):
            look(bag)
