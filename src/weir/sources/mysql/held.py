"""The snapshot of a visit or load, held open by its own connection: MariaDB and MySQL cannot share one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.types import Column, Schema, Type
from weir.sources.mysql.changes import WatchedMysqlTable
from weir.sources.mysql.columns import CharacterTables, our_type
from weir.sources.mysql.describe import Known
from weir.sources.mysql.load import partitions, select
from weir.sources.mysql.lookup import Reader
from weir.sources.mysql.options import Unreachable, reason
from weir.sources.mysql.plain import read_table
from weir.sources.mysql.wire import LOST, is_lost
from weir.sources.source import Answers, CannotWatch, HeldSnapshot, Partition, SchemaChanged, SourceError


@dataclass(frozen=True)
class MysqlTables:
    """The tables of one database as ``watch`` found them, and how their columns can be had."""

    source: str
    database: str
    known: Mapping[str, Known]
    characters: CharacterTables = field(default_factory=dict)
    _asked: dict[tuple[str, tuple[str, ...]], WatchedMysqlTable] = field(default_factory=dict)

    def choose(self, relation: Relation, names: tuple[str, ...]) -> WatchedMysqlTable:
        """Some columns of a table; refuses by name what cannot be had."""
        known = self.known.get(relation.table)
        if known is None:
            there = ", ".join(sorted(self.known)) or "none that this account may read"
            raise SchemaChanged(
                f"source {self.source} has no table '{relation.table}' in database {self.database}; tables: {there}"
            )
        if known.refusal:
            raise CannotWatch(f"table {relation} cannot be used: {known.refusal}")
        types = tuple(_usable_type(relation, known, name) for name in names)
        needed = tuple(known.columns[name] for name in names)
        return WatchedMysqlTable(relation, needed, types, tuple(known.columns.values()))

    def asking(self, relation: Relation, columns: Sequence[str]) -> WatchedMysqlTable:
        key = relation.table, tuple(columns)
        if key not in self._asked:
            self._asked[key] = self.choose(relation, key[1])
        return self._asked[key]


def _usable_type(relation: Relation, known: Known, name: str) -> Type:
    if name not in known.columns:
        raise SchemaChanged(f"table {relation} has no column '{name}'; columns: {', '.join(known.columns)}")
    if isinstance(type_ := our_type(known.columns[name]), str):
        raise SchemaChanged(f"column {relation}.{name} cannot be used: its type is {type_}")
    return type_


class HeldMysqlSnapshot(HeldSnapshot):
    """A transaction that is kept open. ``give_back`` gets its connection afterwards, if it is still good."""

    def __init__(
        self, reader: Reader, tables: MysqlTables, watched: Sequence[WatchedMysqlTable],
        give_back: Callable[[Any], None],
    ) -> None:  # fmt: skip
        super().__init__(tables.source)
        self._reader, self._tables, self._watched, self._give_back = reader, tables, tuple(watched), give_back

    @property
    def connection(self) -> Any:
        return self._reader.connection

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What breaks the connection ends the snapshot."""
        try:
            yield
        except LOST as problem:
            if is_lost(problem):
                self.connection._force_close()
                raise Unreachable(self._lost(reason(problem))) from None
            raise SourceError(f"source {self.source}: {reason(problem)}") from None

    def _look(self, lookups: Sequence[Lookup]) -> Answers:
        with self._told():
            return tuple(self._answer(lookup) for lookup in lookups)

    def _answer(self, lookup: Lookup) -> pa.Table:
        columns, keys = (self._tables.asking(lookup.relation, names) for names in (lookup.columns, lookup.key_columns))
        return self._reader.answer(lookup, columns, keys, self._tables.characters)

    def _parts(self) -> tuple[Partition, ...]:
        with self._told():
            known = self._tables.known
            return tuple(
                part for one in self._watched for part in partitions(self.connection, one, known[one.relation.table])
            )

    def _read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        with self._told():
            table = self._tables.asking(partition.relation, partition.columns)
            statement, values = select(table, partition)
            yield from self._reader.stream(statement, table, values)

    def _whole_tables(self) -> tuple[Partition, ...]:
        return tuple(Partition(table.relation, table.names) for table in self._watched)

    def _read_plainly(self, table: Partition) -> Iterator[pa.RecordBatch]:
        with self._told():
            watched = self._tables.asking(table.relation, table.columns)
            yield from read_table(self.connection, table.relation, Schema(map(Column, watched.names, watched.types)))

    def _end(self) -> None:
        """A connection that is lost cannot be tidied up, and need not be."""
        try:
            with self.connection.cursor() as cursor:
                cursor.execute("ROLLBACK")
        except LOST:
            self.connection._force_close()
        else:
            self._give_back(self._reader)
