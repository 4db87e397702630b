"""The databases of the fuzz: opened once, emptied for every case, written and read by the plain drivers."""

from __future__ import annotations

import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import psycopg
import pyarrow as pa
import pyarrow.parquet
import pymysql

from weir.algebra.quoting import backquoted
from weir.algebra.types import Column, Schema, parse_type
from weir.proving.databases import PrivateDatabase, Servers
from weir.proving.fuzz.case import FuzzCase, FuzzTable
from weir.proving.fuzz.dialects import dialect_of
from weir.proving.kinds import KINDS as PRIVATE_KINDS
from weir.sources.plain import plain_table

Refusals = (sqlite3.Error, psycopg.Error, pymysql.err.Error)  # what a driver raises when its database says no


class FuzzPlace(ABC):
    """Where one source's tables live for the time of a case."""

    def __init__(self, kind: str) -> None:
        self.kind, self.dialect = kind, dialect_of(kind)

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """What ``Warehouse.source`` is told besides the kind."""

    @abstractmethod
    def begin(self, tables: Sequence[FuzzTable]) -> None:
        """Makes the tables, empty of all that was before, with their first rows, captured."""

    @abstractmethod
    def transact(self, statements: Iterable[str]) -> str:
        """One transaction; what the database said against it, if it was rolled back."""

    @abstractmethod
    def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        """All rows of a query."""

    def end(self) -> None:
        """After a case; no source is open."""

    def read(self, table: FuzzTable) -> pa.Table:
        """The table's rows now, typed as documented."""
        listed = ", ".join(map(self.dialect.select, table.columns))
        rows = self.fetch(f"SELECT {listed} FROM {self.dialect.name(table.name)}")
        schema = Schema(Column(column.name, parse_type(column.type)) for column in table.columns)
        return plain_table(rows, schema, table.name, self.dialect.conversions)


class DatabasePlace(FuzzPlace):
    """In a private database."""

    def __init__(self, servers: Servers, kind: str, number: int) -> None:
        super().__init__(kind)
        self.servers, self.label = servers, f"fuzz_{kind.replace('-', '_')}_{number}"
        self.database = self._open()

    def _open(self) -> PrivateDatabase:
        return self.servers.open("mariadb-locks" if self.kind == "mysql" else self.kind, self.label)

    @property
    def options(self) -> dict[str, Any]:
        return self.database.options

    def begin(self, tables: Sequence[FuzzTable]) -> None:
        self._empty()
        self.connection = self._connect()
        for table in tables:
            self._execute(self.dialect.create(table))
            for statement in table.rows:
                self.transact([statement])
        self.database.capture(*(table.name for table in tables))

    @abstractmethod
    def _empty(self) -> None:
        """Takes everything out that the last case has left."""

    def _connect(self) -> Any:
        return self.database.login.connect()

    def _execute(self, statement: str) -> None:
        self.connection.cursor().execute(statement)

    def transact(self, statements: Iterable[str]) -> str:
        try:
            self._execute(self.database.login.begin)
            for statement in statements:
                self._execute(statement)
            self._execute("COMMIT")
        except Refusals as problem:
            self._execute("ROLLBACK")
            return str(problem)
        return ""

    def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.cursor()
        cursor.execute(statement)
        return list(cursor.fetchall())

    def end(self) -> None:
        self.connection.close()


class SqlitePlace(DatabasePlace):
    """A new file for every case."""

    def _empty(self) -> None:
        self.database.drop()

    def _connect(self) -> Any:
        connection = super()._connect()
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = OFF")
        return connection


class PostgresPlace(DatabasePlace):
    """The slot of the last case goes, or it would keep log for ever."""

    def _empty(self) -> None:
        with self.database.administrator() as admin:
            admin.execute("DROP SCHEMA public CASCADE")
            admin.execute("DROP SCHEMA IF EXISTS weir CASCADE")
            admin.execute("DROP PUBLICATION IF EXISTS weir")
            admin.execute("CREATE SCHEMA public")
            admin.execute("GRANT ALL ON SCHEMA public TO PUBLIC")

    def end(self) -> None:
        super().end()
        self.database.forget()


