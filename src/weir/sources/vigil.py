"""A vigil over calls that wait for a server: one that says nothing for too long loses its connection.

libpq waits without a limit. A dead machine is noticed by the operating system's keep-alives, but a server that hangs
(or was stopped) still answers those. So whoever waits says so here, and a thread looks every second: when the socket
has received nothing for so many seconds since the call began, it is shut down, and the call ends with the driver's own
error for a lost connection. As long as something comes, a call may take as long as it wants.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

LOOK_SECONDS = 1.0
_LAST_RECEIVED = 4 * 13  # where tcp_info tells for how many milliseconds nothing was received
_INFO_BYTES = 104


class _Watched:
    def __init__(self, file: int, seconds: float) -> None:
        self.socket = socket.socket(fileno=os.dup(file))
        self.seconds, self.began = seconds, time.monotonic()

    def silent_for(self) -> float:
        waiting = time.monotonic() - self.began
        with suppress(OSError, struct.error):  # not every socket is one of TCP
            info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
            (since,) = struct.unpack_from("I", info, _LAST_RECEIVED)
            return min(waiting, float(since) / 1000)
        return waiting

    def end(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class Vigil:
    """All calls of this process that wait now."""

    def __init__(self) -> None:
        self._calls: dict[int, _Watched] = {}
        self._numbers = count()
        self._changing = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def over(self, file: int, seconds: float) -> Iterator[None]:
        """``file``: the socket's number. Zero seconds: without a limit."""
        if not seconds:
            yield
            return
        number, watched = next(self._numbers), _Watched(file, seconds)
        with self._changing:
            self._calls[number] = watched
            self._begin()
        try:
            yield
        finally:
            with self._changing:
                del self._calls[number]
            watched.socket.close()

    def _begin(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # a forked process has no threads
            self._thread = threading.Thread(target=self._look, name="weir-vigil", daemon=True)
            self._thread.start()

    def _look(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            with self._changing:
                if not self._calls:
                    self._thread = None
                    return
                for watched in self._calls.values():
                    if watched.silent_for() > watched.seconds:
                        watched.end()


vigil = Vigil()
