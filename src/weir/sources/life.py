"""The life of a source: what may be asked of it when. One state machine for all kinds, in the manner of h11.

::

    closed --watch--> open --load or resume--> following --fail--> broken

- **closed**: made, or closed; only ``watch`` leads out.
- **open**: it knows what is watched, and nobody knows what was delivered: a visit would have nothing to go on from.
- **following**: the position is known, and visits go on from it.
- **broken**: what the log says cannot be followed, and trying again must not pass over it: every visit says so.

Two rules make it hard to be left in between:

1. ``close`` may be called at any time. So may what begins anew (``watch``, then ``load`` or ``resume``).
2. A visit that fails has taken nothing: the source is as it was, and the next visit goes on from the last position.
   A ``load`` or ``resume`` that fails leaves the source open.

Snapshots that are held have no part in it: each is a thing of its own, with a connection of its own
(``source.HeldSnapshot``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum

from weir.sources.source import SourceError


class SourceState(Enum):
    """Where a source is in its life."""

    CLOSED = "closed"
    OPEN = "open"
    FOLLOWING = "following"
    BROKEN = "broken"


class SourceEvent(Enum):
    """What is asked of a source, or happens to it."""

    WATCH = "watch"
    LOAD = "load"
    RESUME = "resume"
    VISIT = "visit"
    FAIL = "fail"
    CLOSE = "close"


CLOSED, OPEN, FOLLOWING, BROKEN = SourceState
WATCH, LOAD, RESUME, VISIT, FAIL, CLOSE = SourceEvent

# What is not here is refused.
TRANSITIONS: Mapping[SourceState, Mapping[SourceEvent, SourceState]] = {
    CLOSED: {WATCH: OPEN, CLOSE: CLOSED},
    OPEN: {WATCH: OPEN, LOAD: FOLLOWING, RESUME: FOLLOWING, CLOSE: CLOSED},
    FOLLOWING: {WATCH: OPEN, LOAD: FOLLOWING, RESUME: FOLLOWING, VISIT: FOLLOWING, FAIL: BROKEN, CLOSE: CLOSED},
    BROKEN: {WATCH: OPEN, LOAD: FOLLOWING, RESUME: FOLLOWING, CLOSE: CLOSED},
}

# While these are under way, and if they fail, nobody knows what was delivered.
UNDER_WAY: Mapping[SourceEvent, SourceState] = {LOAD: OPEN, RESUME: OPEN}

NO_BEGINNING = "call load or resume before visit"
NOT_WATCHING = "call watch first"


class SourceLife:
    """Where one source is, and what moves it."""

    def __init__(self, source: str) -> None:
        self.state = CLOSED
        self._source = source
        self._problem: SourceError | None = None  # why it is broken

    def check(self, event: SourceEvent) -> SourceState:
        """The state that follows; refuses what is not in the table."""
        following = TRANSITIONS[self.state].get(event)
        if following is None:
            raise self._refusal(event)
        return following

    def move(self, event: SourceEvent) -> None:
        self.state = self.check(event)

    @contextmanager
    def during(self, event: SourceEvent) -> Iterator[None]:
        """Moves when the block has ended well; a block that fails leaves the source where rule 2 says."""
        following = self.check(event)
        self.state = UNDER_WAY.get(event, self.state)
        yield
        self.state = following

    def fail(self, problem: SourceError) -> SourceError:
        """What is wrong would be wrong again; every visit says so until the source begins anew."""
        self.move(FAIL)
        self._problem = problem
        return problem

    def _refusal(self, event: SourceEvent) -> SourceError:
        if event is VISIT and self.state is BROKEN:
            assert self._problem is not None
            return self._problem
        return SourceError(f"source '{self._source}': {_refused(self.state, event)}")


def _refused(state: SourceState, event: SourceEvent) -> str:
    if event is VISIT:
        return NO_BEGINNING
    return NOT_WATCHING if state is CLOSED else f"cannot {event.value} while it is {state.value}"
