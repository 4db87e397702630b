"""The lattice of legal vectors with the view's value at each: where a view state may stand.

One lattice serves every history of a scenario (same initial tables, same transactions per source), so values
are evaluated once and what was found about a move is remembered. Different vectors can give the same value,
so a search carries a **front**: the set of vectors at which the view may stand after the states seen so far.
Two kinds of moves lead from a front to the next:

- ``follow`` never goes backwards. It keeps minimal vectors only: whatever can follow a larger one can follow
  them.
- ``step`` walks single transactions, and shows every new value on its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from weir.algebra.memory import MemoryBag
from weir.consistency.history import HistoryError, SourceHistory, ValueAt, Vector
from weir.consistency.vectors import VectorSpace, contains

Front = frozenset[Vector]
NOWHERE: Front = frozenset()
LIMIT = 100_000


class Lattice(VectorSpace):
    """The legal vectors of some sources and the view's value at each, evaluated when first needed."""

    def __init__(self, sources: Sequence[SourceHistory], value_at: ValueAt, limit: int = LIMIT) -> None:
        super().__init__(sources)
        self._value_at = value_at
        self._limit = limit
        self._values: dict[Vector, MemoryBag] = {}
        self._follows: dict[tuple[Front, MemoryBag], Front] = {}
        self._steps: dict[tuple[Front, MemoryBag], Front] = {}

    def value(self, vector: Vector) -> MemoryBag:
        """The view at a vector."""
        found = self._values.get(vector)
        if found is None:
            found = self._values[vector] = self._value_at(vector)
        return found

    @cached_property
    def final_value(self) -> MemoryBag:
        """The view over the final source states."""
        return self.value(self.final)

    @cached_property
    def vectors_by_value(self) -> Mapping[MemoryBag, tuple[Vector, ...]]:
        """The vectors at which the view has a value, smaller vectors first."""
        index: dict[MemoryBag, list[Vector]] = {}
        for count, vector in enumerate(self.legal_vectors()):
            if count >= self._limit:
                raise HistoryError(
                    f"more than {self._limit} source states to search; check the vectors that commits carry"
                    " instead (weir.consistency.carried), or raise the lattice's limit"
                )
            index.setdefault(self.value(vector), []).append(vector)
        return {value: tuple(vectors) for value, vectors in index.items()}

    def places(self, value: MemoryBag) -> tuple[Vector, ...]:
        """Every legal vector at which the view has this value."""
        return self.vectors_by_value.get(value, ())

    # -- never backwards -------------------------------------------------------------------------------------

    def anywhere(self, value: MemoryBag) -> Front:
        """Where the first state may stand."""
        return self._minimal(self.places(value))

    def follow(self, front: Front, value: MemoryBag) -> Front:
        """Where a state of this value may stand after one that stood in ``front``."""
        found = self._follows.get((front, value))
        if found is None:
            above = (v for v in self.places(value) if any(contains(v, earlier) for earlier in front))
            found = self._follows[front, value] = self._minimal(above)
        return found

    def _minimal(self, vectors: Iterable[Vector]) -> Front:
        """The vectors that contain no other; relies on smaller ones coming first."""
        kept: list[Vector] = []
        for vector in vectors:
            if not any(contains(vector, smaller) for smaller in kept):
                kept.append(vector)
        return frozenset(kept)

    # -- one transaction at a time ---------------------------------------------------------------------------

    def begin(self, value: MemoryBag) -> Front:
        """Where the first state may stand: at the initial vector, or past what changes nothing."""
        return self._staying([self.initial], value) if self.value(self.initial) == value else NOWHERE

    def step(self, front: Front, value: MemoryBag) -> Front:
        """Where a state of another value may stand: one transaction on, or past more of no effect."""
        found = self._steps.get((front, value))
        if found is None:
            entered = [v for earlier in front for v in self.after(earlier) if self.value(v) == value]
            found = self._steps[front, value] = self._staying(entered, value)
        return found

    def _staying(self, entered: list[Vector], value: MemoryBag) -> Front:
        """These vectors and all that single transactions reach from them without a change of the value."""
        reached = dict.fromkeys(entered)
        queue = list(reached)
        for vector in queue:
            for following in self.after(vector):
                if following not in reached and self.value(following) == value:
                    reached[following] = None
                    queue.append(following)
        return frozenset(reached)
