"""Read transactions of a SQLite file, and the snapshot of a visit that is held for questions.

One read transaction can have two users: the held snapshot, and the source, which keeps its last visit's open until the
next one has been read (``wal``). It ends when nobody uses it any more, and its connection is the next one's.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.quoting import double_quoted
from weir.algebra.types import Schema
from weir.sources.source import Answers, HeldSnapshot, Partition, SourceError
from weir.sources.sqlite.catalog import read_shape
from weir.sources.sqlite.connection import explained
from weir.sources.sqlite.lookup import bound_keys, question, rows_for
from weir.sources.sqlite.plain import read_table
from weir.sources.sqlite.position import SqlitePosition
from weir.sources.sqlite.rows import as_table, fetch

ROWS_IN_PART, MOST_PARTS, ROWS_IN_BATCH = 100_000, 16, 20_000


@dataclass(frozen=True)
class Head:
    """The state of the log in one snapshot."""

    epoch: str
    trimmed: int
    clock: int
    nonce: int  # of the change at the clock
    page: int  # where the clock lives
    schema_version: int

    def position(self, tables: Iterable[Relation] = ()) -> SqlitePosition:
        return SqlitePosition(self.epoch, self.clock, self.nonce, tuple(sorted(table.table for table in tables)))


class ReadTransaction:
    """An open read transaction, with one user at first. ``give_back`` gets the connection when the last one leaves."""

    def __init__(self, database: sqlite3.Connection, head: Head, give_back: Callable[[sqlite3.Connection], None]):
        self.database, self.head = database, head
        self._give_back, self._users, self._counting = give_back, 1, threading.Lock()

    def shared(self) -> ReadTransaction:
        """For one more user."""
        with self._counting:
            self._users += 1
        return self

    def leave(self) -> None:
        with self._counting:
            self._users -= 1
            if self._users:
                return
        with suppress(sqlite3.Error):
            self.database.execute("ROLLBACK")
        self._give_back(self.database)


class HeldSqliteSnapshot(HeldSnapshot):
    """The read transaction of a visit or load."""

    def __init__(
        self, source: str, path: str, watched: Mapping[Relation, Schema], transaction: ReadTransaction,
        released: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        super().__init__(source)
        self._path, self._watched, self._transaction, self._released = path, dict(watched), transaction, released
        self._reading: set[sqlite3.Cursor] = set()

    @property
    def _database(self) -> sqlite3.Connection:
        return self._transaction.database

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise SourceError(f"source '{self.source}': {explained(error, self._path)}") from error

    def _look(self, lookups: Sequence[Lookup]) -> Answers:
        with self._told():
            return tuple(self._answer(self._database, lookup) for lookup in lookups)

    def _answer(self, database: sqlite3.Connection, lookup: Lookup) -> pa.Table:
        schema = self._watched[lookup.relation]
        rows = rows_for(database, lookup, bound_keys(lookup, schema), fetch)
        return as_table(rows, schema.only(lookup.columns), lookup.relation)

    def _parts(self) -> tuple[Partition, ...]:
        with self._told():
            return tuple(part for relation in self._watched for part in self._ranges(relation))

    def _ranges(self, relation: Relation) -> Iterator[Partition]:
        """Ranges of the rowid; one part for a table without one."""
        names = self._watched[relation].names
        shape = read_shape(self._database, relation.table)
        if shape is None or not shape.rowid:
            yield Partition(relation, names)
            return
        ends = f"SELECT min({shape.rowid}), max({shape.rowid}) FROM {double_quoted(relation.table)}"
        low, high = self._database.execute(ends).fetchone()
        if low is None:
            return
        step = max(ROWS_IN_PART, -(-(high - low + 1) // MOST_PARTS))
        for start in range(low, high + 1, step):
            yield Partition(relation, names, (shape.rowid, start, min(start + step - 1, high)))

    def _read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        statement = question(Lookup(partition.relation, partition.columns))
        values: list[int] = []
        if partition.detail is not None:
            rowid, *values = partition.detail
            statement += f" WHERE {rowid} BETWEEN ? AND ?"
        with self._told():
            yield from self._batches(partition, statement, values)

    def _batches(self, partition: Partition, statement: str, values: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        schema = self._watched[partition.relation].only(partition.columns)
        self._database.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        cursor = self._database.cursor()
        self._reading.add(cursor)
        try:
            cursor.execute(statement, values)
            while rows := cursor.fetchmany(ROWS_IN_BATCH):
                yield from as_table(rows, schema, partition.relation).to_batches()
        finally:
            self._end_reading(cursor)

    def _end_reading(self, cursor: sqlite3.Cursor) -> None:
        """While a question is half answered its transaction does not end: the next one would see the old moment."""
        if cursor in self._reading:
            self._reading.remove(cursor)
            cursor.close()
            self._database.text_factory = str

    def _whole_tables(self) -> tuple[Partition, ...]:
        return tuple(Partition(relation, schema.names) for relation, schema in self._watched.items())

    def _read_plainly(self, table: Partition) -> Iterator[pa.RecordBatch]:
        with self._told():
            yield from read_table(self._database, table.relation, self._watched[table.relation].only(table.columns))

    def _end(self) -> None:
        for cursor in list(self._reading):
            self._end_reading(cursor)
        self._transaction.leave()
        self._released()
