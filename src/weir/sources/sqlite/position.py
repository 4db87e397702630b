"""The position of a SQLite source: a number in the change log, and what tells another history of the file apart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weir.sources.source import SourceError, SourcePosition

NEXT_VISIT = 1 << 62  # a number that is never reached


@dataclass(frozen=True)
class SqlitePosition:
    """``epoch`` is the log's name, ``nonce`` belongs to the change of that number; ``tables`` are those it covers."""

    epoch: str
    number: int
    nonce: int
    tables: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.epoch}:{self.number}:{self.nonce}:{json.dumps(self.tables, ensure_ascii=False)}"

    @classmethod
    def parse(cls, text: SourcePosition, source: str) -> SqlitePosition:
        try:
            epoch, number, nonce, tables = text.split(":", 3)
            return cls(epoch, int(number), int(nonce), tuple(map(str, json.loads(tables))))
        except (ValueError, TypeError):
            raise SourceError(f"source '{source}': '{text}' is not a position of a SQLite source") from None


def late_tables(tables: Iterable[str], position: SqlitePosition, later: Sequence[SqlitePosition]) -> dict[str, int]:
    """The tables that only a later position covers, with the number at which they begin: their first view was loaded
    there, and they may have been captured only since then. Those that none covers begin with the next visit.
    ``later`` positions in order.
    """
    missing = [table for table in tables if table not in position.tables]
    return {table: next((one.number for one in later if table in one.tables), NEXT_VISIT) for table in missing}
