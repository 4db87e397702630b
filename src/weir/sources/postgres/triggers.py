"""Kind ``postgres-triggers``: changes from a trigger log, for roles that may not replicate.

The log is read in the visit's own snapshot, and what is delivered is a difference of sets: rows whose transaction the
snapshot shows (it is read under it) and the last position does not. Never "greater than the last number": numbers are
given before commit, so a smaller one can become visible later. Transactions are ordered by their largest number: two
that touched the same row wrote their numbers one after the other.

A commit without ``synchronous_commit`` is visible before it is on disk, and a crash may take it back. So before
anything is delivered the log of the server is flushed up to the snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from psycopg import sql

from weir.algebra.catalog import Relation
from weir.algebra.types import BIGINT
from weir.messages import GlobalTransaction
from weir.sources.ownership import is_foreign
from weir.sources.postgres.base import LogDelivery, PostgresBase
from weir.sources.postgres.catalogue import ColumnFacts, TableFacts, read_tables
from weir.sources.postgres.connection import PostgresConnection, named_errors
from weir.sources.postgres.lookup import fetch
from weir.sources.postgres.markers import from_row
from weir.sources.postgres.options import MARKER_TABLE
from weir.sources.postgres.position import PostgresPosition
from weir.sources.postgres.trigger_log import claim, log_name, logged, reader_of, refuse_unlogged
from weir.sources.postgres.visibility import PostgresSnapshot
from weir.sources.source import LOAD_AGAIN, TRANSACTION, WEIGHT, LoadAgain, Transaction

TRIM_SECONDS = 1.0
_MARK = """
coalesce((SELECT string_agg(concat_ws('.', g.oid, g.xmin, g.tgenabled, f.xmin), ',' ORDER BY g.oid)
  FROM pg_trigger g JOIN pg_proc f ON f.oid = g.tgfoid JOIN pg_namespace w ON w.oid = f.pronamespace
  WHERE g.tgrelid = c.oid AND w.nspname = {log_schema}), '-')
