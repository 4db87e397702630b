"""An object in a process of its own, so that every way has its own Spark and its own memory.

The process ends when it is closed, or when its parent is gone.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

from weir.algebra.errors import WeirError
from weir.bench.product.tpch.memory import MemoryUse, peak

END_SECONDS = 30


class Called(Protocol):
    """Something whose methods are called by name."""

    def call(self, method: str, *arguments: Any) -> Any: ...

    def peak(self) -> MemoryUse: ...

    def close(self) -> None: ...


class Apart:
    """An object made by ``make(*arguments)`` in a new process; arguments and results are pickled."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, arguments))
        self._process.start()
        theirs.close()
        self._name = getattr(make, "__name__", "an object")
        self._answer()

    def call(self, method: str, *arguments: Any) -> Any:
        self._pipe.send((method, arguments))
        return self._answer()

    def peak(self) -> MemoryUse:
        return peak(self._process.pid or 0)

    def close(self) -> None:
        self._pipe.close()
        self._process.join(END_SECONDS)
        if self._process.is_alive():
            self._process.terminate()

    def _answer(self) -> Any:
        try:
            problem, result = self._pipe.recv()
        except EOFError:
            raise WeirError(f"the process of {self._name} ended by itself; its last words are above") from None
        if problem:
            self.close()
            raise WeirError(f"{self._name} failed in its own process:\n{problem}")
        return result


def _serve(pipe: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    made = _answered(pipe, lambda: make(*arguments), told=False)
    try:
        while made is not None:
            method, given = pipe.recv()
            _answered(pipe, lambda method=method, given=given: getattr(made, method)(*given))  # type: ignore[misc]
    except (EOFError, BrokenPipeError):
        made.close()


def _answered(pipe: Connection, action: Callable[[], Any], told: bool = True) -> Any:
    """Sends what became of it, and its result only if that is to be told."""
    try:
        result = action()
    except Exception:
        pipe.send((traceback.format_exc(), None))
        return None
    pipe.send(("", result if told else None))
    return result
