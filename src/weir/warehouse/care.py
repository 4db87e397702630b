"""When a view's log is worth compacting.

Netting costs one scan of the base and makes reading one; folding rewrites the base. Netting comes first:
what was inserted and deleted again is gone then, and there may be nothing left that is worth a fold.
"""

from __future__ import annotations

from dataclasses import dataclass

from weir.warehouse.delta_log import State
from weir.warehouse.statistics import BASE, NET_NEW, NET_OLD, TAIL


@dataclass(frozen=True)
class Limits:
    """How far a log may grow."""

    net_after: int = 10_000  # rows appended since the last compaction
    net_files: int = 16  # their files
    fold_after: float = 0.1  # the log's rows per row of the base
    few: int = 1_000  # rows of a log that never ask for a fold

    def ask_net(self, state: State) -> bool:
        tail = state.files_in(TAIL)
        too_long = state.rows(TAIL) > self.net_after or len(tail) > self.net_files
        return bool(tail) and (too_long or self.ask_fold(state))

    def ask_fold(self, state: State) -> bool:
        return state.rows(NET_OLD, NET_NEW, TAIL) > max(self.few, self.fold_after * state.rows(BASE))
