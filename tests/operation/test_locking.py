"""The runner's lock: what cannot be written is said, before anything is begun."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from weir.algebra.errors import WeirError
from weir.operation.locking import RunnerLock


def test_a_disk_without_room_for_the_lock(tmp_path: Path) -> None:
    """The folder and the reason are named; when there is room the lock can be taken."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(WeirError, match=rf"the warehouse at {tmp_path} cannot be written: File too large; give"):
            RunnerLock(str(tmp_path)).take()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    lock = RunnerLock(str(tmp_path))
    lock.take()
    with pytest.raises(WeirError, match="is being run by process"):
        RunnerLock(str(tmp_path)).take()
    lock.release()
