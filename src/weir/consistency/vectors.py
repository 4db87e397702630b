"""Source state vectors: which are legal, which comes before which, and which one transaction leads to.

A vector holds one position per source: the number of transactions of that source that it contains. Positions
are prefixes of the source's own order, so a vector that contains a transaction contains every earlier one of
that source. A **global transaction** has a part at each of several sources; a **legal** vector contains all
its parts or none. Together the two rules give the third that theory asks for: with a global transaction come
the transactions it depends on, which are the earlier ones at each of its sources, wholly.

So legal vectors are the downward-closed sets of transactions. Hence: they form a lattice under "contains";
any legal vector that contains another is reached from it by single transactions through legal vectors; and
the final vector contains all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, combinations
from operator import ge

from weir.consistency.history import HistoryError, SourceHistory, Vector
from weir.messages import GlobalTransaction, Position

Part = tuple[int, int]  # (which source, which of its transactions, counted from 0)
Parts = tuple[Part, ...]


def contains(later: Vector, earlier: Vector) -> bool:
    """Whether every position of ``later`` is at least that of ``earlier``."""
    return all(map(ge, later, earlier))


class VectorSpace:
    """The vectors over some sources' histories."""

    def __init__(self, sources: Sequence[SourceHistory]) -> None:
        self.sources = tuple(sources)
        self.names = tuple(source.name for source in self.sources)
        self.initial: Vector = (0,) * len(self.sources)
        self.final: Vector = tuple(len(source.updates) for source in self.sources)
        self._transactions = _parts_by_place(self.sources)
        self._require_serial_order()
        self._shared = _shared_counts(self.sources)

    # -- vectors ---------------------------------------------------------------------------------------------

    def is_legal(self, vector: Vector) -> bool:
        """Whether the vector exists and splits no global transaction.

        Two sources that share global transactions have them in the same order, so it is enough that both
        prefixes hold the same number of them. That makes the test independent of the length of the history.
        """
        if not all(0 <= position <= end for position, end in zip(vector, self.final, strict=True)):
            return False
        return all(counts[vector[i]] == others[vector[j]] for i, counts, j, others in self._shared)

    def after(self, vector: Vector) -> list[Vector]:
        """The legal vectors that contain exactly one transaction more."""
        return [
            _moved(vector, parts, 1)
            for at, position in enumerate(vector)
            if position < self.final[at]
            for parts in [self._transactions[at][position]]
            if parts[0][0] == at and all(vector[source] == index for source, index in parts)
        ]

    def before(self, vector: Vector) -> list[Vector]:
        """The legal vectors that contain exactly one transaction less."""
        return [
            _moved(vector, parts, -1)
            for at, position in enumerate(vector)
            if position > 0
            for parts in [self._transactions[at][position - 1]]
            if parts[0][0] == at and all(vector[source] == index + 1 for source, index in parts)
        ]

    def walk(self, earlier: Vector, later: Vector) -> Iterator[Vector]:
        """One way from a legal vector to a legal one that contains it, by single transactions."""
        while earlier != later:
            earlier = next(vector for vector in self.after(earlier) if contains(later, vector))
            yield earlier

    def legal_vectors(self) -> Iterator[Vector]:
        """Every legal vector, smaller ones first."""
        layer = [self.initial]
        while layer:
            yield from layer
            layer = list(dict.fromkeys(vector for earlier in layer for vector in self.after(earlier)))

    def vector(self, positions: Mapping[str, Position], since: Vector | None = None) -> Vector:
        """A commit's positions as a vector; a source that is missing has not moved ``since``."""
        unknown = set(positions) - set(self.names)
        if unknown:
            raise HistoryError(
                f"positions of unknown source {', '.join(sorted(unknown))}; known: {', '.join(self.names)}"
            )
        known = zip(self.sources, since or self.initial, strict=True)
        return tuple(
            _count_up_to(source, positions[source.name]) if source.name in positions else unmoved
            for source, unmoved in known
        )

    # -- words -----------------------------------------------------------------------------------------------

    def describe(self, vector: Vector) -> str:
        """The vector as ``x@2 y@0``."""
        return " ".join(f"{name}@{position}" for name, position in zip(self.names, vector, strict=True))

    def between(self, earlier: Vector, later: Vector) -> tuple[str, ...]:
        """The names of the transactions that only ``later`` contains; a global transaction once."""
        names = [
            update.part_of.identifier if update.part_of else update.name or f"{update.source}#{update.position}"
            for source, start, end in zip(self.sources, earlier, later, strict=True)
            for update in source.updates[start:end]
        ]
        return tuple(dict.fromkeys(names))

    def _require_serial_order(self) -> None:
        """Refuses global transactions that two sources committed in opposite orders."""
        vector, ready = self.initial, self.after(self.initial)
        while ready:
            vector = ready[0]
            ready = self.after(vector)
        if vector != self.final:
            stuck = self.between(vector, tuple(min(p + 1, n) for p, n in zip(vector, self.final, strict=True)))
            raise HistoryError(
                f"transactions {', '.join(stuck)} have no serial order: two sources committed their parts in"
                " different orders; order the global transactions alike everywhere"
            )


def _count_up_to(source: SourceHistory, position: Position) -> int:
    """How many transactions a source's own position stands for."""
    count = source.counts.get(position)
    if count is None:
        raise HistoryError(
            f"position {position} of source {source.name} is neither its start nor the end of a transaction"
        )
    return count


def _moved(vector: Vector, parts: Parts, by: int) -> Vector:
    """The vector with a transaction's parts added or removed."""
    if len(parts) == 1:
        at = parts[0][0]
        return (*vector[:at], vector[at] + by, *vector[at + 1 :])
    moving = {source for source, _ in parts}
    return tuple(position + by * (at in moving) for at, position in enumerate(vector))


def _parts_by_place(sources: Sequence[SourceHistory]) -> list[list[Parts]]:
    """For every transaction of every source: all its parts, the one at this source among them."""
    parts: dict[GlobalTransaction, list[Part]] = {}
    for at, source in enumerate(sources):
        for index, update in enumerate(source.updates):
            if update.part_of is not None:
                parts.setdefault(update.part_of, []).append((at, index))
    for transaction, places in parts.items():
        _require_whole(transaction, Counter(sources[at].name for at, _ in places), {source.name for source in sources})
    return [
        [tuple(parts[u.part_of]) if u.part_of else ((at, index),) for index, u in enumerate(source.updates)]
        for at, source in enumerate(sources)
    ]


def _require_whole(transaction: GlobalTransaction, found: Counter[str], known: set[str]) -> None:
    """One part at each source of the transaction that the history covers, no more, no fewer."""
    wanted = Counter(transaction.sources & known)
    if found != wanted:
        raise HistoryError(
            f"global transaction {transaction.identifier} must have one part at each of"
            f" {', '.join(sorted(wanted))}; the history holds parts at {', '.join(sorted(found.elements()))}"
        )


def _shared_counts(sources: Sequence[SourceHistory]) -> list[tuple[int, list[int], int, list[int]]]:
    """For two sources with common global transactions: how many of these every prefix of either holds."""
    shared = []
    for (i, one), (j, other) in combinations(enumerate(sources), 2):
        ours, theirs = _count_parts_with(one, other.name), _count_parts_with(other, one.name)
        if ours[-1]:
            shared.append((i, ours, j, theirs))
    return shared


def _count_parts_with(source: SourceHistory, other: str) -> list[int]:
    counted = (u.part_of is not None and other in u.part_of.sources for u in source.updates)
    return list(accumulate(counted, initial=0))
