"""Objects in processes of their own: called, measured, ended."""

from __future__ import annotations

import os
from contextlib import closing

import pytest

from tests.bench.product.tpch.worlds import Here
from weir.algebra.errors import WeirError
from weir.bench.product.tpch.apart import Apart
from weir.bench.product.tpch.memory import MemoryUse, peak


class Counter:
    """Counts, and fails when told to."""

    def __init__(self, start: int) -> None:
        if start < 0:
            raise ValueError(f"{start} is below zero")
        self.count = start

    def add(self, more: int) -> int:
        self.count += more
        return self.count

    def pid(self) -> int:
        return os.getpid()

    def fill(self, many: int) -> int:
        return len(bytearray(os.urandom(1)) * many)

    def leave(self) -> None:
        os._exit(3)

    def close(self) -> None:
        """Nothing is open."""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_object_apart_keeps_its_state() -> None:
    """In another process, which ends when it is closed."""
    with closing(Apart(Counter, 5)) as counter:
        assert [counter.call("add", 1), counter.call("add", 2)] == [6, 8]
        pid = counter.call("pid")
        assert pid != os.getpid()
        assert alive(pid)
    assert not alive(pid)


def test_its_memory_is_its_own() -> None:
    """The peak stays after the memory is given back, and is not this process's."""
    with closing(Apart(Counter, 0)) as counter:
        before = counter.peak().driver
        counter.call("fill", 200_000_000)
        assert counter.peak().driver - before > 150_000_000


def test_a_failure_is_told() -> None:
    """With the message and the place of the error in the other process; at the start too."""
    with closing(Apart(Counter, 0)) as counter, pytest.raises(WeirError, match="no attribute 'subtract'"):
        counter.call("subtract", 1)
    with pytest.raises(WeirError, match="-1 is below zero"):
        Apart(Counter, -1)


def test_a_process_that_dies_is_told() -> None:
    """Rather than waited for."""
    with closing(Apart(Counter, 0)) as counter, pytest.raises(WeirError, match="Counter ended by itself"):
        counter.call("leave")


def test_here_is_the_same_without_a_process() -> None:
    """For tests, and for a way that needs none."""
    here = Here(Counter(1))
    assert here.call("add", 2) == 3
    assert here.call("pid") == os.getpid()
    assert here.peak().driver > 1_000_000


def test_a_process_that_is_gone_has_no_memory() -> None:
    """And peaks are kept part by part."""
    assert peak(2**22 + 1) == MemoryUse(0, 0, 0)
    assert MemoryUse(1, 5, 2).most(MemoryUse(3, 4, 2)) == MemoryUse(3, 5, 2)
