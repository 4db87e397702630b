"""PVM: convergence with updates in flight, commits in reverse, and what RPU and negative counters are for."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.algorithms.shapes import VIEWS, run_by_lot, run_crowded, scenario
from weir.algebra.errors import WeirError
from weir.algebra.memory import MemoryBag
from weir.algorithms.base import SCENARIOS
from weir.algorithms.pvm import Pvm
from weir.consistency.checker import highest_level
from weir.simulator.builtin import find
from weir.simulator.explore import every_schedule, run_listed
from weir.simulator.generate import Shape, generate
from weir.simulator.step import parse_step
from weir.simulator.world import World

FIGURE_8 = find("pvm_figure_8")
OVERTAKEN = find("pvm_overtaken_insert")


def walk(world: World, *steps: str) -> World:
    for step in steps:
        world.take(parse_step(step, ["DU1", "DU2"]))
    return world


def weights(bag: MemoryBag) -> dict[Any, int]:
    return dict(bag.items())


# -- golden 11: Figures 8 to 12 --------------------------------------------------------------------------------------


def test_figure_8_to_12_with_negative_counters() -> None:
    """The delete's effect first: (1, 3) sits at -1, unseen by readers, and the insert's effect brings it to 0."""
    world = FIGURE_8.begin(Pvm)
    assert weights(world.view) == {(1, 2): 1}
    walk(world, "DU1", "deliver y", "DU2", "deliver x")  # DU1 asks x for A, DU2 asks y for B
    walk(world, "answer y", "deliver y")  # B = {2, 3}: the effect of DU2 is -(1, 2) -(1, 3)
    assert weights(world.view) == {(1, 3): -1}
    assert weights(world.states[-1]) == {}
    walk(world, "answer x", "deliver x")  # A = {} plus the compensation +(1): the effect of DU1 is +(1, 3)
    assert weights(world.view) == {}
    assert world.view == FIGURE_8.lattice.final_value


def test_figure_8_to_12_without_negative_counters() -> None:
    """The early deletion of (1, 3) is lost, so the faulty tuple stays for good."""
    world = FIGURE_8.begin(Pvm, negative_counters=False)
    walk(world, "DU1", "deliver y", "DU2", "deliver x", "answer y", "deliver y")
    assert weights(world.view) == {}
    walk(world, "answer x", "deliver x")
    assert weights(world.view) == {(1, 3): 1}
    assert highest_level(FIGURE_8.lattice, world.states) == "none"


def test_in_the_order_of_arrival_no_counter_goes_below_zero() -> None:
    """The correct commit order of Figure 9."""
    world = FIGURE_8.begin(Pvm, negative_counters=False)
    walk(world, "DU1", "deliver y", "DU2", "deliver x", "answer x", "deliver x")
    assert weights(world.view) == {(1, 2): 1, (1, 3): 1}
    walk(world, "answer y", "deliver y")
    assert weights(world.view) == {}


# -- what fails without ----------------------------------------------------------------------------------------------


def test_without_rpu_a_committed_update_is_forgotten_too_early() -> None:
    """On the kept schedule (5, 3) is counted twice; with RPU once."""
    (kept,) = OVERTAKEN.schedules
    without, remembered = OVERTAKEN.begin(Pvm, remember_committed=False), OVERTAKEN.begin(Pvm)
    run_listed(without, kept.steps)
    run_listed(remembered, kept.steps)
    assert weights(without.view) == {(1, 2): 1, (1, 3): 1, (5, 2): 1, (5, 3): 2}
    assert weights(remembered.view) == {(1, 2): 1, (1, 3): 1, (5, 2): 1, (5, 3): 1}
    assert highest_level(OVERTAKEN.lattice, without.states) == "none"


@pytest.mark.parametrize(
    ("given", "option"), [(OVERTAKEN, "remember_committed"), (FIGURE_8, "negative_counters")], ids=["RPU", "counters"]
)
def test_the_kept_schedules_are_what_exploration_finds(given: Any, option: str) -> None:
    """Without either, some schedule does not converge, none shorter than the kept one; with both, all do."""
    found = every_schedule(given, lambda: given.begin(Pvm, **{option: False}))
    counterexample = found.counterexample("convergence")
    assert counterexample is not None
    assert len(counterexample) == len(given.schedules[0].steps)
    assert every_schedule(given, lambda: given.begin(Pvm)).counterexample("convergence") is None


def test_rpu_keeps_an_update_only_while_an_older_one_is_in_process() -> None:
    """DU2 is remembered when it is committed before DU1, and forgotten with DU1's commit."""
    world = walk(OVERTAKEN.begin(Pvm), "DU1", "deliver y", "DU2", "deliver x", "answer y", "deliver y")
    assert isinstance(world.algorithm, Pvm)
    assert [update.name for update in world.algorithm.committed.values()] == ["DU2"]
    walk(world, "answer x", "deliver x")
    assert world.algorithm.committed == {}


# -- levels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"parallel": 2}, {"parallel": 3}, {"parallel": 2, "batch": 2}], ids=str)
@pytest.mark.parametrize("kind", SCENARIOS[:3])
def test_convergence_on_every_schedule(kind: str, options: dict[str, Any]) -> None:
    """Exhaustive at small scope; not more than convergence, since effects overtake each other."""
    schedules = states = 0
    held = set()
    for seed in range(4):
        given = generate(Shape(kind, sources=2, tables=2, updates=3, keyed=False), seed)
        found = every_schedule(given, partial(given.begin, Pvm, **options))
        schedules, states = schedules + found.schedules, states + found.states
        assert found.counterexample("convergence") is None
        held.add(found.held)
    print(f"pvm, {kind}, {options}: {schedules} schedules, {states} states, held {sorted(held)}")


def test_not_weak() -> None:
    """In between the new row of B is shown beside the new row of A but not beside the old one: no vector has that."""
    found = every_schedule(OVERTAKEN, lambda: OVERTAKEN.begin(Pvm))
    assert found.held == "convergence"


@pytest.mark.parametrize("shape", VIEWS)
def test_the_end_is_right_for_awkward_views(shape: str) -> None:
    """One by one and over batches, at random and with everything in flight."""
    for seed in range(5):
        given = scenario(shape, seed, updates=6)
        for parallel, batch in ((1, 1), (3, 1), (6, 1), (3, 2)):
            for lot in range(2):
                world, _ = run_by_lot(given, Pvm, lot, parallel=parallel, batch=batch)
                assert world.view == given.lattice.final_value, (given.title, parallel, batch, lot)
            world, _ = run_crowded(given, Pvm, parallel=parallel, batch=batch)
            assert world.view == given.lattice.final_value, (given.title, parallel, batch)


def test_so_many_updates_are_in_flight_as_allowed() -> None:
    """With five waiting, p questions are open at once."""
    given = generate(Shape("single-update", updates=5), 1)
    for parallel in (1, 2, 4):
        world = given.begin(Pvm, parallel=parallel)
        for update in given.updates:
            world.take(parse_step(update.name, [update.name]))
            world.take(parse_step(f"deliver {update.source}", []))
        assert sum(len(inbox) for inbox in world.inboxes.values()) == parallel


def test_senseless_numbers_are_refused() -> None:
    """Both are named."""
    with pytest.raises(WeirError, match="parallel = 0, batch = 1: both must be at least 1"):
        FIGURE_8.begin(Pvm, parallel=0)
