"""PVM-CC: updates in flight, shown one by one in order of arrival: complete."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.algorithms.shapes import VIEWS, by_recomputation, run_by_lot, run_crowded, scenario
from weir.algorithms.base import SCENARIOS
from weir.algorithms.pvm_cc import PvmCc
from weir.simulator.builtin import find
from weir.simulator.explore import every_schedule, run_listed
from weir.simulator.generate import Shape, generate


@pytest.mark.parametrize("options", [{"parallel": 2}, {"parallel": 3}, {"parallel": 2, "batch": 2}], ids=str)
@pytest.mark.parametrize("kind", SCENARIOS[:3])
def test_complete_on_every_schedule(kind: str, options: dict[str, Any]) -> None:
    """Exhaustive at small scope, one by one and over batches."""
    schedules = states = 0
    for seed in range(4):
        given = generate(Shape(kind, sources=2, tables=2, updates=3, keyed=False), seed)
        found = every_schedule(given, partial(given.begin, PvmCc, **options))
        schedules, states = schedules + found.schedules, states + found.states
        assert found.held == "complete", found.counterexample("complete")
    print(f"pvm-cc, {kind}, {options}: {schedules} schedules, {states} states")


@pytest.mark.parametrize("shape", VIEWS)
def test_batches_show_what_one_by_one_shows(shape: str) -> None:
    """The recomputed states in order of arrival, whatever is in flight and however updates are batched."""
    for seed in range(5):
        given = scenario(shape, seed, updates=6)
        for parallel, batch in ((1, 1), (3, 1), (6, 1), (2, 3)):
            for lot in range(2):
                world, arrivals = run_by_lot(given, PvmCc, lot, parallel=parallel, batch=batch)
                assert world.states == by_recomputation(given, arrivals.order), (given.title, parallel, batch, lot)
            world, arrivals = run_crowded(given, PvmCc, parallel=parallel, batch=batch)
            assert world.states == by_recomputation(given, arrivals.order), (given.title, parallel, batch)


def test_a_result_waits_for_the_older_one() -> None:
    """Figure 8's delete is swept first and shown second; no counter goes below zero on the way."""
    given = find("pvm_figure_8")
    world = given.begin(PvmCc)
    steps = given.schedules[0].steps
    for step in steps[:6]:  # up to the answer of the younger update
        world.take(step)
    assert len(world.states) == 1
    run_listed(world, steps[6:])
    assert [str(state) for state in world.states] == ["(1, 2)", "(1, 2), (1, 3)", ""]


def test_messages_are_sweeps() -> None:
    """n - 1 questions per update over four tables."""
    for seed in range(5):
        given = generate(Shape("single-update", sources=4, tables=4, updates=6), seed)
        assert run_by_lot(given, PvmCc, seed, parallel=3)[1].questions == 6 * 3
