"""Multi-ring: sums of terms, whole increments, and tokens that never wait for each other in a circle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tests.algorithms.token_scenarios import (
    CHANNELS,
    RING_PROPERTIES,
    SOURCE_LOCAL,
    Transactions,
    carried_verdict,
    explore,
    held_by_all,
    named,
    run_some,
    scenario,
)
from weir.algebra.bag import total
from weir.algorithms.multi_ring import MultiRing, Open, TokenVisit
from weir.messages import Add, Effect, Send
from weir.simulator.scenario import Scenario
from weir.simulator.world import World

FIVE_SOURCES = {f"s{at}.x{at}": ("K int, V int", f"(1, {at})") for at in range(1, 6)}
PAPERS_VIEW = (
    "SELECT x1.K, x1.V AS a, x2.V + x3.V + x5.V AS b FROM s1.x1 JOIN s2.x2 ON x1.K = x2.K JOIN s3.x3 ON x3.K = x2.K "
    "JOIN s5.x5 ON x5.K = x3.K "
    "UNION ALL SELECT x1.K, x1.V, x2.V + x4.V FROM s1.x1 JOIN s2.x2 ON x1.K = x2.K JOIN s4.x4 ON x4.K = x2.K "
    "UNION ALL SELECT x3.K, x3.V, x4.V FROM s3.x3 JOIN s4.x4 ON x4.K = x3.K"
)
TWO_TERMS = "SELECT x1.V + x2.V AS v FROM s1.x1 JOIN s2.x2 ON x1.K = x2.K UNION ALL SELECT x2.V FROM s2.x2"


def papers_view(changes: Transactions, channels: str) -> Scenario:
    """The paper's example: x1 x2 x3 x5 + x1 x2 x4 + x3 x4."""
    return scenario("x1x2x3x5 + x1x2x4 + x3x4", FIVE_SOURCES, PAPERS_VIEW, changes, channels)


def two_terms(channels: str) -> Scenario:
    """x1 x2 + x2, changed at both."""
    changes = (("s2", "+x2(1, 7)"), ("s1", "-x1(1, 1) +x1(1, 5)"), ("s2", "-x2(1, 2)"), ("s1", "+x1(1, 6)"))
    tables = {name: FIVE_SOURCES[name] for name in ("s1.x1", "s2.x2")}
    return scenario("x1x2 + x2", tables, TWO_TERMS, changes, channels)


def at_rest(world: World) -> bool:
    """Nothing can happen, every token is at home and empty, no request and no increment waits."""
    machine = world.algorithm
    assert isinstance(machine, MultiRing)
    empty = all(token is not None and not token.parts for token in machine.home.values())
    return not world.enabled() and empty and not machine.requests and not machine.increments


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("name", SOURCE_LOCAL)
def test_on_one_term_it_is_strong_on_every_schedule(name: str, channels: str) -> None:
    """Validity, order consistency, up-to-dateness and the level strong hold, whether channels reorder or not."""
    found = explore(named(name, channels), MultiRing)
    assert found.held == "strong"
    assert held_by_all(found) >= {*RING_PROPERTIES}


@pytest.mark.parametrize("channels", CHANNELS)
def test_a_global_transaction_is_shown_in_parts(channels: str) -> None:
    """Nothing holds the parts of a global transaction together: only convergence is left."""
    assert explore(named("global", channels), MultiRing).held == "convergence"


@pytest.mark.parametrize("channels", CHANNELS)
def test_two_terms_that_share_a_node_are_strong(channels: str) -> None:
    """Four changes at the two nodes of x1 x2 + x2, on every schedule."""
    found = explore(two_terms(channels), MultiRing)
    assert found.held == "strong"
    assert held_by_all(found) >= {*RING_PROPERTIES}


