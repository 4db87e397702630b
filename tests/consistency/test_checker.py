"""Histories that must hold a level and histories that must not, for every level and property."""

from __future__ import annotations

import pytest

from tests.consistency.worlds import ONE, TWO, bag, sources, values, verdict, world
from weir.algebra.memory import MemoryBag
from weir.consistency.checker import check, highest_level
from weir.consistency.history import HistoryError, Vector
from weir.consistency.lattice import Lattice
from weir.consistency.witness import Backwards, Difference, NoPlace, NotFinal, NotInitial, Placed, Skipped

ABA = world("x: a b", "A B A")  # a value that returns
FLAT = world("x: a b c", "A A B B")  # transactions that change nothing
TWINS = world("x: a b / y: c", "- T / T S / AB ABT")  # T at (0,1) and at (1,0)
GLOBAL = world("x: G a / y: G", "- ? / ? GG / ? AGG")  # G inserts at both sources
LATE = world("x: a b / y: c", "- C / A AC / B BC")


@pytest.mark.parametrize(
    ("lattice", "states", "level"),
    [
        pytest.param(ONE, "A AB ABC", "complete", id="every state, one by one"),
        pytest.param(ONE, "A A AB AB ABC ABC", "complete", id="commits may repeat a state"),
        pytest.param(ONE, "A ABC", "strong", id="a state is left out"),
        pytest.param(ONE, "ABC", "strong", id="only the last state is seen"),
        pytest.param(ONE, "AB ABC", "strong", id="the initial state is not seen"),
        pytest.param(ONE, "A ABC AB ABC", "weak", id="one source goes back"),
        pytest.param(ONE, "A B ABC", "convergence", id="a state that never was"),
        pytest.param(ONE, "B ABC", "convergence", id="a wrong initial state"),
        pytest.param(ONE, "A AB", "none", id="the end is missing"),
        pytest.param(ONE, "A AB ABC AB", "none", id="ends in the past"),
        pytest.param(TWO, "- A AB", "complete", id="x first"),
        pytest.param(TWO, "- B AB", "complete", id="y first"),
        pytest.param(TWO, "- AB", "strong", id="both at once"),
        pytest.param(TWO, "- A B AB", "weak", id="x, then y without x"),
        pytest.param(TWO, "- AABB AB", "convergence", id="a duplicate on the way"),
        pytest.param(TWO, "- A AAB", "none", id="a duplicate in the end"),
        pytest.param(ABA, "A B A", "complete", id="there and back"),
        pytest.param(ABA, "A", "strong", id="nothing seen, right in the end"),
        pytest.param(ABA, "A B A B A", "weak", id="there and back twice"),
        pytest.param(ABA, "B A", "strong", id="the first A not seen"),
        pytest.param(FLAT, "A B", "complete", id="transactions without effect need no commit"),
        pytest.param(FLAT, "A A A B B", "complete", id="and may have one"),
        pytest.param(FLAT, "B", "strong", id="the initial state skipped"),
        pytest.param(TWINS, "- T AB ABT", "complete", id="T must be x's, since y comes after AB"),
        pytest.param(TWINS, "- T S ABT", "complete", id="T can be either"),
        pytest.param(TWINS, "- T ABT", "strong", id="S or AB left out"),
        pytest.param(LATE, "- A B BC", "complete", id="y last"),
        pytest.param(LATE, "- C A BC", "weak", id="c lost again"),
        pytest.param(GLOBAL, "- GG AGG", "complete", id="both parts are one step"),
        pytest.param(GLOBAL, "- AGG", "strong", id="G and a together"),
        pytest.param(GLOBAL, "- G GG AGG", "convergence", id="half a global transaction"),
        pytest.param(GLOBAL, "- A AGG", "convergence", id="a without the global transaction before it"),
        pytest.param(world("x: ", "A"), "A", "complete", id="nothing happens"),
        pytest.param(world("x: ", "A"), "B", "none", id="nothing happens, wrongly loaded"),
    ],
)
def test_highest_level(lattice: Lattice, states: str, level: str) -> None:
    """A history holds exactly the levels of the main chain up to the expected one, with and without witnesses."""
    found = verdict(lattice, states)
    assert found.highest == level, str(found)
    assert highest_level(lattice, [bag(word) for word in states.split()]) == level


