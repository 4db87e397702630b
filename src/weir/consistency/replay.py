"""The view over a source state vector, from the view's definition and the sources' histories.

Two ways: ``AnyVector`` answers for vectors in any order and keeps every source state, for small histories;
``Running`` moves forward with the commits of a long history and evaluates no more than what each transaction
changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir.algebra.bag import Bag
from weir.algebra.catalog import Relation
from weir.algebra.hops import answer
from weir.algebra.memory import MemoryBag
from weir.algebra.query import Query, evaluate_with, sub_updates, substitute, whole
from weir.algebra.view import View
from weir.consistency.history import HistoryError, SourceHistory, Vector
from weir.consistency.vectors import contains
from weir.messages import Update

Relations = Mapping[Relation, MemoryBag]


def view_at(view: View, relations: Relations) -> MemoryBag:
    """The view over these tables."""
    return _evaluate(whole(view), relations)


class AnyVector:
    """The view at any vector. A table's state depends on its own source only, and is kept per position."""

    def __init__(self, view: View, sources: Sequence[SourceHistory]) -> None:
        self._view = view
        self._sources = sources
        self._states: list[list[Relations]] = [[source.relations] for source in sources]

    def __call__(self, vector: Vector) -> MemoryBag:
        tables: dict[Relation, MemoryBag] = {}
        for at, position in enumerate(vector):
            tables |= self._tables(at, position)
        return view_at(self._view, tables)

    def _tables(self, at: int, position: int) -> Relations:
        states = self._states[at]
        while len(states) <= position:
            states.append(apply_update(states[-1], self._sources[at].updates[len(states) - 1]))
        return states[position]


class Running:
    """The view at vectors that go forward, each evaluated from the one before by the transactions between
    them.

    A vector that goes backwards starts again from the beginning.
    """

    def __init__(self, view: View, sources: Sequence[SourceHistory]) -> None:
        self._view = view
        self._sources = sources
        self._vector: Vector = ()
        self._tables: Relations = {}
        self._value = self._restart()

    def __call__(self, vector: Vector) -> MemoryBag:
        if not contains(vector, self._vector):
            self._value = self._restart()
        for source, start, end in zip(self._sources, self._vector, vector, strict=True):
            for update in source.updates[start:end]:
                self._advance(update)
        self._vector = vector
        return self._value

    def _restart(self) -> MemoryBag:
        self._vector = (0,) * len(self._sources)
        self._tables = {name: bag for source in self._sources for name, bag in source.relations.items()}
        return view_at(self._view, self._tables)

    def _advance(self, update: Update) -> None:
        change = change_of(self._view, update)
        if change:
            self._value = self._value + _evaluate(change, self._tables)
        self._tables = apply_update(self._tables, update)


def change_of(view: View, update: Update) -> Query:
    """What a transaction changes in the view, as a query over the tables before it.

    ``V(R + d) - V(R)`` is the sum over every way to put ``d`` in at least one slot: substitute each
    sub-update in all that is there so far, the view and the terms already made.
    """
    query = whole(view)
    for sub_update in sub_updates(view, update.deltas):
        query += substitute(query, sub_update)
    return query[len(view.terms) :]


def apply_update(relations: Relations, update: Update) -> Relations:
    """The tables after a transaction. Tables that the history does not hold are not followed."""
    changed = {name: relations[name] + in_memory(delta) for name, delta in update.deltas if name in relations}
    return {**relations, **changed}


def _evaluate(query: Query, relations: Relations) -> MemoryBag:
    return in_memory(evaluate_with(query, lambda asked: answer(asked, _table(asked.relation, relations))))


def _table(name: Relation, relations: Relations) -> MemoryBag:
    if name not in relations:
        known = ", ".join(sorted(map(str, relations))) or "none"
        raise HistoryError(f"the history holds no table {name}; add its initial rows (it holds: {known})")
    return relations[name]


def in_memory(bag: Bag) -> MemoryBag:
    """A bag of whoever answers, as the one kind that is checked and simulated with."""
    assert isinstance(bag, MemoryBag), f"checker and simulator work on bags in memory, not on {type(bag).__name__}"
    return bag
