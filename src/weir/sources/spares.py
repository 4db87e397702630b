"""Connections of released snapshots, which wait for the next one: nearly every visit that holds takes one along."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

MOST_SPARES = 4
Connection = TypeVar("Connection")


class Spares(Generic[Connection]):
    """Snapshots give theirs back in whatever thread, also when their source has ended: then it is closed."""

    def __init__(self, close: Callable[[Connection], None]) -> None:
        self._close, self._changing = close, threading.Lock()
        self._waiting: list[Connection] = []
        self._ended = False

    def take(self) -> Connection | None:
        with self._changing:
            return self._waiting.pop() if self._waiting else None

    def give_back(self, connection: Connection) -> None:
        with self._changing:
            if not self._ended and len(self._waiting) < MOST_SPARES:
                self._waiting.append(connection)
                return
        self._close(connection)

    def drop(self) -> None:
        """Closes those that wait."""
        with self._changing:
            waiting, self._waiting = self._waiting, []
        for connection in waiting:
            self._close(connection)

    def begin(self) -> None:
        """Again, after an end."""
        self._ended = False

    def end(self) -> None:
        """From now on nothing waits."""
        with self._changing:
            self._ended = True
        self.drop()
