"""Installing, removing and inspecting capture, for every kind of source that needs something in its database.

Each kind tells what it does as lines of text; with ``dry_run`` it tells and does nothing. All may be repeated.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import psycopg

from weir.sources.mysql.options import MysqlOptions
from weir.sources.mysql.source import MysqlSource
from weir.sources.postgres.catalogue import read_tables
from weir.sources.postgres.connection import Connection, connect, named_errors
from weir.sources.postgres.options import MARKER_TABLE, PostgresOptions
from weir.sources.postgres.publication import plan_publication, plan_removal
from weir.sources.postgres.replication import PostgresSource
from weir.sources.postgres.trigger_log import install_triggers, log_problem, remove_triggers
from weir.sources.source import Source, SourceError
from weir.sources.sqlite import capture as sqlite_capture
from weir.sources.sqlite import watch as sqlite_watch
from weir.sources.sqlite.catalog import read_shape, table_names
from weir.sources.sqlite.connection import connect as connect_sqlite
from weir.sources.sqlite.connection import told


@dataclass(frozen=True)
class State:
    """One line of a status; ``well`` when nothing is missing. ``table`` is empty for what concerns the whole source."""

    table: str
    well: bool
    text: str


class Capture(ABC):
    """What one kind needs in its database."""

    @abstractmethod
    def install(self, tables: Sequence[str], dry_run: bool) -> list[str]: ...

    @abstractmethod
    def remove(self, dry_run: bool) -> list[str]: ...

    @abstractmethod
    def status(self) -> list[State]: ...


# -- SQLite -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqliteCapture(Capture):
    """Triggers and a log in the file itself."""

    path: str

    def install(self, tables: Sequence[str], dry_run: bool) -> list[str]:
        if not dry_run:
            new = sqlite_capture.install(self.path, tables)
            return [f"{table}: {'captured' if table in new else 'was captured already'}" for table in tables]
        with self._reading() as database:
            return [*self._mode(database), *(self._plan(database, table) for table in tables)]

    def _mode(self, database: sqlite3.Connection) -> Iterator[str]:
        (mode,) = database.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            yield f"put {self.path} into WAL mode (now '{mode}')"

    def _plan(self, database: sqlite3.Connection, table: str) -> str:
        shape = read_shape(database, table)
        if shape is None:
            raise SourceError(f"there is no table '{table}' in {self.path}")
        if reason := sqlite_capture.obstacle(database, shape):
            raise SourceError(f"table '{shape.name}' {reason}")
        if sqlite_watch.capture_problem(database, shape) or sqlite_watch.lacks_columns(database, shape):
            return f"{shape.name}: make the triggers weir_capture_<event>_{shape.name}, which log into weir_log"
        return f"{shape.name}: was captured already"

    def remove(self, dry_run: bool) -> list[str]:
        removed = sqlite_capture.remove(self.path, dry_run)
        return [f"{'drop' if dry_run else 'dropped'} {name}" for name in removed] or ["nothing of weir is there"]

    def status(self) -> list[State]:
        with self._reading() as database:
            mode = [State("", False, line) for line in self._mode(database)]
            return mode + [self._state(database, name) for name in table_names(database)]

    def _state(self, database: sqlite3.Connection, name: str) -> State:
        shape = read_shape(database, name)
        problem = sqlite_watch.capture_problem(database, shape) if shape is not None else "is gone"
        if not problem and shape is not None and sqlite_watch.lacks_columns(database, shape):
            problem = "has columns that are not captured yet"
        return State(name, not problem, problem or "is captured")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with told(self.path), closing(connect_sqlite(self.path)) as database:
            yield database


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PostgresTriggersCapture(Capture):
    """A trigger log in a schema of its own, read by the role ``reader``."""

    options: PostgresOptions
    reader: str

    def install(self, tables: Sequence[str], dry_run: bool) -> list[str]:
        if not self.reader:
            raise SourceError("postgres-triggers: name the role that shall read the log: --reader ROLE")
        with _administrator(self.options) as admin:
            before = {state.table: state.well for state in self._states(admin)}
            if unknown := [table for table in tables if table not in before]:
                raise SourceError(
                    f"{self.options.name}: there is no table '{unknown[0]}' in schema '{self.options.schema}'"
                )
            if not dry_run:
                install_triggers(admin, self.options, tables, self.reader)
            make = f"make a log in schema '{self.options.log_schema}' and the triggers weir_log, weir_log_truncate"
            new = make if dry_run else "captured"
            lines = [f"{table}: {'was captured already' if before[table] else new}" for table in tables]
            return [*lines, f"role {self.reader}: may read and trim the log"]

    def remove(self, dry_run: bool) -> list[str]:
        with _administrator(self.options) as admin:
            tables = [table.name for table in read_tables(admin, self.options.schema, "''")]
            present = admin.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self.options.log_schema,))
            if present.fetchone() is None:
                return ["nothing of weir is there"]
            if not dry_run:
                remove_triggers(admin, self.options)
            drop = "drop" if dry_run else "dropped"
            return [f"{drop} the triggers of {', '.join(tables)}", f"{drop} schema {self.options.log_schema}"]

    def status(self) -> list[State]:
        with _administrator(self.options) as admin:
            return self._states(admin)

    def _states(self, admin: Connection) -> list[State]:
        tables = [t for t in read_tables(admin, self.options.schema, "''") if t.name != MARKER_TABLE]
        problems = {table.name: log_problem(admin, self.options, table) for table in tables}
        return [State(name, not problem, problem or "is captured") for name, problem in problems.items()]


@dataclass(frozen=True)
class PostgresCapture(Capture):
    """Logical replication: a publication, and REPLICA IDENTITY FULL."""

    options: PostgresOptions

    def install(self, tables: Sequence[str], dry_run: bool) -> list[str]:
        with _administrator(self.options) as admin:
            return _run(admin, plan_publication(admin, self.options, tables), dry_run)

    def remove(self, dry_run: bool) -> list[str]:
        with _administrator(self.options) as admin:
            return _run(admin, plan_removal(admin, self.options), dry_run)

    def status(self) -> list[State]:
        return _findings(PostgresSource(self.options))


def _run(admin: Connection, statements: Sequence[str], dry_run: bool) -> list[str]:
    for statement in () if dry_run else statements:
        admin.execute(statement.encode())
    return [f"{statement};" for statement in statements] or ["nothing to do"]


@contextmanager
def _administrator(options: PostgresOptions) -> Iterator[Connection]:
    with named_errors(options, "installing or inspecting capture"), connect(options) as admin:
        try:
            yield admin
        except psycopg.errors.InsufficientPrivilege as problem:
            why = str(problem).strip().splitlines()[0]
            raise SourceError(f"{options.name}: {why}; run this as the tables' owner or an administrator") from problem


# -- MariaDB and MySQL ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MysqlCapture(Capture):
    """Nothing is installed: the server's own binlog is read."""

    options: MysqlOptions

    def install(self, tables: Sequence[str], dry_run: bool) -> list[str]:
        nothing = ["nothing to install: the server's binlog is read"]
        return nothing + [state.text for state in self.status() if not state.well]

    def remove(self, dry_run: bool) -> list[str]:
        return ["nothing to remove: the server's binlog is read"]

    def status(self) -> list[State]:
        return _findings(MysqlSource(self.options))


def _findings(source: Source) -> list[State]:
    """What a source says of itself; a warning is well enough to run."""
    with closing(source):
        found = source.describe().findings
    lines = [(f, f"{f.severity}: {f.problem}" + (f"; to mend it: {f.remedy}" if f.remedy else "")) for f in found]
    return [State("", finding.severity != "error", text) for finding, text in lines] or [
        State("", True, "nothing is missing")
    ]
