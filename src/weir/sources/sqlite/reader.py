"""Who reads the log of a SQLite file: it is trimmed for one warehouse, whose mark stands in the file.

A copy of the file has a log of its own, so there the mark means nothing: it names the file that it was put into.
"""

from __future__ import annotations

import os
import sqlite3

from weir.sources.ownership import foreign, is_foreign, refusal
from weir.sources.sqlite.options import SqliteOptions

_READER = (
    "SELECT (SELECT value FROM weir_meta WHERE name = 'reader'), (SELECT value FROM weir_meta WHERE name = 'reader_of')"
)


def reader_of(database: sqlite3.Connection) -> str | None:
    """The mark in the file; None where there is none."""
    try:
        reader, file = database.execute(_READER).fetchone()
    except sqlite3.OperationalError:  # no weir_meta at all
        return None
    return reader if file == _file(database) else None


def _file(database: sqlite3.Connection) -> int:
    """What tells the file from a copy; it may be moved."""
    (path,) = (path for _, name, path in database.execute("PRAGMA database_list") if name == "main")
    return os.stat(path).st_ino & 0x7FFF_FFFF_FFFF_FFFF


def claim(database: sqlite3.Connection, options: SqliteOptions) -> None:
    """Puts the warehouse's mark there, or refuses a file that bears another's."""
    if not options.owner or reader_of(database) == options.owner:
        return
    database.execute("BEGIN IMMEDIATE")
    try:
        found = reader_of(database)
        if is_foreign(options.owner, found):
            raise refusal(f"source '{options.name}'", foreign_log(options.path, found or ""))
        marks = {"reader": options.owner, "reader_of": _file(database)}
        database.executemany("INSERT OR REPLACE INTO weir_meta VALUES (?, ?)", list(marks.items()))
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def foreign_log(path: str, found: str) -> tuple[str, str]:
    return foreign(f"the change log in {path}", found, "let one warehouse have all views over this file")


def release(database: sqlite3.Connection) -> None:
    """Takes the mark out: the next warehouse that reads the log puts its own there."""
    database.execute("DELETE FROM weir_meta WHERE name IN ('reader', 'reader_of')")
