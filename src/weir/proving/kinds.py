"""The kinds of database that can be proved here, and how an application logs in to one.

``files`` is not among them: a folder has no application that logs in. ``mysql`` will be once a server of that kind can
be started; until then ``mariadb-locks`` goes its way.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weir.sources.secrets import read_secret

KINDS: Mapping[str, str] = {  # with the driver by which its database is written to
    "sqlite": "sqlite",
    "postgres": "postgres",
    "postgres-triggers": "postgres",
    "mariadb": "mariadb",
    "mariadb-locks": "mariadb",
}


@dataclass(frozen=True)
class Login:
    """An application's way to its database: picklable and plain, so that other processes connect by it too.

    The password is a reference (``env:NAME``), read from the environment when a connection is made.
    """

    driver: str
    arguments: Mapping[str, Any]
    password: str = field(default="", repr=False)

    @property
    def mark(self) -> str:
        """A value's place in a statement."""
        return "?" if self.driver == "sqlite" else "%s"

    @property
    def begin(self) -> str:
        """Begins a transaction that writes."""
        return "BEGIN IMMEDIATE" if self.driver == "sqlite" else "BEGIN"

    def connect(self, **more: Any) -> Any:
        """A connection of the bare driver. It commits each statement by itself unless ``more`` says otherwise."""
        arguments = {**self.arguments, **more}
        if self.driver == "sqlite":
            return sqlite3.connect(**{"isolation_level": None, "timeout": 60, **arguments})
        secret = read_secret(self.password, "the application's password").reveal()
        if self.driver == "postgres":
            import psycopg

            return psycopg.connect(**{"autocommit": True, **arguments}, password=secret)
        import pymysql

        usual = {"autocommit": True, "charset": "utf8mb4", "connect_timeout": 60, "ssl_disabled": True}
        return pymysql.connect(**{**usual, **arguments}, password=secret)
