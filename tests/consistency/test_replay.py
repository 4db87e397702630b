"""The view at a vector, from a view definition and the sources' transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.algebra.catalog import Relation
from weir.algebra.expression import Expression, column
from weir.algebra.memory import MemoryBag
from weir.algebra.types import INT, Schema
from weir.algebra.view import Equality, Slot, Term, View
from weir.consistency.carried import check_vectors
from weir.consistency.checker import check
from weir.consistency.history import HistoryError, SourceHistory, Vector
from weir.consistency.lattice import Lattice
from weir.consistency.replay import AnyVector, Running, view_at
from weir.consistency.vectors import VectorSpace
from weir.messages import Change, Update

R1, R2, R3 = Relation("x", "r1"), Relation("y", "r2"), Relation("y", "r3")
COLUMNS = {R1: ("W", "X"), R2: ("X", "Y"), R3: ("Y", "Z")}
Rows = list[tuple[int, int]]


def rows(relation: Relation, *tuples: tuple[int, ...]) -> MemoryBag:
    return MemoryBag.of(Schema.of(**dict.fromkeys(COLUMNS[relation], INT)), tuples)


def slot(alias: str, relation: Relation) -> Slot:
    return Slot(alias, relation, Schema.of(**dict.fromkeys(COLUMNS[relation], INT)))


def change(relation: Relation, insert: Rows | None = None, delete: Rows | None = None) -> Change:
    bags = [rows(relation, *tuples) if tuples else None for tuples in (insert, delete)]
    return Change(relation, *bags)


def source(name: str, tables: dict[Relation, Rows], *transactions: Iterable[Change]) -> SourceHistory:
    updates = tuple(Update(name, at, tuple(changes)) for at, changes in enumerate(transactions, start=1))
    return SourceHistory(name, updates, {relation: rows(relation, *tuples) for relation, tuples in tables.items()})


W_OF_R1_R2 = View(
    "v",
    (
        Term(
            (slot("r1", R1), slot("r2", R2)),
            (Equality(0, "r1.X", 1, "r2.X"),),
            (None, None),
            output=(("W", column("r1.W")),),
        ),
    ),
)
"""The view of the ECA paper's first examples, its tables at two sources."""

CHAIN_AND_PAIRS = View(
    "v",
    (
        Term(
            (slot("a", R1), slot("b", R2), slot("c", R3)),
            (Equality(0, "a.X", 1, "b.X"), Equality(1, "b.Y", 2, "c.Y")),
            (None, None, None),
            rest=(Expression("`a.W` < `c.Z`"),),
            output=(("one", column("a.W")), ("two", column("c.Z"))),
        ),
        Term(
            (slot("a", R1), slot("b", R1)),
            (Equality(0, "a.X", 1, "b.W"),),
            (Expression("`a.W` > 0"), None),
            output=(("one", column("a.W")), ("two", column("b.X"))),
        ),
    ),
)
"""A chain over both sources, plus a self-join of r1."""


def letters(bag: MemoryBag) -> list[tuple[int, ...]]:
    return bag.rows()


def test_view_over_tables() -> None:
    """ECA example 1 after its update: both rows of r2 find the one row of r1."""
    tables = {R1: rows(R1, (1, 2)), R2: rows(R2, (2, 4), (2, 3), (7, 7))}
    assert letters(view_at(W_OF_R1_R2, tables)) == [(1,), (1,)]


def test_view_at_every_vector() -> None:
    """ECA example 2: r2 gets (2,3), r1 gets (4,2); four vectors, four answers."""
    sources = (source("x", {R1: [(1, 2)]}, [change(R1, [(4, 2)])]), source("y", {R2: []}, [change(R2, [(2, 3)])]))
    value_at = AnyVector(W_OF_R1_R2, sources)
    found = {vector: letters(value_at(vector)) for vector in [(1, 1), (0, 0), (0, 1), (1, 0)]}
    assert found == {(0, 0): [], (1, 0): [], (0, 1): [(1,)], (1, 1): [(1,), (4,)]}


def test_checking_the_anomaly_of_the_eca_paper() -> None:
    """Example 2: the basic algorithm ends with {1,4,4} and holds nothing; {1,4} reached step by step is complete."""
    sources = (source("x", {R1: [(1, 2)]}, [change(R1, [(4, 2)])]), source("y", {R2: []}, [change(R2, [(2, 3)])]))
    value_at = AnyVector(W_OF_R1_R2, sources)
    view = [MemoryBag.of(Schema.of(W=INT), words) for words in ([], [(1,)], [(1,), (4,)], [(1,), (4,), (4,)])]
    wrong = check(Lattice(sources, value_at), [view[0], view[2], view[3]])
    assert wrong.highest == "none"
    assert wrong.explain("convergence") == "the last state is not the view at x@1 y@1: extra (4)"
    assert check(Lattice(sources, value_at), view[:3]).highest == "complete"


def test_checking_a_split_transaction() -> None:
    """Strobe example 4: a view that shows the delete of a transaction before its insert only converges."""
    view = View("v", (Term((slot("r1", R1),), (), (None,), output=(("W", column("r1.W")), ("X", column("r1.X")))),))
    sources = (source("x", {R1: [(1, 2)]}, [change(R1, [(3, 4)], [(1, 2)])]),)
    states = [rows(R1, (1, 2)), rows(R1), rows(R1, (3, 4))]
    split = check(Lattice(sources, AnyVector(view, sources)), states)
    assert split.highest == "convergence"
    assert split.explain("weak") == "state 1 is the view nowhere; nearest is x@0: missing (1, 2)"
    assert check(Lattice(sources, AnyVector(view, sources)), states[::2]).highest == "complete"


