"""Talking to a warehouse's runner from another process on the same machine: audit now, tell how you are, stop.

The runner listens on a loopback port; its address and a key are in a file that only its account can read. No runner, no
file: then whoever asks does the work itself. An audit may take long, so a runner that is at it says so every other
second: who hears nothing for longer has asked one that hangs.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from contextlib import closing
from pathlib import Path
from typing import Any

from weir.algebra.errors import WeirError
from weir.operation.locking import FOLDER
from weir.rounds.threads import spawn
from weir.sweeping.sealed import ChannelError, SealedChannel
from weir.sweeping.serving import Server, listen

FILE = "control.json"
PURPOSE = "weir-control"
_MOST_CALLERS = 16
HEARTBEAT, SILENCE = 2.0, 10.0  # seconds between two signs of life, and without one
Handler = Callable[..., Any]


class ControlServer:
    """Serves requests of the form ``{"do": name, ...}`` with the handlers given."""

    def __init__(self, path: str, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._key = secrets.token_hex(32)
        self._server = Server(PURPOSE, listen("127.0.0.1"), self._key.encode(), self._serve, _MOST_CALLERS)
        self._file = Path(path) / FOLDER / FILE
        host, port = self._server.address
        with open(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump({"host": host, "port": port, "key": self._key, "process": os.getpid()}, file)

    def _serve(self, channel: SealedChannel) -> None:
        request = json.loads(channel.receive(within=SILENCE))
        answer = spawn("weir-control-answer", lambda: self._done(request))
        while not wait([answer], HEARTBEAT).done:
            channel.send(json.dumps({"working": True}).encode())
        channel.send(json.dumps(answer.result(), default=str).encode())

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
        with closing(SealedChannel.call((at["host"], at["port"]), at["key"].encode(), PURPOSE)) as channel:
            channel.send(json.dumps({"do": do, **request}).encode())
            reply = json.loads(channel.receive(within=SILENCE))
            while "working" in reply:
                reply = json.loads(channel.receive(within=SILENCE))
    except (OSError, ValueError, KeyError, ChannelError):
        raise NoRunner(f"no runner answers for the warehouse at {path}; start one: weir run") from None
    if "problem" in reply:
        raise WeirError(reply["problem"])
    return reply["answer"]


class NoRunner(WeirError):
    """Nobody maintains this warehouse now, or nobody that can be asked."""
