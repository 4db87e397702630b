"""Opening a snapshot at a known place of the binlog, in two ways.

**MariaDB** tells the place of a consistent snapshot itself (``binlog_snapshot_*``), but not always the right one; the
server's source shows why, and measuring that it happens. It keeps file and offset of the last commit apart. When the
log turns to a new file, the file's name is set at once, while the last transactions of the old file become visible a
moment later; and a group that was written to the old file sets its offset after that, so that the place is the new
file with an offset of the old one. So a place counts only in a *settled* file: one in which the server has written a
checkpoint that names the file itself, which it does when all that was logged before is committed; and this must have
been seen before the snapshot opened. XA COMMIT is another matter (``two_phase.py``).

**Locks**: LOCK TABLES ... READ on one connection waits until no transaction that wrote to these tables is unfinished;
then the end of the log is the place, and a snapshot that a second connection opens before UNLOCK shows exactly that.
Writers wait for that moment.

In both ways the metadata locks are taken *before* the snapshot and kept until its end: TRUNCATE, RENAME and ALTER do
not respect snapshots, and a table that was swapped between snapshot and query would be read in place of the right
one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pymysql

from weir.algebra.quoting import backquoted
from weir.sources.mysql.lookup import Reader
from weir.sources.mysql.options import MysqlOptions, reason
from weir.sources.mysql.position import BinlogPlace
from weir.sources.mysql.two_phase import Before, prepared_names
from weir.sources.mysql.version import Version
from weir.sources.source import LOAD_AGAIN, LoadAgain, SourceError
from weir.sources.spares import Spares

LOCK_TIMEOUT, DEADLOCK = 1205, 1213
_DENIED = (1044, 1142, 1227)
_HEADER_EVENTS = 64  # among the first so many the checkpoint is looked for


class Busy(Exception):
    """A lock could not be had at once: let the others through and try again."""


class Snapshots:
    """One connection whose transaction is the snapshot, until it is handed over, and one that holds the locks while it
    opens.
    """

    def __init__(self, options: MysqlOptions, version: Version) -> None:
        self.options = options
        self.version = version
        self._reader: Reader | None = None  # of the connection whose transaction is the next snapshot
        self.spares = Spares(_close)
        self._guard = options.connect()
        self._settled: set[str] = set()  # files in which a place counts
        self.two_phase = False  # whether to look ``before`` each snapshot: not before the log has shown an XA COMMIT
        self.before: Before | None = None
        wait = options.lock_seconds
        self._run(
            self._guard, f"SET SESSION lock_wait_timeout = {wait}, innodb_lock_wait_timeout = {wait}, autocommit = 0"
        )

    @property
    def connection(self) -> Any:
        if self._reader is None:
            self._reader = self.spares.take() or Reader(self._connected())
        return self._reader.connection

    def _connected(self) -> Any:
        connection = self.options.connect()
        self._run(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._run(connection, f"SET SESSION lock_wait_timeout = {self.version.no_wait}")
        return connection

    def hand_over(self) -> Reader:
        """The open snapshot, which is its holder's from now on."""
        reader, self._reader = self._reader, None
        assert reader is not None, "a snapshot is open"
        return reader

    def end_of_log(self) -> BinlogPlace:
        """The end of the binlog now."""
        return self._end_seen_by(self.connection)

    def _end_seen_by(self, connection: Any) -> BinlogPlace:
        file, offset = self._run(connection, self.version.log_status)[0][:2]
        return BinlogPlace(file, int(offset))

    def open(self, tables: Sequence[str], locked: bool, not_before: BinlogPlace | None = None) -> BinlogPlace:
        """Opens a snapshot that shows everything up to ``not_before``; returns its place. ``close`` ends it."""
        deadline = time.monotonic() + self.options.snapshot_seconds
        while True:
            try:
                place = self._open_locked(tables) if locked else self._sure(self._open_told(tables))
                if place is not None and (not_before is None or place >= not_before):
                    return place
                if place is not None and not_before is not None:
                    self.check_not_reset(self._end_seen_by(self._guard), not_before)
            except Busy:
                pass
            self.close()
            if time.monotonic() > deadline:
                raise SourceError(
                    f"source {self.options.name}: no snapshot of {', '.join(tables)} within "
                    f"{self.options.snapshot_seconds:g} s: a long transaction or DDL "
                    f"holds them (see SHOW FULL PROCESSLIST), or raise snapshot_seconds"
                )
            time.sleep(0.002)

    def check_not_reset(self, end: BinlogPlace, known: BinlogPlace) -> None:
        """A log only grows; one that ends before a place that was read is another one."""
        if end < known:
            self.close()
            raise LoadAgain(
                f"source {self.options.name}: the binlog was reset: it ends at {end}, before {known} which was read; "
                f"{LOAD_AGAIN}"
            )

    def close(self) -> None:
        """Ends the snapshot, unless it was handed over."""
        if self._reader is not None:
            self._run(self.connection, "ROLLBACK")

    def end(self) -> None:
        """Snapshots that were handed over stay."""
        self.spares.end()
        self._guard._force_close()
        if self._reader is not None:
            _close(self._reader)

    # -- the two ways -------------------------------------------------------------------------------------------------

    def _open_told(self, tables: Sequence[str]) -> BinlogPlace:
        self._touch(self._guard, tables)
        try:
            self.before = self._look_before() if self.two_phase else None
            self._begin()
            told = dict(self._run(self.connection, "SHOW STATUS LIKE 'binlog\\_snapshot\\_%'"))
            self._touch(self.connection, tables)
        finally:
            self._run(self._guard, "ROLLBACK")
        return BinlogPlace(told["Binlog_snapshot_file"], int(told["Binlog_snapshot_position"]))

    def _look_before(self) -> Before:
        return Before(self.end_of_log(), prepared_names(self.connection))

    def _open_locked(self, tables: Sequence[str]) -> BinlogPlace:
        self._lock(tables)
        try:
            place = self.end_of_log()
            self._begin()
            self._touch(self.connection, tables)
        finally:
            self._run(self._guard, "COMMIT")
            self._run(self._guard, "UNLOCK TABLES")
        return place

    def _begin(self) -> None:
        self._run(self.connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

    def _lock(self, tables: Sequence[str]) -> None:
        """With autocommit off InnoDB's own table lock is taken too: it waits even for prepared XA transactions
        without a connection.
        """
        if not tables:
            return
        try:
            self._run(self._guard, "LOCK TABLES " + ", ".join(f"{backquoted(table)} READ" for table in tables))
        except pymysql.MySQLError as problem:
            if problem.args[0] in _DENIED:
                raise SourceError(
                    f"source {self.options.name}: {reason(problem)}. The right to LOCK TABLES is missing: "
                    f"GRANT LOCK TABLES ON {backquoted(self.options.database)}.* TO the account {self.options.user}"
                ) from None
            raise

    def _touch(self, connection: Any, tables: Sequence[str]) -> None:
        """Takes the tables' metadata locks."""
        if tables:
            parts = [f"SELECT 1 FROM {backquoted(table)} WHERE FALSE" for table in tables]
            self._run(connection, " UNION ALL ".join(parts))

    # -- places that count --------------------------------------------------------------------------------------------

    def _sure(self, place: BinlogPlace) -> BinlogPlace | None:
        """The place, if it may be trusted; None: open another snapshot."""
        if place.file not in self._settled:
            if any(
                kind == "Binlog_checkpoint" and about == place.file
                for _, _, kind, _, _, about in self._beginning(place.file)
            ):
                self._settled = {place.file}
            return None
        if place <= self._end_seen_by(self._guard):
            return place
        return self._header_end(place.file)

    def _header_end(self, file: str) -> BinlogPlace | None:
        """A statement that itself turned the log leaves an offset beyond its end. In a file without transactions its
        end is the place.
        """
        events = self._beginning(file)
        if len(events) == _HEADER_EVENTS or any(kind == "Gtid" for _, _, kind, *_ in events):
            return None
        return BinlogPlace(file, int(events[-1][4]))

    def _beginning(self, file: str) -> Any:
        events = self._run(self._guard, f"SHOW BINLOG EVENTS IN {self._guard.escape(file)} LIMIT {_HEADER_EVENTS}")
        self._run(self._guard, "ROLLBACK")
        return events

    @staticmethod
    def _run(connection: Any, statement: str) -> Any:
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall()
        except pymysql.MySQLError as problem:
            if problem.args and problem.args[0] in (LOCK_TIMEOUT, DEADLOCK):
                raise Busy from None
            raise


def _close(reader: Reader) -> None:
    reader.connection._force_close()