class MariadbPlace(DatabasePlace):
    """Tables are dropped one by one: rights stay with the database."""

    def _empty(self) -> None:
        names = "SELECT table_name FROM information_schema.tables WHERE table_schema = database()"
        self.connection = self._connect()
        for (name,) in self.fetch(names):
            self._execute(f"DROP TABLE {backquoted(name)}")
        self.connection.close()

    def _connect(self) -> Any:
        return self.database.login.connect(init_command="SET time_zone = '+00:00'")


class FilesPlace(FuzzPlace):
    """Snapshots in a folder. The application's tables are in a SQLite database in memory, exported at each commit."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__("files")
        self.root, self.number, self.cases = folder, number, 0

    @property
    def folder(self) -> Path:
        return self.root / f"files_{self.number}_{self.cases}"

    @property
    def options(self) -> dict[str, Any]:
        keys = {table.name: list(table.key) for table in self.tables if table.key}
        return {"folder": str(self.folder), "keys": keys}

    def begin(self, tables: Sequence[FuzzTable]) -> None:
        self.cases, self.snapshots, self.tables = self.cases + 1, 0, tuple(tables)
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        for table in tables:
            shadow = [f"{self.dialect.name(column.name)}" for column in table.columns]
            key = [f"PRIMARY KEY ({', '.join(map(self.dialect.name, table.key))})"] if table.key else []
            self.connection.execute(f"CREATE TABLE {self.dialect.name(table.name)} ({', '.join([*shadow, *key])})")
            for statement in table.rows:
                with suppress(sqlite3.Error):  # a key that is there already: the row is not, as in other databases
                    self.connection.execute(statement)
        self._export()

    def _export(self) -> None:
        """All tables under one name, which is what ``together`` waits for."""
        self.snapshots += 1
        for table in self.tables:
            (self.folder / table.name).mkdir(parents=True, exist_ok=True)
            hidden = self.folder / table.name / f"_{self.snapshots:06}.parquet"
            pa.parquet.write_table(self.read(table), hidden)
            hidden.rename(hidden.with_name(hidden.name.removeprefix("_")))

    def transact(self, statements: Iterable[str]) -> str:
        try:
            self.connection.execute("BEGIN")
            for statement in statements:
                self.connection.execute(statement)
            self.connection.execute("COMMIT")
        except sqlite3.Error as problem:
            self.connection.execute("ROLLBACK")
            return str(problem)
        self._export()
        return ""

    def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement).fetchall()

    def end(self) -> None:
        self.connection.close()


class FuzzPlaces:
    """All places, each opened when a case first needs it. A context manager."""

    def __init__(self, servers: Servers | None = None) -> None:
        self._running = ExitStack()
        self.servers = servers or self._running.enter_context(Servers())
        self._places: dict[tuple[str, int], FuzzPlace] = {}

    @property
    def folder(self) -> Path:
        """For warehouses and files."""
        if not hasattr(self, "_folder"):
            self._folder = Path(self._running.enter_context(tempfile.TemporaryDirectory(prefix="weir-fuzz-")))
        return self._folder

    def of(self, case: FuzzCase) -> dict[str, FuzzPlace]:
        """By source; two sources of one kind have a place each."""
        found: dict[str, FuzzPlace] = {}
        for name, kind in case.sources.items():
            number = sum(case.sources[other] == kind for other in found) + 1
            if (kind, number) not in self._places:
                self._places[kind, number] = self._open(kind, number)
            found[name] = self._places[kind, number]
        return found

    def _open(self, kind: str, number: int) -> FuzzPlace:
        if kind == "files":
            return FilesPlace(self.folder, number)
        driver = PRIVATE_KINDS["mariadb-locks" if kind == "mysql" else kind]
        return _PLACES[driver](self.servers, kind, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._running.close()


_PLACES: dict[str, type[DatabasePlace]] = {
    "sqlite": SqlitePlace, "postgres": PostgresPlace, "mariadb": MariadbPlace,
}  # fmt: skip