"""
_FLUSH = "SELECT pg_current_xact_id()::text, pg_logical_emit_message(true, 'weir.flush', '')"
_NEWS = sql.SQL(
    " WHERE xid >= pg_snapshot_xmin(current_setting('weir.position')::pg_snapshot)"
    " AND NOT pg_visible_in_snapshot(xid, current_setting('weir.position')::pg_snapshot)"
)


class PostgresTriggersSource(PostgresBase):
    """A PostgreSQL database read through a trigger log."""

    kind = "postgres-triggers"
    _marker: TableFacts | None = None
    _trimmed_at = 0.0

    def _mark(self) -> sql.Composable:
        return sql.SQL(_MARK).format(log_schema=self.options.log_schema)

    def watch(self, columns: Mapping[Relation, Sequence[str]]) -> None:
        super().watch(columns)
        connection = self._connected()
        for relation, watched in self._watched.items():
            refuse_unlogged(connection, self.options, watched.facts, columns[relation])
        tables = {table.name: table for table in read_tables(connection, self.options.schema, self._mark_text())}
        marker = tables.get(MARKER_TABLE)
        self._marker = marker if marker is not None and marker.mark != "-" else None

    # -- the log ----------------------------------------------------------------------------------------------------

    def _log_prepare(self, connection: PostgresConnection) -> int:
        """Nothing to wait for: triggers are made under a lock that no earlier writer can hold."""
        claim(connection, self.options)
        return 0

    def _log_bound(self, connection: PostgresConnection) -> int:
        row = connection.execute("SELECT pg_current_wal_flush_lsn() - '0/0'").fetchone()
        return int(row[0]) if row is not None else 0

    def _log_open(self, connection: PostgresConnection, position: PostgresPosition) -> None:
        claim(connection, self.options)
        trimmed = sql.Identifier(self.options.log_schema, "trimmed")
        row = connection.execute(sql.SQL("SELECT snapshot::text FROM {}").format(trimmed)).fetchone()
        if row is None or not position.snapshot.shows_all_of(PostgresSnapshot.parse(row[0])):
            raise LoadAgain(
                f"{self.name}: the trigger log in schema '{self.options.log_schema}' was trimmed beyond the position "
                f"(another project reads it too, or the warehouse was set back); {LOAD_AGAIN}"
            )

    @property
    def _log_is_open(self) -> bool:
        return True

    def _log_close(self) -> None:
        """Nothing is open beside the connection itself."""

    # -- a visit's part ---------------------------------------------------------------------------------------------

    def _log_within(self, connection: PostgresConnection, snapshot: PostgresSnapshot, quiet: bool) -> Any:
        """The log rows that the snapshot shows and the position does not, per table; and where the log ends."""
        assert self._position is not None
        if quiet:
            return None
        statement = "SELECT set_config('weir.position', %s, true), pg_current_wal_insert_lsn() - '0/0'"
        row = connection.execute(statement, (str(self._position.snapshot),)).fetchone()
        assert row is not None
        news = {
            relation: self._followed(relation, self._read_log(connection, watched.facts, watched.columns, relation))
            for relation, watched in self._watched.items()
            if self._late.get(relation, snapshot) is not None
        }
        return int(row[1]), news, self._global_parts(connection)

    def _followed(self, relation: Relation, news: LoggedChanges) -> LoggedChanges:
        """Without what happened before anybody followed the table."""
        begins = self._late.get(relation)
        if begins is None:
            return news
        return news.filter([not begins.shows(xid) for xid in news.xids.to_pylist()])

    def _read_log(
        self, connection: PostgresConnection, table: TableFacts, columns: Sequence[ColumnFacts], relation: Relation
    ) -> LoggedChanges:
        names = sql.SQL("").join(sql.SQL(", {}").format(logged(column)) for column in columns)
        query = sql.SQL("SELECT seq, xid, weight{} FROM {}").format(names, log_name(self.options, table.oid))
        return LoggedChanges.of(fetch(connection, query + self._news(), [*_OWN_COLUMNS, *columns], relation))

    def _news(self) -> sql.Composable:
        """The naive ``seq > last`` is planted in the stress, to see it fail."""
        return _NEWS

    def _global_parts(self, connection: PostgresConnection) -> dict[int, GlobalTransaction]:
        """Transaction id -> the global transaction it says it is part of."""
        if self._marker is None:
            return {}
        columns = [column for name in ("id", "sources") if (column := self._marker.column(name)) is not None]
        texts = [sql.SQL("{}::text").format(logged(column)) for column in columns]
        log = log_name(self.options, self._marker.oid)
        query = sql.SQL("SELECT xid::text, {} FROM {}").format(sql.SQL(", ").join(texts), log)
        rows = connection.execute(query + self._news() + sql.SQL(" AND weight > 0")).fetchall()
        return {
            int(xid): from_row(tuple(v if v is None else v.encode() for v in row), self.name, int(xid))
            for xid, *row in rows
        }

    def _log_after(self, found: Any, snapshot: PostgresSnapshot, quiet: bool) -> LogDelivery:
        if found is None:
            return LogDelivery()
        end, news, parts = found
        order = _order(news)
        if order:
            self._flush(end)
        changes, truncations = _number(news, order)
        transactions = tuple(Transaction(str(xid), parts.get(xid)) for xid in order)
        return LogDelivery(transactions, changes, truncations, end)

    def _flush(self, end: int) -> None:
        """Makes sure that the server's log is on disk up to ``end``, by a synchronous commit if it is not."""
        connection = self._connected()
        row = connection.execute("SELECT pg_current_wal_flush_lsn() - '0/0'").fetchone()
        if row is not None and int(row[0]) < end:
            self._own_transaction(connection, _FLUSH)

    def _own_transaction(self, connection: PostgresConnection, statement: str) -> None:
        row = connection.execute(statement).fetchone()
        assert row is not None
        self._own.add(int(row[0]))

    # -- acknowledge ------------------------------------------------------------------------------------------------

    def acknowledge(self, position: str) -> None:
        """Trims the log of what the warehouse has committed, now and then."""
        if time.monotonic() - self._trimmed_at < TRIM_SECONDS:
            return
        snapshot = PostgresPosition.parse(position, self.name).snapshot
        with named_errors(self.options, "trimming the trigger log"):
            connection = self._connected()
            with connection.transaction():
                self._trim(connection, snapshot)
        self._trimmed_at = time.monotonic()

    def _trim(self, connection: PostgresConnection, snapshot: PostgresSnapshot) -> None:
        if is_foreign(self.options.owner, reader_of(connection, self.options)):
            return  # another's by now: it is not for us to forget anything
        self._own_transaction(connection, "SELECT pg_current_xact_id()::text")
        facts = [watched.facts for watched in self._watched.values()]
        for table in [*facts, *([self._marker] if self._marker is not None else [])]:
            delete = sql.SQL("DELETE FROM {} WHERE xid < {}::xid8 AND pg_visible_in_snapshot(xid, {}::pg_snapshot)")
            log = log_name(self.options, table.oid)
            connection.execute(delete.format(log, str(snapshot.xmax), str(snapshot)))
        trimmed = sql.Identifier(self.options.log_schema, "trimmed")
        connection.execute(sql.SQL("UPDATE {} SET snapshot = {}::pg_snapshot").format(trimmed, str(snapshot)))


