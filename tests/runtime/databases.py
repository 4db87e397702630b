"""Databases of every kind for end-to-end tests: made, captured as an administrator would, written to in transactions.

Each kind is one class and one word in ``KINDS``. Tables are described in SQL that all of them take.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from weir.algebra.quoting import backquoted, double_quoted, double_quoted_list
from weir.messages import GlobalTransaction
from weir.proving.servers.mariadb import MariadbServer
from weir.proving.servers.postgres import PostgresServer
from weir.sources.postgres.options import PostgresOptions
from weir.sources.postgres.trigger_log import install_triggers
from weir.sources.sqlite.capture import install

ROLE, PASSWORD = "weir", "WEIR_TEST_RUNTIME_PASSWORD"
_numbers = count(1)
os.environ.setdefault(PASSWORD, secrets.token_hex(8))  # before Spark starts: its workers inherit what is there then


class Servers:
    """Private servers, each started when it is first needed."""

    def __init__(self) -> None:
        self._running = ExitStack()

    @cached_property
    def postgres(self) -> PostgresServer:
        server = self._running.enter_context(PostgresServer({"deadlock_timeout": "20ms"}))
        make_role(server)
        return server

    @cached_property
    def mariadb(self) -> MariadbServer:
        return self._running.enter_context(MariadbServer())

    def close(self) -> None:
        self._running.close()


def make_role(server: PostgresServer) -> None:
    """It may read and follow the log, no more."""
    secret = sql.Literal(os.environ[PASSWORD])
    with server.connect() as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN REPLICATION PASSWORD {}").format(sql.Identifier(ROLE), secret))


class Database(ABC):
    """One database that is a source named ``name``."""

    kind: str
    quoted = staticmethod(double_quoted)  # a name in its SQL

    def __init__(self, servers: Servers, folder: Path, name: str) -> None:
        self.servers, self.folder, self.name = servers, folder, name
        self.database = f"e2e{next(_numbers)}"
        self.tables: tuple[str, ...] = ()

    def create(self, tables: Iterable[str], statements: Sequence[str]) -> None:
        """Makes the tables with what they hold, and captures them."""
        self.tables = tuple(tables)
        self.transact(statements)
        self.capture()

    @abstractmethod
    def capture(self) -> None: ...

    @abstractmethod
    def transact(self, statements: Sequence[str]) -> None:
        """One transaction."""

    @abstractmethod
    def query(self, statement: str) -> list[tuple[Any, ...]]: ...

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """For ``Warehouse.source``."""

    def mark(self, part: GlobalTransaction) -> str:
        """The statement by which a transaction says that it is a part."""
        return f"INSERT INTO weir_global_transaction VALUES ('{part.identifier}', '{','.join(sorted(part.sources))}')"

    def close(self) -> None:
        """Nothing is left behind on a shared server."""


class Sqlite(Database):
    kind = "sqlite"

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.db"

    def capture(self) -> None:
        install(self.path, self.tables)

    def transact(self, statements: Sequence[str]) -> None:
        with closing(sqlite3.connect(self.path, timeout=20)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path, timeout=20)) as connection:
            return connection.execute(statement).fetchall()

    @property
    def options(self) -> dict[str, Any]:
        return {"path": str(self.path)}

    def mark(self, part: GlobalTransaction) -> str:
        sources = ", ".join(sorted(part.sources))
        return f"INSERT INTO weir_global_transaction (id, sources) VALUES ('{part.identifier}', '{sources}')"


class Postgres(Database):
    """Followed by logical replication."""

    kind = "postgres"

    def __init__(self, servers: Servers, folder: Path, name: str) -> None:
        super().__init__(servers, folder, name)
        with self.server.connect() as admin:
            admin.execute(f"CREATE DATABASE {self.database}")
        self.admin = self.server.connect(self.database)

    @property
    def server(self) -> PostgresServer:
        return self.servers.postgres

    def capture(self) -> None:
        self.transact(["CREATE TABLE weir_global_transaction (id text, sources text[])"])
        everything = (*self.tables, "weir_global_transaction")
        for name in map(double_quoted, everything):
            self.transact([f"GRANT SELECT ON {name} TO {ROLE}", f"ALTER TABLE {name} REPLICA IDENTITY FULL"])
        self._follow(everything)

    def _follow(self, tables: Sequence[str]) -> None:
        self.transact([f"CREATE PUBLICATION weir FOR TABLE {double_quoted_list(tables)}"])

    def transact(self, statements: Sequence[str]) -> None:
        with self._connected().transaction():
            for statement in statements:
                self.admin.execute(statement)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self._connected().execute(statement).fetchall()

    def _connected(self) -> psycopg.Connection[Any]:
        if self.admin.closed:
            self.admin = self.server.connect(self.database)
        return self.admin

    @property
    def options(self) -> dict[str, Any]:
        return {
            "host": "127.0.0.1", "port": self.server.port, "database": self.database, "user": ROLE,
            "password": f"env:{PASSWORD}", "slot": self.database, "lock_timeout": 5.0, "load_timeout": 20.0,
        }  # fmt: skip

    def mark(self, part: GlobalTransaction) -> str:
        sources = ",".join(sorted(part.sources))
        return f"INSERT INTO weir_global_transaction VALUES ('{part.identifier}', '{{{sources}}}')"

    def close(self) -> None:
        self.admin.close()
        with self.server.connect() as admin:
            slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            admin.execute(f"{slots} WHERE NOT active AND database = '{self.database}'")
            admin.execute(f"DROP DATABASE IF EXISTS {self.database} WITH (FORCE)")


class PostgresTriggers(Postgres):
    """Followed by triggers."""

    kind = "postgres-triggers"

    def _follow(self, tables: Sequence[str]) -> None:
        options = {key: value for key, value in self.options.items() if key != "database"}
        install_triggers(self.admin, PostgresOptions(self.name, self.database, **options), tables, ROLE)


class Mariadb(Database):
    kind = "mariadb"
    quoted = staticmethod(backquoted)

    def __init__(self, servers: Servers, folder: Path, name: str) -> None:
        super().__init__(servers, folder, name)
        self._run([f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4"], None)

    def capture(self) -> None:
        """The binlog is always there; only the marker table is missing."""
        self.transact(["CREATE TABLE weir_global_transaction (id varchar(50), sources text)"])

    def transact(self, statements: Sequence[str]) -> None:
        self._run(statements, self.database)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self._run([statement], self.database)

    def _run(self, statements: Sequence[str], database: str | None) -> list[tuple[Any, ...]]:
        with closing(self.servers.mariadb.connect(database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            rows = list(cursor.fetchall())
            connection.commit()
        return rows

    @property
    def options(self) -> dict[str, Any]:
        socket = str(self.servers.mariadb.socket)
        return {"database": self.database, "user": "root", "unix_socket": socket, "lock_seconds": 5}

    def close(self) -> None:
        self._run([f"DROP DATABASE IF EXISTS {self.database}"], None)


KINDS: dict[str, type[Database]] = {kind.kind: kind for kind in (Sqlite, Postgres, PostgresTriggers, Mariadb)}
