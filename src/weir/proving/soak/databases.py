"""The soak's databases: one per source, on a private server or in a file, with one table, filled and captured."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.algebra.errors import WeirError
from weir.proving.servers.mariadb import MariadbServer
from weir.proving.servers.postgres import ADMIN, PostgresServer
from weir.proving.soak.journal import JournalRow
from weir.sources.postgres.options import PostgresOptions
from weir.sources.postgres.trigger_log import install_triggers
from weir.sources.sqlite import install

ROLE, PASSWORD = "weir_reader", "WEIR_SOAK_PASSWORD"
TABLES = {
    "crm": ("customer", ("id", "name")),
    "sales": ("orders", ("id", "customer", "status")),
    "shop": ("item", ("id", "order_id", "quantity")),
}
INDEXES = {"sales": "customer", "shop": "order_id"}
KINDS = ("postgres", "postgres-triggers", "mariadb", "sqlite")


@dataclass(frozen=True)
class SoakDatabase:
    """One source's database. ``options``: what ``Warehouse.source`` is told; ``login``: by which writers connect."""

    source: str
    kind: str
    options: Mapping[str, Any]
    login: Mapping[str, Any]


@contextmanager
def open_databases(
    kinds: Mapping[str, str], rows: Mapping[str, Mapping[int, JournalRow]], folder: Path
) -> Iterator[dict[str, SoakDatabase]]:
    """The databases by source, each of the kind wanted and holding these rows. Servers are shared between sources."""
    with ExitStack() as stack:
        makers = _Makers(stack, folder)
        yield {source: makers.make(source, kind, rows.get(source, {})) for source, kind in kinds.items()}


class _Makers:
    """Starts a server when the first source asks for it."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self._postgres: PostgresServer | None = None
        self._mariadb: MariadbServer | None = None

    def make(self, source: str, kind: str, rows: Mapping[int, JournalRow]) -> SoakDatabase:
        if kind not in KINDS:
            raise WeirError(f"the soak has no databases of kind '{kind}'; use {', '.join(KINDS)}")
        values = [(key, *row) for key, row in rows.items()]
        if kind == "sqlite":
            return self._in_sqlite(source, values)
        return self._in_mariadb(source, values) if kind == "mariadb" else self._in_postgres(source, kind, values)

    def _in_sqlite(self, source: str, rows: Sequence[JournalRow]) -> SoakDatabase:
        path = self._folder / f"{source}.db"
        table, columns = TABLES[source]
        with closing(sqlite3.connect(path)) as database:
            for statement in _create(source, "TEXT"):
                database.execute(statement)
            database.executemany(_insert(table, len(columns), "?"), rows)
            database.commit()
        install(path, [table])
        login = {"database": str(path), "isolation_level": None, "timeout": 60, "check_same_thread": False}
        return SoakDatabase(source, "sqlite", {"path": str(path)}, login)

    def _in_postgres(self, source: str, kind: str, rows: Sequence[JournalRow]) -> SoakDatabase:
        if self._postgres is None:
            self._postgres = self._stack.enter_context(PostgresServer())
            os.environ[PASSWORD] = self._postgres.password
            with self._postgres.connect() as admin:
                admin.execute(f"CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD '{self._postgres.password}'")
        server = self._postgres
        table, columns = TABLES[source]
        with server.connect() as admin:
            admin.execute(f"CREATE DATABASE {source}")
        options: dict[str, Any] = {
            "host": "127.0.0.1", "port": server.port, "database": source, "user": ROLE,
            "slot": f"weir_{source}", "password": f"env:{PASSWORD}",
        }  # fmt: skip
        with server.connect(source) as admin:
            for statement in _create(source, "TEXT"):
                admin.execute(statement)
            admin.cursor().executemany(_insert(table, len(columns), "%s"), rows)
            admin.execute(f"GRANT SELECT ON {table} TO {ROLE}")
            admin.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
            if kind == "postgres":
                admin.execute(f"CREATE PUBLICATION weir FOR TABLE {table}")
            else:
                install_triggers(admin, PostgresOptions(source, **options), [table], ROLE)
        return SoakDatabase(source, kind, options, {**server.address(source), "user": ADMIN})

    def _in_mariadb(self, source: str, rows: Sequence[JournalRow]) -> SoakDatabase:
        if self._mariadb is None:
            settings = {"innodb_flush_log_at_trx_commit": "2", "max_binlog_size": "64M"}
            self._mariadb = self._stack.enter_context(MariadbServer(settings))
            os.environ[f"{PASSWORD}_MARIADB"] = secrets.token_hex(16)
            with closing(self._mariadb.connect()) as admin, admin.cursor() as cursor:
                secret = os.environ[f"{PASSWORD}_MARIADB"]
                cursor.execute(f"CREATE USER {ROLE}@localhost IDENTIFIED BY '{secret}'")
                cursor.execute(f"GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT ON *.* TO {ROLE}@localhost")
        table, columns = TABLES[source]
        with closing(self._mariadb.connect()) as admin, admin.cursor() as cursor:
            for statement in (f"CREATE DATABASE {source}", f"USE {source}", *_create(source, "VARCHAR(80)")):
                cursor.execute(statement)
            cursor.executemany(_insert(table, len(columns), "%s"), rows)
            admin.commit()
        login = {"unix_socket": str(self._mariadb.socket), "user": "root", "database": source, "ssl_disabled": True}
        options = {"unix_socket": login["unix_socket"], "database": source, "user": ROLE}
        return SoakDatabase(source, "mariadb", {**options, "password": f"env:{PASSWORD}_MARIADB"}, login)


def _create(source: str, text: str) -> list[str]:
    table, (key, *others) = TABLES[source]
    columns = [f"{name} {text if name == 'name' else 'INTEGER'} NOT NULL" for name in others]
    made = [f"CREATE TABLE {table} ({key} INTEGER PRIMARY KEY, {', '.join(columns)})"]
    return [*made, f"CREATE INDEX {table}_up ON {table} ({INDEXES[source]})"] if source in INDEXES else made


def _insert(table: str, columns: int, mark: str) -> str:
    return f"INSERT INTO {table} VALUES ({', '.join([mark] * columns)})"
