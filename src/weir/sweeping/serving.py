"""A small server inside the runner: each connection in a thread of its own, and only for those who know the key."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge


class Server:
    """Hands every connection whose other side has proved to know the key to ``serve``, until closed."""

    def __init__(self, name: str, listener: Listener, key: bytes, serve: Callable[[Connection], None]) -> None:
        self._name, self._listener, self._key, self._serve = name, listener, key, serve
        self._closing = False
        self._turn = threading.Lock()
        self._served: set[Connection] = set()  # those that are open
        self._accepting = threading.Thread(target=self._accept, name=name, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.address[:2]
        return str(host), int(port)

    def _accept(self) -> None:
        with self._listener:
            while not self._closing:
                with contextlib.suppress(OSError):  # one that went away at once
                    self._welcome(self._listener.accept())

    def _welcome(self, connection: Connection) -> None:
        with self._turn:
            if self._closing:
                connection.close()
                return
            self._served.add(connection)
        threading.Thread(target=self._attend, args=(connection,), name=self._name, daemon=True).start()

    def _attend(self, connection: Connection) -> None:
        """Keys are shown in the connection's own thread: a silent stranger delays nobody."""
        with contextlib.suppress(EOFError, OSError, AuthenticationError):
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            self._serve(connection)
        with self._turn:
            self._served.discard(connection)
            connection.close()

    def close(self) -> None:
        """Nobody is waited for any more: who accepts ends at once, who serves when the answer under way is given."""
        with self._turn:
            self._closing = True
            for connection in self._served:
                _hang_up(connection)
        if self._accepting.is_alive():
            with contextlib.suppress(OSError), socket.create_connection(self.address, timeout=5):
                pass  # a listener that is closed under a waiting thread does not wake it, a caller does
            self._accepting.join(5)


def _hang_up(connection: Connection) -> None:
    """Wakes whoever waits for the other side to speak."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
