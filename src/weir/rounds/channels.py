"""A source's channel: one thread that alone speaks with the source, so that sources are visited side by side.

Everything that is done with a source goes through its thread, in the order it was asked for; that is the one order in
which its updates and answers arrive.

Its life: a channel is **closed** until its source's log is **followed** from a known position; during a round the
snapshot of a visit is **held**. Who fails is **down** and tried again with growing pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.life import Life, LifeTable
from weir.project.kinds import SourceSpec
from weir.sources.source import Answers, Source, SourceError, Visit

T = TypeVar("T")
CLOSED, FOLLOWED, HELD, DOWN = "closed", "followed", "held", "down"
OPENED, VISITED, RELEASED, REOPENED, GIVEN_UP, FAILED = (
    "opened", "visited", "released", "reopened", "given up", "failed",
)  # fmt: skip
LIFE: LifeTable = {
    CLOSED: {OPENED: FOLLOWED, REOPENED: CLOSED, GIVEN_UP: CLOSED, FAILED: DOWN},
    FOLLOWED: {VISITED: HELD, REOPENED: CLOSED, GIVEN_UP: CLOSED, FAILED: DOWN},
    HELD: {RELEASED: FOLLOWED, GIVEN_UP: CLOSED, FAILED: DOWN},
    DOWN: {OPENED: FOLLOWED, REOPENED: DOWN, GIVEN_UP: CLOSED, FAILED: DOWN},
}
MOST_PAUSE = 30.0  # seconds between two tries of a source that is down


class Channel:
    """One source, its thread, and what the runtime knows of it."""

    def __init__(self, spec: SourceSpec, spark: Any = None) -> None:
        self.name, self.spec = spec.name, spec
        self._spark = spark
        self._source: Source | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"weir-{spec.name}")
        self._life = Life(LIFE, CLOSED)
        self.visit: Visit | None = None  # the held one
        self.problem: WeirError | None = None  # why it is down
        self._retry_at = 0.0
        self._tries = 0
        self.transactions = 0  # delivered so far

    def call(self, act: Callable[[Source], T]) -> Future[T]:
        """Does something with the source, in its own thread."""
        return self._thread.submit(self._do, act)

    def _do(self, act: Callable[[Source], T]) -> T:
        if self._source is None:
            self._source = self.spec.open(self._spark)
        try:
            return act(self._source)
        except WeirError:
            raise
        except Exception as problem:
            raise SourceError(f"source {self.name}: {type(problem).__name__}: {problem}") from problem

    @property
    def source(self) -> Source:
        """For use in its own thread only."""
        assert self._source is not None
        return self._source

    def look(self, lookups: Sequence[Lookup]) -> Answers:
        """Lookups in the held snapshot; to be called from any other thread."""
        return self.call(lambda source: source.look(lookups)).result()

    # -- its life ------------------------------------------------------------------------------------------------------

    @property
    def followed(self) -> bool:
        """Whether its log is followed: loaded or resumed."""
        return self._life.state in (FOLLOWED, HELD)

    @property
    def may_be_tried(self) -> bool:
        return self._life.state != DOWN or time.monotonic() >= self._retry_at

    def opened(self) -> None:
        """Its log is followed from here on."""
        self._life.happens(OPENED)
        self.problem, self._tries = None, 0

    def hold(self, visit: Visit) -> None:
        """The visit's snapshot stays open."""
        self._life.happens(VISITED)
        self.visit = visit

    def let_go(self) -> None:
        """The snapshot is not needed any more."""
        self._life.happens(RELEASED)
        self.visit = None

    def reopen(self) -> None:
        """Its log is to be followed anew, for other columns or from other positions."""
        self._life.happens(REOPENED)

    def give_up(self) -> None:
        """It is there, but what it was followed for cannot go on: its log does not reach back, a table has changed."""
        self._life.happens(GIVEN_UP)
        self.problem, self._tries = None, 0
        self._disconnect()

    def fail(self, problem: WeirError) -> None:
        """The source has failed. The next call makes a new connection, and what was delivered is resumed."""
        self._life.happens(FAILED)
        self.problem = problem
        self._tries += 1
        self._retry_at = time.monotonic() + min(MOST_PAUSE, 0.2 * 2 ** min(self._tries, 10))
        self._disconnect()

    def _disconnect(self) -> None:
        self.visit = None
        source, self._source = self._source, None
        if source is not None:
            self._thread.submit(_quietly, source.close)

    def close(self) -> None:
        self._disconnect()
        self._thread.shutdown(wait=True)


def _quietly(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception:  # a source that is down cannot say goodbye
        return
