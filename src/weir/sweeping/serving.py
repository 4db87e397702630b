"""A small server inside the runner: each connection in a thread of its own, and only for those who know the key."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge


class Server:
    """Hands every connection whose other side has proved to know the key to ``serve``, until closed."""

    def __init__(self, name: str, listener: Listener, key: bytes, serve: Callable[[Connection], None]) -> None:
        self._name, self._listener, self._key, self._serve = name, listener, key, serve
        self._closing = False
        threading.Thread(target=self._accept, name=name, daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.address[:2]
        return str(host), int(port)

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection = self._listener.accept()
            except OSError:  # one that went away at once, or the end
                continue
            threading.Thread(target=self._served, args=(connection,), name=self._name, daemon=True).start()

    def _served(self, connection: Connection) -> None:
        """Keys are shown in the connection's own thread: a silent stranger delays nobody."""
        with connection, contextlib.suppress(EOFError, OSError, AuthenticationError):
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            self._serve(connection)

    def close(self) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.close()
