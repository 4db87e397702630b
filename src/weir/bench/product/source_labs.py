"""The databases of ``weir bench sources``: private ones, each with the same table of sixteen columns.

A lab brings the source under test, an administrator's connection that changes rows, and the bare driver that is asked
the same questions.
"""

from __future__ import annotations

import os
import random
import secrets
import sqlite3
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import psycopg
import pymysql

from weir.algebra.errors import WeirError
from weir.proving.servers.mariadb import MariadbServer
from weir.proving.servers.postgres import PostgresServer
from weir.sources.mysql.options import MysqlOptions
from weir.sources.mysql.source import MysqlSource
from weir.sources.postgres.options import PostgresOptions
from weir.sources.postgres.replication import PostgresSource
from weir.sources.postgres.trigger_log import install_triggers
from weir.sources.postgres.triggers import PostgresTriggersSource
from weir.sources.source import Source
from weir.sources.sqlite import SqliteOptions, SqliteSource, install

COLUMNS = (
    ("id", "INTEGER PRIMARY KEY"), ("a", "INTEGER"), ("b", "BIGINT"), ("c", "DECIMAL(12,2)"), ("d", "VARCHAR(40)"),
    ("e", "VARCHAR(60)"), ("f", "DATE"), ("g", "DOUBLE PRECISION"), ("h", "VARCHAR(40)"), ("i", "INTEGER"),
    ("j", "VARCHAR(40)"), ("k", "INTEGER"), ("l", "VARCHAR(40)"), ("m", "DECIMAL(10,4)"), ("n", "INTEGER"),
    ("o", "VARCHAR(20)"),
)  # fmt: skip
NEEDED = ("id", "a", "c", "d", "f", "k")  # what the view needs of them
SELECT = f"SELECT {', '.join(NEEDED)} FROM t WHERE k"
MAKE = f"CREATE TABLE t ({', '.join(' '.join(column) for column in COLUMNS)})"
PASSWORD = "WEIR_BENCH_PASSWORD"
CHANGED_AT_ONCE = 10  # rows per transaction of the writer in the background
PAUSE = 0.002  # seconds between its transactions


def rows(many: int) -> Iterator[tuple[Any, ...]]:
    """Rows 1 to ``many``; ``k`` is a number of its own for each, in another order than ``id``."""
    keys = random.Random(1).sample(range(1, many + 1), many)
    for number, key in enumerate(keys, start=1):
        day = f"{2000 + number % 24}-{number % 12 + 1:02}-{number % 28 + 1:02}"
        yield (
            number, number % 100, number * 1000, number * 1.25, f"d{number:030}", f"some longer text {number:040}",
            day, number / 8, f"h{number}", number % 7, f"name {number}", key,
            f"l{number:030}", number * 0.25, number, "tail",
        )  # fmt: skip


class Lab(ABC):
    """One kind's database; a context manager."""

    kind: ClassVar[str]
    mark: ClassVar[str] = "%s"

    def __init__(self, many: int) -> None:
        self.many = many
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self.stack.close()

    @abstractmethod
    def start(self) -> None:
        """Starts the database, makes the table with its rows and an index on ``k``, and captures it."""

    @abstractmethod
    def open(self) -> Source: ...

    @property
    @abstractmethod
    def address(self) -> dict[str, Any]:
        """By which ``connect`` connects, in another process too."""

    @staticmethod
    @abstractmethod
    def connect(address: dict[str, Any]) -> Any:
        """A connection of the bare driver, in autocommit mode."""

    @classmethod
    def bare(cls, connection: Any, keys: Sequence[int]) -> list[Any]:
        """The driver's own way to the same rows."""
        cursor = connection.cursor()
        cursor.execute(f"{SELECT} IN ({', '.join([cls.mark] * len(keys))})", list(keys))
        return list(cursor.fetchall())

    def change(self, connection: Any, many: int) -> None:
        """Changes so many rows in one transaction."""
        connection.cursor().execute(f"UPDATE t SET a = a + 1 WHERE id <= {many}")

    @classmethod
    def write(cls, address: dict[str, Any], many: int, stop: Any, commits: Any) -> None:
        """The writer in the background: small transactions until told to stop, or its parent is gone."""
        parent, dice = os.getppid(), random.Random(2)
        with closing(cls.connect(address)) as connection:
            while not stop.value and os.getppid() == parent:
                first = dice.randrange(1, many - CHANGED_AT_ONCE)
                change = f"UPDATE t SET a = a + 1 WHERE id BETWEEN {first} AND {first + CHANGED_AT_ONCE - 1}"
                connection.cursor().execute(change)
                commits.value += 1
                time.sleep(PAUSE)


