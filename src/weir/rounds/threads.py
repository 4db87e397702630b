"""Threads that nobody has to wait for: work that hangs at a silent source must not keep the process from ending."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


def spawn(name: str, act: Callable[[], T]) -> Future[T]:
    """Does something in a thread of its own."""
    future: Future[T] = Future()
    threading.Thread(target=_run, args=(future, act), name=name, daemon=True).start()
    return future


def _run(future: Future[Any], act: Callable[[], Any]) -> None:
    future.set_running_or_notify_cancel()
    try:
        future.set_result(act())
    except BaseException as problem:
        future.set_exception(problem)


class SerialThread:
    """One thread that does what it is given, one after the other."""

    def __init__(self, name: str) -> None:
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, act: Callable[[], T]) -> Future[T]:
        """To be done after all that was given before."""
        future: Future[T] = Future()
        self._waiting.put((future, act))
        return future

    def _work(self) -> None:
        while (given := self._waiting.get()) is not None:
            _run(*given)

    def end(self, patience: float) -> bool:
        """When all that was given is done; False: it still hangs after so many seconds, and is left behind."""
        self._waiting.put(None)
        self._thread.join(patience)
        return not self._thread.is_alive()
