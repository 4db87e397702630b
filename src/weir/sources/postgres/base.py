"""What both kinds of PostgreSQL source share: the visit in one snapshot, the first load, held snapshots.

A visit is one ``REPEATABLE READ READ ONLY`` transaction. Its tables are locked (ACCESS SHARE, which only TRUNCATE and
DDL conflict with) *before* the snapshot is taken: TRUNCATE is not safe under snapshots, and a table's shape must be
the one that the snapshot's catalogue tells. How the changes come is the subclass's part: ``_log_...``.
"""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from weir.algebra.catalog import Relation
from weir.sources.life import CLOSE, CLOSED, LOAD, RESUME, VISIT, WATCH, SourceLife
from weir.sources.postgres.catalogue import (
    CHILDREN,
    TableFacts,
    TableKeys,
    WatchedPostgresTable,
    differences,
    read_keys,
    read_tables,
    relation_facts,
)
from weir.sources.postgres.connection import PostgresConnection, close_quietly, connect, is_lost, named_errors, run
from weir.sources.postgres.describe import NO_ENCODING, NO_ENCODING_PROBLEM, describe, refuse_unusable
from weir.sources.postgres.held import HeldPostgresSnapshot
from weir.sources.postgres.idle import close_idle
from weir.sources.postgres.labels import strangers
from weir.sources.postgres.options import PostgresOptions
from weir.sources.postgres.position import PostgresPosition, shown_by
from weir.sources.postgres.reader import SnapshotToken
from weir.sources.postgres.stream import StreamLost
from weir.sources.postgres.visibility import PostgresSnapshot
from weir.sources.source import (
    LOAD_AGAIN,
    Description,
    Load,
    LoadAgain,
    SchemaChanged,
    Source,
    SourceError,
    Transaction,
    Visit,
)
from weir.sources.spares import Spares

LOCK_PAUSE = 0.002
_TABLEOID = -6  # a column that every table has, so that a table shows even where a view needs none of its own

# One round trip opens the snapshot, behind the locks. NOWAIT: who waits for one table while holding another can
# deadlock with the application's own TRUNCATE, and the application might be the victim.
_MOMENT = """
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {lock}
SELECT pg_current_snapshot()::text, {export}
"""
# The watched columns' shape: compared as text, read in full only when it differs.
_SHAPE = """
SELECT string_agg(concat_ws(' ', c.oid, c.relname, c.relnamespace, c.relfilenode, {mark}, a.attname, a.attnum,
                            a.atttypid, a.atttypmod, a.attisdropped, a.xmin, {kin}, {children}),
                  ';' ORDER BY c.oid, a.attnum)
    || coalesce((SELECT string_agg(concat_ws(' ', e.oid, e.xmin), ';' ORDER BY e.oid) FROM pg_enum e
                 WHERE e.enumtypid = ANY({enumerations}::oid[])), '')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE (a.attrelid, a.attnum) IN (VALUES {pairs})
"""
_IDENTITY = """
SELECT (SELECT system_identifier FROM pg_control_system())::text || '/'
       || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8),
       pg_current_wal_insert_lsn() - '0/0', current_setting('server_encoding')
"""


@dataclass(frozen=True)
class OpenSnapshot:
    """One open snapshot: what it shows, and the name under which others can enter it."""

    snapshot: PostgresSnapshot
    exported: str = ""


@dataclass(frozen=True)
class LogDelivery:
    """What a subclass found: the newly visible transactions, and the place in the log before which all is delivered."""

    transactions: tuple[Transaction, ...] = ()
    changes: Mapping[Relation, pa.Table] = field(default_factory=dict)
    truncations: Mapping[Relation, tuple[int, ...]] = field(default_factory=dict)
    bound: int = 0


