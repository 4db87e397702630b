"""Witnesses: what the checker shows for its word, and how it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weir.algebra.memory import MemoryBag
from weir.consistency.history import Vector
from weir.consistency.vectors import VectorSpace


@dataclass(frozen=True)
class Difference:
    """What a view state lacks and what it has too much, against the value it should have."""

    missing: MemoryBag
    extra: MemoryBag

    @classmethod
    def of(cls, state: MemoryBag, wanted: MemoryBag) -> Difference:
        return cls((wanted - state).positive(), (state - wanted).positive())

    def __str__(self) -> str:
        parts = [("missing", self.missing), ("extra", self.extra)]
        return ", ".join(f"{word} {bag}" for word, bag in parts if len(bag)) or "nothing"


@dataclass(frozen=True)
class Placed:
    """It holds: the vector of each state, by number; for complete also the serial order, vector by vector."""

    vectors: Mapping[int, Vector] = field(hash=False)
    path: tuple[Vector, ...] = ()

    def explain(self, space: VectorSpace) -> str:
        return "; ".join(f"state {at} at {space.describe(vector)}" for at, vector in self.vectors.items()) or "always"


@dataclass(frozen=True)
class NotFinal:
    """The last state is not the view over the final source states."""

    difference: Difference

    def explain(self, space: VectorSpace) -> str:
        return f"the last state is not the view at {space.describe(space.final)}: {self.difference}"


@dataclass(frozen=True)
class NoPlace:
    """The first state that is the view at no legal vector, and how it differs from the nearest."""

    state: int
    nearest: Vector
    difference: Difference

    def explain(self, space: VectorSpace) -> str:
        nearest = space.describe(self.nearest)
        return f"state {self.state} is the view nowhere; nearest is {nearest}: {self.difference}"


@dataclass(frozen=True)
class Backwards:
    """Two states that cannot both have a place: the later one stands only where some earlier state's
    transactions are missing.

    ``reached`` are the smallest vectors at which the earlier state may stand, given all states before it.
    ``places`` are all vectors of the later one; none contains any of ``reached``. (As a witness against
    complete: given also that every step is one transaction.)
    """

    earlier: int
    later: int
    reached: tuple[Vector, ...]
    places: tuple[Vector, ...]

    def explain(self, space: VectorSpace) -> str:
        reached, places = (" or ".join(map(space.describe, vectors)) for vectors in (self.reached, self.places))
        return f"state {self.later} goes back to {places} after state {self.earlier} was at {reached}"


@dataclass(frozen=True)
class Skipped:
    """A source state that no reader could see: between ``state`` and the next one, or after it when it is the
    last.

    ``vector`` is one transaction after ``after``, a place of ``state``; the view there was ``value``.
    """

    state: int
    after: Vector
    vector: Vector
    value: MemoryBag

    def explain(self, space: VectorSpace) -> str:
        place, names = space.describe(self.after), ", ".join(space.between(self.after, self.vector))
        return f"after state {self.state} at {place}, {names} led to {{{self.value}}}, which was never shown"


@dataclass(frozen=True)
class NotInitial:
    """The first state is not the view over the initial source states."""

    difference: Difference

    def explain(self, space: VectorSpace) -> str:
        return f"the first state is not the view at {space.describe(space.initial)}: {self.difference}"


@dataclass(frozen=True)
class Illegal:
    """A carried vector that cannot be: beyond a source's end, or with half a global transaction."""

    state: int
    vector: Vector

    def explain(self, space: VectorSpace) -> str:
        return f"state {self.state} carries {space.describe(self.vector)}, which is no legal vector"


@dataclass(frozen=True)
class Mismatch:
    """A state that is not the view at the vector that its commit carried."""

    state: int
    vector: Vector
    difference: Difference

    def explain(self, space: VectorSpace) -> str:
        place = space.describe(self.vector)
        return f"state {self.state} is not the view at {place}, which it carries: {self.difference}"


Witness = Placed | NotFinal | NoPlace | Backwards | Skipped | NotInitial | Illegal | Mismatch
