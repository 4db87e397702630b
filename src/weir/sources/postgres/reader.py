"""Readers of one exported snapshot, from any process: lookups in a held snapshot, and the parts of a first load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import psycopg
import pyarrow as pa
from psycopg import sql

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.sources.postgres.catalogue import TableFacts, WatchedPostgresTable
from weir.sources.postgres.connection import PostgresConnection, named_errors
from weir.sources.postgres.idle import give_back, take
from weir.sources.postgres.lookup import answer, copy_rows, parse_csv, select_columns
from weir.sources.postgres.options import PostgresOptions
from weir.sources.postgres.plain import read_table
from weir.sources.source import Answers, Partition, SharedReader, SourceError

PAGES_PER_PART = 4096  # 32 MB of table
BATCH_BYTES = 8 << 20


@dataclass(frozen=True)
class SnapshotToken:
    """A held snapshot. Picklable."""

    options: PostgresOptions
    exported: str
    tables: Mapping[Relation, WatchedPostgresTable]
    utf8: bool

    def reader(self) -> PostgresReader:
        """A reader of this snapshot, in whatever process."""
        return PostgresReader(self)


class PostgresReader(SharedReader):
    """Answers lookups in a held snapshot, over a connection of its own."""

    def __init__(self, token: SnapshotToken) -> None:
        self._token = token
        self._connection: PostgresConnection | None = enter(token.options, token.exported)

    def answer(self, lookups: Sequence[Lookup]) -> Answers:
        connection, token = self._open_connection(), self._token
        with named_errors(token.options, "answering a lookup"):
            return tuple(answer(connection, one, token.tables, token.utf8) for one in lookups)

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        connection, token = self._open_connection(), self._token
        part: _Part = partition.detail
        facts = [part.table.column(name) for name in partition.columns]
        query = select_columns(part.table, facts) + _pages(part)
        self._connection = None  # in the middle of a COPY nothing else can be asked on it
        try:
            with named_errors(token.options, f"reading {partition.relation}"):
                for data in _blocks(copy_rows(connection, query)):
                    yield from parse_csv(data, facts, partition.relation).to_batches()
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def read_plainly(self, table: Partition) -> Iterator[pa.RecordBatch]:
        token = self._token
        with named_errors(token.options, f"reading {table.relation}"):
            yield from read_table(self._open_connection(), token.tables[table.relation])

    def _open_connection(self) -> PostgresConnection:
        if self._connection is None:
            raise SourceError(f"{self._token.options.name}: this reader of a snapshot is closed")
        return self._connection

    def close(self) -> None:
        """The connection stays, for the next reader in this process."""
        if self._connection is not None:
            give_back(self._token.options, self._connection)
            self._connection = None


def enter(options: PostgresOptions, exported: str) -> PostgresConnection:
    """A connection whose transaction sees the exported snapshot.

    A TRUNCATE that waits for the snapshot's holder makes newcomers wait behind it, and the holder may be waiting for
    them; so their patience is limited.
    """
    enter = sql.SQL(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT {}; SET LOCAL lock_timeout = {}"
    ).format(exported, int(options.lock_timeout * 1000))
    try:
        return take(options, enter.as_string(None))
    except psycopg.Error as problem:
        raise SourceError(
            f"{options.name}: the shared snapshot is gone ({str(problem).strip()}): it was released, or the connection "
            "that held it broke; visit or load again"
        ) from problem


@dataclass(frozen=True)
class _Part:
    """Pages ``first`` up to ``end`` (None: to the end, however long the table has grown)."""

    table: WatchedPostgresTable
    first: int
    end: int | None


def partitions(tables: Iterable[WatchedPostgresTable], facts: Mapping[Relation, TableFacts]) -> Iterator[Partition]:
    """Every table in ranges of pages; rows move between pages only as new versions, which the snapshot does not see."""
    for table in tables:
        starts = list(range(0, max(facts[table.relation].pages, 1), PAGES_PER_PART))
        for first, end in zip(starts, [*starts[1:], None], strict=True):
            yield Partition(table.relation, table.names, _Part(table, first, end))


def _pages(part: _Part) -> sql.Composable:
    if part.first == 0 and part.end is None:
        return sql.SQL("")
    low = sql.SQL(" WHERE t.ctid >= {}::tid").format(f"({part.first},0)")
    return low if part.end is None else low + sql.SQL(" AND t.ctid < {}::tid").format(f"({part.end},0)")


def _blocks(rows: Iterable[bytes]) -> Iterator[bytes]:
    """Whole rows, some megabytes together."""
    gathered: list[bytes] = []
    size = 0
    for row in rows:
        gathered.append(row)
        size += len(row)
        if size >= BATCH_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)