@pytest.mark.parametrize(
    ("lattice", "states", "weak", "ordered"),
    [
        pytest.param(ONE, "A AB", True, True, id="right so far, unfinished"),
        pytest.param(ONE, "AB A", True, False, id="valid, backwards, unfinished"),
        pytest.param(ONE, "A C", False, False, id="never was"),
        pytest.param(TWO, "A B", True, False, id="incomparable"),
        pytest.param(GLOBAL, "- G", False, False, id="half a global transaction"),
        pytest.param(ONE, "A AB ABC", True, True, id="finished"),
    ],
)
def test_levels_without_convergence(lattice: Lattice, states: str, weak: bool, ordered: bool) -> None:
    """The ECA paper's weak level and consistency do not ask how the history ends."""
    found = verdict(lattice, states)
    assert (found.holds("weak-eca"), found.holds("consistency")) == (weak, ordered)


@pytest.mark.parametrize(
    ("reads", "held"),
    [
        pytest.param("A ABC ABC", {"validity", "order", "up-to-date"}, id="readers may miss states"),
        pytest.param("ABC A", {"validity", "up-to-date"}, id="a reader sees the past after the present"),
        pytest.param("A C ABC", {"up-to-date"}, id="a reader sees what never was"),
        pytest.param("", {"validity", "order", "up-to-date"}, id="nobody reads"),
    ],
)
def test_ring_properties_of_reads(reads: str, held: set[str]) -> None:
    """Validity and order are about what was read; up-to-dateness about what a last read would see."""
    found = verdict(ONE, "A AB ABC", reads)
    assert found.held & {"validity", "order", "up-to-date"} == held


def test_up_to_date_fails_when_the_last_state_lacks_an_update() -> None:
    """Right and ordered reads are not up to date when the view never covers the last update."""
    found = verdict(ONE, "A AB", "A AB")
    assert found.held >= {"validity", "order"}
    assert not found.holds("up-to-date")


# -- candidates: views that look alike at different vectors ----------------------------------------------------------


def test_smallest_place_is_not_always_right() -> None:
    """T stands first at (0,1), yet only (1,0) lets AB at (2,0) follow."""
    witness = verdict(TWINS, "- T AB ABT").witness("consistency")
    assert witness == Placed({0: (0, 0), 1: (1, 0), 2: (2, 0), 3: (2, 1)})


def test_largest_place_is_not_always_right() -> None:
    """A returns at the end, yet must be taken at the beginning for B to follow."""
    witness = verdict(ABA, "A A B").witness("consistency")
    assert witness == Placed({0: (0,), 1: (0,), 2: (1,)})


def test_every_pair_fits_but_no_chain() -> None:
    """P after M is at (2,0), P before Q is at (0,1), Q at (1,2) may follow M at (1,0): still M P Q has no chain."""
    lattice = world("x: a b / y: c d", "U P W / M V Q / P X Y")
    assert all(verdict(lattice, pair).holds("consistency") for pair in ("M P", "P Q", "M Q", "U P Q"))
    witness = verdict(lattice, "M P Q").witness("consistency")
    assert witness == Backwards(1, 2, reached=((2, 0),), places=((1, 2),))


# -- witnesses ---------------------------------------------------------------------------------------------------------


def test_witness_of_complete_is_a_path() -> None:
    """The serial order is shown vector by vector, transactions without effect included."""
    witness = verdict(FLAT, "A B B").witness("complete")
    assert witness == Placed({0: (0,), 1: (2,), 2: (3,)}, path=((0,), (1,), (2,), (3,)))


def test_witness_of_complete_takes_global_transactions_in_one_step() -> None:
    """From - to GG both positions move."""
    witness = verdict(GLOBAL, "- GG AGG").witness("complete")
    assert witness == Placed({0: (0, 0), 1: (1, 1), 2: (2, 1)}, path=((0, 0), (1, 1), (2, 1)))


def test_witness_of_strong_ends_at_the_final_vector() -> None:
    """The last state is placed at the end even where an earlier vector looks the same."""
    assert verdict(FLAT, "A B").witness("strong") == Placed({0: (0,), 1: (3,)})
    assert verdict(FLAT, "A B").witness("consistency") == Placed({0: (0,), 1: (2,)})


def test_witness_against_convergence_is_the_difference() -> None:
    """What the last state lacks and what it has too much, against the final view."""
    found = verdict(TWO, "- A AAC")
    assert found.witness("convergence") == NotFinal(Difference(missing=bag("B"), extra=bag("AC")))
    assert found.explain("weak") == "the last state is not the view at x@1 y@1: missing ('B'), extra ('A'), ('C')"


