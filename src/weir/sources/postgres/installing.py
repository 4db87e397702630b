"""``weir capture`` for PostgreSQL: a publication, or a trigger log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from weir.sources.installing import Capture, StatusLine, released, status_of
from weir.sources.postgres.catalogue import read_tables
from weir.sources.postgres.connection import PostgresConnection, connect, named_errors
from weir.sources.postgres.options import MARKER_TABLE, PostgresOptions
from weir.sources.postgres.publication import plan_publication, plan_release, plan_removal
from weir.sources.postgres.replication import PostgresSource
from weir.sources.postgres.trigger_log import install_triggers, log_problem, reader_of, release, remove_triggers
from weir.sources.source import SourceError


@dataclass(frozen=True)
class PostgresTriggersCapture(Capture):
    """A trigger log in a schema of its own, read by the role ``reader``."""

    options: PostgresOptions

    def install(self, tables: Sequence[str], dry_run: bool) -> list[str]:
        if not self.reader:
            raise SourceError("postgres-triggers: name the role that shall read the log: --reader ROLE")
        with _administrator(self.options) as admin:
            before = {state.table: state.well for state in self._states(admin, marker=True)}
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

    def release(self, dry_run: bool) -> list[str]:
        with _administrator(self.options) as admin:
            found = reader_of(admin, self.options)
            if found and not dry_run:
                release(admin, self.options)
            return [released(found, dry_run)]

    def status(self) -> list[StatusLine]:
        with _administrator(self.options) as admin:
            return self._states(admin)

    def _states(self, admin: PostgresConnection, marker: bool = False) -> list[StatusLine]:
        """``marker``: also of the table that names global transactions, which views do not use."""
        tables = [t for t in read_tables(admin, self.options.schema, "''") if marker or t.name != MARKER_TABLE]
        problems = {table.name: log_problem(admin, self.options, table) for table in tables}
        return [StatusLine(name, not problem, problem or "is captured") for name, problem in problems.items()]


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

    def release(self, dry_run: bool) -> list[str]:
        with _administrator(self.options) as admin:
            return _run(admin, plan_release(admin, self.options), dry_run)

    def status(self) -> list[StatusLine]:
        return status_of(PostgresSource(self.options))


def _run(admin: PostgresConnection, statements: Sequence[str], dry_run: bool) -> list[str]:
    for statement in () if dry_run else statements:
        admin.execute(statement.encode())
    return [f"{statement};" for statement in statements] or ["nothing to do"]


@contextmanager
def _administrator(options: PostgresOptions) -> Iterator[PostgresConnection]:
    with named_errors(options, "installing or inspecting capture"), connect(options) as admin:
        try:
            yield admin
        except psycopg.errors.InsufficientPrivilege as problem:
            why = str(problem).strip().splitlines()[0]
            raise SourceError(f"{options.name}: {why}; run this as the tables' owner or an administrator") from problem