@pytest.mark.parametrize(
    ("channels", "changes"),
    [
        ("reorder", (("s4", "+x4(1, 14)"), ("s3", "-x3(1, 3) +x3(1, 13)"))),
        ("fifo", (("s4", "+x4(1, 14)"), ("s1", "+x1(1, 11)"), ("s3", "-x3(1, 3) +x3(1, 13)"))),
    ],
)
def test_the_papers_view_comes_to_its_end_on_every_schedule(channels: str, changes: Transactions) -> None:
    """Every schedule ends with the right view: no tokens wait for each other in a circle."""
    found = explore(papers_view(changes, channels), MultiRing)
    assert held_by_all(found) >= {"strong", *RING_PROPERTIES}


@pytest.mark.parametrize("seed", range(100))
def test_the_papers_view_never_deadlocks(seed: int) -> None:
    """20 changes over all nodes, by lot, under reordering: at the end all tokens are at home and the level holds."""
    changes = [(f"s{at}", f"+x{at}(1, {20 + number})") for number, at in enumerate((1, 4, 3, 2, 5, 3, 4, 1, 2, 5) * 2)]
    world = run_some(papers_view(changes, "reorder").begin(MultiRing), seed, 100_000)
    assert at_rest(world)
    assert carried_verdict(world).holds("strong")


def test_nothing_is_sent_while_nothing_changes() -> None:
    """Without a transaction there is no message."""
    assert at_rest(papers_view((), "fifo").begin(MultiRing))


# -- what each rule is for --------------------------------------------------------------------------------------------


class AppliesTermsApart(MultiRing):
    """Applies what comes of each term as soon as it is complete."""

    def _apply(self) -> Iterator[Effect]:
        for number, increment in sorted(self.increments.items()):
            yield from (self.commit(Add(delta)) for delta in increment.deltas)
            self.increments[number] = replace(increment, deltas=())
            if increment.missing == 0:
                del self.increments[number]


def test_half_an_increment_is_never_a_state() -> None:
    """Terms applied apart show states that never were: the same changes at the end, nothing more than convergence."""
    assert explore(two_terms("fifo"), AppliesTermsApart).held == "convergence"


class TakesChangesAlone(MultiRing):
    """Treats every visit as joint, whichever tokens are there."""

    def _visit(self, source: str, terms: Sequence[int]) -> Send:
        send = super()._visit(source, terms)
        visit = send.message
        assert isinstance(visit, TokenVisit)
        if visit.number is None:
            self.visits += 1
            self.increments[self.visits] = Open(source)
            visit = replace(visit, number=self.visits)
        return Send(source, visit)


def test_changes_are_taken_only_when_all_tokens_are_together() -> None:
    """Taken by one token alone, a change is lost to the terms of the others."""
    changes = (("s4", "+x4(1, 14)"), ("s1", "+x1(1, 11)"), ("s3", "+x3(1, 13)"))
    case = papers_view(changes, "fifo")
    ends = [run_some(case.begin(TakesChangesAlone), seed, 10_000).view for seed in range(100)]
    assert any(end != case.lattice.final_value for end in ends)
    ends = [run_some(case.begin(MultiRing), seed, 10_000).view for seed in range(100)]
    assert all(end == case.lattice.final_value for end in ends)


class IgnoresTheOrder(MultiRing):
    """Applies an increment when it is complete, whatever older ones are under way."""

    def _apply(self) -> Iterator[Effect]:
        for number, increment in sorted(self.increments.items()):
            if increment.missing == 0:
                del self.increments[number]
                if increment.deltas:
                    yield self.commit(Add(total(*increment.deltas)))


def test_increments_are_applied_in_the_order_of_their_visits() -> None:
    """A change of x4 that has seen that of x1 may be complete first; shown first, it makes a state that never was."""
    case = papers_view((("s1", "+x1(1, 11)"), ("s4", "+x4(1, 14)")), "fifo")
    assert explore(case, IgnoresTheOrder).held == "convergence"
    assert explore(case, MultiRing).held == "complete"
