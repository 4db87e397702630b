"""Levels are data: names, implications, the main chain."""

from __future__ import annotations

from itertools import pairwise

import pytest

from weir.algebra.errors import WeirError
from weir.consistency.levels import LEVELS, NAMES, highest, implied, implies, level


def test_main_chain_is_a_chain() -> None:
    """Every level of the main chain implies the one before it, and not the other way round."""
    for weaker, stronger in pairwise(NAMES):
        assert implies(stronger, weaker)
        assert not implies(weaker, stronger)


def test_every_implied_name_is_a_level() -> None:
    """The graph of implications has no loose ends."""
    assert {name for entry in LEVELS.values() for name in entry.implies} <= set(LEVELS)


def test_two_papers_weak_levels_stay_apart() -> None:
    """The ECA paper's weak level follows from the Strobe paper's, and demands no convergence."""
    assert implies("weak", "weak-eca")
    assert not implies("weak-eca", "convergence")
    assert not implies("consistency", "convergence")
    assert implies("strong", "consistency")


def test_complete_implies_all_levels_of_states() -> None:
    """Complete is the top of everything that is said about view states."""
    assert implied("complete") == set(LEVELS) - {"validity", "order"}


def test_highest_looks_at_the_main_chain_only() -> None:
    """Levels beside the chain do not count for tables."""
    assert highest({"none", "consistency", "weak-eca"}) == "none"
    assert highest({"none", "convergence", "weak", "strong"}) == "strong"
    assert highest(set()) == "none"


def test_unknown_level_names_the_known_ones() -> None:
    """A wrong name is answered with the right ones."""
    with pytest.raises(
        WeirError, match=r"unknown consistency level 'eventual': use one of none, convergence, .*strong"
    ):
        level("eventual")
