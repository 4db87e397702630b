"""Held snapshots, shared by the units that work in them: one is released when the last of them has left.

Releasing is a message to the database, which may be silent by now, so it is done aside.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import count

from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.rounds.threads import spawn
from weir.sources.source import Answers, HeldSnapshot

_numbers = count(1)


class Hold:
    """One held snapshot, and how many use it; its maker is the first."""

    def __init__(self, source: str, snapshot: HeldSnapshot) -> None:
        self.source, self.snapshot = source, snapshot
        self.number = next(_numbers)
        self.since = time.time()
        self._users = 1
        self._counting = threading.Lock()

    @property
    def in_use(self) -> bool:
        return self._users > 0

    def join(self) -> Hold:
        """One more uses it."""
        with self._counting:
            assert self._users, "it is released"
            self._users += 1
        return self

    def leave(self) -> None:
        """One uses it no longer; with the last one it is released."""
        with self._counting:
            self._users -= 1
            if self._users:
                return
        spawn(f"weir-release-{self.source}", self.snapshot.release)


class Holds:
    """All that are open, by number: tasks ask for a snapshot by it."""

    def __init__(self) -> None:
        self._open: dict[int, Hold] = {}

    def add(self, hold: Hold) -> Hold:
        """A new one is open."""
        self._open = {n: one for n, one in self._open.items() if one.in_use} | {hold.number: hold}
        return hold

    def look(self, source: str, number: int, lookups: Sequence[Lookup]) -> Answers:
        """For a task, which may come late."""
        hold = self._open.get(number)
        if hold is None or not hold.in_use:
            raise WeirError(f"source {source}: the snapshot {number} is gone")
        return hold.snapshot.look(lookups)

    def since(self, source: str) -> float | None:
        """When the oldest open one of a source was opened."""
        found = [hold.since for hold in [*self._open.values()] if hold.source == source and hold.in_use]
        return min(found, default=None)
