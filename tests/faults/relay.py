"""A relay between Weir and a server, on loopback: it can drop connections, and fall silent as a firewall does."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

from weir.proving.servers.server import LOOPBACK

_AT_ONCE = struct.pack("ii", 1, 0)  # no orderly end: the other side gets a reset


class Relay:
    """Passes bytes to and fro between whoever connects to ``port`` and the server behind it."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._listening = socket.create_server((LOOPBACK, 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._speaking = threading.Event()
        self._speaking.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def drop(self) -> None:
        """Every connection ends now; new ones are let in."""
        for each in list(self._open):
            self._end(each)

    def silence(self) -> None:
        """Connections stay, new ones are accepted, and no byte passes."""
        self._speaking.clear()

    def speak(self) -> None:
        self._speaking.set()

    def close(self) -> None:
        self._end(self._listening)
        self.speak()
        self.drop()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        self._open.add(client)
        self._speaking.wait()
        try:
            server = socket.create_connection((LOOPBACK, self._server))
        except OSError:
            self._end(client)
            return
        self._open.add(server)
        for one, other in ((client, server), (server, client)):
            threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while content := one.recv(65536):
                self._speaking.wait()
                other.sendall(content)
        self._speaking.wait()  # the end is not told either
        self._end(one)
        self._end(other)

    def _end(self, each: socket.socket) -> None:
        self._open.discard(each)
        with suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
