"""Somebody between a caller and an answerer, who sees every frame and passes on what he likes."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

HELLO, HEADER = 38, 40
Twist = Callable[[str, int, bytes], list[bytes]]  # who sends, the number of the frame, the frame -> what is passed on
CALLER, ANSWERER = "caller", "answerer"


def passed_on(sender: str, number: int, frame: bytes) -> list[bytes]:
    return [frame]


class Between:
    """Listens at ``address`` and speaks with ``target``. Frame 0 of each side is its hello, frame 1 its message 0."""

    def __init__(self, target: tuple[str, int], twist: Twist = passed_on) -> None:
        self.twist = twist
        self.seen: dict[str, list[bytes]] = {CALLER: [], ANSWERER: []}
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lines: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._meet, daemon=True)]
        self._threads[0].start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return host, port

    def _meet(self) -> None:
        with suppress(OSError):
            caller, _ = self._listener.accept()
            answerer = socket.create_connection(self._target)
            self._lines += [caller, answerer]
            for sender, source, sink in ((CALLER, caller, answerer), (ANSWERER, answerer, caller)):
                self._threads.append(threading.Thread(target=self._pass, args=(sender, source, sink), daemon=True))
                self._threads[-1].start()

    def _pass(self, sender: str, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError, EOFError):
            for number in range(1_000_000):
                frame = _frame(source) if number else _exactly(source, HELLO)
                self.seen[sender].append(frame)
                for passed in self.twist(sender, number, frame):
                    sink.sendall(passed)
        for line in (source, sink):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for line in self._lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(20)
        for line in self._lines:
            line.close()


def _frame(source: socket.socket) -> bytes:
    header = _exactly(source, HEADER)
    (length,) = struct.unpack(">Q", header[:8])
    return header + _exactly(source, length)


def _exactly(source: socket.socket, count: int) -> bytes:
    taken = b""
    while len(taken) < count:
        piece = source.recv(count - len(taken))
        if not piece:
            raise EOFError
        taken += piece
    return taken
