"""Algorithms 1 to 7 on every schedule: each holds its claim, and where that is not complete the next level fails."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from weir.algebra.errors import WeirError
from weir.algorithms.base import SINGLE_SOURCE
from weir.algorithms.registry import algorithm
from weir.consistency.levels import NAMES
from weir.simulator.counters import Counters
from weir.simulator.explore import Exploration, every_schedule, random_schedules, run_listed
from weir.simulator.generate import Shape, generate
from weir.simulator.scenario import Scenario, parse
from weir.simulator.step import parse_step
from weir.simulator.world import World

FAMILY = ("basic", "recompute", "copies", "eca", "eca-key", "eca-local", "lca")
NOT_COMPLETE = ("recompute", "eca", "eca-key", "eca-local")
UNKEYED = tuple(name for name in FAMILY if name != "eca-key")


def tables(**more: object) -> dict[str, object]:
    return {
        "s.parent": {"columns": "P int, A int", "key": ["P"], "rows": "(1, 1) (2, 1)"},
        "s.child": {
            "columns": "C int, P int, B int",
            "key": ["C"],
            "rows": "(10, 1, 5)",
            "foreign_keys": [{"columns": ["P"], "table": "parent", "references": ["P"]}],
        },
        "s.item": {"columns": "I int, C int", "key": ["I"], "rows": "(100, 10) (101, 11)"},
        **more,
    }


def scenario(view: str, *changes: str) -> Scenario:
    entries = [{"name": f"U{n}", "source": "s", "changes": text} for n, text in enumerate(changes, 1)]
    return parse({"title": view[:40], "view": f"CREATE MATERIALIZED VIEW v AS {view}", "tables": tables(),
                  "transactions": entries})  # fmt: skip


CHAIN = "SELECT p.P, c.C, i.I FROM s.parent AS p JOIN s.child AS c ON p.P = c.P JOIN s.item AS i ON i.C = c.C"
UNKEYED_CHAIN = CHAIN.replace("p.P, c.C, i.I", "p.A, c.B")
HAND_MADE = {
    "foreign keys": scenario(CHAIN, "+child(11, 2, 6)", "+parent(3, 1)", "-child(10, 1, 5)", "-parent(1, 1)"),
    "a parent that comes back": scenario(
        UNKEYED_CHAIN, "-child(10, 1, 5)", "-parent(1, 1)", "+parent(1, 2)", "+child(12, 1, 7)"
    ),
    "self-join": scenario(
        "SELECT a.A, b.P FROM s.parent AS a JOIN s.parent AS b ON a.A = b.A", "+parent(3, 1)",
        "-parent(2, 1)", "-parent(1, 1) +parent(1, 4)",
    ),
    "transactions over several tables": scenario(
        CHAIN, "+parent(3, 1) +child(12, 3, 5) +item(102, 12)", "-child(10, 1, 5) +item(103, 12)", "-parent(2, 1)"
    ),
    "an inequality": scenario(
        "SELECT p.A, c.B FROM s.parent AS p JOIN s.child AS c ON p.P = c.P WHERE p.A < c.B", "+child(11, 2, 0)",
        "-parent(2, 1) +parent(2, 9)", "+child(12, 1, 3)",
    ),
    "two terms": scenario(
        "SELECT p.P AS X FROM s.parent AS p JOIN s.child AS c ON p.P = c.P UNION ALL SELECT c.B FROM s.child AS c "
        "JOIN s.item AS i ON c.C = i.C",
        "+child(11, 2, 6)", "-child(10, 1, 5)", "+item(104, 11)",
    ),
    "one table": scenario("SELECT p.P, p.A FROM s.parent AS p WHERE p.A > 0", "+parent(3, 1)", "-parent(2, 1)"),
    "rows that do not matter": scenario(
        "SELECT p.P, c.C FROM s.parent AS p JOIN s.child AS c ON p.P = c.P WHERE c.B > 5", "+child(11, 2, 1)",
        "+child(12, 2, 9)", "-child(10, 1, 5)",
    ),
}  # fmt: skip


def explore(play: Scenario, name: str, **options: Any) -> Exploration:
    return every_schedule(play, partial(play.begin, algorithm(name), **options))


def held(play: Scenario, name: str, **options: Any) -> str:
    found = explore(play, name, **options)
    print(f"{name} in '{play.title}': {found.held} on {found.schedules} schedules, {found.states} states")
    return found.held


def generated(name: str, updates: int, seeds: range) -> list[Scenario]:
    keyed = (True,) if name == "eca-key" else (True, False)
    return [generate(Shape(SINGLE_SOURCE, updates=updates, keyed=k), seed) for seed in seeds for k in keyed]


@pytest.mark.parametrize("name", [name for name in FAMILY if name != "basic"])
def test_the_claimed_level_holds_on_every_schedule_of_generated_scenarios(name: str) -> None:
    """Three tables, four single updates, 20 seeds, keyed and unkeyed views."""
    claim = algorithm(name).facts.claims[SINGLE_SOURCE]
    worst = min((held(play, name) for play in generated(name, 4, range(20))), key=NAMES.index)
    assert NAMES.index(worst) >= NAMES.index(claim)


@pytest.mark.parametrize("title", HAND_MADE)
@pytest.mark.parametrize("name", UNKEYED[1:])
def test_the_claimed_level_holds_where_it_is_hard(name: str, title: str) -> None:
    """Foreign keys, self-joins, transactions, several terms, inequalities, irrelevant rows."""
    claim = algorithm(name).facts.claims[SINGLE_SOURCE]
    assert NAMES.index(held(HAND_MADE[title], name)) >= NAMES.index(claim)


@pytest.mark.parametrize("title", ["foreign keys", "transactions over several tables"])
def test_eca_key_holds_its_level_over_transactions(title: str) -> None:
    """Deletes by key and inserts, several tables in one transaction."""
    assert NAMES.index(held(HAND_MADE[title], "eca-key")) >= NAMES.index("strong")


@pytest.mark.parametrize("name", NOT_COMPLETE)
def test_where_the_claim_is_not_complete_a_schedule_shows_it(name: str) -> None:
    """Exploration finds a schedule on which complete fails and strong holds."""
    plays = generated(name, 4, range(20))
    found = [explore(play, name) for play in plays]
    breaking = [exploration for exploration in found if exploration.counterexample("complete")]
    assert breaking
    assert all(exploration.counterexample("strong") is None for exploration in breaking)


def test_basic_loses_convergence() -> None:
    """The control fails, and the shortest schedule on which it does is found."""
    plays = generated("basic", 3, range(10))
    found = [explore(play, "basic") for play in plays]
    shortest = min((s for e in found if (s := e.counterexample("convergence"))), key=len)
    print("shortest anomaly:", "; ".join(map(str, shortest)))
    assert len(shortest) == 12  # three updates take four steps each, whatever their order


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ("-parent(1, 1)", "after U1, s.child refers to (1,), which parent does not have"),
        ("+parent(1, 9)", "after U1, s.parent has the key (1,) twice"),
        ("-item(7, 7)", "after U1, s.item lacks a row that was deleted"),
    ],
)
def test_a_scenario_that_breaks_what_it_declares_is_refused(changes: str, problem: str) -> None:
    """Algorithms rely on declared keys and foreign keys, so a script must keep them."""
    with pytest.raises(WeirError) as refused:
        scenario(CHAIN, changes)
    assert problem in str(refused.value)


@pytest.mark.parametrize("name", FAMILY[1:])
def test_larger_scenarios_at_random(name: str) -> None:
    """Twelve updates, 40 random schedules each of 5 seeds: the claim holds; the seed reproduces the run."""
    claim = algorithm(name).facts.claims[SINGLE_SOURCE]
    for play in generated(name, 12, range(5)):
        begin = partial(play.begin, algorithm(name))
        first, again = (random_schedules(play, begin, 40, seed=7) for _ in range(2))
        assert first.histories == again.histories
        assert NAMES.index(first.held) >= NAMES.index(claim)


# -- messages ------------------------------------------------------------------------------------------------------


def messages(play: Scenario, name: str) -> int:
    """Questions and answers on the default schedule with every transaction before any answer."""
    world: World = play.begin(algorithm(name))
    counters = Counters()
    world.observers = (counters,)
    steps = []
    for update in play.updates:
        steps += [f"{update.name}", "deliver s"]
    names = [update.name for update in play.updates]
    run_listed(world, tuple(parse_step(step, names) for step in steps))
    return counters.messages


def test_messages_as_the_papers_count_them() -> None:
    """2 per update for ECA and LCA, 0 for copies, 2 per insert and 0 per delete for ECA-Key."""
    play = scenario(CHAIN, "+child(11, 2, 6)", "+parent(3, 1)", "-child(10, 1, 5)", "+item(102, 11)")
    assert {name: messages(play, name) for name in ("eca", "lca", "copies", "eca-key", "recompute")} == {
        "eca": 8, "lca": 8, "copies": 0, "eca-key": 6, "recompute": 8,
    }  # fmt: skip


def test_recompute_every_s_updates_takes_ceil_of_k_by_s_questions() -> None:
    """k = 4 updates: s = 1, 2, 3, 4 take 8, 4, 4, 2 messages, and every one is strong."""
    play = HAND_MADE["foreign keys"]
    counts = []
    for every in (1, 2, 3, 4):
        world = play.begin(algorithm("recompute"), every=every)
        counters = Counters()
        world.observers = (counters,)
        run_listed(world, ())
        counts.append(counters.messages)
        assert held(play, "recompute", every=every) == "strong"
    assert counts == [8, 4, 4, 2]


@pytest.mark.parametrize(
    ("title", "eca", "local"),
    [("foreign keys", 8, 4), ("rows that do not matter", 6, 2), ("one table", 0, 0)],
)
def test_eca_local_saves_messages(title: str, eca: int, local: int) -> None:
    """Foreign keys, irrelevant rows and single tables need no question."""
    assert (messages(HAND_MADE[title], "eca"), messages(HAND_MADE[title], "eca-local")) == (eca, local)
