"""Naive ways to capture changes from PostgreSQL, planted in the stress: it must find each of them wrong."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from weir.sources.postgres.connection import PostgresConnection
from weir.sources.postgres.pgoutput import Begin
from weir.sources.postgres.position import PostgresPosition
from weir.sources.postgres.replication import PostgresSource
from weir.sources.postgres.transactions import Decoded, TransactionAssembler
from weir.sources.postgres.triggers import PostgresTriggersSource
from weir.sources.postgres.visibility import PostgresSnapshot


class _ByLogPosition(TransactionAssembler):
    """Takes the order of the log for the order of visibility: delivers what lies before ``cut``, visible or not."""

    cut = 0
    _done = 0

    def _begin(self, begin: Begin) -> None:
        self._xid = self._newest.widen(begin.xid)
        seen = begin.final_lsn < self._done or (self._done == 0 and self._delivered.shows(self._xid))
        self._current = None if seen else Decoded(self._xid, begin.final_lsn)

    def deliver(self, snapshot: PostgresSnapshot) -> list[Decoded]:
        before = [transaction for transaction in self.waiting if transaction.commit < self.cut]
        self.waiting = [transaction for transaction in self.waiting if transaction.commit >= self.cut]
        self._delivered, self._done = snapshot, self.cut
        return before


class DeliverUpToFence(PostgresSource):
    """Delivers everything up to a fence that is written after the snapshot."""

    _assembler: _ByLogPosition

    def _log_open(self, connection: PostgresConnection, position: PostgresPosition) -> None:
        super()._log_open(connection, position)
        self._assembler = _ByLogPosition(self.name, self._watched.values(), position.snapshot)

    def _read_to_fence(self) -> int:
        reached = super()._read_to_fence()
        self._assembler.cut = reached
        return reached


class CutAtLogPosition(DeliverUpToFence):
    """Cuts at the log's end as read beside the snapshot."""

    _place = 0

    def _log_fence(self, snapshot: PostgresSnapshot) -> None:
        row = self._connected().execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
        assert row is not None
        self._place = int(row[0])
        super()._log_fence(snapshot)

    def _read_to_fence(self) -> int:
        reached = super()._read_to_fence()
        self._assembler.cut = self._place
        return reached


class WithoutLock(PostgresSource):
    """Takes the snapshot without locking the tables first: a TRUNCATE in between empties the past."""

    def _lock(self, statement: sql.Composable) -> sql.Composable:
        return sql.SQL("")


class NumberedLog(PostgresTriggersSource):
    """Reads the trigger log by ``seq > last``: loses what got a smaller number and became visible later."""

    _last = 0

    def _news(self) -> sql.Composable:
        return sql.SQL(" WHERE seq > {}").format(self._last)

    def _log_open(self, connection: PostgresConnection, position: PostgresPosition) -> None:
        super()._log_open(connection, position)
        self._last = 0
        found = [self._read_log(connection, w.facts, w.columns, relation) for relation, w in self._watched.items()]
        shown = [
            seq
            for table in found
            for seq, xid in zip(table.seqs.to_pylist(), table.xids.to_pylist(), strict=True)
            if position.snapshot.shows(xid)
        ]
        self._last = max(shown, default=0)

    def _log_within(self, connection: PostgresConnection, snapshot: PostgresSnapshot, quiet: bool) -> Any:
        found = super()._log_within(connection, snapshot, quiet)
        tables = found[1].values() if found is not None else ()
        self._last = max([self._last, *(seq for table in tables for seq in table.seqs.to_pylist())])
        return found
