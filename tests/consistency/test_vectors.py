"""Legal vectors: prefixes, and global transactions whole or not at all."""

from __future__ import annotations

from itertools import product

import pytest

from tests.consistency.worlds import sources
from weir.consistency.history import HistoryError, SourceHistory
from weir.consistency.vectors import VectorSpace
from weir.messages import GlobalTransaction, Update


def legal(text: str) -> list[str]:
    return ["".join(map(str, vector)) for vector in VectorSpace(sources(text)).legal_vectors()]


def test_without_global_transactions_every_prefix_is_legal() -> None:
    """Two and three positions give six vectors, smaller ones first."""
    assert legal("x: a / y: b c") == ["00", "10", "01", "11", "02", "12"]


def test_global_transactions_are_whole_and_bring_what_they_depend_on() -> None:
    """G needs a before it at x and b before it at y; c comes after it."""
    assert legal("x: a G c / y: b G") == ["00", "10", "01", "11", "22", "32"]


def test_dependence_passes_through_other_global_transactions() -> None:
    """H at y and z depends on G at x and y, and so on a at x."""
    assert legal("x: a G / y: G H / z: H") == ["000", "100", "210", "221"]


@pytest.mark.parametrize(
    "text", ["x: a b / y: c", "x: a G c / y: b G d", "x: a G / y: G H / z: H k", "x: G H / y: G b H"]
)
def test_is_legal_agrees_with_the_enumeration(text: str) -> None:
    """The test by counts accepts exactly the vectors that single transactions reach."""
    space = VectorSpace(sources(text))
    everything = product(*(range(end + 2) for end in space.final))
    assert {v for v in everything if space.is_legal(v)} == set(space.legal_vectors())


@pytest.mark.parametrize("text", ["x: a b / y: c", "x: a G c / y: b G d", "x: a G / y: G H / z: H k"])
def test_before_undoes_after(text: str) -> None:
    """One transaction forward and the same one back."""
    space = VectorSpace(sources(text))
    forward = {(v, w) for v in space.legal_vectors() for w in space.after(v)}
    back = {(v, w) for w in space.legal_vectors() for v in space.before(w)}
    assert forward == back


def test_walk_goes_by_single_transactions() -> None:
    """A walk takes a global transaction in one step, after what it depends on."""
    space = VectorSpace(sources("x: a G / y: b G"))
    assert list(space.walk((0, 0), (2, 2))) == [(1, 0), (1, 1), (2, 2)]
    assert list(space.walk((1, 1), (1, 1))) == []


def test_positions_of_a_commit_become_a_vector() -> None:
    """A source that a commit does not name has not moved."""
    space = VectorSpace(sources("x: a b / y: c"))
    assert space.vector({"x": 2}, since=(1, 1)) == (2, 1)
    assert space.vector({}) == (0, 0)
    with pytest.raises(HistoryError, match=r"positions of unknown source z; known: x, y"):
        space.vector({"z": 1})


def test_positions_may_be_a_database_s_own() -> None:
    """A real source's positions are text in no order that we know; they count by the transactions that end there."""
    updates = (Update("x", "0/A8", ()), Update("x", "0/1F", ()))
    space = VectorSpace([SourceHistory("x", updates, start="0/0")])
    assert [space.vector({"x": position}) for position in ("0/0", "0/A8", "0/1F")] == [(0,), (1,), (2,)]
    with pytest.raises(
        HistoryError, match="position 0/20 of source x is neither its start nor the end of a transaction"
    ):
        space.vector({"x": "0/20"})


def test_opposite_orders_of_global_transactions_are_refused() -> None:
    """G before H at x and H before G at y is no serial history."""
    with pytest.raises(HistoryError, match="transactions G, H have no serial order"):
        VectorSpace(sources("x: a G H / y: H G"))


def test_a_global_transaction_without_one_of_its_parts_is_refused() -> None:
    """Every source that the history covers must hold its part."""
    both = GlobalTransaction("G", frozenset({"x", "y"}))
    histories = [SourceHistory("x", (Update("x", 1, (), "G", both),)), SourceHistory("y")]
    with pytest.raises(HistoryError, match=r"global transaction G must have one part at each of x, y; .* parts at x$"):
        VectorSpace(histories)


def test_a_source_outside_the_history_needs_no_part() -> None:
    """A global transaction may reach sources that the view does not read."""
    wide = GlobalTransaction("G", frozenset({"x", "elsewhere"}))
    space = VectorSpace([SourceHistory("x", (Update("x", 1, (), "G", wide),))])
    assert list(space.legal_vectors()) == [(0,), (1,)]
