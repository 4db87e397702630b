"""Assembles the stream's messages into transactions, and delivers those that a snapshot shows, in columns.

The stream brings transactions in the order of their commit records; a snapshot decides which of them are delivered.
The rest stay here for a later visit. Delivering a visible transaction before an earlier, still invisible one is a
legal serial order: had they touched the same row, the later would have had to wait until the earlier one was visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from weir.algebra.catalog import Relation
from weir.messages import GlobalTransaction
from weir.sources.postgres import pgoutput
from weir.sources.postgres.catalogue import ColumnFacts, WatchedPostgresTable
from weir.sources.postgres.markers import GLOBAL_PREFIX, from_message, from_row
from weir.sources.postgres.options import MARKER_TABLE
from weir.sources.postgres.pgoutput import Fields, Tuples
from weir.sources.postgres.values import from_fields
from weir.sources.postgres.visibility import PostgresSnapshot
from weir.sources.source import TRANSACTION, WEIGHT, LoadAgain, SchemaChanged, SourceError, Transaction

Late = Mapping[
    Relation, PostgresSnapshot | None
]  # tables that are followed only behind this; None: behind the next visit


@dataclass
class Decoded:
    """One transaction as it was decoded: per table, weights and rows of the needed columns."""

    xid: int
    commit: int  # where its commit record begins
    rows: dict[Relation, tuple[list[int], list[Fields]]] = field(default_factory=dict)
    truncated: set[Relation] = field(default_factory=set)
    unreadable: dict[Relation, SourceError] = field(default_factory=dict)  # of tables that may begin only later
    part_of: GlobalTransaction | None = None

    @property
    def is_empty(self) -> bool:
        return not self.rows and not self.truncated and not self.unreadable

    def leave_out(self, relation: Relation) -> None:
        self.rows.pop(relation, None)
        self.truncated.discard(relation)
        self.unreadable.pop(relation, None)


@dataclass(frozen=True)
class _Reader:
    """How rows of one table in the stream are read; ``problem`` says why they cannot be."""

    relation: Relation
    tuples: Tuples | None
    problem: str = ""


class TransactionAssembler:
    """``feed`` it every message; ``deliver`` takes out what a snapshot shows."""

    def __init__(
        self,
        source: str,
        watched: Iterable[WatchedPostgresTable],
        delivered: PostgresSnapshot,
        late: Late | None = None,
    ) -> None:
        self._source = source
        self._watched = {(table.facts.schema, table.facts.name): table for table in watched}
        self._delivered = delivered  # what the warehouse has: a server may send it again after a crash
        self._late = {} if late is None else late
        self._readers: dict[int, _Reader] = {}
        self._markers: dict[int, Tuples] = {}
        self._current: Decoded | None = None
        self._xid = 0
        self._newest = delivered
        self._settled = False  # the first visit of this stream is done: nothing delivered may come again
        self.waiting: list[Decoded] = []

    def expect(self, snapshot: PostgresSnapshot) -> None:
        """The newest snapshot, against which 32-bit transaction ids are widened."""
        self._newest = snapshot

    def feed(self, message: bytes) -> tuple[int, int] | None:
        """Takes one message; at a commit, returns the transaction's id and where its commit record ends."""
        kind = message[0]
        if kind in b"IUD":
            self._row(message)
            return None
        decoded = pgoutput.decode(message)
        match decoded:
            case pgoutput.Begin():
                self._begin(decoded)
            case pgoutput.CommitRecord():
                return self._commit(decoded)
            case pgoutput.RelationShape():
                self._shape(decoded)
            case pgoutput.Truncate():
                self._truncate(decoded)
            case pgoutput.LogicalMessage():
                self._message(decoded)
        return None

    # -- messages ---------------------------------------------------------------------------------------------------

    def _begin(self, begin: pgoutput.Begin) -> None:
        self._xid = self._newest.widen(begin.xid)
        if not self._delivered.shows(self._xid):
            self._current = Decoded(self._xid, begin.final_lsn)
        elif self._settled:
            raise LoadAgain(
                f"{self._source}: transaction {self._xid} arrived after the snapshot that shows it; this must not "
                "happen: load the views that use this source again, and report it"
            )

    def _commit(self, commit: pgoutput.CommitRecord) -> tuple[int, int]:
        if self._current is not None and not self._current.is_empty:
            self.waiting.append(self._current)
        self._current = None
        return self._xid, commit.end_lsn

    def _row(self, message: bytes) -> None:
        current = self._current
        if current is None:
            return None
        reader = self._readers.get(int.from_bytes(message[1:5], "big"))
        if reader is None:
            return self._marker(message)
        if reader.tuples is None:
            text = f"{self._source}: {reader.problem}; load the views that use {reader.relation} again"
            return self._cannot_read(reader.relation, SchemaChanged(text))
        try:
            old, new = reader.tuples.rows(message)
        except pgoutput.IdentityMissing:
            return self._cannot_read(reader.relation, _no_identity(reader.relation))
        if reader.relation not in current.rows:
            current.rows[reader.relation] = ([], [])
        weights, rows = current.rows[reader.relation]
        if old is not None:
            weights.append(-1)
            rows.append(old)
        if new is not None:
            weights.append(1)
            rows.append(new)
        return None

    def _truncate(self, truncate: pgoutput.Truncate) -> None:
        """What the transaction did to the table before goes with the rest: the truncation covers it."""
        for oid in truncate.relations:
            reader = self._readers.get(oid)
            if reader is not None and self._current is not None:
                self._current.rows.pop(reader.relation, None)
                self._current.truncated.add(reader.relation)

    def _cannot_read(self, relation: Relation, problem: SourceError) -> None:
        """Stops the source, unless perhaps nobody follows this table yet."""
        if relation not in self._late or self._current is None:
            raise problem
        self._current.unreadable[relation] = problem

    def _shape(self, shape: pgoutput.RelationShape) -> None:
        """A table's shape in the stream, from here on, for all transactions behind it."""
        watched = self._watched.get((shape.schema, shape.table))
        self._readers.pop(shape.oid, None)
        if watched is not None:
            self._readers[shape.oid] = _reader(watched, shape)
        elif shape.table == MARKER_TABLE:
            positions = [shape.position("id"), shape.position("sources")]
            self._markers[shape.oid] = Tuples(len(shape.columns), [at for at in positions if at is not None])

    def _message(self, message: pgoutput.LogicalMessage) -> None:
        if message.prefix == GLOBAL_PREFIX and message.transactional and self._current is not None:
            self._current.part_of = from_message(message.content, self._source, self._xid)

    def _marker(self, message: bytes) -> None:
        tuples = self._markers.get(pgoutput.relation_of(message))
        if tuples is not None and message[:1] == b"I" and self._current is not None:
            self._current.part_of = from_row(tuples.rows(message)[1], self._source, self._xid)

    # -- delivery ---------------------------------------------------------------------------------------------------

    def deliver(self, snapshot: PostgresSnapshot) -> list[Decoded]:
        """Takes out the waiting transactions that the snapshot shows, in the order of the log."""
        visible = [transaction for transaction in self.waiting if snapshot.shows(transaction.xid)]
        self.waiting = [transaction for transaction in self.waiting if not snapshot.shows(transaction.xid)]
        self._delivered, self._settled = snapshot, True
        for relation, begins in self._late.items():
            for transaction in visible:
                if begins is None or begins.shows(transaction.xid):
                    transaction.leave_out(relation)
        for transaction in visible:
            for problem in transaction.unreadable.values():
                raise problem
        return [transaction for transaction in visible if not transaction.is_empty]


