"""What the benchmark needs of a maintained view, whoever maintains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from weir.bench.product.tpch.turn import Turn


@dataclass(frozen=True)
class MaintainedFacts:
    """What is known of a maintained view."""

    table: str  # where its Delta table is, for a reader in another process
    stored: int  # bytes of everything that is kept, history and log too
    strategy: str = ""


class Maintained(Protocol):
    """A view that is kept up to date on demand: it rests while a batch is applied, so that every way starts alike."""

    def begin(self) -> float:
        """The first load; milliseconds."""

    def caught_up(self) -> Turn:
        """Takes in all that was committed at the sources; returns when it is visible."""

    def audit(self) -> int:
        """Rows missing and too many, by the maintainer's own audit."""

    def facts(self) -> MaintainedFacts: ...

    def close(self) -> None: ...
