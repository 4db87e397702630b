"""A mini-language for histories.

Sources and their transactions: ``"x: a b / y: c"``. A name that stands at several sources is one global transaction.
View values, one word per vector, the last source's position turning fastest: ``"A B / AB AAB"`` (slashes are for the
eye). A word is a bag of letters: ``AAB`` holds A twice; ``-`` is the empty bag; ``?`` stands at an illegal vector and
must not be evaluated. States are words too: ``"A AB -"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from weir.algebra.memory import MemoryBag
from weir.algebra.types import STRING, Schema
from weir.consistency.checker import check
from weir.consistency.history import SourceHistory, ValueAt, Vector
from weir.consistency.lattice import Lattice
from weir.consistency.verdict import Verdict
from weir.messages import GlobalTransaction, Update

LETTERS = Schema.of(letter=STRING)


def bag(word: str) -> MemoryBag:
    """``AAB`` as a bag."""
    return MemoryBag.of(LETTERS, [(letter,) for letter in word.replace("-", "")])


def bags(words: str) -> list[MemoryBag]:
    return [bag(word) for word in words.split()]


def sources(text: str) -> tuple[SourceHistory, ...]:
    """``x: a b / y: c`` as histories without tables."""
    lists = {name.strip(): names.split() for name, names in (part.split(":") for part in text.split("/"))}
    return tuple(SourceHistory(source, _updates(source, lists)) for source in lists)


def _updates(source: str, lists: dict[str, list[str]]) -> tuple[Update, ...]:
    updates = []
    for position, name in enumerate(lists[source], start=1):
        places = frozenset(other for other, names in lists.items() if name in names)
        part_of = GlobalTransaction(name, places) if len(places) > 1 else None
        updates.append(Update(source, position, (), name, part_of))
    return tuple(updates)


def values(ends: Sequence[int], words: str) -> ValueAt:
    """The table of view values as a function."""
    listed = words.replace("/", " ").split()
    vectors = list(product(*(range(end + 1) for end in ends)))
    table = dict(zip(vectors, listed, strict=True))

    def value_at(vector: Vector) -> MemoryBag:
        assert table[vector] != "?", f"{vector} is not legal and has no value"
        return bag(table[vector])

    return value_at


def world(text: str, words: str) -> Lattice:
    """A lattice from both."""
    histories = sources(text)
    return Lattice(histories, values([len(source.updates) for source in histories], words))


def verdict(lattice: Lattice, states: str, reads: str | None = None) -> Verdict:
    return check(lattice, bags(states), None if reads is None else bags(reads))


ONE = world("x: a b", "A AB ABC")
"""One source, two transactions, three different values."""

TWO = world("x: a / y: b", "- B / A AB")
"""Two sources, one transaction each, four different values."""
