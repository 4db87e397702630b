"""Talking to a warehouse's runner from another process on the same machine: audit now, tell how you are, stop.

The runner listens on a loopback port; its address and a key are in a file that only its account can read. No runner, no
file: then whoever asks does the work itself.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from weir.algebra.errors import WeirError
from weir.operation.locking import FOLDER
from weir.sweeping.serving import Server

FILE = "control.json"
Handler = Callable[..., Any]


class ControlServer:
    """Serves requests of the form ``{"do": name, ...}`` with the handlers given."""

    def __init__(self, path: str, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._key = secrets.token_hex(32)
        self._server = Server("weir-control", Listener(("127.0.0.1", 0)), self._key.encode(), self._serve)
        self._file = Path(path) / FOLDER / FILE
        host, port = self._server.address
        with open(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump({"host": host, "port": port, "key": self._key, "process": os.getpid()}, file)

    def _serve(self, connection: Connection) -> None:
        request = json.loads(connection.recv_bytes())
        connection.send_bytes(json.dumps(self._done(request), default=str).encode())

    def _done(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"answer": self._handlers[request.pop("do")](**request)}
        except WeirError as problem:
            return {"problem": str(problem)}
        except Exception as problem:
            return {"problem": f"{type(problem).__name__}: {problem}"}

    def close(self) -> None:
        self._server.close()
        self._file.unlink(missing_ok=True)


def ask_runner(path: str, do: str, **request: Any) -> Any:
    """The runner's answer; ``NoRunner`` when there is none."""
    file = Path(path) / FOLDER / FILE
    try:
        at = json.loads(file.read_text(encoding="utf-8"))
        with Client((at["host"], at["port"]), authkey=at["key"].encode()) as connection:
            connection.send_bytes(json.dumps({"do": do, **request}).encode())
            reply = json.loads(connection.recv_bytes())
    except (OSError, EOFError, ValueError, KeyError, AuthenticationError):
        raise NoRunner(f"no runner answers for the warehouse at {path}; start one: weir run") from None
    if "problem" in reply:
        raise WeirError(reply["problem"])
    return reply["answer"]


class NoRunner(WeirError):
    """Nobody maintains this warehouse now, or nobody that can be asked."""
