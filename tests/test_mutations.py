"""Every planted bug is caught, on a scenario that the algorithm itself passes."""

from __future__ import annotations

import pytest

from tests.mutations.__main__ import main
from tests.mutations.catalogue import MUTATIONS
from tests.mutations.mutation import is_below
from weir.algorithms.registry import ALGORITHMS


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_bug_is_caught(name: str) -> None:
    """Without the bug the claim holds on every schedule of the scenario; with it some schedule breaks it."""
    mutation = MUTATIONS[name]
    assert not is_below(mutation.held_without(), mutation.claim)
    assert is_below(mutation.held_with(), mutation.claim)


def test_every_algorithm_that_claims_something_has_a_bug() -> None:
    """No algorithm is left out."""
    assert {mutation.of for mutation in MUTATIONS.values()} == {n for n, c in ALGORITHMS.items() if c.facts.claims}


def test_the_bugs_one_thinks_of_first_are_among_them() -> None:
    """Far more than twenty, and those by which the papers' rules can be read wrongly."""
    assert len(MUTATIONS) >= 50
    assert MUTATIONS.keys() >= {
        "sweep-wrong-sign",
        "sweep-off-by-one",
        "strobe-applies-early",
        "strobe-pending-ignored",
        "strobe-duplicates",
        "pvm-rpu-early",
        "ring-entry-kept",
        "star-as-printed",
    }


def test_the_command_counts_them(capsys: pytest.CaptureFixture[str]) -> None:
    """``python -m tests.mutations`` exits with 0 and says how many."""
    assert main() == 0
    assert f"{len(MUTATIONS)} of {len(MUTATIONS)} planted bugs caught" in capsys.readouterr().out
