"""Databases of every kind for end-to-end tests: made and captured by the builder, written to in transactions.

Tables are described in SQL that all of them take.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import count
from typing import Any

from weir.algebra.quoting import backquoted, double_quoted
from weir.messages import GlobalTransaction
from weir.proving.databases import PrivateDatabase, Servers

PASSWORD = "WEIR_TEST_RUNTIME_PASSWORD"
os.environ.setdefault(PASSWORD, secrets.token_hex(8))  # before Spark starts: its workers inherit what is there then
MARKER = "weir_global_transaction"
_IMPATIENT: dict[str, dict[str, float]] = {
    "sqlite": {},
    "postgres": {"lock_timeout": 5.0, "load_timeout": 20.0},
    "mariadb": {"lock_seconds": 5},
}
_MARKERS = {  # SQLite's is made by its capture
    "postgres": f"CREATE TABLE {MARKER} (id text, sources text[])",
    "mariadb": f"CREATE TABLE {MARKER} (id varchar(50), sources text)",
}
_numbers = count(1)


def private_servers() -> Servers:
    """None is started before it is needed."""
    settings = {"postgres": {"deadlock_timeout": "20ms"}}
    return Servers(settings=settings, variable=PASSWORD, secret=os.environ[PASSWORD])


class Database:
    """One database that is a source, as its application sees it."""

    def __init__(self, servers: Servers, kind: str) -> None:
        self.made: PrivateDatabase = servers.open(kind, f"e2e{next(_numbers)}")
        self.kind, self.driver = kind, self.made.login.driver
        self.options: dict[str, Any] = {**self.made.options, **_IMPATIENT[self.driver]}  # for ``Warehouse.source``
        self.tables: tuple[str, ...] = ()

    def create(self, tables: Iterable[str], statements: Sequence[str]) -> None:
        """Makes the tables with what they hold, and captures them."""
        self.tables = tuple(tables)
        self.transact([*statements, *([_MARKERS[self.driver]] if self.driver in _MARKERS else [])])
        self.capture()

    def quoted(self, name: str) -> str:
        """A name in its SQL."""
        return backquoted(name) if self.driver == "mariadb" else double_quoted(name)

    def capture(self) -> None:
        self.made.capture(*self.tables, *([MARKER] if self.driver in _MARKERS else []))

    def transact(self, statements: Sequence[str]) -> None:
        """One transaction."""
        with closing(self.made.login.connect()) as connection:
            cursor = connection.cursor()
            for statement in (self.made.login.begin, *statements, "COMMIT"):
                cursor.execute(statement)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(self.made.login.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            return list(cursor.fetchall())

    def mark(self, part: GlobalTransaction) -> str:
        """The statement by which a transaction says that it is a part."""
        listed = ",".join(sorted(part.sources))
        sources = {"sqlite": listed.replace(",", ", "), "postgres": f"{{{listed}}}"}.get(self.driver, listed)
        return f"INSERT INTO {MARKER} (id, sources) VALUES ('{part.identifier}', '{sources}')"

    def close(self) -> None:
        """Nothing is left behind on a shared server."""
        self.made.drop()