def test_witness_against_validity_is_the_first_state_and_the_nearest_vector() -> None:
    """State 2 is one tuple off the view at (1,1), and further off elsewhere."""
    found = verdict(TWO, "- A ABB AAB AB")
    assert found.witness("weak") == NoPlace(2, (1, 1), Difference(missing=bag("-"), extra=bag("B")))
    assert found.explain("consistency") == "state 2 is the view nowhere; nearest is x@1 y@1: extra ('B')"


def test_witness_against_order_is_a_pair_of_states() -> None:
    """State 3 shows only what was before state 1."""
    found = verdict(LATE, "- AC AC C BC")
    assert found.witness("strong") == Backwards(1, 3, reached=((1, 1),), places=((0, 1),))
    assert found.explain("strong") == "state 3 goes back to x@0 y@1 after state 1 was at x@1 y@1"


def test_witness_against_complete_is_the_skipped_state() -> None:
    """Between the states A and ABC the transaction a led to AB, which nobody could see."""
    found = verdict(ONE, "A A ABC")
    assert found.witness("complete") == Skipped(1, after=(0,), vector=(1,), value=bag("AB"))
    assert found.explain("complete") == "after state 1 at x@0, a led to {('A'), ('B')}, which was never shown"


def test_witness_against_complete_names_a_global_transaction_once() -> None:
    """A skipped global transaction is one step and one name."""
    found = verdict(GLOBAL, "- AGG")
    assert found.explain("complete") == "after state 0 at x@0 y@0, G led to {2*('G')}, which was never shown"


def test_witness_against_complete_at_the_end() -> None:
    """A alone is right in the end, but B happened in between."""
    assert verdict(ABA, "A").witness("complete") == Skipped(0, after=(0,), vector=(1,), value=bag("B"))


def test_witness_against_complete_at_the_beginning() -> None:
    """A history that begins later than the sources is not complete."""
    found = verdict(ONE, "AB ABC")
    assert found.witness("complete") == NotInitial(Difference(missing=bag("-"), extra=bag("B")))


def test_witness_against_complete_when_steps_lead_aside() -> None:
    """P is one step away at (0,1) and two at (2,0); only the far one lets Q follow."""
    lattice = world("x: a b c / y: d", "A P / M N / P S / Q Q")
    found = verdict(lattice, "A P Q")
    assert found.highest == "strong"
    assert found.witness("complete") == Skipped(1, after=(0, 1), vector=(1, 1), value=bag("N"))


def test_witness_against_complete_when_the_steps_lead_past() -> None:
    """P is one step away at (1,0) and two at (0,2), yet Q at (0,3) follows only the far one."""
    lattice = world("x: a / y: b c d", "A M P Q / P S T U")
    found = verdict(lattice, "A P Q U")
    assert found.highest == "strong"
    assert found.witness("complete") == Backwards(1, 2, reached=((1, 0),), places=((0, 3),))


def test_verdict_prints_every_level() -> None:
    """The text of a verdict has one line per level, with its witness."""
    lines = str(verdict(TWO, "- AB")).splitlines()
    assert "strong: holds: state 0 at x@0 y@0; state 1 at x@1 y@1" in lines
    assert len(lines) == 10


# -- use ---------------------------------------------------------------------------------------------------------------


def test_a_history_without_states_is_refused() -> None:
    """There is always the view before anything happened."""
    with pytest.raises(HistoryError, match="at least one view state"):
        check(ONE, [])
    with pytest.raises(HistoryError, match="at least one view state"):
        highest_level(ONE, [])


def test_a_lattice_that_is_too_large_says_what_to_do() -> None:
    """Searching stops at the limit and names the other checker."""
    lattice = Lattice(sources("x: a b / y: c d"), lambda vector: bag("A"), limit=8)
    with pytest.raises(HistoryError, match=r"more than 8 source states .*weir\.consistency\.carried"):
        check(lattice, [bag("A")])


def test_values_are_evaluated_once() -> None:
    """A lattice shared between histories asks for the view at each vector once."""
    asked: list[Vector] = []
    table = values([1, 1], "- B / A AB")

    def value_at(vector: Vector) -> MemoryBag:
        asked.append(vector)
        return table(vector)

    lattice = Lattice(sources("x: a / y: b"), value_at)
    for states in ("- A AB", "- B AB", "- B A AB"):
        verdict(lattice, states)
    assert sorted(asked) == [(0, 0), (0, 1), (1, 0), (1, 1)]
