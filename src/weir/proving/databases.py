"""Private databases made ready for Weir, the way an administrator would: the one builder for stress, soak, benchmarks,
demo and tests.

    with Servers() as servers:
        database = servers.open("postgres", "shop", ["CREATE TABLE t (...)"], fill, tables=["t"])
        warehouse.source("shop", database.kind, **database.options)      # or database.spec().open()
        database.login.connect()                                         # the application, from any process

Three parties meet in a database: the **administrator**; the **application**, which owns the database and has its name;
and **Weir's role** with exactly the rights that ``docs/sources`` asks for. Tables are made and filled as the
application, then captured by what ``weir capture install`` runs. One password, new for each ``Servers``, serves all of
them; it is known as ``env:NAME``, so it stands in no option, no command line and no pickle.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import cached_property
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any, Self

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg import sql

from weir.algebra.errors import WeirError
from weir.project.kinds import SourceSpec, specify
from weir.proving.kinds import KINDS, Login
from weir.proving.servers.mariadb import MariadbServer
from weir.proving.servers.postgres import ADMIN, PostgresServer
from weir.proving.servers.server import LOOPBACK
from weir.sources.postgres.installing import PostgresCapture, PostgresTriggersCapture
from weir.sources.postgres.options import MARKER_TABLE
from weir.sources.sqlite.installing import SqliteCapture
from weir.sources.sqlite.options import SqliteOptions

_RELEASE_SECONDS = 300.0  # for the server to notice that nobody reads a slot any more
_numbers = count(1)


def password_variable(number: int) -> str:
    """The environment variable with the password of the servers that are opened as number so-and-so.

    Spark's tasks see the environment that Spark was started in: whoever opens servers beside a session that runs sets
    the variable before it starts, and that password is taken.
    """
    return f"WEIR_PROVING_PASSWORD_{number}"


class Servers:
    """Private servers, each started when the first database on it is opened, and a folder for databases in files.

    ``settings`` by driver. ``variable`` names the environment variable with the password, a new one unless ``secret``
    is given; it is set at once, so that processes which are started before the first database (Spark's) know it too.
    A context manager: leaving it ends the servers and removes their folders; a ``folder`` that was given stays.
    """

    def __init__(
        self, folder: Path | None = None, settings: Mapping[str, Mapping[str, str]] | None = None, variable: str = "",
        secret: str = "",
    ) -> None:  # fmt: skip
        self._folder, self._settings, self._running = folder, settings or {}, ExitStack()
        self.variable = variable or password_variable(next(_numbers))
        known = secret or os.environ.get(self.variable) or secrets.token_hex(16)
        self.secret = os.environ[self.variable] = known
        self._running.callback(os.environ.pop, self.variable, None)

    @property
    def password(self) -> str:
        """The reference to it."""
        return f"env:{self.variable}"

    @cached_property
    def folder(self) -> Path:
        if self._folder is not None:
            return self._folder
        return Path(self._running.enter_context(tempfile.TemporaryDirectory(prefix="weir-databases-")))

    @cached_property
    def postgres(self) -> PostgresServer:
        return self._running.enter_context(PostgresServer(self._settings.get("postgres"), self.secret))

    @cached_property
    def mariadb(self) -> MariadbServer:
        return self._running.enter_context(MariadbServer(self._settings.get("mariadb")))

    def open(
        self, kind: str, name: str, statements: Iterable[str] = (),
        fill: Callable[[PrivateDatabase], None] | None = None, tables: Sequence[str] = (),
    ) -> PrivateDatabase:  # fmt: skip
        """A new database: made, filled by the statements and ``fill``, and with these tables captured."""
        if kind not in KINDS:
            raise WeirError(f"unknown kind '{kind}' of a private database: use one of {', '.join(KINDS)}")
        database = _DATABASES[KINDS[kind]](self, kind, name)
        database.execute(*statements)
        if fill is not None:
            fill(database)
        if tables:
            database.capture(*tables)
        return database

    def close(self) -> None:
        self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


class PrivateDatabase(ABC):
    """One private database. ``drop`` takes it from a server that others still use."""

    def __init__(self, servers: Servers, kind: str, name: str) -> None:
        self.servers, self.kind, self.name = servers, kind, name
        self._make()

    @abstractmethod
    def _make(self) -> None:
        """The empty database, the application that owns it, and Weir's role, which may follow its log."""

    @abstractmethod
    def capture(self, *tables: str) -> None:
        """Lets Weir read the tables and be told every change of them."""

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """What ``Warehouse.source`` is told besides the kind, and ``weir.toml``."""

    @property
    @abstractmethod
    def login(self) -> Login:
        """The application's."""

    @abstractmethod
    def administrator(self) -> Any:
        """A new connection that may do everything."""

    def spec(self, source: str = "", **more: Any) -> SourceSpec:
        """The source that Weir sees in it, named like the database unless told otherwise."""
        return specify(source or self.name, self.kind, {**self.options, **more})

    def execute(self, *statements: str) -> None:
        """As the application, each statement by itself."""
        with closing(self.login.connect()) as connection:
            for statement in statements:
                connection.cursor().execute(statement)

    @abstractmethod
    def load(self, table: str, batches: Iterable[pa.Table]) -> None:
        """Many rows in the quickest way that there is. No value may be NULL, which CSV cannot say to every server."""

    @abstractmethod
    def analyze(self) -> None:
        """Brings the planner's statistics up to date, or the server does it while something is measured."""

    @abstractmethod
    def size(self) -> int:
        """Bytes of all tables, with their indexes."""

    def forget(self) -> None:
        """Drops what a first load of Weir's has left behind, where a kind has such a thing."""

    @abstractmethod
    def drop(self) -> None:
        """The database and its application are gone; the server runs on. No source may be open."""


class SqliteDatabase(PrivateDatabase):
    """A file; who may write it is everybody, so there are no roles."""

    def _make(self) -> None:
        self.path = self.servers.folder / f"{self.name}.db"

    def capture(self, *tables: str) -> None:
        SqliteCapture(SqliteOptions(self.path.stem, str(self.path))).install(tables, dry_run=False)

    @property
    def options(self) -> dict[str, Any]:
        return {"path": str(self.path)}

    @property
    def login(self) -> Login:
        return Login("sqlite", {"database": str(self.path)})

    def administrator(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, timeout=60)

    def load(self, table: str, batches: Iterable[pa.Table]) -> None:
        with closing(self.administrator()) as database:
            database.execute("PRAGMA synchronous = OFF")
            database.execute("BEGIN")
            for rows in batches:
                columns = [_to_sqlite(column) for column in rows.columns]
                marks = ", ".join("?" * len(columns))
                database.executemany(f"INSERT INTO {table} VALUES ({marks})", zip(*columns, strict=True))
            database.execute("COMMIT")

    def analyze(self) -> None:
        self.execute("ANALYZE")

    def size(self) -> int:
        return self.path.stat().st_size

    def drop(self) -> None:
        for end in ("", "-wal", "-shm"):
            Path(f"{self.path}{end}").unlink(missing_ok=True)


class PostgresDatabase(PrivateDatabase):
    """On a private server. Following the log needs REPLICATION, reading a trigger log does not: a role for each."""

    @property
    def server(self) -> PostgresServer:
        return self.servers.postgres

    @property
    def role(self) -> str:
        return "weir" if self.kind == "postgres" else "weir_triggers"

    def _make(self) -> None:
        with self.server.connect() as admin:
            _make_role(admin, self.name, self.servers.secret)
            _make_role(admin, self.role, self.servers.secret, "REPLICATION" if self.kind == "postgres" else "")
            database, owner = sql.Identifier(self.name), sql.Identifier(self.name)
            admin.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, owner))

    def capture(self, *tables: str, schema: str = "public") -> None:
        role, listed = sql.Identifier(self.role), sql.SQL(", ").join(sql.Identifier(schema, table) for table in tables)
        with self.administrator() as admin:
            admin.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), role))
            admin.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(listed, role))
        as_administrator = replace(self.spec(schema=schema).options, user=ADMIN)
        if self.kind == "postgres":
            PostgresCapture(as_administrator).install(tables, dry_run=False)
        else:
            named = [table for table in tables if table != MARKER_TABLE]  # which is logged wherever it is
            PostgresTriggersCapture(as_administrator, self.role).install(named, dry_run=False)

    @property
    def options(self) -> dict[str, Any]:
        where = {"host": LOOPBACK, "port": self.server.port, "database": self.name}
        return {**where, "user": self.role, "password": self.servers.password, "slot": self.name}

    @property
    def login(self) -> Login:
        where = {"host": LOOPBACK, "port": self.server.port, "dbname": self.name, "user": self.name}
        return Login("postgres", where, self.servers.password)

    def administrator(self) -> psycopg.Connection[Any]:
        return self.server.connect(self.name)

    def load(self, table: str, batches: Iterable[pa.Table]) -> None:
        statement = f"COPY {table} FROM STDIN (FORMAT csv)"
        with closing(self.login.connect()) as connection, connection.cursor().copy(statement) as copy:
            for rows in batches:
                copy.write(_csv(rows))

    def analyze(self) -> None:
        with self.administrator() as admin:
            admin.execute("VACUUM ANALYZE")

    def size(self) -> int:
        tables = "FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        with self.administrator() as admin:
            (found,) = admin.execute(f"SELECT sum(pg_total_relation_size(oid)) {tables}").fetchone() or (0,)
            return int(found)

    def forget(self) -> None:
        """The replication slot: a load makes one, and it keeps log for ever."""
        mine = sql.SQL("FROM pg_replication_slots WHERE database = {}").format(sql.Literal(self.name))
        until = time.monotonic() + _RELEASE_SECONDS
        with self.administrator() as admin:
            while admin.execute(sql.SQL("SELECT 1 {} AND active").format(mine)).fetchone():
                if time.monotonic() > until:
                    raise WeirError(f"somebody still reads the replication slot of database {self.name}")
                time.sleep(0.02)
            admin.execute(sql.SQL("SELECT pg_drop_replication_slot(slot_name) {}").format(mine))

    def drop(self) -> None:
        self.forget()
        with self.server.connect() as admin:
            admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(self.name)))
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(self.name)))


