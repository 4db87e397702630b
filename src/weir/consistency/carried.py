"""The checker for long histories: it checks the vectors that the commits themselves carry.

Searching all vectors is hopeless when every source has thousands of transactions. Here each state must be the
view at the vector that its commit carries, and everything is decided in one pass forward: the cost grows with
the number of transactions and commits. What holds here holds; what fails here may still hold by other
vectors, and then the commits carry wrong ones.

Completeness walks from each carried vector to the next, one transaction at a time, in one order. A step of
several transactions passes when they lead from the one state straight to the other, the rest changing
nothing: an algorithm need not commit what leaves the view as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from weir.algebra.memory import MemoryBag
from weir.consistency.history import HistoryError, ValueAt, Vector
from weir.consistency.vectors import VectorSpace, contains
from weir.consistency.verdict import Verdict, judge
from weir.consistency.witness import (
    Backwards,
    Difference,
    Illegal,
    Mismatch,
    NotInitial,
    Placed,
    Skipped,
    Witness,
)


def check_vectors(
    space: VectorSpace, value_at: ValueAt, states: Sequence[MemoryBag], vectors: Sequence[Vector]
) -> Verdict:
    """The verdict on states by the vectors they carry, one each.

    ``value_at`` is called for vectors that go forward for as long as the carried ones do
    (``weir.consistency.replay.Running``).
    """
    if not states or len(states) != len(vectors):
        raise HistoryError(
            f"{len(vectors)} vectors for {len(states)} view states: every state carries one, the first too"
        )
    walk = _Walk(space, value_at, states[0])
    for at, (state, vector) in enumerate(zip(states, vectors, strict=True)):
        walk.arrive(at, state, vector)
    placed = Placed(dict(enumerate(vectors)))
    valid = walk.invalid or placed
    ordered = walk.invalid or walk.backwards or placed
    return judge(space, states, walk.finish(), valid, ordered, walk.complete)


class _Walk:
    """One pass over the carried vectors; keeps the first thing that went wrong of each kind."""

    def __init__(self, space: VectorSpace, value_at: ValueAt, first: MemoryBag) -> None:
        self.space = space
        self.value_at = value_at
        self.invalid: Witness | None = None  # against validity
        self.backwards: Witness | None = None  # against order
        self.unseen: Witness | None = None  # against completeness
        self.state, self.shown, self.vector = 0, first, space.initial
        self.path = [space.initial]
        initial = value_at(space.initial)
        if initial != first:
            self.unseen = NotInitial(Difference.of(first, initial))

    def arrive(self, at: int, state: MemoryBag, vector: Vector) -> None:
        """The next state and the vector it carries."""
        if not self.space.is_legal(vector):
            self.invalid = self.invalid or Illegal(at, vector)
            return
        if contains(vector, self.vector):
            self._walk_to(state, vector)
        else:
            self.backwards = self.backwards or Backwards(self.state, at, (self.vector,), (vector,))
        value = self.value_at(vector)
        if value != state:
            self.invalid = self.invalid or Mismatch(at, vector, Difference.of(state, value))
        self.state, self.shown, self.vector = at, state, vector

    def finish(self) -> MemoryBag:
        """Walks on to the final vector, where nothing may change any more, and gives the view there."""
        self._walk_to(self.shown, self.space.final)
        return self.value_at(self.space.final)

    def complete(self, strong: Placed) -> Witness:
        """Whether every state on the way was seen."""
        return self.unseen or Placed(strong.vectors, tuple(self.path))

    def _walk_to(self, state: MemoryBag, target: Vector) -> None:
        shown = self.shown
        for vector in self.space.walk(self.vector, target):
            if self.unseen is None:
                value = self.value_at(vector)
                if value not in (shown, state):
                    self.unseen = Skipped(self.state, self.path[-1], vector, value)
                elif value == state:
                    shown = state
            self.path.append(vector)
