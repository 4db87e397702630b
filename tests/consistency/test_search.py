"""The checker against brute force, on random small histories: definitions taken word by word, no search tricks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise, product

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from tests.consistency.worlds import bags, world
from weir.algebra.memory import MemoryBag
from weir.consistency.carried import check_vectors
from weir.consistency.checker import check, highest_level
from weir.consistency.history import Vector
from weir.consistency.lattice import Lattice
from weir.consistency.levels import LEVELS, implied
from weir.consistency.witness import Backwards, NoPlace, Placed, Skipped

SHAPES = (
    "x: a",
    "x: a b c d",
    "x: a b / y: c",
    "x: a b / y: c d",
    "x: a / y: b / z: c",
    "x: G a / y: G",
    "x: a G / y: b G c",
    "x: G b / y: G H / z: H",
)


@dataclass(frozen=True)
class Case:
    lattice: Lattice
    states: list[MemoryBag]
    reads: list[int]  # numbers of states, in time order


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A shape, values from few letters (so that vectors look alike), and states of three kinds."""
    shape = draw(st.sampled_from(SHAPES))
    ends = [len(part.split(":")[1].split()) for part in shape.split("/")]
    count = len(list(product(*(range(end + 1) for end in ends))))
    letters = draw(st.sampled_from(["AB", "ABCD", "ABCDEFGHIJKL"]))
    words = draw(st.lists(st.sampled_from(letters), min_size=count, max_size=count))
    lattice = world(shape, " ".join(words))
    anything = st.lists(st.sampled_from(letters + "Z"), min_size=1, max_size=4)
    states = draw(st.one_of(walks(lattice), jumps(lattice), anything))
    reads = sorted(draw(st.lists(st.integers(0, len(states) - 1), max_size=3)))
    return Case(lattice, bags(" ".join(states)), reads)


@st.composite
def walks(draw: st.DrawFn, lattice: Lattice) -> list[str]:
    """The values along random transactions, some left out, some repeated: histories that hold the higher levels."""
    vector, states = lattice.initial, [lattice.initial]
    while vector != lattice.final:
        vector = draw(st.sampled_from(lattice.after(vector)))
        states.append(vector)
    shown = [v for v in states[:-1] if draw(st.integers(0, 5))] + [states[-1]]
    return [letter(lattice, v) for v in shown[-5:]]


@st.composite
def jumps(draw: st.DrawFn, lattice: Lattice) -> list[str]:
    """Values at vectors in any order, and the final one at the end: histories that are at least weak."""
    vectors = draw(st.lists(st.sampled_from(list(lattice.legal_vectors())), max_size=3))
    return [letter(lattice, v) for v in [*vectors, lattice.final]]


def letter(lattice: Lattice, vector: Vector) -> str:
    return "".join(row[0] for row, _ in lattice.value(vector).items())


# -- the definitions, by enumeration ---------------------------------------------------------------------------------


def all_vectors(lattice: Lattice) -> list[Vector]:
    """Prefixes that hold each global transaction wholly or not at all."""
    return [v for v in product(*(range(end + 1) for end in lattice.final)) if not splits(lattice, v)]


def splits(lattice: Lattice, vector: Vector) -> bool:
    inside = {u.part_of for s, p in zip(lattice.sources, vector, strict=True) for u in s.updates[:p] if u.part_of}
    outside = {u.part_of for s, p in zip(lattice.sources, vector, strict=True) for u in s.updates[p:] if u.part_of}
    return bool(inside & outside)


def has_ordered_choice(lattice: Lattice, states: list[MemoryBag]) -> bool:
    choices = product(*([v for v in all_vectors(lattice) if lattice.value(v) == state] for state in states))
    return any(all(not_before(a, b) for a, b in pairwise(choice)) for choice in choices)


def not_before(earlier: Vector, later: Vector) -> bool:
    return all(a <= b for a, b in zip(earlier, later, strict=True))


def serial_orders(lattice: Lattice) -> Iterator[list[Vector]]:
    """Every chain of legal vectors from first to last with no legal vector between two neighbours."""
    vectors = all_vectors(lattice)

    def onward(path: list[Vector]) -> Iterator[list[Vector]]:
        here = path[-1]
        if here == lattice.final:
            yield path
        above = [v for v in vectors if v != here and not_before(here, v)]
        for v in above:
            if not any(w != v and not_before(w, v) for w in above):
                yield from onward([*path, v])

    return onward([lattice.initial])


def is_complete(lattice: Lattice, states: list[MemoryBag]) -> bool:
    seen = [state for state, _ in groupby(states)]
    return any([value for value, _ in groupby(map(lattice.value, order))] == seen for order in serial_orders(lattice))