class PostgresBase(Source):
    """A PostgreSQL source by snapshots; subclasses bring the change log."""

    kind: str

    def __init__(self, options: PostgresOptions) -> None:
        self.options = options
        self.name = options.name
        self._life = SourceLife(options.name)
        self._connection: PostgresConnection | None = None
        self._spares: Spares[PostgresConnection] = Spares(close_quietly)
        self._is_dropped = True  # its connections and its log: a visit begins them anew
        self._watched: dict[Relation, WatchedPostgresTable] = {}
        self._position: PostgresPosition | None = None
        self._shape: str | None = None  # as the last visit found it
        self._shape_text = self._marks = self._kins = ""
        self._labels: dict[tuple[Relation, str], list[str]] = {}  # of enumerations, where they were read anew
        self._moment_texts: dict[bool, str] = {}
        self._own: set[int] = set()  # our own transactions, which change nothing that is watched
        self._late: dict[
            Relation, PostgresSnapshot | None
        ] = {}  # tables that only a later position covers, and its snapshot
        self._utf8 = self._has_encoding = True
        self._server = ""

    # -- what a subclass brings -------------------------------------------------------------------------------------

    @abstractmethod
    def _mark(self) -> sql.Composable:
        """SQL over a table ``c`` of pg_class that changes whenever its change log could have missed something."""

    def _kin(self) -> sql.Composable:
        """The same for what a partition's change log owes to its ancestors; empty where there is nothing."""
        return sql.SQL("''")

    @abstractmethod
    def _log_prepare(self, connection: PostgresConnection) -> int:
        """Before a first load: makes sure that the log runs. A snapshot with xmin above the result misses nothing."""

    @abstractmethod
    def _log_open(self, connection: PostgresConnection, position: PostgresPosition) -> None:
        """Goes on after ``position``; LoadAgain when the log does not reach back to it."""

    @abstractmethod
    def _log_bound(self, connection: PostgresConnection) -> int:
        """The bound of a first load's position."""

    def _log_now(self, connection: PostgresConnection) -> int:
        """For a table that begins in the middle: its log may miss something of transactions up to this one."""
        return 0

    def _log_fence(self, snapshot: PostgresSnapshot) -> None:
        """After the snapshot, when it shows something new."""

    @abstractmethod
    def _log_within(self, connection: PostgresConnection, snapshot: PostgresSnapshot, quiet: bool) -> Any:
        """Inside the snapshot's transaction."""

    @abstractmethod
    def _log_after(self, found: Any, snapshot: PostgresSnapshot, quiet: bool) -> LogDelivery:
        """After it: the newly visible transactions."""

    @property
    @abstractmethod
    def _log_is_open(self) -> bool: ...

    @abstractmethod
    def _log_close(self) -> None: ...

    # -- describe and watch -----------------------------------------------------------------------------------------

    def describe(self) -> Description:
        with named_errors(self.options, "reading the catalogue"):
            return describe(self._connected(), self.options, self.kind, self._mark_text())

    def watch(self, columns: Mapping[Relation, Sequence[str]]) -> None:
        self._spares.begin()
        with self._life.during(WATCH):
            self._watch(columns)

    def _watch(self, columns: Mapping[Relation, Sequence[str]]) -> None:
        connection = self._connected()
        if not self._has_encoding:
            raise SourceError(f"{self.name}: {'; '.join(NO_ENCODING_PROBLEM)}")
        with named_errors(self.options, "reading the catalogue"):
            self._marks = self._mark_text()
            self._kins = self._kin().as_string(connection)
            tables = read_tables(connection, self.options.schema, self._marks, kin=self._kins)
            found = relation_facts(self.name, tables)
            keys = read_keys(connection, self.options.schema)
            for relation, names in columns.items():
                refuse_unusable(relation, found.get(relation), names, self.options, self.kind, connection)
        self._watched = {
            r: WatchedPostgresTable(r, found[r], found[r].only(names), keys.get(r.table, TableKeys()))
            for r, names in columns.items()
        }
        self._shape = None
        self._shape_text = self._compose_shape()
        self._moment_texts = {False: self._compose_moment("''"), True: self._compose_moment("pg_export_snapshot()")}

    def _mark_text(self) -> str:
        return self._mark().as_string(self._connected())

    # -- snapshots --------------------------------------------------------------------------------------------------

    def _compose_moment(self, export: str) -> str:
        tables = sql.SQL(", ").join(sql.SQL("ONLY {}").format(table.name) for table in self._watched.values())
        lock = sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE NOWAIT;").format(tables) if self._watched else sql.SQL("")
        text = sql.SQL(_MOMENT).format(lock=self._lock(lock), export=sql.SQL(export))
        return text.as_string(self._connected())

    def _compose_shape(self) -> str:
        numbers = {w.facts.oid: [_TABLEOID, *(c.number for c in w.columns)] for w in self._watched.values()}
        oids = [(oid, number) for oid, of_table in numbers.items() for number in of_table]
        pairs = sql.SQL(", ").join(sql.SQL("({}::oid, {}::int2)").format(oid, number) for oid, number in oids)
        enumerations = sorted({c.enumeration for w in self._watched.values() for c in w.columns if c.enumeration})
        own = {"mark": self._mark(), "kin": self._kin(), "children": sql.SQL(CHILDREN)}
        text = sql.SQL(_SHAPE).format(**own, pairs=pairs, enumerations=sql.Literal(enumerations))
        return text.as_string(self._connected()) if oids else ""

    def _lock(self, statement: sql.Composable) -> sql.Composable:
        """The naive variant without it is planted in the stress, to see it fail."""
        return statement

    def _begin(self, connection: PostgresConnection, export: bool = False) -> OpenSnapshot:
        """Opens a snapshot; tries again while a table is locked exclusively, holding nothing meanwhile."""
        until = time.monotonic() + self.options.lock_timeout
        while True:
            try:
                ((snapshot, name),) = run(connection, self._moment_texts[export])
                return OpenSnapshot(PostgresSnapshot.parse(snapshot), name)
            except psycopg.errors.LockNotAvailable:
                if time.monotonic() > until:
                    raise
                run(connection, "ROLLBACK")
                time.sleep(LOCK_PAUSE)
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as problem:
                text = f"{self.name}: a watched table was dropped or renamed ({str(problem).strip()}); {LOAD_AGAIN}"
                raise SchemaChanged(text) from problem

    def _check_shape(self, connection: PostgresConnection) -> None:
        """Before anything is delivered: the watched columns are what they were at the position."""
        self._labels = {}
        assert self._position is not None
        row = connection.execute(self._shape_text).fetchone() if self._shape_text else None
        shape = row[0] if row is not None else ""
        if shape is not None and shape == self._shape:
            return
        found = self._facts(connection)
        self._refuse_differences(self._position.tables, found)
        self._position = self._position.tracing(self._traces(found))
        self._shape = shape
        self._labels = {
            (relation, column.name): [label for _, label in column.labels]
            for relation, watched in self._watched.items()
            for column in found[relation].only(watched.names)
            if column.enumeration
        }

    def _refuse_strangers(self, changes: Mapping[Relation, pa.Table]) -> None:
        """Where labels may have changed since the last visit: what comes must be labels of now."""
        for (relation, column), labels in self._labels.items():
            if relation in changes and (unknown := strangers(changes[relation][column], labels)):
                raise SchemaChanged(
                    f"{self.name}: {relation}.{column} came with the text '{unknown[0]}', which is no label of its "
                    f"enumeration now: it was renamed; {LOAD_AGAIN}"
                )

    def _refuse_differences(self, before: Mapping[str, Any], found: Mapping[Relation, TableFacts]) -> None:
        problems = [
            problem
            for relation in self._watched
            for problem in differences(str(relation), before.get(relation.table), found.get(relation))
        ]
        if problems:
            raise SchemaChanged(f"{self.name}: {'; '.join(problems)}; {LOAD_AGAIN}")

    # -- visit ------------------------------------------------------------------------------------------------------

    def visit(self, hold: bool = False) -> Visit:
        with self._life.during(VISIT):
            try:
                return self._try_visit(hold)
            except (StreamLost, psycopg.Error) as problem:
                if not is_lost(problem):
                    with named_errors(self.options, "visiting"):
                        raise
            # The connection broke, and nothing was delivered: a new one goes on where the last visit ended.
            with self._lost_streams(), named_errors(self.options, "visiting"):
                return self._try_visit(hold)

    def _try_visit(self, hold: bool) -> Visit:
        assert self._position is not None
        with self._whole():
            if self._is_dropped or not self._log_is_open:
                self._resume(self._position)
            return self._visit(hold)

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """What fails leaves nothing half-taken: no snapshot, no connection, no open log."""
        try:
            yield
        except BaseException:
            self._drop()
            raise

    def _visit(self, hold: bool) -> Visit:
        assert self._position is not None
        connection = self._same_server()
        moment = self._begin(connection, export=hold)
        snapshot = moment.snapshot
        quiet = self._is_quiet(snapshot)
        if not quiet or self._begins_now:
            self._check_shape(connection)
        if not quiet:
            self._log_fence(snapshot)
        found = self._log_within(connection, snapshot, quiet)
        held = self._held(connection, moment) if hold else None
        try:
            if held is None:
                run(connection, "COMMIT")
            delivery = self._log_after(found, snapshot, quiet)
            self._refuse_strangers(delivery.changes)
        except BaseException:
            if held is not None:
                held.release()
            raise
        self._late.update({relation: snapshot for relation, begins in self._late.items() if begins is None})
        self._own = {xid for xid in self._own if not snapshot.shows(xid)}
        self._position = self._position.at(snapshot, max(delivery.bound, self._position.bound))
        return Visit(delivery.transactions, delivery.changes, str(self._position), delivery.truncations, held)

    def _held(self, connection: PostgresConnection, moment: OpenSnapshot) -> HeldPostgresSnapshot:
        """The working connection becomes the snapshot's own; work goes on over another one."""
        self._connection = None
        token = SnapshotToken(self.options, moment.exported, dict(self._watched), self._utf8)
        facts = partial(_facts_of, self.name, self.options.schema, self._marks, self._oids, self._kins)
        return HeldPostgresSnapshot(connection, token, facts, self._give_back)

    @property
    def _begins_now(self) -> bool:
        """Whether a table begins with this visit."""
        return None in self._late.values()

    def _is_quiet(self, snapshot: PostgresSnapshot) -> bool:
        """Nothing became visible since the last visit but our own fences: no log to read, and no fence needed."""
        assert self._position is not None
        news = snapshot.news(self._position.snapshot)
        return news is not None and news <= self._own

    # -- first load -------------------------------------------------------------------------------------------------

    def load(self) -> Load:
        """Waits for a snapshot that misses nothing of the log, and exports it."""
        with (
            self._life.during(LOAD), named_errors(self.options, "beginning a first load"), self._lost_streams(),
            self._whole(),
        ):  # fmt: skip
            self._log_close()
            self._late = {}
            connection = self._connected()
            after = self._log_prepare(connection)
            moment = self._settled_moment(connection, after)
            facts = self._facts(connection)
            held = self._held(connection, moment)
            try:
                self._follow_from(moment, facts)
            except BaseException:
                held.release()
                raise
            return Load(str(self._position), held)

    def _follow_from(self, moment: OpenSnapshot, facts: Mapping[Relation, TableFacts]) -> None:
        self._refuse_differences(self._traces({r: w.facts for r, w in self._watched.items()}), facts)
        bound = self._log_bound(self._connected())
        self._position = PostgresPosition(moment.snapshot, bound, self._server, self._traces(facts))
        self._shape = None
        self._log_open(self._connected(), self._position)
        self._is_dropped = False

    def _traces(self, facts: Mapping[Relation, TableFacts]) -> dict[str, Any]:
        return {relation.table: facts[relation].trace(watched.names) for relation, watched in self._watched.items()}

    @property
    def _oids(self) -> list[int]:
        return [watched.facts.oid for watched in self._watched.values()]

    def _facts(self, connection: PostgresConnection) -> Mapping[Relation, TableFacts]:
        return _facts_of(self.name, self.options.schema, self._marks, self._oids, self._kins, connection)

    def _settled_moment(self, connection: PostgresConnection, after: int) -> OpenSnapshot:
        """A snapshot in which every transaction up to ``after`` has ended."""
        until = time.monotonic() + self.options.load_timeout
        while True:
            moment = self._begin(connection, export=True)
            if moment.snapshot.xmin > after:
                return moment
            run(connection, "ROLLBACK")
            if time.monotonic() > until:
                raise SourceError(
                    f"{self.name}: transaction {moment.snapshot.xmin} has been open for more than "
                    f"{self.options.load_timeout:g} s, and a first load must wait for it; end it "
                    "(see pg_stat_activity.backend_xid and pg_prepared_xacts) and load again"
                )
            time.sleep(0.02)

    # -- resume, acknowledge, close ---------------------------------------------------------------------------------

    def resume(self, position: str, boundaries: Sequence[str] = ()) -> None:
        """Transactions are never merged, so none reaches across a boundary."""
        with self._life.during(RESUME), self._whole():
            self._resume_behind(position, boundaries)

    def _resume_behind(self, position: str, boundaries: Sequence[str]) -> None:
        later = [PostgresPosition.parse(boundary, self.name) for boundary in sorted(boundaries, key=self.order)]
        parsed, self._late = PostgresPosition.parse(position, self.name), {}
        for relation in self._watched:
            if relation.table not in parsed.tables:
                first = next((one for one in later if relation.table in one.tables), None)
                self._late[relation] = first.snapshot if first is not None else None
                parsed = parsed.tracing(first.tables if first is not None else {})
        for one in later:  # columns that only later positions know
            parsed = parsed.tracing({name: trace for name, trace in one.tables.items() if name in parsed.tables})
        self._resume(parsed.only({relation.table: watched.names for relation, watched in self._watched.items()}))
        if self._begins_now:
            self._wait_for_older()

    def _wait_for_older(self) -> None:
        """As a first load does, for the tables that begin with the next visit."""
        with named_errors(self.options, "resuming"):
            connection = self._connected()
            self._settled_moment(connection, self._log_now(connection))
            run(connection, "ROLLBACK")

    def _resume(self, position: PostgresPosition) -> None:
        self._drop()
        with named_errors(self.options, "resuming"), self._lost_streams():
            connection = self._connected()
            self._check_server(connection, position)
            self._log_open(connection, position)
        self._position = position
        self._shape, self._is_dropped = None, False

    def _check_server(self, connection: PostgresConnection, position: PostgresPosition) -> None:
        """The same cluster, on the same timeline, not set back to an earlier state."""
        ((server, reached, _),) = run(connection, _IDENTITY)
        if server != position.server:
            raise LoadAgain(
                f"{self.name}: the position was made on server {position.server} (cluster/timeline), this is {server}: "
                f"restored from a backup, or another server has taken over; {LOAD_AGAIN}"
            )
        if int(reached) < position.bound:
            raise LoadAgain(
                f"{self.name}: the server's log ends before the position: it was set back to an earlier state; "
                f"{LOAD_AGAIN}"
            )

    def order(self, position: str) -> tuple[int, int]:
        """Snapshots that one reader took, one after the other: the later one has seen more ids, or fewer running."""
        snapshot = shown_by(position, self.name)
        return snapshot.xmax, -len(snapshot.xip)

    def distance(self, older: str, newer: str) -> str:
        bounds = [PostgresPosition.parse(position, self.name).bound for position in (older, newer)]
        return f"{max(bounds[1] - bounds[0], 0):,} bytes of log"

    def holds(self, position: str, transaction: Transaction) -> bool:
        return shown_by(position, self.name).shows(int(transaction.identifier))

    def close(self) -> None:
        self._drop()
        self._spares.end()
        self._life.move(CLOSE)
        close_idle(self.options)

    # -- connections ------------------------------------------------------------------------------------------------

    def _connected(self) -> PostgresConnection:
        if self._connection is None:
            self._connection = self._spares.take()
        if self._connection is None:
            connection = connect(self.options)
            with named_errors(self.options, "connecting"):
                ((self._server, _, encoding),) = run(connection, _IDENTITY)
            self._connection = connection
            self._utf8, self._has_encoding = encoding == "UTF8", encoding != NO_ENCODING
        return self._connection

    def _same_server(self) -> PostgresConnection:
        """The working connection; a further one (the others are held) must lead to the same server."""
        known = self._connection or self._spares.take()
        if known is not None:
            self._connection = known
            return known
        assert self._position is not None
        connection = self._connected()
        self._check_server(connection, self._position)
        return connection

    def _drop(self) -> None:
        """Closes the log and the working connections; held snapshots stay."""
        self._log_close()
        close_quietly(self._connection)
        self._connection, self._is_dropped = None, True
        self._spares.drop()

    def _give_back(self, connection: PostgresConnection) -> None:
        self._spares.give_back(connection)
        if self._life.state is CLOSED:
            close_idle(self.options)

    @contextlib.contextmanager
    def _lost_streams(self) -> Iterator[None]:
        try:
            yield
        except StreamLost as problem:
            raise SourceError(f"{self.name}: the change stream broke: {problem}; try again") from problem


def _facts_of(
    source: str, schema: str, marks: str, oids: Sequence[int], kins: str, connection: PostgresConnection
) -> Mapping[Relation, TableFacts]:
    return relation_facts(source, read_tables(connection, schema, marks, oids, kins))
