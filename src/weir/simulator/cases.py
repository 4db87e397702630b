"""The scenarios that the spectrum explores: built-in ones by their kind, and lively ones made from a seed.

A generated scenario is *lively* when at least half of its updates change the view as it then is. Others teach nothing:
an algorithm that loses an update that changes nothing is not caught.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count

from weir.algorithms.base import GLOBAL, ONE_SOURCE, SINGLE_SOURCE, SINGLE_UPDATE, SOURCE_LOCAL, Algorithm, Setting
from weir.consistency.replay import Running
from weir.messages import Update
from weir.simulator.builtin import find, names
from weir.simulator.generate import Shape, generate
from weir.simulator.scenario import Scenario

SEEDS_APART = 1_000_000  # what one seed of the user takes from the seeds of the generator
MOST_UPDATES = 5  # of a built-in scenario whose every schedule is explored here


@dataclass(frozen=True)
class Size:
    """So many scenarios over so many sources, tables and updates."""

    scenarios: int
    sources: int
    tables: int
    updates: int


def kind_of(scenario: Scenario) -> str:
    """The transaction scenario that a scenario belongs to."""
    if any(update.part_of for update in scenario.updates):
        return GLOBAL
    if len(scenario.view.sources) == 1:
        return SINGLE_SOURCE
    return SINGLE_UPDATE if all(_is_single(scenario, update) for update in scenario.updates) else SOURCE_LOCAL


def _is_single(scenario: Scenario, update: Update) -> bool:
    """One row inserted, deleted, or modified under its key."""
    if len(update.changes) != 1:
        return False
    change = update.changes[0]
    rows = [bag for bag in (change.inserted, change.deleted) if bag is not None]
    keys = [bag.keep(scenario.tables[change.relation].key) for bag in rows]
    return all(sum(weight for _, weight in bag.items()) == 1 for bag in rows) and keys.count(keys[0]) == len(keys)


def is_fit(scenario: Scenario, algorithm: type[Algorithm]) -> bool:
    """Whether the view has what the algorithm needs, but for being at one source: that is asked of the cell."""
    needs = (need for need in algorithm.facts.needs if need is not ONE_SOURCE)
    return not any(need.unmet(scenario.view, Setting()) for need in needs)


def may_reorder(algorithm: type[Algorithm]) -> bool:
    """Algorithms with nodes at the sources promise what they do over channels that keep no order."""
    return algorithm.node is not Algorithm.node


@lru_cache(maxsize=4)
def _built_in(kind: str) -> tuple[Scenario, ...]:
    every = (find(name) for name in names())
    return tuple(s for s in every if len(s.updates) <= MOST_UPDATES and kind_of(s) == kind)


def built_in(kind: str, algorithm: type[Algorithm]) -> Iterator[Scenario]:
    """The built-in scenarios of a kind that an algorithm can be tried on."""
    for scenario in _built_in(kind):
        if is_fit(scenario, algorithm) and (scenario.fifo or may_reorder(algorithm)):
            yield scenario


def generated(kind: str, algorithm: type[Algorithm], size: Size, seed: int) -> Iterator[Scenario]:
    """Scenarios of a size, in turn with keys in the view and without, and in order and (where promised) out of it."""
    for number in range(size.scenarios):
        shape = Shape(kind, size.sources, size.tables, size.updates)
        unkeyed = replace(shape, keyed=False)
        if number % 2 and is_fit(_lively(unkeyed, 0, seed), algorithm):
            shape = unkeyed
        if number % 3 == 1 and may_reorder(algorithm):
            shape = replace(shape, fifo=False)
        yield _lively(shape, number, seed)


@lru_cache(maxsize=2048)
def _lively(shape: Shape, number: int, seed: int) -> Scenario:
    """The lively scenario of that number: kept, since every algorithm of the same needs is tried on it."""
    start = seed * SEEDS_APART + (number + 1) * 1000  # so that they can be found one without the other
    every = (generate(shape, at) for at in count(start))
    return next(filter(is_lively, every))


def is_lively(scenario: Scenario) -> bool:
    """Whether at least half of the updates, run in the order of the file, change the view."""
    value_at = Running(scenario.view, scenario.lattice.sources)
    vector = list(scenario.lattice.initial)
    changed, shown = 0, value_at(tuple(vector))
    for update in scenario.updates:
        vector[scenario.lattice.names.index(update.source)] += 1
        value = value_at(tuple(vector))
        changed += value != shown
        shown = value
    return 2 * changed >= len(scenario.updates)
