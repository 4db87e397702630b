"""A source's channel: one thread that alone speaks with the source, so that sources are visited side by side.

Everything that is done with a source goes through its thread, in the order it was asked for; that is the one order in
which its updates and answers arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.project.kinds import SourceSpec
from weir.sources.source import Answers, Source, SourceError, Visit

T = TypeVar("T")


class Channel:
    """One source, its thread, and what the runtime knows of it."""

    def __init__(self, spec: SourceSpec, spark: Any = None) -> None:
        self.name, self.spec = spec.name, spec
        self._spark = spark
        self._source: Source | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"weir-{spec.name}")
        self.open = False  # whether its log is followed: loaded or resumed
        self.visit: Visit | None = None  # the held one
        self.problem: WeirError | None = None  # why it cannot be reached now
        self.retry_at = 0.0
        self.tries = 0
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

    def reset(self) -> None:
        """Forgets the connection: the next call makes a new one. What was delivered is resumed from a position."""
        self.open, self.visit = False, None
        source, self._source = self._source, None
        if source is not None:
            self._thread.submit(_quietly, source.close)

    def close(self) -> None:
        self.reset()
        self._thread.shutdown(wait=True)


def _quietly(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception:  # a source that is down cannot say goodbye
        return
