"""Nested SWEEP: strong, not complete, and bounded although updates keep interfering."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.algorithms.shapes import VIEWS, run_by_lot, run_crowded, scenario
from weir.algorithms.base import SCENARIOS
from weir.algorithms.nested_sweep import NestedSweep
from weir.algorithms.sweep import Sweep
from weir.consistency.checker import highest_level
from weir.consistency.levels import implies
from weir.simulator.counters import Counters
from weir.simulator.explore import every_schedule
from weir.simulator.generate import Shape, generate
from weir.simulator.scenario import Scenario, parse
from weir.simulator.step import ANSWER, DELIVER, RUN, Step
from weir.simulator.world import World


@pytest.mark.parametrize("limit", [1, 8])
@pytest.mark.parametrize("kind", SCENARIOS[:3])
def test_strong_on_every_schedule(kind: str, limit: int) -> None:
    """Exhaustive at small scope."""
    schedules = states = 0
    for seed in range(8):
        given = generate(Shape(kind, updates=3, keyed=False), seed)
        found = every_schedule(given, partial(given.begin, NestedSweep, limit=limit))
        schedules, states = schedules + found.schedules, states + found.states
        assert found.counterexample("strong") is None
    print(f"nested-sweep, {kind}, limit {limit}: {schedules} schedules, {states} states")


def test_not_complete() -> None:
    """Two inserts into one table that are admitted to one sweep are shown together."""
    given = endless(updates=3)
    found = every_schedule(given, lambda: given.begin(NestedSweep))
    assert found.held == "strong"
    assert found.counterexample("complete") is not None


@pytest.mark.parametrize("shape", VIEWS)
def test_strong_for_awkward_views(shape: str) -> None:
    """Every state has a place and none goes backwards; the end is right."""
    for seed in range(5):
        given = scenario(shape, seed, updates=6)
        for limit in (1, 3, 8):
            for world, _ in (
                run_by_lot(given, NestedSweep, seed, limit=limit),
                run_crowded(given, NestedSweep, limit=limit),
            ):
                assert implies(highest_level(given.lattice, world.states), "strong"), (given.title, limit)


# -- updates that keep interfering -----------------------------------------------------------------------------------


def endless(updates: int) -> Scenario:
    """A chain of three; the first insert starts a sweep, and the others come one by one while it runs."""
    names = ["x.t1", "y.t2", "z.t3"]
    transactions = [{"name": "U0", "source": "y", "changes": "+t2(0, 0)"}]
    for number in range(1, updates):
        source, table = ("x", "t1") if number % 2 else ("z", "t3")
        transactions.append({"name": f"U{number}", "source": source, "changes": f"+{table}({number}, {number})"})
    return parse(
        {
            "title": f"{updates} updates, the next one always there before an answer",
            "view": "CREATE MATERIALIZED VIEW v AS SELECT t1.L, t3.R FROM x.t1, y.t2, z.t3 "
            "WHERE t1.R >= t2.L AND t2.R <= t3.L",
            "tables": {name: {"columns": "L int, R int", "rows": "(0, 0)"} for name in names},
            "transactions": transactions,
        }
    )


def interfering(world: World, given: Scenario) -> Iterator[int]:
    """Before every answer its source runs one more update of its own; tells the questions asked up to each commit."""
    counters = Counters()
    world.observers = (counters,)
    left = {name: [u.name for u in given.updates if u.source == name and u.name != "U0"] for name in given.sources}
    world.take(Step(RUN, "U0"))
    world.take(Step(DELIVER, "y"))
    commits = 0
    while any(world.inboxes.values()):
        source = next(name for name, inbox in world.inboxes.items() if inbox)
        if left[source]:
            world.take(Step(RUN, left[source].pop(0)))
        world.take(Step(ANSWER, source))
        while world.channels[source]:
            world.take(Step(DELIVER, source))
        if counters.commits > commits:
            commits = counters.commits
            yield counters.questions


@pytest.mark.parametrize("limit", [1, 2, 4, 8])
def test_the_bound_holds_under_endless_interference(limit: int) -> None:
    """At most (limit + 1) * 2(n - 1) questions until the next commit, however many updates come."""
    given = endless(updates=60)
    world = given.begin(NestedSweep, limit=limit)
    asked = list(interfering(world, given))
    assert len(asked) > 3
    gaps = [after - before for before, after in zip([0, *asked], asked, strict=False)]
    assert max(gaps) <= (limit + 1) * 2 * 2
    assert len(world.states) < 61  # several updates shared a sweep
    assert world.view == given.lattice.final_value


def test_dense_updates_cost_fewer_questions_than_in_sweep() -> None:
    """All waiting: a few sweeps serve them all."""
    given = generate(Shape("single-update", updates=10), 3)
    nested, plain = run_crowded(given, NestedSweep)[1], run_crowded(given, Sweep)[1]
    assert nested.questions < plain.questions == 20
