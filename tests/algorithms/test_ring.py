"""The perpetual ring: what it holds on every schedule, and what breaks without each of its rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.algorithms.token_scenarios import (
    CHANNELS,
    RING_PROPERTIES,
    SOURCE_LOCAL,
    carried_verdict,
    explore,
    held_by_all,
    many_updates,
    named,
    run_some,
    scenario,
)
from weir.algorithms.base import NeedNotMet
from weir.algorithms.node import Node, Reaction, Read
from weir.algorithms.ring import Increment, Ring, RingNode
from weir.algorithms.token import Token
from weir.consistency.checker import check
from weir.messages import Add, Effect, NodeMessage, Send
from weir.simulator.explore import run_listed


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("name", SOURCE_LOCAL)
def test_it_is_strong_on_every_schedule(name: str, channels: str) -> None:
    """Validity, order consistency, up-to-dateness and the level strong hold, whether channels reorder or not."""
    found = explore(named(name, channels), Ring)
    assert found.held == "strong"
    assert held_by_all(found) >= {*RING_PROPERTIES}


@pytest.mark.parametrize("channels", CHANNELS)
def test_a_global_transaction_is_shown_in_parts(channels: str) -> None:
    """Nothing holds the parts of a global transaction together: only convergence is left."""
    assert explore(named("global", channels), Ring).held == "convergence"


def test_it_is_not_complete() -> None:
    """Two transactions of one source between two visits are shown as one."""
    schedule = explore(named("inserts"), Ring).counterexample("complete")
    assert schedule is not None
    world = named("inserts").begin(Ring)
    run_listed(world, schedule)
    assert len(world.states) - 1 < 4


def test_it_ends_when_the_token_carries_nothing() -> None:
    """A run is over when everything ran, nothing but the token is under way, and token and nodes have nothing."""
    world = named("inserts").begin(Ring)
    run_listed(world, ())
    messages = [message for inbox in world.inboxes.values() for message in inbox]
    assert len(messages) == 1
    assert isinstance(messages[0], Token)
    assert messages[0].idle
    assert all(node.idle for node in world.driver.nodes.values())


@pytest.mark.parametrize("seed", range(40))
def test_long_runs_hold_it_by_the_vectors_that_commits_carry(seed: int) -> None:
    """Five sources and 30 updates under reordering channels: every commit's vector is right, none goes backwards."""
    world = run_some(many_updates(30, seed, "reorder").begin(Ring), seed, 100_000)
    assert not world.enabled()
    assert carried_verdict(world).holds("strong")


def test_a_sum_of_terms_is_refused() -> None:
    """One token carries one term; the refusal names the algorithm that carries more."""
    tables = {"x.r1": ("A int", "(1)"), "y.r2": ("A int", "(2)")}
    union = scenario("union", tables, "SELECT r1.A FROM x.r1 UNION ALL SELECT r2.A FROM y.r2", (), "fifo")
    with pytest.raises(NeedNotMet, match="use multi-ring"):
        union.begin(Ring)


# -- what each rule is for --------------------------------------------------------------------------------------------


class AppliesAsTheyArrive(Ring):
    """Ignores sequence numbers."""

    def on_message(self, message: NodeMessage) -> Iterator[Effect]:
        assert isinstance(message, Increment)
        yield self.commit(Add(message.delta), positions={message.source: message.position})


@pytest.mark.parametrize("channels", CHANNELS)
def test_sequence_numbers_are_needed(channels: str) -> None:
    """Without them increments of different nodes overtake each other, even where each channel keeps its order."""
    assert explore(named("inserts", channels), AppliesAsTheyArrive).held == "convergence"


class WaitsForZero(Ring):
    """Figure 1 as printed: the first increment has number 1, the warehouse waits for 0."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.next_sequence = 0


def test_numbers_must_start_together() -> None:
    """As printed, no increment is ever applied."""
    found = explore(named("inserts"), WaitsForZero)
    assert found.held == "none"
    assert all(len(history) == 1 for history in found.histories)


class _KeepsItsEntry(RingNode):
    def receive(self, message: NodeMessage, read: Read) -> Reaction:
        assert isinstance(message, Token)
        node, sends = super().receive(message, read)
        at = self.view.sources.index(self.source)
        token = sends[-1].message
        assert isinstance(token, Token)
        if token.entries[at] is None:
            token = replace(token, entries=(*token.entries[:at], message.entries[at], *token.entries[at + 1 :]))
        return node, (*sends[:-1], Send(sends[-1].to, token))


class KeepsItsEntry(Ring):
    """Does not clear an entry that was handed in."""

    def node(self, source: str) -> Node:
        return _KeepsItsEntry(self.view, source)


def test_an_entry_must_be_cleared_when_handed_in() -> None:
    """Otherwise it is handed in again with every turn, and the view soon equals no source state."""
    case = named("inserts")
    world = run_some(case.begin(KeepsItsEntry), 1, 1000, ended=lambda world: len(world.states) > 8)
    assert not check(case.lattice, world.states).holds("validity")


class _MultipliesByNow(RingNode):
    def receive(self, message: NodeMessage, read: Read) -> Reaction:
        assert isinstance(message, Token)
        at = self.view.sources.index(self.source)
        node, sends = super().receive(message, read)
        own = sends[-1].message
        multiplied = replace(self, changes=())
        others = RingNode.receive(multiplied, message, read)[1][-1].message
        assert isinstance(own, Token)
        assert isinstance(others, Token)
        entries = (*others.entries[:at], own.entries[at], *others.entries[at + 1 :])
        return node, (*sends[:-1], Send(sends[-1].to, replace(own, entries=entries)))


class MultipliesByNow(Ring):
    """Multiplies by ``x_i`` instead of ``x_i - D_i``."""

    def node(self, source: str) -> Node:
        return _MultipliesByNow(self.view, source)


def test_entries_must_see_the_node_as_it_was() -> None:
    """Otherwise two concurrent changes count their common effect twice (the error term of the papers)."""
    assert explore(named("inserts"), MultipliesByNow).held == "none"
