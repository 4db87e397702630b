"""A small server inside the runner: each call in a thread of its own, only for those who know the key, and not many.

Two bounds keep its threads few. Callers who have not yet proved to know the key are at most ``MOST_KNOCKING``: one
more, and the one who has been at it longest is hung up on. Who knows the key needs milliseconds for that, so strangers
who say nothing make room for each other and keep nobody else waiting. Callers who have proved it are at most ``most``:
one more is told so.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait

from weir.sweeping.sealed import HANDSHAKE, ChannelError, SealedChannel, spelled_address

MOST_KNOCKING = 16
_CLOSING = 5.0  # seconds for answers under way
Serve = Callable[[SealedChannel], None]


def listen(host: str) -> socket.socket:
    """A listening socket at a port that the system chooses."""
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    listener = socket.create_server(address[:2], family=family, backlog=128)
    listener.setblocking(False)  # a caller may be gone again when it is accepted
    return listener


class Server:
    """Hands every call whose other side has proved to know the key to ``serve``, until closed."""

    def __init__(
        self, name: str, listener: socket.socket, key: bytes, serve: Serve, most: int, handshake: float = HANDSHAKE
    ) -> None:
        self.most = most
        self._name, self._listener, self._key, self._serve, self._handshake = name, listener, key, serve, handshake
        self._closing = False
        self._turn = threading.Lock()
        self._knocking: dict[_Caller, None] = {}  # in the order in which they came
        self._served: set[_Caller] = set()
        self._waking, self._woken = socket.socketpair()
        self._accepting = threading.Thread(target=self._accept, name=name, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def _accept(self) -> None:
        while self._woken not in wait([self._listener, self._woken]):
            try:
                connection, _ = self._listener.accept()
            except OSError:  # one that went away at once, or no more files can be opened
                wait([self._woken], timeout=0.1)
                continue
            self._let_in(_Caller(connection))

    def _let_in(self, caller: _Caller) -> None:
        with self._turn:
            too_long = next(iter(self._knocking)) if len(self._knocking) >= MOST_KNOCKING else None
            if too_long is not None:
                del self._knocking[too_long]
                too_long.hang_up(socket.SHUT_RDWR)
            self._knocking[caller] = None
        if too_long is not None:
            too_long.thread.join()  # at once: so the threads are never more
        caller.thread = threading.Thread(target=self._attend, args=(caller,), name=self._name, daemon=True)
        caller.thread.start()

    def _attend(self, caller: _Caller) -> None:
        """Keys are shown in the call's own thread: a silent stranger delays nobody."""
        try:
            with contextlib.suppress(ChannelError, OSError):
                self._talk(caller)
        finally:
            with self._turn:
                self._knocking.pop(caller, None)
                self._served.discard(caller)
                caller.connection.close()

    def _talk(self, caller: _Caller) -> None:
        channel = SealedChannel.answer(caller.connection, self._key, self._name, self._handshake)
        if self._has_place_for(caller):
            channel.welcome()
            self._serve(channel)
        else:
            here = spelled_address(self.address)
            channel.refuse(f"{here} answers {self.most} callers already, as many as it may; ask again later")

    def _has_place_for(self, caller: _Caller) -> bool:
        """Whether it may be served; not who was hung up on meanwhile either."""
        with self._turn:
            if caller not in self._knocking or self._closing or len(self._served) >= self.most:
                return False
            del self._knocking[caller]
            self._served.add(caller)
            return True

    def close(self) -> None:
        """Nobody is waited for any more: who accepts or waits ends at once, who serves when the answer is given."""
        with self._turn:
            self._closing = True
        self._waking.close()
        self._accepting.join()
        self._listener.close()
        self._woken.close()
        with self._turn:
            callers = [*self._knocking, *self._served]
            for caller in callers:
                caller.hang_up(socket.SHUT_RD if caller in self._served else socket.SHUT_RDWR)
        _end(callers)


class _Caller:
    """A connection and the thread that attends it."""

    thread: threading.Thread

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def hang_up(self, how: int) -> None:
        """Wakes the thread where it waits for the other side."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(how)


def _end(callers: list[_Caller]) -> None:
    """Waits for their threads, which have been hung up on; one that gives an answer for very long ends by itself."""
    until = time.monotonic() + _CLOSING
    for caller in callers:
        if caller.thread is not threading.current_thread():
            caller.thread.join(max(until - time.monotonic(), 0))
            caller.hang_up(socket.SHUT_RDWR)
