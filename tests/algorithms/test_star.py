"""The quiescent star: what it holds on every schedule, its silence, and the slips of Figure 2."""

from __future__ import annotations

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
from weir.algorithms.star import Star
from weir.simulator.counters import Counters
from weir.simulator.explore import run_listed


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("name", SOURCE_LOCAL)
def test_it_is_strong_on_every_schedule(name: str, channels: str) -> None:
    """Validity, order consistency, up-to-dateness and the level strong hold, whether channels reorder or not."""
    found = explore(named(name, channels), Star)
    assert found.held == "strong"
    assert held_by_all(found) >= {*RING_PROPERTIES}


@pytest.mark.parametrize("channels", CHANNELS)
def test_a_global_transaction_is_shown_in_parts(channels: str) -> None:
    """Nothing holds the parts of a global transaction together: only convergence is left."""
    assert explore(named("global", channels), Star).held == "convergence"


@pytest.mark.parametrize("seed", range(40))
def test_long_runs_hold_it_by_the_vectors_that_commits_carry(seed: int) -> None:
    """Five sources and 30 updates under reordering channels: every commit's vector is right, none goes backwards."""
    world = run_some(many_updates(30, seed, "reorder").begin(Star), seed, 100_000)
    assert not world.enabled()
    assert carried_verdict(world).holds("strong")


# -- silence ----------------------------------------------------------------------------------------------------------

CROSS = {"x.r1": ("A int", "(1)"), "y.r2": ("B int", "(2)"), "z.r3": ("C int", "(3)"), "x.other": ("A int", "")}
PRODUCT = "SELECT r1.A, r2.B, r3.C FROM x.r1 CROSS JOIN y.r2 CROSS JOIN z.r3"


def _counted(*changes: tuple[str, str]) -> Counters:
    world = scenario("silence", CROSS, PRODUCT, changes, "fifo").begin(Star)
    counters = Counters()
    world.observers = (counters,)
    run_listed(world, ())
    assert not any(world.inboxes.values())
    assert not any(world.channels.values())
    return counters


def test_nothing_is_sent_while_nothing_changes() -> None:
    """Without a transaction there is no message; nor is there for a table that the view does not use."""
    assert scenario("nothing", CROSS, PRODUCT, (), "fifo").begin(Star).enabled() == []
    assert _counted(("x", "+other(5)")).messages == 0


def test_a_lone_change_costs_one_request_and_a_turn() -> None:
    """2n + 1 messages over n sources, and then silence."""
    assert _counted(("y", "+r2(5)")).messages == 2 * 3 + 1


# -- Figure 2 as printed ----------------------------------------------------------------------------------------------


class NeverReturns(Exception):
    """The loop of next_holder would run for ever."""


class StaysAtTheFirst(Star):
    """``y = succ(i)`` as printed (and ``pending[y]``, as meant): y never moves on."""

    def next_holder(self, node: str) -> str | None:
        following = self.succ(node)
        if following != node and not self.pending[following]:
            raise NeverReturns
        return None if following == node else following


class AsksForTheHolder(Star):
    """``y = succ(y)`` as meant, but the unbound ``pending[x]`` read as that of the previous holder."""

    def next_holder(self, node: str) -> str | None:
        following = self.succ(node)
        while following != node and not self.pending[node]:
            following = self.succ(following)
        return None if following == node else following


class GivesUpAtTheHolder(Star):
    """Both mended, but ``y = i`` still means that nobody asked."""

    def next_holder(self, node: str) -> str | None:
        following = self.succ(node)
        while following != node and not self.pending[following]:
            following = self.succ(following)
        return None if following == node else following


def test_next_holder_as_printed_never_returns() -> None:
    """After the first lone change nobody else has asked, and the loop goes nowhere."""
    with pytest.raises(NeverReturns):
        explore(named("inserts"), StaysAtTheFirst)


def test_next_holder_must_test_the_node_it_looks_at() -> None:
    """Otherwise requests of others are forgotten with the token."""
    assert explore(named("inserts"), AsksForTheHolder).held == "none"


@pytest.mark.parametrize("name", ["single-source", "inserts"])
def test_next_holder_must_look_at_the_holder_too(name: str) -> None:
    """A request may overtake the token that comes back from the same node. With channels in order it cannot."""
    assert explore(named(name, "fifo"), GivesUpAtTheHolder).held == "strong"
    assert explore(named(name, "reorder"), GivesUpAtTheHolder).held == "none"
