"""The life of a source: what may be asked of it when. One state machine for all kinds, in the manner of h11.

::

    closed --watch--> open --load--> loading --end_load--> following --hold--> held
                        |                                   ^     ^             |
                        +--------------resume---------------+     +---release---+

- **closed**: made, or closed; only ``watch`` leads out.
- **open**: it knows what is watched, and nobody knows what was delivered: a visit would have nothing to go on from.
- **loading**: the snapshot of a first load is open.
- **following**: the position is known, and visits go on from it.
- **held**: the last visit's snapshot is open for questions; another visit would need another one.
- **broken**: what the log says cannot be followed, and trying again must not pass over it: every visit says so.

Three rules make it hard to be left in between:

1. What cleans up may be called at any time: ``release``, ``end_load``, ``close``. So may what begins anew (``watch``,
   then ``load`` or ``resume``); it lets go of whatever snapshot is open.
2. A visit that fails has taken nothing: the source is as it was, and the next visit goes on from the last position.
   A ``load`` or ``resume`` that fails leaves the source open.
3. A snapshot ends with its connection (``lose``): a held one by the next visit, a load only by beginning again.

The kinds keep their connections and snapshots; whether one may be used is decided here and nowhere else.
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
    LOADING = "loading"
    FOLLOWING = "following"
    HELD = "held"
    BROKEN = "broken"


class SourceEvent(Enum):
    """What is asked of a source, or happens to it."""

    WATCH = "watch"
    LOAD = "load"
    END_LOAD = "end_load"
    RESUME = "resume"
    VISIT = "visit"
    HOLD = "hold"  # a visit that holds
    LOOK = "look"  # and ``parts``
    READ = "read"  # of a part, where snapshots are not shared
    RELEASE = "release"
    LOSE = "lose"  # the connection with the open snapshot
    FAIL = "fail"
    CLOSE = "close"


CLOSED, OPEN, LOADING, FOLLOWING, HELD, BROKEN = SourceState
WATCH, LOAD, END_LOAD, RESUME, VISIT, HOLD, LOOK, READ, RELEASE, LOSE, FAIL, CLOSE = SourceEvent

# What is not here is refused.
TRANSITIONS: Mapping[SourceState, Mapping[SourceEvent, SourceState]] = {
    CLOSED: {WATCH: OPEN, END_LOAD: CLOSED, RELEASE: CLOSED, LOSE: CLOSED, CLOSE: CLOSED},
    OPEN: {
        WATCH: OPEN, LOAD: LOADING, RESUME: FOLLOWING, END_LOAD: OPEN, RELEASE: OPEN, LOSE: OPEN, CLOSE: CLOSED,
    },
    LOADING: {
        WATCH: OPEN, LOAD: LOADING, RESUME: FOLLOWING, READ: LOADING, END_LOAD: FOLLOWING, RELEASE: LOADING,
        LOSE: OPEN, CLOSE: CLOSED,
    },
    FOLLOWING: {
        WATCH: OPEN, LOAD: LOADING, RESUME: FOLLOWING, VISIT: FOLLOWING, HOLD: HELD, END_LOAD: FOLLOWING,
        RELEASE: FOLLOWING, LOSE: FOLLOWING, FAIL: BROKEN, CLOSE: CLOSED,
    },
    HELD: {
        WATCH: OPEN, LOAD: LOADING, RESUME: FOLLOWING, LOOK: HELD, READ: HELD, END_LOAD: HELD, RELEASE: FOLLOWING,
        LOSE: FOLLOWING, CLOSE: CLOSED,
    },
    BROKEN: {
        WATCH: OPEN, LOAD: LOADING, RESUME: FOLLOWING, END_LOAD: BROKEN, RELEASE: BROKEN, LOSE: BROKEN, CLOSE: CLOSED,
    },
}  # fmt: skip

# While these are under way, and if they fail, nobody knows what was delivered.
UNDER_WAY: Mapping[SourceEvent, SourceState] = {LOAD: OPEN, RESUME: OPEN}

NO_BEGINNING = "call load or resume before visit"
NOT_WATCHING = "call watch first"
LOAD_IS_OPEN = "a load is open; end it first"
ALREADY_HELD = "a snapshot is already held; release it first"
NOT_HELD = "no snapshot is held; visit with hold first"
NOTHING_TO_READ = "no load is open here and no snapshot held; read parts where load or visit was called"
_VISITING = {CLOSED: NO_BEGINNING, OPEN: NO_BEGINNING, LOADING: LOAD_IS_OPEN, HELD: ALREADY_HELD}


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
        if event in (VISIT, HOLD) and self.state is BROKEN:
            assert self._problem is not None
            return self._problem
        return SourceError(f"source '{self._source}': {_refused(self.state, event)}")


def _refused(state: SourceState, event: SourceEvent) -> str:
    if event in (VISIT, HOLD):
        return _VISITING[state]
    if event is LOOK:
        return NOT_HELD
    if event is READ:
        return NOTHING_TO_READ
    return NOT_WATCHING if state is CLOSED else f"cannot {event.value} while it is {state.value}"
