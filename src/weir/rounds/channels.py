"""A source's channel: one thread that alone speaks with the source, so that sources are visited side by side.

A contact at a time. Nobody waits for one longer than he wants to: what has been asked and is not answered yet stays
**pending**, and the rounds go on without that source. Everything that is delivered comes through here, so there is one
order in which a source's updates arrive. Questions do not: they are asked in held snapshots, which have connections of
their own.

Its life: a channel is **closed** until its source's log is **followed** from a known position. Who fails is **down**
and tried again with growing pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from weir.algebra.errors import WeirError
from weir.life import Life, LifeTable
from weir.project.kinds import SourceSpec
from weir.rounds.contacts import Contact, Heard
from weir.rounds.supervision import CORES_FOR, SILENT_AFTER, SOURCE_PAUSES
from weir.rounds.threads import SerialThread
from weir.sources.source import Source, SourceError

T = TypeVar("T")
CLOSED, FOLLOWED, DOWN = "closed", "followed", "down"
OPENED, REOPENED, GIVEN_UP, FAILED = "opened", "reopened", "given up", "failed"
LIFE: LifeTable = {
    CLOSED: {OPENED: FOLLOWED, REOPENED: CLOSED, GIVEN_UP: CLOSED, FAILED: DOWN},
    FOLLOWED: {REOPENED: CLOSED, GIVEN_UP: CLOSED, FAILED: DOWN},
    DOWN: {OPENED: FOLLOWED, REOPENED: DOWN, GIVEN_UP: CLOSED, FAILED: DOWN},
}
LAST_WORDS = 2.0  # seconds that a source gets to say goodbye


class Channel:
    """One source, its thread, and what the runtime knows of it."""

    def __init__(self, spec: SourceSpec, spark: Any = None) -> None:
        self.name, self.spec = spec.name, spec
        self._spark = spark
        self._source: Source | None = None
        self._thread = SerialThread(f"weir-{spec.name}")
        self._life = Life(LIFE, CLOSED)
        self._turn = 0  # grows when what is under way concerns nobody any more
        self._pending: tuple[int, Future[Heard]] | None = None
        self.problem: WeirError | None = None  # why it is down
        self._retry_at = 0.0
        self._tries = 0
        self.asked_at = 0.0  # when the last contact began
        self.hung_for = 0.0  # seconds of rounds in which the contact under way was not answered
        self.heard_at = 0.0  # when the last one was answered, whatever it said
        self.seen_at = 0.0  # when the last one began that was answered well: what was visible then has been delivered
        self.transactions = 0  # delivered so far, each counted once
        self.furthest = ""  # the position up to which they were
        self.repeating = False  # it goes on from before that
        self.acknowledged: Mapping[str, str] = {}  # by view: the positions that the source was told last
        self.retained: Mapping[str, str] = {}  # by view: how much log is kept for it

    def call(self, act: Callable[[Source], T]) -> Future[T]:
        """Does something with the source, in its own thread."""
        return self._thread.submit(lambda: self._do(act))

    def _do(self, act: Callable[[Source], T]) -> T:
        if self._source is None:
            self._source = self.spec.open(self._spark)
        try:
            return act(self._source)
        except WeirError:
            raise
        except Exception as problem:
            raise SourceError(f"source {self.name}: {type(problem).__name__}: {problem}") from problem

    # -- contacts ------------------------------------------------------------------------------------------------------

    def ask(self, contact: Contact) -> None:
        """Begins a contact; there is none under way."""
        assert self._pending is None, f"source {self.name} is being asked"
        self.asked_at, self.hung_for = time.time(), 0.0
        if contact.acknowledging:
            self.acknowledged = contact.needed
        self._pending = self._turn, self.call(contact)

    @property
    def pending(self) -> Future[Heard] | None:
        """The contact under way."""
        return None if self._pending is None else self._pending[1]

    @property
    def silent_for(self) -> float:
        """Seconds for which the contact under way has not been answered."""
        return 0.0 if self._pending is None or self._pending[1].done() else time.time() - self.asked_at

    @property
    def silent(self) -> bool:
        """Whether it has been asked long ago and says nothing."""
        return self.silent_for > SILENT_AFTER

    @property
    def is_slow(self) -> bool:
        """Whether what the contact under way will bring is worth waiting for: it would have to be asked for again."""
        return self._pending is not None and time.time() - self.asked_at > CORES_FOR.first

    @property
    def silence(self) -> str:
        """What a user reads of it."""
        return f"it was asked {self.silent_for:.0f} s ago and has not answered"

    @property
    def awaited(self) -> str:
        """What a user reads of a view that waits for it."""
        return f"waits for source {self.name}: {self.silence}"

    def answered(self) -> Heard | None:
        """What the contact that is done has brought; None: it was begun for something that has changed since."""
        assert self._pending is not None
        (turn, future), self._pending = self._pending, None
        self.heard_at = time.time()
        if turn == self._turn:
            heard, self.seen_at = future.result(), self.asked_at
            return heard
        if future.exception() is None:
            discard(future.result())
        return None

    # -- its life ------------------------------------------------------------------------------------------------------

    @property
    def followed(self) -> bool:
        """Whether its log is followed: loaded or resumed."""
        return self._life.state == FOLLOWED

    @property
    def may_be_tried(self) -> bool:
        return self._life.state != DOWN or time.monotonic() >= self._retry_at

    def opened(self) -> None:
        """Its log is followed from here on."""
        self._life.happens(OPENED)
        self.problem, self._tries = None, 0

    def reopen(self) -> None:
        """Its log is to be followed anew, for other columns or from other positions."""
        self._life.happens(REOPENED)
        self._turn += 1
        self.repeating = True

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
        self._retry_at = time.monotonic() + SOURCE_PAUSES.after(self._tries)
        self._disconnect()

    def _disconnect(self) -> None:
        self._turn += 1
        self.repeating = True
        self._thread.submit(self._say_goodbye)

    def _say_goodbye(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            _quietly(source.close)

    def close(self) -> None:
        self._disconnect()
        self._thread.end(LAST_WORDS)


def discard(heard: Heard) -> None:
    """Nobody wants it: its snapshot must not stay open."""
    if heard.visit is not None and heard.visit.held is not None:
        _quietly(heard.visit.held.release)


def _quietly(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception:  # a source that is down cannot say goodbye
        return