def _make_role(admin: psycopg.Connection[Any], name: str, secret: str, rights: str = "") -> None:
    """Unless another database on this server has brought it."""
    if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone():
        create = sql.SQL("CREATE ROLE {} LOGIN {} PASSWORD {}")
        admin.execute(create.format(sql.Identifier(name), sql.SQL(rights), sql.Literal(secret)))


class MariadbDatabase(PrivateDatabase):
    """On a private server, whose binlog is always there: capture is a matter of rights."""

    role = "weir"

    @property
    def server(self) -> MariadbServer:
        return self.servers.mariadb

    @property
    def _weir(self) -> str:
        return f"{self.role}@'{LOOPBACK}'"

    @property
    def _application(self) -> str:
        return f"`{self.name}`@'{LOOPBACK}'"

    def _make(self) -> None:
        with self._administering() as cursor:
            cursor.execute(f"CREATE DATABASE `{self.name}` CHARACTER SET utf8mb4")
            for account in (self._weir, self._application):
                cursor.execute(f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY %s", (self.servers.secret,))
            cursor.execute(f"GRANT ALL ON `{self.name}`.* TO {self._application}")
            cursor.execute(f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {self._weir}")
            cursor.execute(f"GRANT SELECT ON `{self.name}`.* TO {self._weir}")
            if self.kind == "mariadb-locks":
                cursor.execute(f"GRANT LOCK TABLES ON `{self.name}`.* TO {self._weir}")

    def capture(self, *tables: str) -> None:
        """Nothing to install."""

    @property
    def options(self) -> dict[str, Any]:
        where = {"host": LOOPBACK, "port": self.server.port, "database": self.name}
        return {**where, "user": self.role, "password": self.servers.password}

    @property
    def login(self) -> Login:
        where = {"host": LOOPBACK, "port": self.server.port, "database": self.name, "user": self.name}
        return Login("mariadb", where, self.servers.password)

    def administrator(self) -> Any:
        return self.server.connect(self.name, autocommit=True)

    def load(self, table: str, batches: Iterable[pa.Table]) -> None:
        """Past the binlog, which the first rows would only fill."""
        form = "CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY ''"
        with closing(self.server.connect(self.name, local_infile=True)) as admin, admin.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            for rows in batches:
                with tempfile.NamedTemporaryFile(suffix=".csv") as file:
                    file.write(_csv(rows))
                    file.flush()
                    cursor.execute(f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE {table} {form}")
                admin.commit()

    def analyze(self) -> None:
        with self._administering() as cursor:
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (self.name,))
            for (table,) in cursor.fetchall():
                cursor.execute(f"ANALYZE NO_WRITE_TO_BINLOG TABLE `{self.name}`.`{table}`")

    def size(self) -> int:
        sizes = "SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = %s"
        with self._administering() as cursor:
            cursor.execute(sizes, (self.name,))
            return int((cursor.fetchone() or [0])[0])

    def drop(self) -> None:
        with self._administering() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS `{self.name}`")
            cursor.execute(f"DROP USER {self._application}")
            cursor.execute(f"REVOKE ALL ON `{self.name}`.* FROM {self._weir}")

    @contextmanager
    def _administering(self) -> Iterator[Any]:
        with closing(self.server.connect(autocommit=True)) as admin, admin.cursor() as cursor:
            yield cursor


_DATABASES: Mapping[str, type[PrivateDatabase]] = {
    "sqlite": SqliteDatabase, "postgres": PostgresDatabase, "mariadb": MariadbDatabase,
}  # fmt: skip


def _csv(rows: pa.Table) -> bytes:
    if any(column.null_count for column in rows.columns):
        raise WeirError("rows with NULL cannot be loaded as CSV")
    out = BytesIO()
    pa.csv.write_csv(rows, out, pa.csv.WriteOptions(include_header=False))
    return out.getvalue()


def _to_sqlite(column: pa.ChunkedArray) -> list[Any]:
    """Dates and decimals as text: SQLite makes the nearest real of it, which Arrow's own cast does not."""
    texts = pa.types.is_date(column.type) or pa.types.is_decimal(column.type)
    values: list[Any] = (column.cast(pa.string()) if texts else column).to_pylist()
    return values
