"""Long histories: the vectors that the commits carry are checked in one pass."""

from __future__ import annotations

import pytest

from tests.consistency.worlds import ONE, TWO, bag, bags, sources, values, world
from weir.algebra.memory import MemoryBag
from weir.consistency.carried import check_vectors
from weir.consistency.history import HistoryError, SourceHistory, Vector
from weir.consistency.lattice import Lattice
from weir.consistency.vectors import VectorSpace
from weir.consistency.verdict import Verdict
from weir.consistency.witness import Backwards, Difference, Illegal, Mismatch, NotFinal, NotInitial, Placed, Skipped
from weir.messages import Update

GLOBAL = world("x: G a / y: G", "- ? / ? GG / ? AGG")
FLAT = world("x: a b c / y: d", "A A / A A / B B / B B")


def carried(lattice: Lattice, text: str) -> Verdict:
    """``"A@00 B@11"``: states with the vectors they carry."""
    pairs = [part.split("@") for part in text.split()]
    vectors = [tuple(map(int, digits)) for _, digits in pairs]
    return check_vectors(lattice, lattice.value, [bag(word) for word, _ in pairs], vectors)


@pytest.mark.parametrize(
    ("lattice", "text", "level"),
    [
        pytest.param(TWO, "-@00 A@10 AB@11", "complete", id="one by one"),
        pytest.param(TWO, "-@00 -@00 A@10 A@10 AB@11 AB@11", "complete", id="a commit may change nothing"),
        pytest.param(TWO, "-@00 AB@11", "strong", id="two at once"),
        pytest.param(TWO, "A@10 AB@11", "strong", id="the initial state not seen"),
        pytest.param(TWO, "-@00 A@10 B@01 AB@11", "weak", id="backwards"),
        pytest.param(TWO, "-@00 A@01 AB@11", "convergence", id="a wrong vector for a right state"),
        pytest.param(TWO, "-@00 C@10 AB@11", "convergence", id="a wrong state"),
        pytest.param(TWO, "-@00 A@20 AB@11", "convergence", id="a vector beyond the end"),
        pytest.param(TWO, "-@00 A@10", "none", id="the end is missing"),
        pytest.param(GLOBAL, "-@00 GG@11 AGG@21", "complete", id="a global transaction is one step"),
        pytest.param(GLOBAL, "-@00 GG@10 AGG@21", "convergence", id="a vector with half a global transaction"),
        pytest.param(FLAT, "A@00 B@21", "complete", id="no commit for what changes nothing"),
        pytest.param(FLAT, "A@00 A@10 B@20 B@31", "complete", id="or with one"),
        pytest.param(FLAT, "A@10 B@20", "complete", id="nothing changes before the first or after the last"),
        pytest.param(FLAT, "A@00 B@10 B@31", "convergence", id="the change is not there yet"),
    ],
)
def test_highest_level_by_carried_vectors(lattice: Lattice, text: str, level: str) -> None:
    """The carried vectors prove exactly the levels up to the expected one."""
    found = carried(lattice, text)
    assert found.highest == level, str(found)


def test_consistency_without_convergence() -> None:
    """An unfinished history with right vectors is consistent, in the ECA paper's sense."""
    found = carried(TWO, "-@00 A@10")
    assert found.held == {"none", "weak-eca", "consistency"}


@pytest.mark.parametrize(
    ("text", "level", "witness"),
    [
        ("-@00 A@10 AB@11", "complete", Placed({0: (0, 0), 1: (1, 0), 2: (1, 1)}, path=((0, 0), (1, 0), (1, 1)))),
        ("-@00 A@10 AB@11", "strong", Placed({0: (0, 0), 1: (1, 0), 2: (1, 1)})),
        ("-@00 AB@11", "complete", Skipped(0, (0, 0), (1, 0), bag("A"))),
        ("A@10 AB@11", "complete", NotInitial(Difference(bag("-"), bag("A")))),
        ("-@00 A@10 B@01 AB@11", "strong", Backwards(1, 2, ((1, 0),), ((0, 1),))),
        ("-@00 A@01 AB@11", "weak", Mismatch(1, (0, 1), Difference(bag("B"), bag("A")))),
        ("-@00 A@20 AB@11", "weak", Illegal(1, (2, 0))),
        ("-@00 A@10", "complete", NotFinal(Difference(bag("B"), bag("-")))),
    ],
)
def test_witnesses(text: str, level: str, witness: object) -> None:
    """The first thing that goes wrong is shown, or the vectors themselves."""
    found = carried(TWO, text)
    assert found.witness(level) == witness
    assert found.explain(level)


def test_right_states_with_wrong_vectors_are_not_proven() -> None:
    """The search may find vectors where the carried ones are wrong: the commits' word is what is checked here."""
    assert carried(ONE, "A@0 AB@2 ABC@2").highest == "convergence"


def test_every_state_needs_a_vector() -> None:
    """The initial state carries one too."""
    with pytest.raises(HistoryError, match="1 vectors for 2 view states: every state carries one, the first too"):
        check_vectors(TWO, TWO.value, bags("- AB"), [(1, 1)])


def test_one_evaluation_per_transaction_and_commit() -> None:
    """2,000 transactions at two sources, a commit each: no more evaluations than transactions and commits."""
    length = 1000
    space = VectorSpace([SourceHistory(name, tuple(Update(name, p + 1, ()) for p in range(length))) for name in "xy"])
    asked: list[Vector] = []

    def value_at(vector: Vector) -> MemoryBag:
        asked.append(vector)
        return bag("A").scale(vector[0] + 1) + bag("B").scale(vector[1])

    vectors = [(done // 2, (done + 1) // 2) for done in range(2 * length + 1)]
    states = [value_at(vector) for vector in vectors]
    asked.clear()
    assert check_vectors(space, value_at, states, vectors).highest == "complete"
    assert len(asked) <= 2 * length + len(states) + 2
    assert asked == sorted(asked), "evaluated forward only"


def test_values_of_illegal_vectors_are_never_asked_for() -> None:
    """A commit with half a global transaction is refused before the view is evaluated there."""
    found = check_vectors(
        VectorSpace(sources("x: G a / y: G")),
        values([2, 1], "- ? / ? GG / ? AGG"),
        bags("- AGG AGG"),
        [(0, 0), (2, 0), (2, 1)],
    )
    assert found.witness("weak-eca") == Illegal(1, (2, 0))
