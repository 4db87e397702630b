"""Space: what an algorithm keeps at the warehouse beside the view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weir.algebra.bag import Bag
from weir.algebra.memory import MemoryBag
from weir.simulator.counters import size


@dataclass(frozen=True)
class Space:
    """Rows, each as often as it is held, and their bytes."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Space) -> Space:
        return Space(self.rows + other.rows, self.bytes + other.bytes)


def space_of(auxiliary: Mapping[str, Bag]) -> Mapping[str, Space]:
    """What each auxiliary view (or copy) takes, by name."""
    return {name: _measure(bag) for name, bag in auxiliary.items()}


def total_space(auxiliary: Mapping[str, Bag]) -> Space:
    """What all of them take together."""
    return sum(space_of(auxiliary).values(), Space())


def _measure(bag: Bag) -> Space:
    assert isinstance(bag, MemoryBag)
    return Space(bag.cardinality, size(bag))
