"""What happened: the sources' initial tables and transactions, and the view states that readers could see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.memory import MemoryBag
from weir.messages import Position, Update

Vector = tuple[int, ...]  # per source, in the history's order of sources: how many of its transactions
ValueAt = Callable[[Vector], MemoryBag]  # the view over the source states that a vector names


class HistoryError(WeirError):
    """A history that cannot have happened, or that cannot be checked in this way."""


@dataclass(frozen=True)
class SourceHistory:
    """One source: its tables at the beginning, and its transactions in its own order."""

    name: str
    updates: tuple[Update, ...] = ()
    relations: Mapping[Relation, MemoryBag] = field(default_factory=dict, hash=False)
    start: Position = 0  # the source's own position before the first of them

    @cached_property
    def counts(self) -> Mapping[Position, int]:
        """How many transactions each of the source's own positions stands for."""
        return {self.start: 0} | {update.position: at for at, update in enumerate(self.updates, start=1)}


@dataclass(frozen=True)
class History:
    """A whole run. ``states[0]`` is the view before anything happened; what a reader cannot see is not in
    ``states``.

    ``value_at`` gives the view over a vector (``weir.consistency.replay`` makes it from a view definition).
    ``vectors`` are those that the commits claimed, one per state. ``reads`` are the values that readers'
    queries returned, in time order; without them every state counts as read once.
    """

    sources: tuple[SourceHistory, ...]
    states: Sequence[MemoryBag]
    value_at: ValueAt
    vectors: Sequence[Vector] | None = None
    reads: Sequence[MemoryBag] | None = None
