"""What the writers did: one line per transaction, with the name under which its source knows it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JournalRow = tuple[Any, ...]
JournalChange = tuple[int, JournalRow | None]  # a key, and its row afterwards; None: it is gone


@dataclass(frozen=True)
class JournalEntry:
    """One transaction. ``identity`` is what the source calls it: a transaction id, a log number, a GTID."""

    source: str
    identity: str
    changes: Sequence[JournalChange]


class Journal:
    """A file that several threads append to. A line is written after its commit, so the order is only nearly that of
    the commits when one source has several writers.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._turn = threading.Lock()
        self.count = 0

    def add(self, entry: JournalEntry) -> None:
        line = json.dumps([entry.source, entry.identity, entry.changes])
        with self._turn:
            self._file.write(line + "\n")
            self._file.flush()
            self.count += 1

    def close(self) -> None:
        self._file.close()


def read_journal(path: Path) -> Iterator[JournalEntry]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            source, identity, changes = json.loads(line)
            yield JournalEntry(source, identity, [(key, None if row is None else tuple(row)) for key, row in changes])
