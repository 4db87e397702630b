"""Who reads the log of a SQLite file: it is trimmed for one warehouse, whose mark stands in the file."""

from __future__ import annotations

import sqlite3

from weir.sources.ownership import foreign, is_foreign, refusal
from weir.sources.sqlite.options import SqliteOptions

_READER = "SELECT value FROM weir_meta WHERE name = 'reader'"


def reader_of(database: sqlite3.Connection) -> str | None:
    """The mark in the file; None where there is none."""
    try:
        row = database.execute(_READER).fetchone()
    except sqlite3.OperationalError:  # no weir_meta at all
        return None
    return row[0] if row is not None else None


def claim(database: sqlite3.Connection, options: SqliteOptions) -> None:
    """Puts the warehouse's mark there, or refuses a file that bears another's."""
    if not options.owner or reader_of(database) == options.owner:
        return
    database.execute("BEGIN IMMEDIATE")
    try:
        found = reader_of(database)
        if is_foreign(options.owner, found):
            raise refusal(f"source '{options.name}'", foreign_log(options.path, found or ""))
        database.execute("INSERT OR REPLACE INTO weir_meta VALUES ('reader', ?)", (options.owner,))
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def foreign_log(path: str, found: str) -> tuple[str, str]:
    return foreign(f"the change log in {path}", found, "let one warehouse have all views over this file")


def release(database: sqlite3.Connection) -> None:
    """Takes the mark out: the next warehouse that reads the log puts its own there."""
    database.execute("DELETE FROM weir_meta WHERE name = 'reader'")