def test_a_table_that_the_history_lacks_is_named() -> None:
    """The error says which table and where to put it."""
    value_at = AnyVector(W_OF_R1_R2, [source("x", {R1: [(1, 2)]}), source("y", {R3: []})])
    with pytest.raises(HistoryError, match=r"no table y\.r2; add its initial rows \(it holds: x\.r1, y\.r3\)"):
        value_at((0, 0))


def test_a_modification_that_keeps_its_join_key_asks_for_its_partners() -> None:
    """(2,3) becomes (2,9) in r2: a deleted and an inserted row share the key 2, which must not cancel in the lookup."""
    view = View("v", (replace(W_OF_R1_R2.terms[0], output=(("W", column("r1.W")), ("Y", column("r2.Y")))),))
    running = Running(
        view, [source("x", {R1: [(1, 2)]}), source("y", {R2: [(2, 3)]}, [change(R2, [(2, 9)], [(2, 3)])])]
    )
    assert letters(running((0, 0))) == [(1, 3)]
    assert letters(running((0, 1))) == [(1, 9)]


# -- against recomputation --------------------------------------------------------------------------------------------


def by_nested_loops(tables: dict[Relation, Counter[tuple[int, ...]]]) -> Counter[tuple[int, ...]]:
    """CHAIN_AND_PAIRS by hand."""
    found: Counter[tuple[int, ...]] = Counter()
    for a in tables[R1].elements():
        for b in tables[R2].elements():
            for c in tables[R3].elements():
                found[a[0], c[1]] += a[1] == b[0] and b[1] == c[0] and a[0] < c[1]
        for b in tables[R1].elements():
            found[a[0], b[1]] += a[0] > 0 and a[1] == b[0]
    return +found


small = st.integers(0, 2)
tuples = st.lists(st.tuples(small, small), max_size=3)


@st.composite
def histories(draw: st.DrawFn) -> tuple[SourceHistory, ...]:
    """Two sources, up to four transactions each, every one over one or both of the source's tables."""
    return tuple(draw(source_histories(name, tables)) for name, tables in (("x", [R1]), ("y", [R2, R3])))


@st.composite
def source_histories(draw: st.DrawFn, name: str, tables: list[Relation]) -> SourceHistory:
    now = {relation: draw(tuples) for relation in tables}
    initial = {relation: list(content) for relation, content in now.items()}
    transactions = [
        [draw_change(draw, now, r) for r in tables if draw(st.booleans())] for _ in range(draw(st.integers(0, 4)))
    ]
    return source(name, initial, *([c for c in changes if c.inserted or c.deleted] for changes in transactions))


def draw_change(draw: st.DrawFn, now: dict[Relation, Rows], relation: Relation) -> Change:
    inserted = draw(tuples)
    deleted = [row for row in now[relation] if draw(st.booleans()) and row not in inserted]
    now[relation] = [*(Counter(now[relation]) - Counter(deleted)).elements(), *inserted]
    return change(relation, inserted, deleted)


def tables_at(sources: tuple[SourceHistory, ...], vector: Vector) -> dict[Relation, Counter[tuple[int, ...]]]:
    tables = {relation: Counter(dict(bag.items())) for s in sources for relation, bag in s.relations.items()}
    for s, position in zip(sources, vector, strict=True):
        for update in s.updates[:position]:
            for relation, delta in update.deltas:
                tables[relation].update(dict(delta.items()))
    return tables


@settings(max_examples=150, deadline=None)
@given(histories(), st.data())
def test_both_ways_agree_with_nested_loops(sources: tuple[SourceHistory, ...], data: st.DataObject) -> None:
    """At any vectors in any order, both evaluators give what nested loops give over the tables at that vector."""
    whenever, running = AnyVector(CHAIN_AND_PAIRS, sources), Running(CHAIN_AND_PAIRS, sources)
    vectors = st.tuples(*(st.integers(0, len(s.updates)) for s in sources))
    for vector in data.draw(st.lists(vectors, min_size=1, max_size=5)):
        expected = dict(by_nested_loops(tables_at(sources, vector)))
        assert dict(whenever(vector).items()) == expected
        assert dict(running(vector).items()) == expected


def test_a_long_history_is_checked_by_its_vectors() -> None:
    """A thousand transactions at two sources, one commit each, are complete; one lost row is found where it is lost."""
    length = 500
    sources = (
        source("x", {R1: []}, *([change(R1, [(n, n % 7)])] for n in range(length))),
        source("y", {R2: []}, *([change(R2, [(n % 7, n)])] for n in range(length))),
    )
    vectors = [(done // 2, (done + 1) // 2) for done in range(2 * length + 1)]
    truth = Running(W_OF_R1_R2, sources)
    states = [truth(vector) for vector in vectors]
    space = VectorSpace(sources)
    assert check_vectors(space, Running(W_OF_R1_R2, sources), states, vectors).highest == "complete"
    lost = next(iter(dict(states[300].items())))
    states[300] -= MemoryBag.of(states[300].schema, [lost])
    found = check_vectors(space, Running(W_OF_R1_R2, sources), states, vectors)
    assert found.highest == "convergence"
    assert found.explain("weak").startswith("state 300 is not the view at x@150 y@150, which it carries: missing")
