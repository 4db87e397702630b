"""Which connections of Weir's are open, as the server itself tells, or the operating system for files."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

from weir.proving.databases import MariadbDatabase, PostgresDatabase, PrivateDatabase, SqliteDatabase


def open_connections(database: PrivateDatabase) -> set[Any]:
    """By number, of whatever purpose; readers of the log too."""
    if isinstance(database, SqliteDatabase):
        return open_files(database.path)
    with closing(database.administrator()) as admin, closing(admin.cursor()) as cursor:
        cursor.execute(_QUESTIONS[type(database)], (database.name,))
        return {number for (number,) in cursor.fetchall()}


_QUESTIONS: dict[type[PrivateDatabase], str] = {
    PostgresDatabase: "SELECT pid FROM pg_stat_activity WHERE application_name = 'weir' AND datname = %s",
    MariadbDatabase: "SELECT id FROM information_schema.processlist WHERE user = 'weir' AND db = %s",
}


def open_files(place: Path) -> set[int]:
    """This process' descriptors of a file, of files named like it with more behind, or of files below a folder."""
    found = set()
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if target.startswith(str(place)):
            found.add(number)
    return found
