"""MariaDB under stress: a private server with 1 MB binlogs, two-phase commits, TRUNCATE, kill -9, and the naive ways
as mutations.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pymysql

from weir.algebra.errors import WeirError
from weir.proving.databases import MariadbDatabase
from weir.proving.stress import LONGEST_ABSENCE, Workload
from weir.proving.writers import IDENTIFIERS, StressWriter
from weir.sources.mysql.position import BinlogPlace
from weir.sources.mysql.snapshot import Snapshots
from weir.sources.mysql.source import MysqlSource
from weir.sources.source import Source

_SCHEMA = (
    "CREATE TABLE ledger (id BIGINT PRIMARY KEY, growth INT)",
    "CREATE TABLE item (id INT PRIMARY KEY, tx BIGINT, amount INT, note LONGTEXT)",
    "CREATE TABLE part (item INT, line INT, tx BIGINT, payload LONGTEXT, PRIMARY KEY (item, line))",
    "CREATE TABLE loose (a INT, b VARCHAR(20), tx BIGINT, KEY (a))",
)
_CREW = 3  # writers at a time
_LOOK_EVERY = 25  # transactions, for what a dead writer left behind


@dataclass
class MariadbWriter(StressWriter):
    """Also commits in two phases, now and then in the name of a writer that was killed between them, and truncates."""

    two_phase: float = 0.04  # shares of the transactions
    truncating: float = 0.003
    errors: ClassVar[tuple[type[Exception], ...]] = (pymysql.MySQLError,)
    _two_phase = False
    _met_trouble = False

    def connect(self) -> Any:
        connection = self.login.connect(autocommit=False)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 2, lock_wait_timeout = 5")
        return connection

    def _finish_for_the_dead(self, connection: Any) -> None:
        """Between two transactions: ends what a writer that is gone left prepared, or this one before a crash."""
        finish_prepared(connection, lambda owner: owner == self.number or owner <= self.number - _CREW, self.dice)

    def transaction(self, connection: Any, identifier: int) -> int:
        if identifier % _LOOK_EVERY == 1 or self._met_trouble:
            self._finish_for_the_dead(connection)
        self._met_trouble = True  # what fails may have met the locks of a dead writer
        done = self._some_transaction(connection, identifier)
        self._met_trouble = False
        return done

    def _some_transaction(self, connection: Any, identifier: int) -> int:
        if self.dice.random() < self.truncating:
            return self._truncate(connection)
        self._two_phase = self.dice.random() < self.two_phase
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


def finish_prepared(connection: Any, whose: Callable[[int], bool], dice: random.Random) -> int:
    """Commits or rolls back prepared transactions of some writers; how many are left.

    A transaction of a connection that the server has not given up yet cannot be ended by another: it is left. Only a
    connection that commits each statement by itself may end what it did not begin (else XAER_OUTSIDE).
    """
    left = 0
    with connection.cursor() as cursor:
        cursor.execute("SET autocommit = 1")
        cursor.execute("XA RECOVER")
        for name in [int(name) for *_, name in cursor.fetchall() if whose(int(name) // IDENTIFIERS)]:
            try:
                cursor.execute(f"XA {dice.choice(('COMMIT', 'ROLLBACK'))} '{name}'")
            except pymysql.MySQLError:
                left += 1
        cursor.execute("SET autocommit = 0")
    return left


class _PlaceBeside(Snapshots):
    """Planted: the end of the log, read beside the snapshot."""

    def _open_told(self, tables: Sequence[str]) -> BinlogPlace:
        self.before = self._look_before()
        self._begin()
        self._touch(self.connection, tables)
        with self._guard.cursor() as cursor:
            cursor.execute(self.version.log_status)
            file, offset, *_ = cursor.fetchone()
        return BinlogPlace(file, int(offset))


class _HeaderCounts(Snapshots):
    """Planted: a place in a file that is not settled counts like any other."""

    def _sure(self, place: BinlogPlace) -> BinlogPlace | None:
        return place


class _NoLock(Snapshots):
    """Planted: the lock way without its lock."""

    def _lock(self, tables: Sequence[str]) -> None:
        pass


class XaAsTold(MysqlSource):
    """Planted: XA transactions count as visible as soon as they are logged."""

    def _follow(self, place: BinlogPlace) -> None:
        super()._follow(place)
        self._assembler_now.unsettled.clear()


BESIDE, HEADER, XA = "the end of the log beside the snapshot", "header positions accepted", "XA commits trusted at once"


@dataclass(frozen=True)
class Traffic:
    """What the writers and the server do more often than usual, so that a rare mistake shows within seconds."""

    binlog_size: str = "1M"
    two_phase: float = MariadbWriter.two_phase
    truncating: float = MariadbWriter.truncating


PROVOKING = {HEADER: Traffic(binlog_size="4K"), XA: Traffic(two_phase=0.7)}


class MariadbWorkload(Workload):
    """A server of its own, read by an account with the least rights. ``traffic`` provokes one kind of mistake."""

    kind = "mariadb"
    schema = _SCHEMA
    database: MariadbDatabase
    _disturbances = 0
    disturb_every = 17.0
    mutations: ClassVar[tuple[str, ...]] = (BESIDE, HEADER, XA)
    _planted: ClassVar[dict[str | None, type[Snapshots]]] = {BESIDE: _PlaceBeside, HEADER: _HeaderCounts}

    def __init__(self, mutation: str | None = None, traffic: Traffic | None = None) -> None:
        super().__init__(mutation)
        self.traffic = traffic or PROVOKING.get(mutation or "", Traffic())

    @property
    def settings(self) -> Mapping[str, str]:
        return {"max_binlog_size": self.traffic.binlog_size}

    def open(self) -> Source:
        options = self.database.spec(connect_seconds=60).options
        source = XaAsTold(options) if self.mutation == XA else MysqlSource(options)
        source.snapshots_class = self._planted.get(self.mutation, Snapshots)
        return source

    def writer(self, number: int, seed: int) -> StressWriter:
        shares = {"two_phase": self.traffic.two_phase, "truncating": self.traffic.truncating}
        return MariadbWriter(number, seed, self.database.login, **shares)

    def writers_gone(self) -> None:
        """Ends what they left prepared: nobody else would, and a lock would wait for it for ever."""
        until = time.monotonic() + LONGEST_ABSENCE
        with self.database.server.connect() as connection:
            while left := finish_prepared(connection, lambda owner: True, random.Random(0)):
                if time.monotonic() > until:
                    raise WeirError(f"mariadb: {left} transactions that dead writers prepared cannot be ended")
                time.sleep(0.05)

    def disturb(self) -> None:
        """In turn: every connection dropped, kill -9 and recovery."""
        self._disturbances += 1
        if self._disturbances % 2:
            self._drop_connections()
        else:
            self.database.server.kill()
            self.database.server.start()

    def _drop_connections(self) -> None:
        with self.database.server.connect() as connection, connection.cursor() as cursor:
            everyone = "user IN (%s, %s)"
            whose = (self.database.role, self.database.name)
            cursor.execute(f"SELECT id FROM information_schema.processlist WHERE {everyone}", whose)
            for (number,) in cursor.fetchall():
                with contextlib.suppress(pymysql.MySQLError):
                    cursor.execute(f"KILL CONNECTION {int(number)}")


class MariadbLocksWorkload(MariadbWorkload):
    """The way of MySQL, on MariaDB."""

    kind = "mariadb-locks"
    mutations: ClassVar[tuple[str, ...]] = ("no LOCK TABLES",)
    _planted: ClassVar[dict[str | None, type[Snapshots]]] = {"no LOCK TABLES": _NoLock}


WORKLOADS = (MariadbWorkload, MariadbLocksWorkload)
