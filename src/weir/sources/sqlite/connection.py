"""Connections to a SQLite file, and what its errors mean to a user."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path

from weir.sources.source import SourceError

BUSY_SECONDS = 5.0
_MEANINGS = (  # a part of SQLite's message, what it means, the way out
    ("is locked", "is locked by another program", "let its transaction end, or look for a process that holds it open"),
    ("readonly", "cannot be written to", "give the account that runs weir the right to write the file and its folder"),
    ("not a database", "is not a SQLite database (or is encrypted)", "give the path of a SQLite 3 file"),
    ("malformed", "is damaged", "run PRAGMA integrity_check, restore the file from a backup, and load the views again"),
    ("unable to open", "cannot be opened", "check the rights of the account that runs weir on the file and its folder"),
    ("disk is full", "has no room left on its disk", "free some space"),
    ("disk I/O", "cannot be read or written (I/O error)", "check the disk"),
)


def connect(path: str | PathLike[str], busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A connection in autocommit mode to a file that exists; nothing is read from it yet."""
    file = Path(path)
    if not file.is_file():
        raise SourceError(f"there is no SQLite database at {fspath(path)}: check the source's path")
    with told(path):
        return sqlite3.connect(
            f"{file.absolute().as_uri()}?mode=rw", busy_seconds,
            isolation_level=None, uri=True, check_same_thread=False,  # one thread at a time, but not always the same
        )  # fmt: skip


@contextmanager
def told(path: str | PathLike[str]) -> Iterator[None]:
    """Turns SQLite's errors into one that names the file, what is wrong and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, path) from error


def explained(error: sqlite3.Error, path: str | PathLike[str]) -> SourceError:
    for words, meaning, remedy in _MEANINGS:
        if words in str(error):
            return SourceError(f"the SQLite database {fspath(path)} {meaning}: {remedy}")
    return SourceError(f"the SQLite database {fspath(path)} refused: {error}")
