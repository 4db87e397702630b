"""The position of a SQLite source: a number in the change log, and what tells another history of the file apart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weir.sources.source import LOAD_AGAIN, LoadAgain, Position, SourceError


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
    def parse(cls, text: Position, source: str) -> SqlitePosition:
        try:
            epoch, number, nonce, tables = text.split(":", 3)
            return cls(epoch, int(number), int(nonce), tuple(map(str, json.loads(tables))))
        except (ValueError, TypeError):
            raise SourceError(f"source '{source}': '{text}' is not a position of a SQLite source") from None


def late_tables(
    source: str, tables: Iterable[str], position: SqlitePosition, later: Sequence[SqlitePosition]
) -> dict[str, int]:
    """The tables that only a later position covers, with the number at which they begin: their first view was loaded
    there, and they may have been captured only since then. ``later`` positions in order.
    """
    begins = {}
    for table in tables:
        if table in position.tables:
            continue
        numbers = [one.number for one in later if table in one.tables]
        if not numbers:
            raise LoadAgain(f"source '{source}': the position does not cover table '{table}'; {LOAD_AGAIN}")
        begins[table] = numbers[0]
    return begins