def by_definition(lattice: Lattice, states: list[MemoryBag]) -> set[str]:
    everywhere = {lattice.value(v) for v in all_vectors(lattice)}
    convergence = states[-1] == lattice.value(lattice.final)
    valid = all(state in everywhere for state in states)
    ordered = has_ordered_choice(lattice, states)
    found = {
        "none": True,
        "convergence": convergence,
        "weak-eca": valid,
        "weak": convergence and valid,
        "consistency": ordered,
        "strong": convergence and ordered,
        "complete": convergence and ordered and is_complete(lattice, states),
        "validity": valid,
        "order": ordered,
        "up-to-date": convergence,
    }
    return {name for name, holds in found.items() if holds}


# -- what must hold --------------------------------------------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@given(cases())
def test_checker_agrees_with_the_definitions(case: Case) -> None:
    """Every level holds exactly when enumerating all choices of vectors and all serial orders says so."""
    assert check(case.lattice, case.states).held == by_definition(case.lattice, case.states)


@settings(max_examples=300, deadline=None)
@given(cases())
def test_implications_are_respected(case: Case) -> None:
    """Whatever holds, all that it implies holds; and readers of current states inherit what the states hold."""
    verdict = check(case.lattice, case.states, [case.states[at] for at in case.reads])
    for name in LEVELS:
        if verdict.holds(name):
            assert implied(name) <= verdict.held
    for of_states, of_reads in (("weak-eca", "validity"), ("consistency", "order")):
        assert verdict.holds(of_reads) or not verdict.holds(of_states)


@settings(max_examples=300, deadline=None)
@given(cases())
def test_fast_path_agrees_with_the_checker(case: Case) -> None:
    """``highest_level`` and ``check`` give the same level, on a lattice that is fresh and on one that is warm."""
    highest = check(case.lattice, case.states).highest
    assert highest_level(case.lattice, case.states) == highest
    assert highest_level(case.lattice, case.states) == highest


@settings(max_examples=300, deadline=None)
@given(cases())
def test_witnesses_say_the_truth(case: Case) -> None:
    """Whatever a witness states can be checked against the lattice."""
    verdict = check(case.lattice, case.states)
    assert verdict.witnesses.keys() == LEVELS.keys()
    for name, witness in verdict.witnesses.items():
        assert verdict.explain(name)
        match witness:
            case Placed(vectors, path):
                confirm_placed(case, name, dict(vectors), path)
            case NoPlace(state, nearest, difference):
                value = case.lattice.value(nearest)
                assert case.states[state] == value - difference.missing + difference.extra
            case Backwards(earlier, later, reached, places):
                assert earlier < later
                assert {case.lattice.value(v) for v in reached} == {case.states[earlier]}
                assert set(places) == set(case.lattice.places(case.states[later]))
                assert not any(not_before(a, b) for a in reached for b in places)
            case Skipped(state, after, vector, value):
                assert case.lattice.value(after) == case.states[state]
                assert vector in case.lattice.after(after)
                assert case.lattice.value(vector) == value
                assert value not in case.states[state : state + 2]


@pytest.mark.parametrize("kind", [Placed, NoPlace, Backwards, Skipped])
def test_every_kind_of_witness_is_met(kind: type) -> None:
    """So that the cases above try each of them."""
    found = find(
        cases(), lambda case: any(type(w) is kind for w in check(case.lattice, case.states).witnesses.values())
    )
    assert found.states


def confirm_placed(case: Case, name: str, vectors: dict[int, Vector], path: tuple[Vector, ...]) -> None:
    legal = all_vectors(case.lattice)
    for at, vector in vectors.items():
        assert vector in legal
        assert case.lattice.value(vector) == case.states[at]
    if name in ("consistency", "strong", "complete", "order"):
        assert sorted(vectors) == list(range(len(case.states)))
        assert all(not_before(vectors[at], vectors[at + 1]) for at in range(len(case.states) - 1))
    if name in ("convergence", "weak", "strong", "complete"):
        assert vectors[len(case.states) - 1] == case.lattice.final
    if name == "complete":
        assert list(path) in list(serial_orders(case.lattice))
        assert set(vectors.values()) <= set(path)


@settings(max_examples=300, deadline=None)
@given(cases(), st.data())
def test_carried_vectors_prove_no_more_than_holds(case: Case, data: st.DataObject) -> None:
    """What carried vectors prove, the search confirms; and the search's own vectors prove strong again."""
    lattice, states = case.lattice, case.states
    searched = check(lattice, states)
    guess = [data.draw(st.sampled_from(lattice.places(s) or (lattice.initial,))) for s in states]
    assert check_vectors(lattice, lattice.value, states, guess).held <= searched.held
    strong = searched.witness("strong")
    if isinstance(strong, Placed):
        chosen = [strong.vectors[at] for at in range(len(states))]
        assert check_vectors(lattice, lattice.value, states, chosen).holds("strong")
