"""One runner per warehouse: a lock that the operating system takes back when its holder dies.

It belongs to the open file, so it can be looked at without being taken: who only asks whether somebody runs the
warehouse must never keep a runner from starting.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import IO

from weir.algebra.errors import WeirError

FOLDER = "_weir"
_LOOK, _SET = 36, 37  # F_OFD_GETLK and F_OFD_SETLK of Linux
_LOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, process
REFUSALS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR}  # of a disk


def cannot_be_written(path: str | os.PathLike[str], problem: OSError) -> WeirError:
    """For a warehouse that cannot even be begun."""
    return WeirError(
        f"the warehouse at {os.fspath(path)} cannot be written: {problem.strerror}; give its folder to this account, "
        "make room there, or choose another by warehouse.path"
    )


def does_not_answer(holder: int, since: str = "") -> str:
    """Of a runner that is stuck, or stopped."""
    return f"process {holder} holds the warehouse but does not answer{since}; look at it, or stop it: kill {holder}"


class RunnerLock:
    """Held while views are maintained. A warehouse in an object store has none: there Delta's own commits decide, and
    a second writer is refused by the first commit that it has not seen.
    """

    def __init__(self, path: str) -> None:
        self._path = None if "://" in path else Path(path) / FOLDER / "lock"
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Refuses when another process has it; a warehouse that is no local folder has no lock."""
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a+", encoding="utf-8")
        except OSError as problem:
            raise cannot_be_written(self._path.parent.parent, problem) from None
        try:
            fcntl.fcntl(file, _SET, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise WeirError(
                f"the warehouse at {self._path.parent.parent} is being run by process {holder}; ask that one "
                "(weir status), or stop it first"
            ) from None
        try:
            file.seek(0)
            file.truncate()
            file.write(str(os.getpid()))
            file.flush()
        except OSError as problem:
            with contextlib.suppress(OSError):  # it tries once more what it could not write
                file.close()
            raise cannot_be_written(self._path.parent.parent, problem) from None
        self._file = file

    def holder(self) -> int | None:
        """The process that holds it, if one does; nothing is taken."""
        if self._path is None:
            return None
        try:
            with self._path.open(encoding="utf-8") as file:
                found = fcntl.fcntl(file, _LOOK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
                written = file.read().strip()
        except OSError:  # nobody has ever run it
            return None
        held = _LOCK.unpack(found)[0] != fcntl.F_UNLCK
        return int(written) if held and written.isdigit() else None

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
