"""XA transactions at MariaDB and MySQL: which are prepared, and when a committed one has become visible.

XA COMMIT is written to the binlog before the engine commits, outside the order that ``binlog_snapshot_*`` relies on:
203 of 38,063 snapshots were behind their place by one. The server lists a transaction in XA RECOVER until the engine
has committed it, so a snapshot that is opened after its name is gone from there shows it. Whether a name that is not
listed is gone or has not come yet, the log tells: so its end is asked for first (``Before``).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from weir.sources.mysql.events import xid_text
from weir.sources.mysql.position import BinlogPlace
from weir.sources.source import SourceError


@dataclass(frozen=True)
class Before:
    """What was so just before a snapshot opened: the end of the log, and after that the prepared transactions."""

    end: BinlogPlace
    prepared: frozenset[str]

    def shows(self, name: str, committed: BinlogPlace | None) -> bool:
        """Whether the snapshot surely shows the transaction whose XA COMMIT ends there (None: long ago)."""
        return name not in self.prepared and (committed is None or committed <= self.end)


def wait_for_prepared(connection: Any, source: str, patience: float) -> None:
    """Until none that is prepared now is so any more; others may come meanwhile."""
    deadline, left = time.monotonic() + patience, prepared_names(connection)
    while left := left & prepared_names(connection):
        if time.monotonic() > deadline:
            raise SourceError(
                f"source {source}: prepared XA transactions stay open ({', '.join(sorted(left)[:5])}), and their rows "
                "show in no snapshot; commit them or roll them back (XA RECOVER lists them), then try again"
            )
        time.sleep(0.002)


def prepared_names(connection: Any) -> frozenset[str]:
    with connection.cursor() as cursor:
        cursor.execute("XA RECOVER")
        return frozenset(_name(*row) for row in cursor.fetchall())


def _name(format_: int, first: int, second: int, data: bytes | str) -> str:
    raw = data if isinstance(data, bytes) else data.encode("latin-1")
    return xid_text(raw[:first], raw[first : first + second], int(format_))
