"""A MariaDB or MySQL database as a source: its row binlog, and answers from snapshots at known places of that log.

A visit that holds opens a snapshot whose place in the binlog is known (``snapshot.py``) and reads the log up to that
place (``log.py``, ``groups.py``). The transactions that ended at or before it are delivered; the rest stay in the
stream. A visit that holds nothing needs no snapshot: it delivers up to the end of the log, and a later snapshot must
not lie before that.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pymysql

from weir.algebra.catalog import Relation
from weir.sources import life
from weir.sources.mysql.changes import WatchedMysqlTable
from weir.sources.mysql.columns import SINGLE_BYTE
from weir.sources.mysql.delivery import MARKER, MARKER_COLUMNS, BinlogDelivery
from weir.sources.mysql.describe import Known, MysqlCatalogue, describe
from weir.sources.mysql.groups import GroupAssembler
from weir.sources.mysql.held import HeldMysqlSnapshot, MysqlTables
from weir.sources.mysql.log import LogStream
from weir.sources.mysql.options import MysqlOptions, Unreachable, reason
from weir.sources.mysql.position import BinlogPlace, LogPosition, format_gtids, parse_gtids
from weir.sources.mysql.resume import includes, late_tables
from weir.sources.mysql.snapshot import Snapshots
from weir.sources.mysql.two_phase import Before, prepared_names, wait_for_prepared
from weir.sources.mysql.wire import LOST, is_lost
from weir.sources.source import (
    LOAD_AGAIN,
    Description,
    Load,
    SchemaChanged,
    Source,
    SourceError,
    SourcePosition,
    Transaction,
    Visit,
)

_GONE = (1054, 1146)  # unknown column, unknown table
_ATTEMPTS = 3
_PAUSE = 0.01  # at most so long between two snapshots, of which the first had an XA COMMIT just before it
_MOST_UNSETTLED = 100  # XA transactions to carry along in positions
T = TypeVar("T")


class MysqlSource(Source):
    """One database of a MariaDB or MySQL server."""

    snapshots_class: type[Snapshots] = Snapshots

    def __init__(self, options: MysqlOptions) -> None:
        self.options = options
        self.name = options.name
        self._life = life.SourceLife(options.name)
        self._control: Any = None
        self._snapshots: Snapshots | None = None
        self._stream: LogStream | None = None
        self._tables = MysqlTables(options.name, options.database, {})
        self._watched: dict[str, WatchedMysqlTable] = {}

    # -- what there is ------------------------------------------------------------------------------------------------

    def describe(self) -> Description:
        return self._connected(lambda: describe(self._catalogue(), self.name))

    def watch(self, columns: Mapping[Relation, Sequence[str]]) -> None:
        with self._life.during(life.WATCH):
            self._connected(lambda: self._watch(columns))

    def _watch(self, columns: Mapping[Relation, Sequence[str]]) -> None:
        catalogue = self._catalogue()
        tables = MysqlTables(self.name, self.options.database, catalogue.tables())
        for finding in catalogue.blocking_findings():
            raise SourceError(f"source {self.name}: {finding.problem}; to mend it: {finding.remedy}")
        self._version, self._fold_case = catalogue.version, catalogue.settings.get("lower_case_table_names", "0") != "0"
        self._watched = {r.table: tables.choose(r, tuple(names)) for r, names in columns.items()}
        if set(MARKER_COLUMNS) <= set(tables.known.get(MARKER, Known()).columns) and MARKER not in self._watched:
            self._watched[MARKER] = tables.choose(Relation(self.name, MARKER), MARKER_COLUMNS)
        used = {column.characters for table in self._watched.values() for column in table.columns}
        characters = {name: catalogue.single_byte_table(name) for name in used if name in SINGLE_BYTE}
        self._tables = replace(tables, characters=characters)

    def _catalogue(self) -> MysqlCatalogue:
        return MysqlCatalogue(self._control, self.name, self.options.database, self.options.locks)

    # -- first load ---------------------------------------------------------------------------------------------------

    def load(self) -> Load:
        """All watched tables in one snapshot on one connection: MariaDB and MySQL cannot share a snapshot between
        connections.
        """
        with self._life.during(life.LOAD):
            return self._connected(self._load)

    def _load(self) -> Load:
        self._reset()
        self._start_of_load()
        self._open_settled(self._asked_for, self._follow_load)
        self._check_unchanged()
        self._assembler_now.is_delivered = lambda end, gtid: False
        return Load(str(self._position()), self._held())

    @property
    def _asked_for(self) -> list[str]:
        """The tables that views need."""
        return [table for table in self._watched if table != MARKER]

    def _held(self) -> HeldMysqlSnapshot:
        snapshots = self._snapshots_now
        watched = [self._watched[table] for table in self._asked_for]
        return HeldMysqlSnapshot(snapshots.hand_over(), self._tables, watched, snapshots.spares.give_back)

    def _start_of_load(self) -> None:
        """Opens the log at a place such that every XA transaction still open at the snapshot was prepared after it."""
        start = self._snapshots_now.end_of_log()
        stream = self._new_stream(by_gtid=False)
        if not self.options.locks:
            wait_for_prepared(self._control, self.name, self.options.snapshot_seconds)
        if self._version.is_mariadb:
            with self._control.cursor() as cursor:
                cursor.execute("SELECT BINLOG_GTID_POS(%s, %s)", (start.file, start.offset))
                stream.assembler.gtids = parse_gtids(cursor.fetchone()[0] or "")
        stream.open(start)

    def _follow_load(self, place: BinlogPlace) -> None:
        """What ends at or before the load's snapshot is in the load."""
        self._assembler_now.is_delivered = lambda end, gtid: end <= place
        self._stream_now.read_until(place)
        self._assembler_now.ready = []

    def _check_unchanged(self) -> None:
        """The tables are locked against DDL now: they must be as they were when ``watch`` looked."""
        found = self._catalogue().tables()
        for name, table in self._watched.items():
            now = found.get(name, Known()).columns
            for column in table.columns:
                if now.get(column.name) != column:
                    self._snapshots_now.close()
                    raise SchemaChanged(
                        f"column {table.relation}.{column.name} has changed since the views were checked; begin again"
                    )

    # -- going on -----------------------------------------------------------------------------------------------------

    def resume(self, position: SourcePosition, boundaries: Sequence[SourcePosition] = ()) -> None:
        """Transactions are never merged, so none reaches across a boundary; a table that only a later position covers
        is followed from there on.
        """
        with self._life.during(life.RESUME):
            later = sorted(map(LogPosition.parse, boundaries), key=lambda at: at.order(self._by_gtid))
            self._connected(lambda: self._resume(LogPosition.parse(position), later))

    def order(self, position: SourcePosition) -> tuple[int, ...]:
        return LogPosition.parse(position).order(self._by_gtid)

    def distance(self, older: SourcePosition, newer: SourcePosition) -> str:
        (file, start), (last, end) = (LogPosition.parse(position).place.order for position in (older, newer))
        return f"{max(end - start, 0):,} bytes of log" if file == last else f"{last - file} files of log"

    def holds(self, position: SourcePosition, transaction: Transaction) -> bool:
        return LogPosition.parse(position).holds(transaction.identifier)

    @property
    def _by_gtid(self) -> bool:
        return self.options.positions == "gtid"

    def _resume(self, position: LogPosition, later: Sequence[LogPosition]) -> None:
        self._reset()
        by_gtid = self._by_gtid
        stream = self._new_stream(by_gtid)
        assembler = stream.assembler
        assembler.late = late_tables(self._asked_for, position, later, by_gtid)
        assembler.gtids = parse_gtids(position.start_gtid)
        assembler.unsettled = dict.fromkeys(position.unsettled)
        assembler.is_delivered = includes(position, by_gtid)
        if not by_gtid:
            stream.made = {position.start.file: (position.made, position.server)}
            assembler.last_end = position.last
        stream.open(position.start)

    @property
    def locks_to_hold(self) -> bool:
        return self.options.locks

    def visit(self, hold: bool = False) -> Visit:
        with self._life.during(life.VISIT):
            return self._connected(self._hold if hold else self._pass)

    def _pass(self) -> Visit:
        """A visit that holds nothing needs no snapshot."""
        place = self._snapshots_now.end_of_log()
        if (known := self._assembler_now.last_end) is not None:
            self._snapshots_now.check_not_reset(place, known)
        self._follow(place)
        if len(self._assembler_now.unsettled) > _MOST_UNSETTLED:
            self._assembler_now.settle(Before(place, prepared_names(self._control)))
        return self._deliver()

    def _hold(self) -> Visit:
        try:
            self._open_for_visit()
            if None in self._assembler_now.late.values():
                self._check_unchanged()
            visit = self._deliver()
            return replace(visit, held=self._held())
        except BaseException:
            self._end_snapshot()
            raise

    def _open_for_visit(self) -> None:
        """Opens a snapshot of all tables in use, and reads the log up to it."""
        try:
            self._open_settled(sorted(self._asked_for), self._follow)
        except pymysql.MySQLError as problem:
            if problem.args[0] in _GONE:
                raise self._life.fail(SchemaChanged(f"source {self.name}: {reason(problem)}; {LOAD_AGAIN}")) from None
            raise

    def _open_settled(self, tables: Sequence[str], follow: Callable[[BinlogPlace], None]) -> None:
        """Opens a snapshot that shows everything up to its place, XA transactions too, and reads the log up to it.

        Tries until one has no XA COMMIT in the moment before it: a matter of chance under two-phase traffic, so the
        limit is a time, not a number.
        """
        snapshots, deadline = self._snapshots_now, time.monotonic() + self.options.snapshot_seconds
        while not self._try_settled(tables, follow):
            snapshots.close()
            snapshots.two_phase = True
            if time.monotonic() > deadline:
                raise SourceError(
                    f"source {self.name}: no snapshot within {self.options.snapshot_seconds:g} s that shows every XA "
                    'transaction of the log; raise snapshot_seconds or use kind = "mariadb-locks"'
                )
            time.sleep(random.random() * _PAUSE)

    def _try_settled(self, tables: Sequence[str], follow: Callable[[BinlogPlace], None]) -> bool:
        snapshots, assembler = self._snapshots_now, self._assembler_now
        place = snapshots.open(tables, self.options.locks, assembler.last_end)
        follow(place)
        if self.options.locks:
            assembler.unsettled.clear()
            return True
        if snapshots.before is not None:
            assembler.settle(snapshots.before)
        return not assembler.unsettled and assembler.is_whole_at(place)

    def _follow(self, place: BinlogPlace) -> None:
        """Reads the log up to a place. What is wrong there stops the source: it must not be passed over by trying
        again.
        """
        try:
            self._stream_now.read_until(place)
        except Unreachable:
            raise
        except SourceError as problem:
            raise self._life.fail(problem) from None

    def _deliver(self) -> Visit:
        delivery = BinlogDelivery(self._tables.characters, self._watched.get(MARKER))
        try:
            for group in self._assembler_now.ready:
                delivery.add(group)
            changes = delivery.changes()
        except SourceError as problem:
            raise self._life.fail(problem) from None
        position = str(self._position())
        self._assembler_now.ready = []
        self._assembler_now.late = {
            table: before for table, before in self._assembler_now.late.items() if before is not None
        }
        return Visit(tuple(delivery.transactions), changes, position, delivery.truncations())

    def _position(self) -> LogPosition:
        assembler, stream = self._assembler_now, self._stream_now
        waiting = assembler.waiting
        place = stream.safe  # at or behind the place asked for, with no transaction between the two
        start = waiting.begin if waiting else place
        made, server = stream.made[start.file]
        stream.made = {
            file: known
            for file, known in stream.made.items()
            if BinlogPlace(file, 0).order >= BinlogPlace(start.file, 0).order
        }
        gtids = format_gtids(assembler.gtids)
        before = format_gtids(waiting.gtids_before) if waiting else gtids
        unsettled, tables = (tuple(sorted(names)) for names in (assembler.unsettled, self._asked_for))
        return LogPosition(place, start, made, server, gtids, before, unsettled, assembler.last_end, tables)

    def _end_snapshot(self) -> None:
        """A connection that is lost cannot be tidied up, and need not be."""
        if self._snapshots is not None:
            with contextlib.suppress(*LOST):
                self._snapshots.close()

    def acknowledge(self, position: SourcePosition) -> None:
        """The server keeps its binlog as long as its own settings say (binlog_expire_logs_seconds)."""

    # -- connections --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._disconnect()
        self._life.move(life.CLOSE)

    def _disconnect(self) -> None:
        if self._snapshots is not None:
            self._snapshots.end()
        if self._control is not None:
            self._control._force_close()
        self._snapshots = self._control = None

    def _connected(self, act: Callable[[], T]) -> T:
        """Runs it, and again on new connections when they were lost; it must leave nothing half done."""
        for attempt in range(_ATTEMPTS):
            try:
                self._connect()
                return act()
            except LOST as problem:
                self._disconnect()
                if not is_lost(problem):
                    raise SourceError(f"source {self.name}: {reason(problem)}") from None
                if attempt == _ATTEMPTS - 1:
                    raise Unreachable(
                        f"source {self.name}: lost the connection to {self.options.where}: {reason(problem)}"
                    ) from None
                time.sleep(0.05 * attempt)
        raise AssertionError("unreachable")

    def _connect(self) -> None:
        if self._control is None:
            self._control = self.options.connect()
        if self._snapshots is None and self._watched:
            self._snapshots = self.snapshots_class(self.options, self._version)

    def _reset(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._end_snapshot()

    def _new_stream(self, by_gtid: bool) -> LogStream:
        assembler = GroupAssembler(self.name, self.options.database, self._watched, self._fold_case)
        self._stream = LogStream(self.options.connect, assembler, by_gtid, self.options.server_id)
        return self._stream

    @property
    def _snapshots_now(self) -> Snapshots:
        if self._snapshots is None:
            raise SourceError(f"source {self.name}: call watch first")
        return self._snapshots

    @property
    def _stream_now(self) -> LogStream:
        assert self._stream is not None, "no log is open"
        return self._stream

    @property
    def _assembler_now(self) -> GroupAssembler:
        return self._stream_now.assembler
