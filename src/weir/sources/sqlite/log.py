"""The trigger log of a SQLite database, read as transactions."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.catalog import Relation
from weir.algebra.types import Schema
from weir.messages import GlobalTransaction
from weir.sources.source import TRANSACTION, WEIGHT, LoadAgain, SourceError, Transaction
from weir.sources.sqlite.capture import MARKER, TableCapture
from weir.sources.sqlite.rows import FetchedRows, columns, fetch

_RANGE = "FROM weir_log WHERE seq > ? AND seq <= ?"


@dataclass
class Log:
    """The changes after ``after`` up to the last of ``ends``, the numbers at which transactions end.

    ``loose``: between these two numbers several transactions may have been taken together. ``begins``: tables whose
    changes nobody needs up to that number.
    """

    database: sqlite3.Connection
    source: str
    captures: Mapping[int, TableCapture]
    after: int
    ends: list[int]
    loose: tuple[int, int] | None = None
    begins: Mapping[str, int] = field(default_factory=dict)
    _used: set[int] = field(default_factory=set)
    _found: dict[int, list[TableCapture]] = field(default_factory=dict)

    def read(self, watched: Mapping[Relation, Schema]) -> tuple[tuple[Transaction, ...], dict[Relation, pa.Table]]:
        """The transactions that touched watched tables or named a global one, and their changes by table."""
        globals_ = self._markers()
        parts = {relation: list(self._images(relation, schema)) for relation, schema in watched.items()}
        numbers = {end: number for number, end in enumerate(sorted(self._used | set(globals_)))}
        transactions = tuple(Transaction(str(self.ends[end]), globals_.get(end)) for end in numbers)
        touched = {relation: rows for relation, rows in parts.items() if rows}
        return transactions, {r: self._table(r, watched[r], rows, numbers) for r, rows in touched.items()}

    def _images(self, relation: Relation, schema: Schema) -> Iterator[FetchedRows]:
        """Row images of one table, as (weight, number of the end, values ...), capture by capture."""
        after = max(self.after, self.begins.get(relation.table, 0))
        for capture in (one for one in self._occurring(after) if one.table == relation.table):
            missing = [name for name in schema.names if name not in capture.columns]
            if missing:
                raise LoadAgain(f"table {relation}: the log does not hold column '{missing[0]}'; load its views again")
            values = ", ".join(f"v{capture.columns.index(name)}" for name in schema.names)
            statement = f"SELECT seq, weight, {values} {_RANGE} AND capture = ? ORDER BY seq"
            rows = fetch(self.database, statement, (after, self.ends[-1], capture.identifier))
            yield [(row[1], self._end_of(row[0]), *row[2:]) for row in rows]

    def _occurring(self, after: int) -> list[TableCapture]:
        """The captures that logged something; more than one of a table when its triggers were renewed meanwhile."""
        if after not in self._found:
            rows = self.database.execute(f"SELECT DISTINCT capture {_RANGE}", (after, self.ends[-1]))
            self._found[after] = [self.captures[number] for (number,) in sorted(rows.fetchall()) if number > 0]
        return self._found[after]

    def _end_of(self, number: int) -> int:
        end = bisect_left(self.ends, number)
        self._used.add(end)
        return end

    def _table(
        self, relation: Relation, schema: Schema, parts: list[FetchedRows], numbers: Mapping[int, int]
    ) -> pa.Table:
        rows = [row for part in parts for row in part]
        marks = [
            pa.array([row[0] for row in rows], pa.int64()),
            pa.array([numbers[row[1]] for row in rows], pa.int64()),
        ]
        fields = [*arrow_schema(schema), pa.field(WEIGHT, pa.int64()), pa.field(TRANSACTION, pa.int64())]
        return pa.Table.from_arrays([*columns(rows, schema, relation, skip=2), *marks], schema=pa.schema(fields))

    # -- global transactions ----------------------------------------------------------------------------------------

    def _markers(self) -> dict[int, GlobalTransaction]:
        """End -> the global transaction that the transaction says it is part of."""
        statement = f"SELECT seq, v0, v1 {_RANGE} AND capture = {MARKER} ORDER BY seq"
        markers = fetch(self.database, statement, (self.after, self.ends[-1]))
        if self.loose is not None:
            self._cut_before([seq for seq, *_ in markers], *self.loose)
        found: dict[int, GlobalTransaction] = {}
        for seq, identifier, sources in markers:
            end = bisect_left(self.ends, seq)
            part = self._part_of(identifier, sources)
            if found.setdefault(end, part) != part:
                two = f"{found[end].identifier} and {part.identifier}"
                raise SourceError(f"source '{self.source}': one transaction says that it is part of two, {two}")
        return found

    def _cut_before(self, markers: list[int], low: int, high: int) -> None:
        """Several transactions taken together:

        a marker, being the first change of its own, tells where that one begins.
        """
        cuts = [seq - 1 for seq in markers if low < seq - 1 < high]
        self.ends = sorted({*self.ends, *cuts})

    def _part_of(self, identifier: object, sources: object) -> GlobalTransaction:
        names = frozenset(name.strip() for name in str(sources).split(",") if name.strip())
        if not isinstance(identifier, str) or self.source not in names:
            raise SourceError(
                f"source '{self.source}': weir_global_transaction says id {identifier!r}, sources {sources!r}; "
                f"the id must be text, and the sources a list with commas in which '{self.source}' occurs"
            )
        return GlobalTransaction(identifier, names)
