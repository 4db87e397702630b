"""The hops of a view, per table that changes: what each source is asked, by which keys, and whether an index serves it.

The hops are those of ``weir.algorithms.sweeping``; the questions are those of ``weir.algebra.hops``: nothing is
guessed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from weir.algebra.catalog import Catalog, Relation
from weir.algebra.hops import Lookup, Partial, lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.algebra.view import Term, View
from weir.algorithms.sweeping import hops

Joined = frozenset[int]


@dataclass(frozen=True)
class Hop:
    """One question on the way: a table, the columns wanted, and the columns by which it is looked up."""

    term: int
    slot: int
    lookup: Lookup  # with no keys in it yet; without key columns it asks for the whole table
    known: tuple[str, ...]  # what each key column is equal to, qualified
    index: tuple[str, ...] | None  # the index or key that finds the keys

    @property
    def relation(self) -> Relation:
        return self.lookup.relation

    @property
    def whole_table(self) -> bool:
        return not self.lookup.key_columns


@dataclass(frozen=True)
class Route:
    """From a changed table, in one place of the view, to the view's rows."""

    term: int
    slot: int
    hops: tuple[Hop, ...]


def routes(view: View, catalog: Catalog) -> tuple[Route, ...]:
    """One per slot of the view, in the order of the FROM clauses."""
    return tuple(
        Route(at, start, tuple(_hop(view, catalog, at, slot, joined) for slot, joined in _walk(term, [start])))
        for at, term in enumerate(view.terms)
        for start in range(len(term.slots))
    )


def _walk(term: Term, start: Iterable[int]) -> Iterator[tuple[int, Joined]]:
    """The slots in the order a sweep joins them, each with what is joined before it."""
    joined = frozenset(start)
    while len(joined) < len(term.slots):
        for slot, neighbour in hops(term):
            if slot not in joined and neighbour in joined:
                yield slot, joined
                joined |= {slot}


def _hop(view: View, catalog: Catalog, at: int, slot: int, joined: Joined) -> Hop:
    term = view.terms[at]
    columns = Schema(column for each in sorted(joined) for column in term.slots[each].qualified)
    asked = lookup(term, slot, Partial(term, joined, MemoryBag.of(columns)))
    keys = asked.key_columns
    return Hop(at, slot, asked, tuple(_known(term, joined, slot, key) for key in keys), serving_index(catalog, asked))


def _known(term: Term, joined: Joined, slot: int, key: str) -> str:
    name = term.slots[slot].qualify(key)
    sides = (side for equality in term.equalities for side in equality.sides())
    return next(theirs for at, mine, other, theirs in sides if (at, mine) == (slot, name) and other in joined)


def serving_index(catalog: Catalog, asked: Lookup) -> tuple[str, ...] | None:
    """An index whose first column is one of the key columns (a database finds the rest from there); longest first."""
    table = catalog[asked.relation]
    served = [index for index in (table.key, *table.indexes) if index and index[0] in asked.key_columns]
    return max(served, key=lambda index: _prefix(index, asked.key_columns), default=None)


def _prefix(index: tuple[str, ...], columns: tuple[str, ...]) -> int:
    """How many columns of the index, from its first on, are among these."""
    return next((at for at, name in enumerate(index) if name not in columns), len(index))
