"""A conversation answered from memory: what is taken to be written carries the arrival numbers of the states."""

from __future__ import annotations

from typing import Any

import pytest

from weir.algebra.memory import MemoryBag
from weir.algebra.query import Query, whole
from weir.algorithms.base import SINGLE_SOURCE, SOURCE_LOCAL, NeedNotMet
from weir.algorithms.driver import Driver
from weir.algorithms.registry import ALGORITHMS
from weir.messages import Update, apply_actions
from weir.planning.request import promised
from weir.rounds.conversation import Conversation, answer
from weir.simulator.generate import Shape, generate
from weir.simulator.scenario import Scenario
from weir.simulator.source import evaluate_at


def talk(scenario: Scenario, name: str, arrivals: int, every_state: bool) -> Conversation:
    """A round that brings every update of every source, answered in their last states."""
    algorithm = ALGORITHMS[name]
    wanted = algorithm.auxiliary_for(scenario.view)
    auxiliary = {key: value_after(scenario, 0, query) for key, query in wanted.items()}
    conversation = Conversation(Driver(algorithm(scenario.view, auxiliary), arrivals), every_state)
    conversation.deliver(arrived(scenario))
    while True:
        asked = conversation.take_asks()
        for ask in asked:
            conversation.receive_answer(answer(ask, reading(scenario, ask.source)))
        mail = conversation.take_mail()
        for source, message in mail:
            conversation.node_receives(source, message, reading(scenario, source))
        if not asked and not mail:
            conversation.let_idle()
            if conversation.resting:
                return conversation


def reading(scenario: Scenario, source: str) -> Any:
    tables = scenario.sources[source].states[-1]
    return lambda lookup: evaluate_at(tables, lookup)[0]


def arrived(scenario: Scenario) -> list[Update]:
    """Source by source, as in a round."""
    return [update for source in scenario.sources.values() for update in source.script]


def value_after(scenario: Scenario, count: int, query: Query) -> MemoryBag:
    """A query's value after so many updates, in the order of arrival."""
    shown = arrived(scenario)[:count]
    tables = {
        relation: bag
        for name, source in scenario.sources.items()
        for relation, bag in source.states[sum(update.source == name for update in shown)].items()
    }
    return evaluate_at(tables, query)[0]


def state_after(scenario: Scenario, count: int) -> MemoryBag:
    return value_after(scenario, count, whole(scenario.view))


KINDS = {SINGLE_SOURCE: Shape(SINGLE_SOURCE, 1, 3, 5), SOURCE_LOCAL: Shape(SOURCE_LOCAL, 3, 3, 5)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "basic"])
def test_every_state_has_the_number_of_its_last_update(name: str, kind: str) -> None:
    """Taken at the end of the round: the last state is that after all updates; of a complete algorithm every state is
    that after as many updates as its number says. The numbers go on after what was written before.
    """
    before, met = 100, 0
    for seed in range(12):
        scenario = generate(KINDS[kind], seed)
        try:
            ALGORITHMS[name].check(scenario.view)
        except NeedNotMet:
            continue
        met += 1
        complete = promised(name, kind) == "complete"
        taken = talk(scenario, name, before, complete).take_round()
        count = len(arrived(scenario))
        assert taken is not None
        assert (taken.first, taken.last) == (before + 1, before + count)
        view = state_after(scenario, 0)
        for number, commit in taken.commits:
            after = apply_actions(view, commit.actions)
            assert isinstance(after, MemoryBag)
            view = after
            if complete:
                assert view.positive() == state_after(scenario, number - before), f"{name}, seed {seed}, state {number}"
        if promised(name, kind) != "none":
            assert view.positive() == state_after(scenario, count), f"{name}, seed {seed}"
        assert [number for number, _ in taken.commits] == sorted(number for number, _ in taken.commits)
    assert met or (kind == SOURCE_LOCAL and _one_source_only(name))


def _one_source_only(name: str) -> bool:
    return any(need.name == "one source" for need in ALGORITHMS[name].facts.needs)


def test_nothing_is_written_twice() -> None:
    """What was taken is gone; the next round goes on from there."""
    scenario = generate(KINDS[SOURCE_LOCAL], 3)
    conversation = talk(scenario, "pvm-cc", 0, True)
    assert conversation.take_round() is not None
    assert conversation.take_round() is None
    assert conversation.written == len(arrived(scenario))


def test_what_is_held_back_is_not_written() -> None:
    """An update that no commit shows yet keeps the whole round back: a restart must find it in its source."""
    scenario = generate(KINDS[SOURCE_LOCAL], 3)
    conversation = Conversation(Driver(ALGORITHMS["pvm-cc"](scenario.view)), True)
    conversation.deliver(arrived(scenario))
    assert conversation.asks, "a question is under way"
    assert conversation.holds_back
    assert conversation.take_round() is None
