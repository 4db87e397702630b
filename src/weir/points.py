"""Named points that a batch passes, in this order. Tests stop a process at each of them.

``reach`` does nothing unless somebody has said what shall happen there.
"""

from __future__ import annotations

from collections.abc import Callable

LOADING = "during the first load"
VISITING = "before a visit"
AFTER_VISIT = "after a visit"
SWEEPING = "before the sweep"
BETWEEN_HOPS = "between hops"
AFTER_SWEEP = "after the sweep"
AFTER_FILES = "after the data files"  # of one of the tables that commit together
BEFORE_COMMIT = "before the commit"  # all files are there
BETWEEN_COMMITS = "between the commits"  # the first table has decided, others do not know yet
AFTER_COMMIT = "after the commit"
BEFORE_ACKNOWLEDGE = "before the acknowledgement"
AFTER_ACKNOWLEDGE = "after the acknowledgement"
COMPACTING = "during compaction"
POINTS = (
    LOADING, VISITING, AFTER_VISIT, SWEEPING, BETWEEN_HOPS, AFTER_SWEEP, AFTER_FILES, BEFORE_COMMIT, BETWEEN_COMMITS,
    AFTER_COMMIT, BEFORE_ACKNOWLEDGE, AFTER_ACKNOWLEDGE, COMPACTING,
)  # fmt: skip

_watchers: list[Callable[[str], None]] = []


def watch(what: Callable[[str], None]) -> None:
    """``what`` is told of every point that is reached."""
    _watchers.append(what)


def reach(point: str) -> None:
    for watcher in _watchers:
        watcher(point)
