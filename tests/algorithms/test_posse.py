"""POSSE-style plans: each exact and complete, in fewer rounds, and chosen sensibly."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.algorithms.shapes import VIEWS, by_recomputation, run_by_lot, run_crowded, scenario
from weir.algebra.errors import WeirError
from weir.algorithms.base import SCENARIOS
from weir.algorithms.posse import PLANS, Posse
from weir.algorithms.registry import algorithm
from weir.simulator.explore import every_schedule
from weir.simulator.generate import Shape, generate
from weir.simulator.scenario import Scenario, parse


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("shape", VIEWS)
def test_every_plan_is_exact(shape: str, plan: str) -> None:
    """One by one and in batches the view steps through the recomputed states in order of arrival."""
    for seed in range(5):
        given = scenario(shape, seed, updates=5)
        for batch in (1, 2, 5):
            world, arrivals = run_crowded(given, Posse, plan=plan, batch=batch)
            assert world.states == by_recomputation(given, arrivals.order), (given.title, batch)
            for lot in range(2):
                world, arrivals = run_by_lot(given, Posse, lot, plan=plan, batch=batch)
                assert world.states == by_recomputation(given, arrivals.order), (given.title, batch, lot)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", SCENARIOS[:3])
def test_complete_on_every_schedule(kind: str, plan: str) -> None:
    """Exhaustive at small scope: several questions are open at once, so answers overtake each other."""
    schedules = states = 0
    for seed in range(4):
        for batch in (1, 2):
            given = generate(Shape(kind, updates=3, keyed=False), seed)
            found = every_schedule(given, partial(given.begin, Posse, plan=plan, batch=batch))
            schedules, states = schedules + found.schedules, states + found.states
            assert found.held == "complete", found.counterexample("complete")
    print(f"posse, {plan}, {kind}: {schedules} schedules, {states} states")


@pytest.mark.parametrize("plan", ["halves", "all"])
@pytest.mark.parametrize("shape", ["one table twice", "a star", "a sum of joins", "two tables at one source"])
def test_complete_on_every_schedule_of_awkward_views(shape: str, plan: str) -> None:
    """Two updates each, also together."""
    for seed in range(3):
        given = scenario(shape, seed, updates=2)
        found = every_schedule(given, partial(given.begin, Posse, plan=plan, batch=2))
        assert found.held == "complete", found.counterexample("complete")


def chain(tables: int, updated: int) -> Scenario:
    """t1 to tn, one per source, and one insert into one of them."""
    joins = " AND ".join(f"t{at}.R = t{at + 1}.L" for at in range(1, tables))
    names = [f"s{at}.t{at}" for at in range(1, tables + 1)]
    return parse(
        {
            "title": f"a chain of {tables}",
            "view": f"CREATE MATERIALIZED VIEW v AS SELECT t1.L FROM {', '.join(names)} WHERE {joins}",
            "tables": {name: {"columns": "L int, R int", "rows": "(1, 1) (2, 2) (3, 3)"} for name in names},
            "transactions": [{"name": "U1", "source": f"s{updated}", "changes": f"+t{updated}(1, 1)"}],
        }
    )


@pytest.mark.parametrize(
    ("updated", "plan", "rounds"),
    [
        (3, "sequence", 4),
        (3, "halves", 2),
        (3, "all", 1),
        (1, "sequence", 4),
        (1, "halves", 4),
        (1, "all", 1),
        (2, "halves", 3),
    ],
)
def test_rounds_are_hops_the_longest_branch_or_one(updated: int, plan: str, rounds: int) -> None:
    """Over five tables; always four questions; whole tables come back only where all are asked at once."""
    world, counted = run_crowded(chain(5, updated), Posse, plan=plan)
    assert (counted.rounds, counted.questions) == (rounds, 4)
    assert counted.answer_rows == (12 if plan == "all" else 4)
    assert len(world.states) == 2


def test_tables_of_one_source_that_are_due_together_share_a_question() -> None:
    """The star's source y has two of the three tables around the middle one."""
    given = scenario("a star", 1)
    assert given.updates[0].source == "x"
    alone = Scenario(given.title, given.view_text, given.tables, given.rows, given.updates[:1])
    _, counted = run_crowded(alone, Posse, plan="halves")
    assert (counted.questions, counted.lookups, counted.rounds) == (2, 3, 1)


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        ({}, "halves"),  # the branches cost no more rows than the sequence, and half the rounds
        ({"sizes": {f"s{at}.t{at}": 2 for at in range(1, 6)}}, "all"),  # tables hardly larger than what keys find
        ({"latency": 10_000.0}, "all"),  # a round costs more than any table
        ({"latency": 0.0, "fan_out": 0.1}, "sequence"),  # time is free, and every hop leaves fewer rows
        ({"latency": 0.0, "fan_out": 3.0, "sizes": {f"s{at}.t{at}": 5 for at in range(1, 6)}}, "sequence"),
    ],
)
def test_auto_weighs_rounds_against_rows(options: dict[str, Any], plan: str) -> None:
    """For an update in the middle of five tables."""
    given = chain(5, 3)
    machine = Posse(given.view, **options)
    assert machine.chosen(((1, given.updates[0]),)) == plan


def test_auto_keeps_to_the_sequence_where_nothing_can_be_asked_at_once() -> None:
    """From the end of a chain the halves are the sequence."""
    given = chain(5, 1)
    assert Posse(given.view).chosen(((1, given.updates[0]),)) == "sequence"


def test_auto_asks_as_it_chose() -> None:
    """The middle update of five in two rounds; with a dear round in one."""
    assert run_crowded(chain(5, 3), Posse)[1].rounds == 2
    assert run_crowded(chain(5, 3), Posse, latency=10_000.0)[1].rounds == 1


def test_it_is_number_fifteen_and_an_unknown_plan_is_named() -> None:
    """With the plans there are."""
    assert (algorithm("posse"), Posse.facts.number) == (Posse, 15)
    with pytest.raises(WeirError, match="plan = 'fast' is unknown; use 'auto', 'sequence', 'halves' or 'all'"):
        chain(3, 1).begin(Posse, plan="fast")
