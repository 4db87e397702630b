"""The memory that a process and its Java machine hold, sampled while they work."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from weir.bench.product import processes

WARM_UP = 0.2  # share of the samples that come before anything is judged


@dataclass
class Samples:
    """Resident bytes over time."""

    times: list[float] = field(default_factory=list)
    sizes: dict[str, list[int]] = field(default_factory=lambda: {"driver": [], "jvm": []})

    def growth(self, of: str) -> dict[str, Any]:
        """Medians of the first and the last third after the warm-up."""
        sizes = self.sizes[of][int(len(self.sizes[of]) * WARM_UP) :]
        third = max(len(sizes) // 3, 1)
        first, last = _middle(sizes[:third]), _middle(sizes[-third:])
        ratio = round(last / first, 3) if first else None
        return {"first_third_mb": round(first / 2**20), "last_third_mb": round(last / 2**20), "ratio": ratio}


def _middle(sizes: Sequence[int]) -> float:
    return float(median(sizes)) if sizes else 0.0


class Sampler:
    """A thread that looks once per period. A context manager."""

    def __init__(self, period: float = 1.0) -> None:
        self.samples = Samples()
        self._period, self._ending = period, threading.Event()
        self._thread = threading.Thread(target=self._sample, name="weir-memory", daemon=True)

    def __enter__(self) -> Samples:
        self._thread.start()
        return self.samples

    def __exit__(self, *problem: object) -> None:
        self._ending.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ending.wait(self._period):
            self.samples.times.append(time.monotonic())
            self.samples.sizes["driver"].append(_resident(os.getpid()))
            self.samples.sizes["jvm"].append(sum(map(_resident, _java_below(os.getpid()))))


def _java_below(pid: int) -> list[int]:
    """Spark's launcher is a script that becomes Java, so it is a child of ours."""
    return [each for each, parent in processes.parents().items() if parent == str(pid) and _is_java(each)]


def _is_java(pid: int) -> bool:
    return processes.field(pid, "Name") == "java"


def _resident(pid: int) -> int:
    return processes.size(pid, "VmRSS")
