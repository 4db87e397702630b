"""The snapshot of a visit or load, held open by its own connection; other processes enter it by its exported name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import psycopg
import pyarrow as pa

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.sources.postgres.catalogue import TableFacts
from weir.sources.postgres.connection import (
    PostgresConnection,
    close_quietly,
    first_line,
    is_lost,
    named_errors,
    run,
)
from weir.sources.postgres.lookup import answer
from weir.sources.postgres.reader import SnapshotToken, partitions
from weir.sources.source import Answers, HeldSnapshot, Partition, SourceError

ReadFacts = Callable[[PostgresConnection], Mapping[Relation, TableFacts]]


class HeldPostgresSnapshot(HeldSnapshot):
    """A transaction that is kept open. ``give_back`` gets its connection afterwards, if it is still good."""

    def __init__(
        self, connection: PostgresConnection, token: SnapshotToken, facts: ReadFacts,
        give_back: Callable[[PostgresConnection], None],
    ) -> None:  # fmt: skip
        super().__init__(token.options.name)
        self._connection, self._token, self._facts, self._give_back = connection, token, facts, give_back

    @property
    def token(self) -> SnapshotToken:
        return self._token

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        """What breaks the connection ends the snapshot."""
        with named_errors(self._token.options, doing):
            try:
                yield
            except psycopg.Error as problem:
                if not is_lost(problem):
                    raise
                close_quietly(self._connection)
                raise SourceError(self._lost(first_line(problem))) from problem

    def _look(self, lookups: Sequence[Lookup]) -> Answers:
        token = self._token
        with self._told("answering a lookup"):
            return tuple(answer(self._connection, lookup, token.tables, token.utf8) for lookup in lookups)

    def _parts(self) -> tuple[Partition, ...]:
        with self._told("reading the catalogue"):
            facts = self._facts(self._connection)
        return tuple(partitions(self._token.tables.values(), facts))

    def _read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        """Over a connection of its own, so that lookups need not wait for it."""
        with closing(self._token.reader()) as reader:
            yield from reader.read(partition)

    def _whole_tables(self) -> tuple[Partition, ...]:
        return tuple(Partition(relation, table.names) for relation, table in self._token.tables.items())

    def _read_plainly(self, table: Partition) -> Iterator[pa.RecordBatch]:
        with closing(self._token.reader()) as reader:
            yield from reader.read_plainly(table)

    def _end(self) -> None:
        try:
            run(self._connection, "ROLLBACK")
        except psycopg.Error:
            close_quietly(self._connection)
        else:
            self._give_back(self._connection)
