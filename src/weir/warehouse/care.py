"""When files of a table are worth rewriting.

Small files are merged with others of about their size: every row is rewritten a few times in its life, and there are
never many files. Files of which many rows are gone are written again without them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import log

from weir.warehouse.replaying import State
from weir.warehouse.statistics import DataFile

FULL = 1_000_000  # rows of a file that is not merged with others
STEP = 8  # a file with less than so many times the rows of another is of about its size


@dataclass(frozen=True)
class Limits:
    """How far a table may grow."""

    files: int = 8  # of about one size
    gone: float = 0.1  # rows that are gone, per row of a file
    few: int = 1_000  # rows that are gone and never ask for anything

    def to_merge(self, state: State) -> list[DataFile]:
        """The smallest files of one size that are too many."""
        sizes = defaultdict[int, list[DataFile]](list)
        for file in state.files.values():
            if file.live < FULL:
                sizes[int(log(max(file.live, 1), STEP))].append(file)
        crowded = [size for size, files in sizes.items() if len(files) > self.files]
        return sizes[min(crowded)] if crowded else []

    def to_purge(self, state: State) -> list[DataFile]:
        """The file of which the most rows are gone, if these are too many."""
        files = [file for file in state.files.values() if file.gone > max(self.gone * file.rows, self.few)]
        return [max(files, key=lambda file: file.gone)] if files else []


COMMON = Limits()
