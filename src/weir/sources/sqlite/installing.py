"""``weir capture`` for SQLite: triggers and a log in the file itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from weir.sources.installing import Capture, StatusLine, released
from weir.sources.source import SourceError
from weir.sources.sqlite import capture, watch
from weir.sources.sqlite.catalog import read_shape, table_names
from weir.sources.sqlite.connection import connect, told
from weir.sources.sqlite.options import SqliteOptions
from weir.sources.sqlite.reader import reader_of, release


@dataclass(frozen=True)
class SqliteCapture(Capture):
    """Triggers and a log in the file itself."""

    options: SqliteOptions

    def install(self, tables: Sequence[str], dry_run: bool) -> list[str]:
        if not dry_run:
            new = capture.install(self.options.path, tables)
            return [f"{table}: {'captured' if table in new else 'was captured already'}" for table in tables]
        with self._reading() as database:
            return [*self._mode(database), *(self._plan(database, table) for table in tables)]

    def _mode(self, database: sqlite3.Connection) -> Iterator[str]:
        (mode,) = database.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            yield f"put {self.options.path} into WAL mode (now '{mode}')"

    def _plan(self, database: sqlite3.Connection, table: str) -> str:
        shape = read_shape(database, table)
        if shape is None:
            raise SourceError(f"there is no table '{table}' in {self.options.path}")
        if reason := capture.obstacle(database, shape):
            raise SourceError(f"table '{shape.name}' {reason}")
        if watch.capture_problem(database, shape) or watch.lacks_columns(database, shape):
            return f"{shape.name}: make the triggers weir_capture_<event>_{shape.name}, which log into weir_log"
        return f"{shape.name}: was captured already"

    def remove(self, dry_run: bool) -> list[str]:
        removed = capture.remove(self.options.path, dry_run)
        return [f"{'drop' if dry_run else 'dropped'} {name}" for name in removed] or ["nothing of weir is there"]

    def release(self, dry_run: bool) -> list[str]:
        with self._reading() as database:
            found = reader_of(database)
            if found and not dry_run:
                release(database)
            return [released(found, dry_run)]

    def status(self) -> list[StatusLine]:
        with self._reading() as database:
            mode = [StatusLine("", False, line) for line in self._mode(database)]
            return mode + [self._state(database, name) for name in table_names(database)]

    def _state(self, database: sqlite3.Connection, name: str) -> StatusLine:
        shape = read_shape(database, name)
        problem = watch.capture_problem(database, shape) if shape is not None else "is gone"
        if not problem and shape is not None and watch.lacks_columns(database, shape):
            problem = "has columns that are not captured yet"
        return StatusLine(name, not problem, problem or "is captured")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with told(self.options.path), closing(connect(self.options.path)) as database:
            yield database
