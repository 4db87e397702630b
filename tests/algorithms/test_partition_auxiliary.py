"""The auxiliary views against recomputation: random scenarios, random schedules, every commit."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.algorithms.partition_worlds import VIEWS, Stored, by_lot, check_auxiliary, run_checked
from weir.algorithms.registry import algorithm
from weir.consistency.checker import highest_level
from weir.simulator.explore import run_listed

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("equal-partition", {"size": 1}),
    ("equal-partition", {"size": 2}),
    ("equal-partition", {"size": 4}),
    ("frequency-partition", {"groups": 3, "repartition_after": 2}),
    ("frequency-partition", {"groups": 2, "repartition_after": 1, "split_unjoined": False}),
    ("parallel-partition", {}),
    ("parallel-partition", {"groups": 3, "repartition_after": 2}),
    ("parallel-partition", {"one_by_one": True}),
    ("keyed-partition", {"groups": 1}),
    ("keyed-partition", {"groups": 3, "hot": 2, "repartition_after": 2}),
]


@pytest.mark.parametrize("select", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=lambda value: str(value))
def test_auxiliary_views_equal_their_definitions_at_every_vector_shown(
    select: str, name: str, options: dict[str, Any]
) -> None:
    """After every step of random schedules the auxiliary views, those stored with commits, and the view are exact."""
    for seed in range(8):
        scenario = by_lot(select, seed)
        dice = random.Random(seed)
        world = scenario.begin(algorithm(name), **options)
        run_checked(world, dice)
        assert world.vectors[-1] == world.positions


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=lambda value: str(value))
def test_claimed_level_on_random_schedules_of_larger_scenarios(name: str, options: dict[str, Any]) -> None:
    """Eight transactions over four tables: complete, or strong where groups work in parallel and show together."""
    allowed = {"complete"}
    if name == "parallel-partition" and not options.get("one_by_one"):
        allowed = {"complete", "strong"}
    for seed in range(6):
        for select in VIEWS.values():
            scenario = by_lot(select, 100 + seed)
            world = scenario.begin(algorithm(name), **options)
            run_checked(world, random.Random(seed))
            assert highest_level(scenario.lattice, world.states) in allowed, scenario.view_text


def test_restart_from_stored_auxiliary_views_finds_the_groups() -> None:
    """The names under which auxiliary views are stored tell a new machine the groups the old one had ended with."""
    scenario = by_lot(VIEWS["chain of 4"], 3)
    kind = algorithm("frequency-partition")
    world = scenario.begin(kind, groups=3, repartition_after=2)
    stored = Stored(world)
    world.observers = (stored,)
    run_listed(world, ())
    check_auxiliary(world, stored)
    machine = world.algorithm
    again = kind(scenario.view, machine.auxiliary)  # type: ignore[attr-defined]
    assert set(again.content) == set(machine.content)  # type: ignore[attr-defined]
    assert set(machine.content) != set(kind.groups_for(scenario.view, groups=3))  # type: ignore[attr-defined]
