"""SQLite under stress: a file of its own, and the naive ways of reading a trigger log as planted mutations."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from weir.algebra.hops import Lookup
from weir.proving.stress import Workload
from weir.proving.writers import StressWriter, WriteOperation
from weir.sources.source import Answers, Source, Visit
from weir.sources.sqlite.connection import connect
from weir.sources.sqlite.options import SqliteOptions
from weir.sources.sqlite.snapshot import HeldSqliteSnapshot, ReadTransaction
from weir.sources.sqlite.source import Ends, SqliteSource

_SCHEMA = (
    "CREATE TABLE ledger (id INTEGER PRIMARY KEY, growth INTEGER)",
    "CREATE TABLE item (id INTEGER PRIMARY KEY, tx INTEGER, amount INTEGER, note TEXT)",
    "CREATE TABLE part (item INTEGER, line INTEGER, tx INTEGER, payload TEXT, PRIMARY KEY (item, line)) WITHOUT ROWID",
    "CREATE TABLE loose (a INTEGER, b TEXT, tx INTEGER)",
)


@dataclass
class SqliteWriter(StressWriter):
    """Writes to the file, with INSERT OR REPLACE among its operations and recursive triggers on now and then."""

    errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)

    def connect(self) -> Any:
        database = self.login.connect(timeout=20)
        database.execute("PRAGMA synchronous = OFF")
        if self.number % 3 == 0:
            database.execute("PRAGMA recursive_triggers = ON")
        if self.number % 2 == 0:
            database.execute("PRAGMA cache_size = 5")  # pages spill into the log before the commit
        return database

    def begin(self, cursor: Any) -> None:
        cursor.execute("BEGIN IMMEDIATE")

    @property
    def operations(self) -> Sequence[tuple[WriteOperation, int]]:
        return (*super().operations, (self.replace_item, 3), (self.replace_by_update, 1), (self.clear_loose, 1))

    def replace_item(self, cursor: Any, identifier: int) -> int:
        """INSERT OR REPLACE, which removes a row without saying so."""
        key = self.item()
        there = self._count(cursor, "SELECT count(*) FROM item WHERE id = ?", key)
        replace = "INSERT OR REPLACE INTO item (id, tx, amount, note) VALUES (?, ?, ?, ?)"
        self.execute(cursor, replace, key, identifier, 0, self.text())
        return 1 - there

    def replace_by_update(self, cursor: Any, identifier: int) -> int:
        """An update that takes the key of another row."""
        before = self._count(cursor, "SELECT count(*) FROM part")
        self.execute(cursor, "UPDATE OR REPLACE part SET line = 0, tx = ? WHERE item = ?", identifier, self.item() // 4)
        return self._count(cursor, "SELECT count(*) FROM part") - before

    def clear_loose(self, cursor: Any, identifier: int) -> int:
        """All rows at once, SQLite's way to truncate."""
        return -self.execute(cursor, "DELETE FROM loose")

    def _count(self, cursor: Any, statement: str, *values: Any) -> int:
        return int(cursor.execute(statement, values).fetchone()[0])


class _AnswersLater(HeldSqliteSnapshot):
    def _look(self, lookups: Sequence[Lookup]) -> Answers:
        with closing(connect(self._path)) as database:
            return tuple(self._answer(database, lookup) for lookup in lookups)


class _OtherSnapshot(SqliteSource):
    """Planted: answers come from a connection of their own, a moment after the log was read."""

    held_class = _AnswersLater


class _LogLater(SqliteSource):
    """Planted: the tables are read first, then the log, outside one transaction."""

    def visit(self, hold: bool = False) -> Visit:
        if not hold:
            return super().visit()
        tables = self._begin()
        visit = super().visit()
        return replace(visit, held=HeldSqliteSnapshot(self.name, str(self.path), self._watched, tables))


class _SplitInTwo(SqliteSource):
    """Planted: every change of the log ends a transaction."""

    def _ends(self, snapshot: ReadTransaction, after: int) -> Ends:
        return list(range(after + 1, snapshot.head.clock + 1)), None


class _AllInOne(SqliteSource):
    """Planted: what one visit sees counts as one transaction."""

    def _ends(self, snapshot: ReadTransaction, after: int) -> Ends:
        return [snapshot.head.clock], None


_SOURCES: dict[str | None, type[SqliteSource]] = {
    None: SqliteSource,
    "tables read after the log, in another snapshot": _OtherSnapshot,
    "tables read before the log, in another snapshot": _LogLater,
    "transactions cut anywhere": _SplitInTwo,
    "transactions of a visit taken together": _AllInOne,
}


class SqliteWorkload(Workload):
    """A file in a temporary folder. After a resume several transactions may come as one, so the ledger checks
    ``one_each`` only between resumes (see ``Workload.merged_after_resume``)."""

    kind = "sqlite"
    schema = _SCHEMA
    writer_class = SqliteWriter
    merged_after_resume = True
    mutations = tuple(name for name in _SOURCES if name is not None)

    def open(self) -> Source:
        small = 1 << 20  # so that the write-ahead log is begun anew often
        return _SOURCES[self.mutation](SqliteOptions("stress", self.database.options["path"]), large_wal=small)


WORKLOADS = (SqliteWorkload,)
