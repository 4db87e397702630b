"""MariaDB under stress: a private server with 1 MB binlogs, two-phase commits, TRUNCATE, kill -9, and the naive ways as mutations."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pymysql

from weir.sources.mysql.options import MysqlOptions
from weir.sources.mysql.position import Place
from weir.sources.mysql.snapshot import Snapshots
from weir.sources.mysql.source import MysqlSource
from weir.sources.servers.mariadb import MariadbServer
from weir.sources.source import Source
from weir.sources.stress import Workload
from weir.sources.writers import IDENTIFIERS, Writer

_DATABASE, _PASSWORD = "stress", "WEIR_STRESS_PASSWORD"
_SCHEMA = (
    "CREATE TABLE ledger (id BIGINT PRIMARY KEY, growth INT)",
    "CREATE TABLE item (id INT PRIMARY KEY, tx BIGINT, amount INT, note LONGTEXT)",
    "CREATE TABLE part (item INT, line INT, tx BIGINT, payload LONGTEXT, PRIMARY KEY (item, line))",
    "CREATE TABLE loose (a INT, b VARCHAR(20), tx BIGINT, KEY (a))",
)
_CREW = 3  # writers at a time


@dataclass
class MariadbWriter(Writer):
    """Also commits in two phases, now and then in the name of a writer that was killed between them, and truncates."""

    socket: str = ""
    mark: ClassVar[str] = "%s"
    errors: ClassVar[tuple[type[Exception], ...]] = (pymysql.MySQLError,)
    _two_phase = False

    def connect(self) -> Any:
        connection = pymysql.connect(unix_socket=self.socket, user="root", database=_DATABASE, charset="utf8mb4", connect_timeout=5)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 2, lock_wait_timeout = 5")
            self._finish_for_the_dead(cursor)
        return connection

    def _finish_for_the_dead(self, cursor: Any) -> None:
        """Commits or rolls back what this writer before a crash, or one that is gone for good, left prepared."""
        cursor.execute("XA RECOVER")
        for *_, name in cursor.fetchall():
            owner = int(name) // IDENTIFIERS
            if owner == self.number or owner <= self.number - _CREW:
                with contextlib.suppress(pymysql.MySQLError):
                    cursor.execute(f"XA {self.dice.choice(('COMMIT', 'ROLLBACK'))} '{int(name)}'")

    def transaction(self, connection: Any, identifier: int) -> int:
        if self.dice.random() < 0.003:
            return self._truncate(connection)
        self._two_phase = self.dice.random() < 0.04
        if not self._two_phase:
            return super().transaction(connection, identifier)
        return self._in_two_phases(connection, identifier)

    def _truncate(self, connection: Any) -> int:
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE TABLE loose")
        return 0

    def _in_two_phases(self, connection: Any, identifier: int) -> int:
        with connection.cursor() as cursor:
            cursor.execute(f"XA START '{identifier}'")
            try:
                growth = self.body(cursor, identifier)
                self.execute(cursor, "INSERT INTO ledger (id, growth) VALUES (?, ?)", identifier, growth)
                cursor.execute(f"XA END '{identifier}'")
            except pymysql.MySQLError:
                connection.close()  # which rolls back; an XA transaction that failed can do nothing else
                raise
            cursor.execute(f"XA PREPARE '{identifier}'")
            commits = self.dice.random() < 0.9
            cursor.execute(f"XA {'COMMIT' if commits else 'ROLLBACK'} '{identifier}'")
        return int(commits)

    def _in_savepoint(self, cursor: Any, identifier: int, growth: int | None) -> int | None:
        return growth if self._two_phase else super()._in_savepoint(cursor, identifier, growth)


class _PlaceBeside(Snapshots):
    """Planted: the end of the log, read beside the snapshot."""

    def _open_told(self, tables: Sequence[str]) -> Place:
        self._begin()
        self._touch(self.connection, tables)
        with self._guard.cursor() as cursor:
            cursor.execute(self.version.log_status)
            file, offset, *_ = cursor.fetchone()
        return Place(file, int(offset))


class _HeaderCounts(Snapshots):
    """Planted: a place in the header of a new file counts like any other."""

    def _counts(self, place: Place) -> bool:
        return True


class _NoGuard(Snapshots):
    """Planted: no metadata lock before the snapshot, so TRUNCATE can come between it and the query."""

    def _touch(self, connection: Any, tables: Sequence[str]) -> None:
        pass


class _NoLock(Snapshots):
    """Planted: the lock way without its lock."""

    def _lock(self, tables: Sequence[str]) -> None:
        pass


class _XaAsToldSource(MysqlSource):
    """Planted: XA transactions count as visible as soon as they are logged."""

    def _ask(self, lookups: Any, all_tables: bool) -> Any:
        answered = super()._ask(lookups, False)
        self._assembler_now.two_phase = False
        return answered


class MariadbWorkload(Workload):
    """A server of its own, read by an account with the least rights."""

    kind = "mariadb"
    disturb_every = 17.0
    mutations = ("the end of the log beside the snapshot", "header positions accepted", "no metadata lock", "XA commits trusted at once")
    _planted: ClassVar[dict[str | None, type[Snapshots]]] = dict(zip(mutations, (_PlaceBeside, _HeaderCounts, _NoGuard), strict=False))

    def start(self) -> None:
        self._disturbances = 0
        os.environ[_PASSWORD] = secrets.token_hex(16)
        self.server = MariadbServer()
        self.server.start()
        with self.server.connect() as connection, connection.cursor() as cursor:
            for statement in (f"CREATE DATABASE {_DATABASE} CHARACTER SET utf8mb4", f"USE {_DATABASE}", *_SCHEMA):
                cursor.execute(statement)
            cursor.execute("CREATE USER weir@localhost IDENTIFIED BY %s", (os.environ[_PASSWORD],))
            cursor.execute("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO weir@localhost")
            cursor.execute(f"GRANT SELECT, LOCK TABLES ON {_DATABASE}.* TO weir@localhost")

    def stop(self) -> None:
        if hasattr(self, "server"):
            self.server.__exit__(None, None, None)

    def open(self) -> Source:
        options = MysqlOptions(
            "stress", _DATABASE, "weir", f"env:{_PASSWORD}", unix_socket=str(self.server.socket), kind=self.kind, positions=self.positions
        )
        source = _XaAsToldSource(options) if self.mutation == "XA commits trusted at once" else MysqlSource(options)
        source.snapshots_class = self._planted.get(self.mutation, Snapshots)
        return source

    @property
    def positions(self) -> str:
        return "file"

    def writer(self, number: int, seed: int) -> Writer:
        return MariadbWriter(number, seed, socket=str(self.server.socket))

    def disturb(self) -> None:
        """In turn: every connection dropped, kill -9 and recovery."""
        self._disturbances += 1
        if self._disturbances % 2:
            self._drop_connections()
        else:
            self.server.kill()
            self.server.start()

    def _drop_connections(self) -> None:
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user IN ('root', 'weir')")
            for (number,) in cursor.fetchall():
                with contextlib.suppress(pymysql.MySQLError):
                    cursor.execute(f"KILL CONNECTION {int(number)}")


class MariadbLocksWorkload(MariadbWorkload):
    """The way of MySQL, on MariaDB."""

    kind = "mariadb-locks"
    mutations = ("no LOCK TABLES",)
    _planted: ClassVar[dict[str | None, type[Snapshots]]] = {"no LOCK TABLES": _NoLock}