def _own(name: str) -> ColumnFacts:
    return ColumnFacts(name, 0, 0, -1, "", "bigint", "int8", BIGINT)


_OWN_COLUMNS = (_own("seq"), _own("xid"), _own("weight"))


@dataclass(frozen=True)
class LoggedChanges:
    """News of one table: its rows, and beside them, as no name of the table's may collide, what is logged of each."""

    rows: pa.Table
    seqs: pa.ChunkedArray
    xids: pa.ChunkedArray
    weights: pa.ChunkedArray  # 0: the mark of a truncation

    @classmethod
    def of(cls, table: pa.Table) -> LoggedChanges:
        many = len(_OWN_COLUMNS)
        return cls(table.select(range(many, table.num_columns)), *(table.column(at) for at in range(many)))

    def filter(self, keep: Sequence[bool]) -> LoggedChanges:
        mask = pa.array(keep, pa.bool_())
        own = (part.filter(mask) for part in (self.seqs, self.xids, self.weights))
        return LoggedChanges(self.rows.filter(mask), *own)


def _order(news: Mapping[Relation, LoggedChanges]) -> list[int]:
    """The transactions, by the largest number that each wrote."""
    largest: dict[int, int] = {}
    for table in news.values():
        own = pa.table([table.xids, table.seqs], names=["xid", "seq"])
        groups = own.group_by("xid").aggregate([("seq", "max")])
        for xid, seq in zip(groups["xid"].to_pylist(), groups["seq_max"].to_pylist(), strict=True):
            largest[xid] = max(seq, largest.get(xid, 0))
    return sorted(largest, key=lambda xid: largest[xid])


def _number(
    news: Mapping[Relation, LoggedChanges], order: Sequence[int]
) -> tuple[dict[Relation, pa.Table], dict[Relation, tuple[int, ...]]]:
    """Transaction numbers in the place of ids; marks of truncation taken out, with what they cover."""
    numbers = {xid: number for number, xid in enumerate(order)}
    changes, truncations = {}, {}
    for relation, found in news.items():
        left, truncated = _without_truncated(found)
        if truncated:
            truncations[relation] = tuple(sorted(numbers[xid] for xid in truncated))
        if len(left.xids):
            number = pa.array([numbers[xid] for xid in left.xids.to_pylist()], pa.int32())
            weight = left.weights.cast(pa.int8())
            changes[relation] = left.rows.append_column(WEIGHT, weight).append_column(TRANSACTION, number)
    return changes, truncations


def _without_truncated(news: LoggedChanges) -> tuple[LoggedChanges, set[int]]:
    """Drops marks and, in the same transaction, the rows logged before them."""
    weights = news.weights.to_numpy()
    if weights.all():
        return news, set()
    xids, seqs = news.xids.to_numpy(), news.seqs.to_numpy()
    last = {int(xid): int(seqs[(xids == xid) & (weights == 0)].max()) for xid in np.unique(xids[weights == 0])}
    return news.filter([seq > last.get(int(xid), -1) for xid, seq in zip(xids, seqs, strict=True)]), set(last)
