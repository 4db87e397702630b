"""What goes from the driver to a task and back: an order to sweep, and the delta that was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.view import View
from weir.sweeping.packed import PackedUpdates
from weir.warehouse.staging import Staged, Stager


@dataclass(frozen=True)
class Numbering:
    """How a sub-update's number becomes the arrival number that is stored: its update's own, or, where only the state
    at the end of the batch is kept, that of the last one (``end``).
    """

    width: int
    end: int | None = None

    def __call__(self, numbers: Any) -> Any:
        if self.end is not None:
            return pa.repeat(pa.scalar(self.end, pa.int64()), len(numbers))
        return pc.divide(numbers, self.width)


@dataclass(frozen=True)
class SweepOrder:
    """One view's batch, to be swept on held snapshots. ``arrived`` is what its answers have seen too much of."""

    view: View
    batch: PackedUpdates
    arrived: PackedUpdates
    stager: Stager
    numbering: Numbering


@dataclass(frozen=True)
class Asked:
    """What was asked of the sources."""

    lookups: int = 0
    keys: int = 0
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Asked) -> Asked:
        return Asked(
            self.lookups + other.lookups, self.keys + other.keys, self.rows + other.rows, self.bytes + other.bytes
        )


@dataclass
class SweptDelta:
    """A batch's change of a view, in rows at hand and in files that wait for their commit."""

    rows: list[pa.Table] = field(default_factory=list)
    staged: list[Staged] = field(default_factory=list)
    asked: Asked = Asked()
