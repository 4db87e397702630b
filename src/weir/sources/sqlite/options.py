"""Which file a SQLite source is. Picklable."""

from __future__ import annotations

from dataclasses import dataclass

from weir.sources.sqlite.connection import BUSY_SECONDS


@dataclass(frozen=True)
class SqliteOptions:
    """One SQLite file."""

    name: str
    path: str
    busy_seconds: float = BUSY_SECONDS  # at most so long for a lock that another program holds
    owner: str = ""  # the warehouse that reads it (``sources/ownership.py``)
