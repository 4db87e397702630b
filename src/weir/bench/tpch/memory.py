"""Peak memory of a process and of what it started, as Linux counts it (VmHWM)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Memory:
    """Bytes: the process itself, the Java machines below it, and everything else below it (Spark's Python workers).

    Workers share pages with each other, so their sum is more than they take.
    """

    driver: int = 0
    jvm: int = 0
    workers: int = 0

    def most(self, other: Memory) -> Memory:
        return Memory(max(self.driver, other.driver), max(self.jvm, other.jvm), max(self.workers, other.workers))


def peak(pid: int) -> Memory:
    """Of the processes that live now; zeros where the system has no /proc."""
    jvm = workers = 0
    for below in _below(pid):
        size, name = _high_water(below), _field(below, "Name")
        jvm, workers = (jvm + size, workers) if name == "java" else (jvm, workers + size)
    return Memory(_high_water(pid), jvm, workers)


def _below(pid: int) -> Iterator[int]:
    parents = {int(entry.name): _field(int(entry.name), "PPid") for entry in PROC.glob("[0-9]*")}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent and int(parent) in found} - found:
        found |= more
    yield from found - {pid}


def _high_water(pid: int) -> int:
    return int((_field(pid, "VmHWM") or "0").removesuffix(" kB")) * 1024


def _field(pid: int, name: str) -> str:
    """Of the process's status; empty when it is gone, or has none."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")
