"""SWEEP: batch = one by one = recomputation, complete on every schedule, and n - 1 questions per update."""

from __future__ import annotations

from functools import partial

import pytest

from tests.algorithms.shapes import VIEWS, by_recomputation, run_by_lot, run_crowded, scenario
from weir.algebra.errors import WeirError
from weir.algorithms.base import SCENARIOS, SINGLE_UPDATE, SOURCE_LOCAL
from weir.algorithms.registry import algorithm
from weir.algorithms.sweep import Sweep
from weir.simulator.explore import every_schedule
from weir.simulator.generate import Shape, generate
from weir.simulator.scenario import parse

SEEDS = range(8)


# -- differential and oracle -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", VIEWS)
def test_a_batch_shows_what_one_by_one_shows_and_recomputation_says(shape: str) -> None:
    """All updates waiting: whatever the batch, the same states, each the view recomputed after one more update."""
    for seed in SEEDS:
        given = scenario(shape, seed)
        expected = by_recomputation(given, [update.name for update in given.updates])
        for batch in (1, 2, 3, len(given.updates)):
            world, _ = run_crowded(given, Sweep, batch=batch)
            assert world.states == expected, (given.title, batch)


@pytest.mark.parametrize("shape", VIEWS)
def test_random_schedules_follow_the_order_of_arrival(shape: str) -> None:
    """On any timing the view steps through the recomputed states in order of arrival; batches form as they may."""
    for seed in SEEDS:
        given = scenario(shape, seed, updates=6)
        for batch in (1, 2, 6):
            for lot in range(3):
                world, arrivals = run_by_lot(given, Sweep, lot, batch=batch)
                assert world.states == by_recomputation(given, arrivals.order), (given.title, batch, lot)


@pytest.mark.parametrize("kind", SCENARIOS[:3])
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "with duplicates"])
def test_larger_generated_scenarios(kind: str, keyed: bool) -> None:
    """Twelve updates of four tables at two sources: more than one table a source, transactions over several."""
    for seed in range(10):
        given = generate(Shape(kind, sources=2, tables=4, updates=12, keyed=keyed), seed)
        for batch in (1, 3, 12):
            world, arrivals = run_by_lot(given, Sweep, seed, batch=batch)
            assert world.states == by_recomputation(given, arrivals.order), (given.title, batch)


def test_the_scenarios_are_what_they_are_meant_to_be() -> None:
    """Among them are transactions over several tables, deletes, duplicates, and views that are not empty."""
    given = [scenario(shape, seed) for shape in VIEWS for seed in SEEDS]
    updates = [update for one in given for update in one.updates]
    assert sum(len(update.changes) > 1 for update in updates) > 20
    assert sum(change.deleted is not None for update in updates for change in update.changes) > 100
    assert any(weight > 1 for one in given for _, weight in one.lattice.final_value.items())
    assert sum(len(one.lattice.final_value) > 0 for one in given) > len(given) / 2


# -- every schedule --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("kind", SCENARIOS[:3])
def test_complete_on_every_schedule(kind: str, batch: int) -> None:
    """Exhaustive at small scope: three tables at three sources, three updates."""
    schedules = states = 0
    for seed in range(8):
        given = generate(Shape(kind, updates=3, keyed=False), seed)
        found = every_schedule(given, partial(given.begin, Sweep, batch=batch))
        schedules, states = schedules + found.schedules, states + found.states
        assert found.held == "complete", found.counterexample("complete")
    print(f"sweep, {kind}, batch {batch}: {schedules} schedules, {states} states")


@pytest.mark.parametrize("shape", VIEWS)
def test_complete_on_every_schedule_of_awkward_views(shape: str) -> None:
    """Self-joins, sums, triangles, transactions over several tables, each in batches of up to two."""
    schedules = 0
    for seed in range(3):
        given = scenario(shape, seed, updates=3)
        found = every_schedule(given, partial(given.begin, Sweep, batch=2))
        schedules += found.schedules
        assert found.held == "complete", found.counterexample("complete")
    print(f"sweep, {shape}: {schedules} schedules")


# -- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tables", [2, 3, 4, 5])
def test_a_single_update_asks_every_other_table_once(tables: int) -> None:
    """n - 1 questions per update, whatever interferes."""
    for seed in range(5):
        given = generate(Shape(SINGLE_UPDATE, sources=tables, tables=tables, updates=6), seed)
        for world, counted in (run_crowded(given, Sweep), run_by_lot(given, Sweep, seed)):
            assert len(world.states) == 7
            assert counted.questions == 6 * (tables - 1)


@pytest.mark.parametrize("tables", [2, 3, 4, 5])
def test_a_batch_asks_every_table_at_most_twice(tables: int) -> None:
    """At most 2(n - 1) questions for all its updates together, and some batch needs more than n - 1."""
    counts = set()
    for seed in range(10):
        given = generate(Shape(SOURCE_LOCAL, sources=tables, tables=tables, updates=7), seed)
        _, counted = run_crowded(given, Sweep, batch=6)
        first = tables - 1  # the first update is swept alone: it is there before the others
        counts.add(counted.questions - first)
    assert max(counts) <= 2 * (tables - 1)
    assert max(counts) > tables - 1


def test_a_batch_of_nothing_is_refused() -> None:
    """With the number and the way out."""
    given = scenario("a triangle", 0)
    with pytest.raises(WeirError, match="a batch of 0 updates makes no sense; give a number of at least 1"):
        given.begin(Sweep, batch=0)


# -- long queues -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sweep", "posse", "nested-sweep", "pvm", "pvm-cc", "c-strobe", "c-t-strobe"])
def test_a_long_queue_of_updates_that_finish_at_once(name: str) -> None:
    """A thousand updates that need no question, waiting behind one that does, are a loop and no recursion."""
    given = parse(
        {
            "title": "one insert, then a thousand updates that ask nothing",
            "view": "CREATE MATERIALIZED VIEW v AS SELECT a.K AS K1, b.K AS K2 FROM x.a CROSS JOIN y.b",
            "tables": {
                "x.a": {"columns": "K int", "key": ["K"], "rows": ""},
                "x.other": {"columns": "K int", "key": ["K"], "rows": ""},
                "y.b": {"columns": "K int", "key": ["K"], "rows": "(1)"},
            },
            "transactions": [
                {"name": "U0", "source": "x", "changes": "+a(1)"},
                *({"name": f"U{n}", "source": "x", "changes": f"+other({n})"} for n in range(1, 1001)),
            ],
        }
    )
    world, _ = run_crowded(given, algorithm(name))
    assert str(world.view) == "(1, 1)"