def _reader(watched: WatchedPostgresTable, shape: pgoutput.RelationShape) -> _Reader:
    """Columns are found by name; one of another type, or none, makes the rows unreadable."""
    relation, positions = watched.relation, []
    if shape.oid != watched.facts.oid:
        return _Reader(relation, None, f"table {relation} was dropped and made again")
    for column in watched.columns:
        at = shape.position(column.name)
        if at is None:
            return _Reader(relation, None, f"column {relation}.{column.name} was dropped or renamed")
        found = shape.columns[at]
        if (found.type_oid, found.type_modifier) != (column.type_oid, column.type_modifier):
            return _Reader(relation, None, f"column {relation}.{column.name} has changed its type")
        positions.append(at)
    return _Reader(relation, Tuples(len(shape.columns), positions))


def _no_identity(relation: Relation) -> LoadAgain:
    return LoadAgain(
        f"{relation}: a change without its old row, because REPLICA IDENTITY was not FULL when it was made; run "
        f"ALTER TABLE {relation.table} REPLICA IDENTITY FULL, then load the views that use it again"
    )


# -- columns --------------------------------------------------------------------------------------------------------


def transactions_of(decoded: Sequence[Decoded]) -> tuple[Transaction, ...]:
    return tuple(Transaction(str(transaction.xid), transaction.part_of) for transaction in decoded)


def changes_of(
    decoded: Sequence[Decoded], watched: Mapping[Relation, WatchedPostgresTable]
) -> dict[Relation, pa.Table]:
    """One Arrow table per changed table, with weights and transaction numbers."""
    touched = {relation for transaction in decoded for relation in transaction.rows}
    return {relation: _changes(decoded, watched[relation]) for relation in sorted(touched)}


def _changes(decoded: Sequence[Decoded], watched: WatchedPostgresTable) -> pa.Table:
    weights: list[int] = []
    numbers: list[int] = []
    rows: list[Fields] = []
    for number, transaction in enumerate(decoded):
        if found := transaction.rows.get(watched.relation):
            weights += found[0]
            rows += found[1]
            numbers += [number] * len(found[0])
    fields = zip(*rows, strict=True)  # rows to columns
    arrays = [_column(values, column, watched.relation) for values, column in zip(fields, watched.columns, strict=True)]
    names = [column.name for column in watched.columns]
    return pa.table(
        [*arrays, pa.array(weights, pa.int8()), pa.array(numbers, pa.int32())], names=[*names, WEIGHT, TRANSACTION]
    )


def _column(values: Iterable[bytes | None], column: ColumnFacts, relation: Relation) -> pa.Array:
    assert column.type is not None
    return from_fields(values, column.type, f"{relation}.{column.name}")


def truncations_of(decoded: Sequence[Decoded]) -> dict[Relation, tuple[int, ...]]:
    """Per truncated table, the numbers of the transactions that truncated it."""
    touched = {relation for transaction in decoded for relation in transaction.truncated}
    return {
        relation: tuple(n for n, transaction in enumerate(decoded) if relation in transaction.truncated)
        for relation in sorted(touched)
    }
