"""Private folders for data that is put down for a while: nobody else can look in, and nobody's death leaves them there.

A **place** holds the folders of several processes. Beside each folder is a file on which the process that made it holds
a lock as long as it lives; the operating system takes it back however the process dies. Whoever makes a folder removes
those whose lock nobody holds. Process numbers decide nothing: other containers have the same ones.

A file is locked before its folder exists and removed after it. So a folder without a file, or with one that can be
locked, is nobody's; and who has locked a file that is no longer there has lost against somebody who cleared it away,
and takes another name.

Folders are 0700 and files 0600 whatever the umask is. Processes of the same account, and root, can read them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO

from weir.algebra.errors import WeirError

_OWNER = ".owner"  # how the name of the locked file ends
_TRIES = 10


def machine_place() -> Path:
    """Where folders lie that belong to no warehouse: one place per account below the temporary folder (TMPDIR)."""
    return Path(tempfile.gettempdir()) / f"weir-{os.geteuid()}"


class PrivateFolder:
    """A folder of this process, until it is closed or the process ends."""

    def __init__(self, place: Path) -> None:
        self._process = os.getpid()
        self.path, self._owner = _made(place)
        clear_dead(place)

    def close(self) -> None:
        if os.getpid() != self._process:  # a child that was forked ends
            return
        _remove(self.path)
        self._owner.close()
        with suppress(OSError):  # others are there
            self.path.parent.rmdir()


def private_subfolder(path: Path) -> Path:
    """A new folder inside a private one."""
    path.mkdir(parents=True)
    path.chmod(0o700)
    return path


def private_file(path: Path) -> IO[bytes]:
    """A new file to write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.fchmod(descriptor, 0o600)
    return open(descriptor, "wb")


def clear_dead(place: Path) -> None:
    """Removes what dead processes have left there; what a living one uses stays."""
    with suppress(OSError):
        found = list(os.scandir(place))
        folders = {entry.name for entry in found if entry.is_dir(follow_symlinks=False)}
        for name in folders | {entry.name.removesuffix(_OWNER) for entry in found if entry.name.endswith(_OWNER)}:
            _remove_if_dead(place / name)


def _remove_if_dead(folder: Path) -> None:
    try:
        with _owner_of(folder).open("rb") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
    except FileNotFoundError:
        _remove(folder)
    except OSError:  # somebody lives, or the file system knows no locks
        pass


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _owner_of(folder).unlink(missing_ok=True)


def _owner_of(folder: Path) -> Path:
    return folder.with_name(folder.name + _OWNER)


def _made(place: Path) -> tuple[Path, IO[bytes]]:
    """A folder and the file whose lock is held."""
    for _ in range(_TRIES):
        _make_private(place)
        folder = place / uuid.uuid4().hex
        try:
            owner = private_file(_owner_of(folder))
            if _is_locked(owner):
                return private_subfolder(folder), owner
        except FileNotFoundError:  # the place was empty, and was removed
            continue
        except OSError as problem:  # a full disk, say
            raise _unusable(place, str(problem.strerror)) from None
    raise WeirError(f"no private folder can be made in {place}: somebody removes it again and again")


def _is_locked(owner: IO[bytes]) -> bool:
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: then nothing there is ever taken for dead
        pass
    return os.fstat(owner.fileno()).st_nlink > 0


def _make_private(place: Path) -> None:
    """Makes the place, or sees to it that one that is there is ours, is no link, and is closed to others."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            place.mkdir(0o700)
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as problem:
        raise _unusable(place, str(problem.strerror)) from None
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise _unusable(place, "it belongs to another account")
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _unusable(place: Path, why: str) -> WeirError:
    return WeirError(
        f"{place} cannot hold private data: {why}; remove it, or choose another place: TMPDIR for temporary folders, "
        "warehouse.path for the warehouse"
    )
