"""Peak memory of a process and of what it started, as Linux counts it (VmHWM)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weir.bench.product.processes import field, parents, size


@dataclass(frozen=True)
class MemoryUse:
    """Bytes: the process itself, the Java machines below it, and everything else below it (Spark's Python workers).

    Workers share pages with each other, so their sum is more than they take.
    """

    driver: int = 0
    jvm: int = 0
    workers: int = 0

    def most(self, other: MemoryUse) -> MemoryUse:
        return MemoryUse(max(self.driver, other.driver), max(self.jvm, other.jvm), max(self.workers, other.workers))


def peak(pid: int) -> MemoryUse:
    """Of the processes that live now; zeros where the system has no /proc."""
    jvm = workers = 0
    for below in _below(pid):
        most, name = size(below, "VmHWM"), field(below, "Name")
        jvm, workers = (jvm + most, workers) if name == "java" else (jvm, workers + most)
    return MemoryUse(size(pid, "VmHWM"), jvm, workers)


def _below(pid: int) -> Iterator[int]:
    known, found = parents(), {pid}
    while more := {child for child, parent in known.items() if parent and int(parent) in found} - found:
        found |= more
    yield from found - {pid}
