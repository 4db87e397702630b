"""The sweep, one file of code, gives the same deltas whichever bags it runs on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from weir.algebra.catalog import Relation
from weir.algebra.hops import answer
from weir.algebra.memory import MemoryBag
from weir.algebra.query import evaluate, whole
from weir.algorithms.base import SOURCE_LOCAL
from weir.algorithms.procedure import Numbered, Reply
from weir.algorithms.sweeping import split, sweep
from weir.messages import Add, Change, Update
from weir.simulator.generate import Shape, generate
from weir.simulator.scenario import Scenario
from weir.spark.arrow_bag import ArrowBag
from weir.spark.frame_bag import FrameBag

Make = Callable[[Any], Any]  # a bag of some kind from a bag in memory


def _updates(scenario: Scenario, make: Make) -> Numbered:
    return tuple((number, _with_bags(update, make)) for number, update in enumerate(scenario.updates, 1))


def _with_bags(update: Update, make: Make) -> Update:
    changes = tuple(
        Change(change.relation, *(None if bag is None else make(bag) for bag in (change.inserted, change.deleted)))
        for change in update.changes
    )
    return Update(update.source, update.position, changes, update.name, update.part_of)


def _deltas(scenario: Scenario, swept: int, make: Make) -> list[MemoryBag]:
    """Sweeps the first ``swept`` updates together while every source has all updates behind it already."""
    view, updates = scenario.view, _updates(scenario, make)
    tables = {r: make(bag) for source in scenario.sources.values() for r, bag in source.states[-1].items()}
    steps: Any = sweep(view, updates[:swept])
    try:
        question = next(steps)
        while True:
            bags = tuple(answer(lookup, tables[lookup.relation]) for lookup in question.parts)
            question = steps.send(Reply(bags, arrived=updates))
    except StopIteration as stop:
        changes = MemoryBag.weighted(stop.value.schema, stop.value.items())  # fetched once: on Spark this is a job
        parts = [actions for _, actions in split(view, changes, updates[:swept])]
        return [cast(MemoryBag, action.delta) for (action,) in parts if isinstance(action, Add)]


def _truth(scenario: Scenario, swept: int) -> list[MemoryBag]:
    """Each update's own delta: the view after it minus the view before it, recomputed."""
    tables: dict[Relation, Any] = {}
    for source in scenario.sources.values():
        tables |= source.states[0]
    states = [_recomputed(scenario, tables)]
    for update in scenario.updates[:swept]:
        for relation, delta in update.deltas:
            tables[relation] = tables[relation] + delta
        states.append(_recomputed(scenario, tables))
    return [after - before for before, after in pairwise(states)]


def _recomputed(scenario: Scenario, tables: Any) -> MemoryBag:
    steps = evaluate(whole(scenario.view))
    try:
        asked = next(steps)
        while True:
            asked = steps.send(answer(asked, tables[asked.relation]))
    except StopIteration as stop:
        result: MemoryBag = stop.value
        return result


@pytest.mark.parametrize("keyed", [True, False])
def test_the_sweep_on_arrow_bags(keyed: bool) -> None:
    """Batches of one, some and all updates, compensated for all others: the deltas of the bags in memory, and right."""
    shape = Shape(SOURCE_LOCAL, tables=4, updates=6, rows=6, keyed=keyed)
    changed = 0
    for seed in range(15):
        scenario = generate(shape, seed)
        for swept in (1, 3, 6):
            deltas = _deltas(scenario, swept, ArrowBag.from_memory)
            assert deltas == _deltas(scenario, swept, lambda bag: bag) == _truth(scenario, swept), f"seed {seed}"
            changed += any(len(delta) for delta in deltas)
    assert changed > 15


@pytest.mark.spark
def test_the_sweep_on_data_frames(spark: SparkSession) -> None:
    """The same on Spark, all updates of a scenario as one batch."""
    scenario = generate(Shape(SOURCE_LOCAL, tables=3, updates=3, rows=6), 2)
    expected = _truth(scenario, 3)
    assert any(len(delta) for delta in expected)
    assert _deltas(scenario, 3, lambda bag: FrameBag.from_memory(spark, bag)) == expected
