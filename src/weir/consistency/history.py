"""What happened at the sources: their initial tables and their transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
