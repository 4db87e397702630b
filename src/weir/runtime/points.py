"""Named points of the runtime, in the order a batch passes them. Tests stop a process at each of them.

``reach`` does nothing unless somebody has said what shall happen there.
"""

from __future__ import annotations

from collections.abc import Callable

AFTER_VISIT = "after a visit"
BETWEEN_HOPS = "between hops"
AFTER_SWEEP = "after the sweep"
LOADING = "during the first load"
AFTER_FILES = "after the data files"
BEFORE_COMMIT = "before the commit"
AFTER_COMMIT = "after the commit"
BEFORE_ACKNOWLEDGE = "before the acknowledgement"
AFTER_ACKNOWLEDGE = "after the acknowledgement"
COMPACTING = "during compaction"
POINTS = (
    AFTER_VISIT, BETWEEN_HOPS, AFTER_SWEEP, LOADING, AFTER_FILES, BEFORE_COMMIT, AFTER_COMMIT, BEFORE_ACKNOWLEDGE,
    AFTER_ACKNOWLEDGE, COMPACTING,
)  # fmt: skip

_watchers: list[Callable[[str], None]] = []


def watch(what: Callable[[str], None]) -> None:
    """``what`` is told of every point that is reached."""
    _watchers.append(what)


def reach(point: str) -> None:
    for watcher in _watchers:
        watcher(point)