class SqliteLab(Lab):
    """A file in a temporary folder."""

    kind = "sqlite"
    mark = "?"

    def start(self) -> None:
        self.path = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-"))) / "bench.db"
        with closing(sqlite3.connect(self.path)) as database:
            database.execute(MAKE)
            database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(COLUMNS))})", rows(self.many))
            database.execute("CREATE INDEX t_k ON t (k)")
            database.commit()
        install(self.path, ["t"])

    def open(self) -> Source:
        return SqliteSource(SqliteOptions("bench", str(self.path)))

    @property
    def address(self) -> dict[str, Any]:
        return {"database": str(self.path), "isolation_level": None, "timeout": 60}

    @staticmethod
    def connect(address: dict[str, Any]) -> Any:
        return sqlite3.connect(**address)


class PostgresLab(Lab):
    """A private server, read by logical replication."""

    kind = "postgres"
    source: ClassVar[Any] = PostgresSource

    def start(self) -> None:
        self.server = self.stack.enter_context(PostgresServer())
        os.environ[PASSWORD] = self.server.password
        with self.server.connect() as admin:
            admin.execute(MAKE)
            with admin.cursor().copy("COPY t FROM STDIN") as copy:
                for row in rows(self.many):
                    copy.write_row(row)
            admin.execute("CREATE INDEX ON t (k)")
            admin.execute("ANALYZE t")
            self.capture(admin)

    def capture(self, admin: psycopg.Connection[Any]) -> None:
        admin.execute("ALTER TABLE t REPLICA IDENTITY FULL")
        admin.execute("CREATE PUBLICATION weir FOR TABLE t")

    @property
    def options(self) -> PostgresOptions:
        address = self.address
        return PostgresOptions(
            "bench", "postgres", "127.0.0.1", self.server.port, address["user"], f"env:{PASSWORD}"
        )  # fmt: skip

    def open(self) -> Source:
        source: Source = self.source(self.options)
        return source

    @property
    def address(self) -> dict[str, Any]:
        return self.server.address()

    @staticmethod
    def connect(address: dict[str, Any]) -> Any:
        return psycopg.connect(**address, autocommit=True)

    @classmethod
    def bare(cls, connection: Any, keys: Sequence[int]) -> list[Any]:
        return list(connection.execute(f"{SELECT} = ANY(%s)", (list(keys),)).fetchall())


class PostgresTriggersLab(PostgresLab):
    """The same server, read through a trigger log."""

    kind = "postgres-triggers"
    source = PostgresTriggersSource

    def capture(self, admin: psycopg.Connection[Any]) -> None:
        install_triggers(admin, self.options, ["t"], self.options.user)


class MariadbLab(Lab):
    """A private server, read by its binlog."""

    kind = "mariadb"

    def start(self) -> None:
        self.server = self.stack.enter_context(MariadbServer())
        os.environ[PASSWORD] = secrets.token_hex(16)
        with closing(self.server.connect()) as admin, admin.cursor() as cursor:
            for statement in ("CREATE DATABASE bench", "USE bench", MAKE):
                cursor.execute(statement)
            cursor.executemany(f"INSERT INTO t VALUES ({', '.join(['%s'] * len(COLUMNS))})", list(rows(self.many)))
            admin.commit()
            cursor.execute("CREATE INDEX t_k ON t (k)")
            cursor.execute("ANALYZE TABLE t")
            cursor.execute("CREATE USER weir@localhost IDENTIFIED BY %s", (os.environ[PASSWORD],))
            cursor.execute("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO weir@localhost")
            cursor.execute("GRANT SELECT ON bench.* TO weir@localhost")

    def open(self) -> Source:
        return MysqlSource(
            MysqlOptions("bench", "bench", "weir", f"env:{PASSWORD}", unix_socket=str(self.server.socket))
        )

    @property
    def address(self) -> dict[str, Any]:
        socket = str(self.server.socket)
        return {"unix_socket": socket, "user": "root", "database": "bench", "ssl_disabled": True, "autocommit": True}

    @staticmethod
    def connect(address: dict[str, Any]) -> Any:
        return pymysql.connect(**address)


LABS: dict[str, type[Lab]] = {lab.kind: lab for lab in (SqliteLab, PostgresLab, PostgresTriggersLab, MariadbLab)}


@contextmanager
def open_lab(kind: str, many: int) -> Iterator[Lab]:
    if kind not in LABS:
        raise WeirError(f"unknown kind '{kind}' to measure: use one of {', '.join(LABS)}")
    with LABS[kind](many) as lab:
        yield lab
