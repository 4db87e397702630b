"""SQLite as a source: a trigger log in the same database, read in the same snapshot as the tables.

A visit is one read transaction in WAL mode: it disturbs no writer and sees the log and the tables at one moment, so
what it delivers and what it answers belong together. SQLite has one writer at a time, so log numbers are in commit
order, and the position is the last number seen, with the log's own name and a random number given to that change, so
that another history of the file is recognised.

Transactions are told apart by the write-ahead log (``wal``). For that the last visit's read transaction stays
open until the next visit has been read: while it is open SQLite keeps the frames that were written since. After a
restart the frames may be gone; then the changes of the time away come as one transaction. See
``docs/decisions/0010-sqlite-transactions.md``.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import pyarrow as pa

from weir.algebra.catalog import Relation
from weir.algebra.types import Schema
from weir.sources.life import CLOSE, LOAD, RESUME, VISIT, WATCH, SourceLife
from weir.sources.ownership import is_foreign
from weir.sources.source import (
    LOAD_AGAIN,
    Description,
    Load,
    LoadAgain,
    Source,
    SourceError,
    SourcePosition,
    Transaction,
    Visit,
)
from weir.sources.spares import Spares
from weir.sources.sqlite.capture import INSTALL, TableCapture, active, captures
from weir.sources.sqlite.connection import connect, explained
from weir.sources.sqlite.log import Log
from weir.sources.sqlite.options import SqliteOptions
from weir.sources.sqlite.position import NEXT_VISIT, SqlitePosition, late_tables
from weir.sources.sqlite.reader import claim, reader_of
from weir.sources.sqlite.snapshot import Head, HeldSqliteSnapshot, ReadTransaction
from weir.sources.sqlite.wal import WalPlace, boundaries
from weir.sources.sqlite.watch import check_unchanged, describe, watched_schema

LOCK_SECONDS = 0.2  # our own writes give way to the application's
LARGE_WAL = 16 << 20  # bytes of write-ahead log after which we see to it that SQLite can begin it anew
ROWS_TRIMMED = 20_000
DRAIN_SECONDS = 1.0  # so long a log that has become large waits for held snapshots to be released

_LOG_BEGINS = "SELECT (SELECT value FROM weir_meta WHERE name = 'epoch'), min(seq) FROM weir_log"
_HEAD = (
    "SELECT (SELECT value FROM weir_meta WHERE name = 'epoch'), (SELECT value FROM weir_meta WHERE name = 'trimmed'),"
    " (SELECT seq FROM weir_clock), (SELECT nonce FROM weir_log WHERE seq = (SELECT seq FROM weir_clock)),"
    " (SELECT rootpage FROM sqlite_master WHERE name = 'weir_clock')"
)


Ends = tuple[list[int], tuple[int, int] | None]


class SqliteSource(Source):
    """One SQLite file.

    Connections take turns: the new visit's snapshot is read while the last one's is still open, and held ones are.
    """

    held_class: type[HeldSqliteSnapshot] = HeldSqliteSnapshot

    def __init__(self, options: SqliteOptions, large_wal: int = LARGE_WAL) -> None:
        self.options, self.name, self.path, self.large_wal = options, options.name, options.path, large_wal
        self._life = SourceLife(options.name)
        self._watched: dict[Relation, Schema] = {}
        self._spares = Spares(sqlite3.Connection.close)
        self._sharing = threading.Condition()  # of the number of held snapshots, which other threads release
        self._holding = 0  # snapshots that are not released yet
        self._last: ReadTransaction | None = None  # of the last visit
        self._position = ("", 0)  # the log's name and the last number delivered
        self._place: WalPlace | None = None  # where the last search for transaction ends stopped
        self._checked_schema = -1
        self._captures: dict[int, TableCapture] = {}
        self._since: dict[str, int] = {}  # table -> the number after which all its changes are in the log
        self._known_ends: list[int] = []  # ends of transactions not delivered yet
        self._cuts: set[int] = set()  # numbers of later positions, of views that are ahead: also ends of transactions
        self._begins: dict[str, int] = {}  # tables that only a later position covers, with its number
        self._next_restart = self.large_wal

    # -- what there is ----------------------------------------------------------------------------------------------

    def describe(self) -> Description:
        with self._reading() as database:
            return describe(database, self.name, self.path, self.options.owner)

    def watch(self, columns: Mapping[Relation, Sequence[str]]) -> None:
        self._spares.begin()
        with self._life.during(WATCH), self._reading() as database:
            (mode,) = database.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                raise SourceError(f"source '{self.name}': {self.path} is in journal mode '{mode}', not WAL: {INSTALL}")
            self._watched = {relation: watched_schema(database, relation, names) for relation, names in columns.items()}
            self._remember(database, *database.execute("PRAGMA schema_version").fetchone())

    # -- snapshots --------------------------------------------------------------------------------------------------

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "no such table: weir_" in str(error):
                raise self._lost(f"the change log in {self.path} was removed; {INSTALL}") from error
            raise SourceError(f"source '{self.name}': {explained(error, self.path)}") from error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A short read transaction of its own."""
        with self._told(), closing(connect(self.path, self.options.busy_seconds)) as database:
            database.execute("BEGIN")
            yield database

    def _begin(self) -> ReadTransaction:
        """A new read transaction at this moment, checked."""
        database = self._spares.take() or connect(self.path, self.options.busy_seconds)
        try:
            database.execute("BEGIN")
            head = self._head(database)
            self._check_shapes(database, head)
        except BaseException:
            database.close()
            raise
        return ReadTransaction(database, head, self._spares.give_back)

    def _held(self, transaction: ReadTransaction) -> HeldSqliteSnapshot:
        with self._sharing:
            self._holding += 1
        return self.held_class(self.name, str(self.path), self._watched, transaction.shared(), self._released)

    def _released(self) -> None:
        with self._sharing:
            self._holding -= 1
            self._sharing.notify_all()

    def _head(self, database: sqlite3.Connection) -> Head:
        epoch, trimmed, clock, nonce, page = database.execute(_HEAD).fetchone()
        (version,) = database.execute("PRAGMA schema_version").fetchone()
        return Head(epoch, trimmed, clock, nonce or 0, page, version)

    def _keep(self, transaction: ReadTransaction | None) -> None:
        """As the last one, by which the next visit tells transactions apart."""
        if self._last is not None:
            self._last.leave()
        self._last = transaction

    def _check_shapes(self, database: sqlite3.Connection, head: Head) -> None:
        """Before anything is delivered from a snapshot whose schema is not the one checked last."""
        if head.schema_version != self._checked_schema:
            for relation, schema in self._watched.items():
                check_unchanged(database, relation, schema)
            self._remember(database, head.schema_version)

    def _remember(self, database: sqlite3.Connection, schema_version: int) -> None:
        """What holds until the schema changes."""
        self._captures = captures(database)
        current = (capture for relation in self._watched if (capture := active(database, relation.table)))
        self._since = {capture.table: capture.since for capture in current}
        self._checked_schema = schema_version

    # -- load -------------------------------------------------------------------------------------------------------

    def load(self) -> Load:
        """Its snapshot takes the place of a last visit's, so that the first transactions after it can be told apart."""
        with self._life.during(LOAD), self._told():
            self._claim()
            transaction = self._begin()
            self._keep(transaction)
            self._position, self._begins = (transaction.head.epoch, transaction.head.clock), {}
            self._place = None
            return Load(str(transaction.head.position(self._watched)), self._held(transaction))

    # -- visit ------------------------------------------------------------------------------------------------------

    def resume(self, position: SourcePosition, boundaries: Sequence[SourcePosition] = ()) -> None:
        """Every boundary is known to be the end of a transaction, whatever the write-ahead log still knows."""
        with self._life.during(RESUME):
            with self._told():
                self._claim()
            self._resume(position, boundaries)

    def _claim(self) -> None:
        """Whoever reads the log also trims it, so it is one reader's."""
        if self.options.owner:
            with closing(connect(self.path, self.options.busy_seconds)) as database:
                claim(database, self.options)

    def _resume(self, position: SourcePosition, boundaries: Sequence[SourcePosition]) -> None:
        at = self._parsed(position)
        later = sorted((self._parsed(one) for one in boundaries), key=lambda one: one.number)
        self._position = (at.epoch, at.number)
        self._begins = late_tables((relation.table for relation in self._watched), at, later)
        if self._last is not None and replace(at, tables=()) != self._last.head.position():
            self._keep(None)
            self._known_ends = []
        with self._told():
            snapshot = self._begin()
            try:
                self._check_reach(snapshot.head)
                for one in (at, *later):
                    self._check_history(snapshot, one)
            finally:
                snapshot.leave()
        self._cuts = {one.number for one in later}

    def order(self, position: SourcePosition) -> int:
        return self._parsed(position).number

    def distance(self, older: SourcePosition, newer: SourcePosition) -> str:
        return f"{max(self.order(newer) - self.order(older), 0):,} changes"

    def holds(self, position: SourcePosition, transaction: Transaction) -> bool:
        return int(transaction.identifier) <= self.order(position)

    def _parsed(self, position: SourcePosition) -> SqlitePosition:
        return SqlitePosition.parse(position, self.name)

    def _check_history(self, snapshot: ReadTransaction, at: SqlitePosition) -> None:
        """A power failure or a backup put back can take commits away, and others get their numbers: the nonce tells."""
        row = snapshot.database.execute("SELECT nonce FROM weir_log WHERE seq = ?", (at.number,)).fetchone()
        if at.epoch != snapshot.head.epoch or (at.number > 0 and row != (at.nonce,)):
            raise self._lost(f"change {at.number} is not the one that was delivered: the file's history is another")

    def _check_reach(self, head: Head) -> int:
        """The number to go on from, or LoadAgain when the log does not reach back to it."""
        epoch, number = self._position
        if epoch != head.epoch:
            raise self._lost("the change log was removed and installed again")
        if number < head.trimmed:
            raise self._lost(f"the change log was trimmed to {head.trimmed}, past the position {number}")
        if number > head.clock:
            raise self._lost(f"the change log ends at {head.clock}, before the position {number}: an older file")
        for table, since in self._since.items():
            if since > self._begins.get(table, number):
                raise self._lost(f"the changes of table '{table}' were not captured all the time")
        return number

    def _lost(self, reason: str) -> LoadAgain:
        return LoadAgain(f"source '{self.name}': {reason}; {LOAD_AGAIN}")

    def visit(self, hold: bool = False) -> Visit:
        with self._life.during(VISIT), self._told():
            self._let_log_restart()
            snapshot = self._begin()
            try:
                visit = self._visit(snapshot)
            except BaseException:
                snapshot.leave()
                raise
            self._keep(snapshot)
            self._position = (snapshot.head.epoch, snapshot.head.clock)
            self._begins = {table: number for table, number in self._begins.items() if number != NEXT_VISIT}
            return replace(visit, held=self._held(snapshot)) if hold else visit

    def _visit(self, snapshot: ReadTransaction) -> Visit:
        after, clock = self._check_reach(snapshot.head), snapshot.head.clock
        transactions: tuple[Transaction, ...] = ()
        changes: dict[Relation, pa.Table] = {}
        if clock > after:
            ends, loose = self._ends(snapshot, after)
            log = Log(snapshot.database, self.name, self._captures, after, ends, loose, self._begins)
            transactions, changes = log.read(self._watched)
        return Visit(transactions, changes, str(snapshot.head.position(self._watched)))

    def _ends(self, snapshot: ReadTransaction, after: int) -> Ends:
        """The numbers at which transactions end, and the two between which several may have been taken together."""
        known = [end for end in self._known_ends if after < end <= snapshot.head.clock]
        cuts = {cut for cut in self._cuts if after < cut <= snapshot.head.clock}
        start = known[-1] if known else after
        if start == snapshot.head.clock:
            return sorted({*known, *cuts}), None
        page = snapshot.head.page
        found, self._place = boundaries(self.path, page, start, snapshot.head.clock, self._place)
        kept = self._last is not None and self._last.head.page == page and self._place is not None
        return sorted({*known, *found, *cuts}), None if kept else (start, found[0])

    def _let_log_restart(self) -> None:
        """SQLite begins its write-ahead log anew only when nobody reads from it, which our open snapshots prevent.

        So once it has become large we wait for those that are held (new ones come only from here), hold writers off
        for a moment, note the transactions up to now, let SQLite move the log into the database, and open a snapshot
        that does not need the log.
        """
        if self._place is None or self._place.size < self._next_restart:
            return
        self._next_restart = self._place.size + self.large_wal // 4
        with self._sharing:
            if not self._sharing.wait_for(lambda: not self._holding, DRAIN_SECONDS):
                return
        # A long writer refuses the lock: another time.
        with closing(connect(self.path, LOCK_SECONDS)) as locker, suppress(sqlite3.OperationalError):
            locker.execute("BEGIN IMMEDIATE")
            self._start_anew(self._begin(), self._position[1])
            self._next_restart = self.large_wal

    def _start_anew(self, snapshot: ReadTransaction, after: int) -> None:
        ends, loose = self._ends(snapshot, after) if snapshot.head.clock > after else ([], None)
        if loose is not None:
            snapshot.leave()
            return
        self._known_ends, self._place = ends, None
        self._keep(None)
        database = snapshot.database
        database.execute("ROLLBACK")
        database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        database.execute("BEGIN")
        self._keep(ReadTransaction(database, self._head(database), self._spares.give_back))

    # -- after the commit -------------------------------------------------------------------------------------------

    def acknowledge(self, position: SourcePosition) -> None:
        """Trims the log, some rows at a time so that writers wait little. A busy database is left for the next time."""
        at = self._parsed(position)
        with self._told(), closing(connect(self.path, LOCK_SECONDS)) as database:
            try:
                while not is_foreign(self.options.owner, reader_of(database)) and _trim(database, at):
                    pass
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise

    def close(self) -> None:
        self._spares.end()
        self._keep(None)
        self._place = None
        self._life.move(CLOSE)


def _trim(database: sqlite3.Connection, at: SqlitePosition) -> bool:
    """Forgets some of the log before ``at``, whose own row stays to be recognised; True when there is more.

    A log that was made anew has other changes under these numbers: nothing of it is forgotten.
    """
    if not _rows_before(database, at):
        return False
    database.execute("BEGIN IMMEDIATE")
    if rows := _rows_before(database, at):
        last = min(rows.start + ROWS_TRIMMED, rows.stop)
        database.execute("DELETE FROM weir_log WHERE seq < ?", (last,))
        database.execute("UPDATE weir_meta SET value = max(value, ?) WHERE name = 'trimmed'", (last,))
    database.execute("COMMIT")
    return len(rows) > ROWS_TRIMMED


def _rows_before(database: sqlite3.Connection, at: SqlitePosition) -> range:
    """The numbers of the changes that this position's log still has of the time before it."""
    epoch, first = database.execute(_LOG_BEGINS).fetchone()
    return range(first, at.number) if epoch == at.epoch and first is not None else range(0)
