"""The three sources: databases of their own with the TPC-H tables, keys, indexes, and a change log that Weir reads."""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.csv

from weir.algebra.errors import WeirError
from weir.bench.product.tpch.bare import Address
from weir.bench.product.tpch.data import Data
from weir.bench.product.tpch.tables import SOURCES, TABLES, BaseTable, tables_of
from weir.proving.servers.mariadb import MariadbServer
from weir.proving.servers.postgres import PostgresServer
from weir.sources.sqlite import install

MIXTURES: Mapping[str, tuple[str, str, str]] = {  # the kinds of crm, sales and catalog
    "postgres": ("postgres", "postgres", "postgres"),
    "sqlite": ("sqlite", "sqlite", "sqlite"),
    "mariadb": ("mariadb", "mariadb", "mariadb"),
    "mixed": ("postgres", "mariadb", "sqlite"),
}
PASSWORD = "WEIR_TPCH_PASSWORD_"  # and the source's name: the environment variable that Weir is told of


class TpchDatabase(ABC):
    """One source's database; a context manager that starts it, fills it, and ends it."""

    kind: ClassVar[str]

    def __init__(self, source: str, data: Data) -> None:
        self.source, self.data = source, data
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

    @property
    def address(self) -> Address:
        return Address(self.kind, self.arguments, self.data.schemas())

    @property
    def password(self) -> str:
        return PASSWORD + self.source.upper()

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """By which the bare driver connects."""

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """What ``Warehouse.source`` is told besides the kind."""

    @abstractmethod
    def start(self) -> None:
        """Starts the database, makes and fills the tables with keys and indexes, and turns the change log on."""

    @abstractmethod
    def size(self) -> int:
        """Bytes of the tables, indexes and all."""

    def statements(self) -> Iterator[str]:
        """Makes the tables."""
        for table in tables_of(self.source):
            columns = [f"{f.name} {_declared(f.type)} NOT NULL" for f in self.data.schema(table.name)]
            yield f"CREATE TABLE {table.name} ({', '.join([*columns, *self.keys(table)])})"

    def keys(self, table: BaseTable) -> list[str]:
        return [f"PRIMARY KEY ({', '.join(table.key)})"]

    def indexes(self) -> Iterator[str]:
        for table in tables_of(self.source):
            for column in table.indexes:
                yield f"CREATE INDEX {table.name}_{column} ON {table.name} ({column})"


class PostgresPlace(TpchDatabase):
    """A private server, read by logical replication. Keys are made after the rows, which is quicker."""

    kind = "postgres"

    def start(self) -> None:
        settings = {"shared_buffers": "256MB", "max_wal_size": "4GB", "maintenance_work_mem": "256MB"}
        self.server = self.stack.enter_context(PostgresServer(settings))
        os.environ[self.password] = self.server.password
        with self.server.connect() as admin:
            for statement in self.statements():
                admin.execute(statement)
            for table in tables_of(self.source):
                with admin.cursor().copy(f"COPY {table.name} FROM STDIN (FORMAT csv)") as copy:
                    for rows in self.data.batches(table.name):
                        copy.write(_csv(rows))
                admin.execute(f"ALTER TABLE {table.name} ADD PRIMARY KEY ({', '.join(table.key)})")
                admin.execute(f"ALTER TABLE {table.name} REPLICA IDENTITY FULL")
            for statement in self.indexes():
                admin.execute(statement)
            admin.execute(f"CREATE PUBLICATION weir FOR TABLE {', '.join(t.name for t in tables_of(self.source))}")
            admin.execute("VACUUM ANALYZE")  # or the server does it while we measure

    def keys(self, table: BaseTable) -> list[str]:
        return []

    @property
    def arguments(self) -> dict[str, Any]:
        return self.server.address()

    @property
    def options(self) -> dict[str, Any]:
        address = self.server.address()
        where = {"host": address["host"], "port": address["port"], "database": address["dbname"]}
        return {**where, "user": address["user"], "password": f"env:{self.password}"}

    def size(self) -> int:
        with self.server.connect() as admin:
            sizes = [
                admin.execute("SELECT pg_total_relation_size(%s::regclass)", (table.name,)).fetchone()
                for table in tables_of(self.source)
            ]
        return sum(int(size[0]) for size in sizes if size)


class MariadbPlace(TpchDatabase):
    """A private server, read by its binlog; the first rows do not go through it."""

    kind = "mariadb"

    def start(self) -> None:
        settings = {
            "innodb_buffer_pool_size": "512M", "innodb_log_file_size": "256M", "innodb_flush_log_at_trx_commit": "2",
            "max_binlog_size": "256M", "local_infile": "ON",
        }  # fmt: skip
        self.server = self.stack.enter_context(MariadbServer(settings))
        os.environ[self.password] = secrets.token_hex(16)
        with closing(self.server.connect(local_infile=True)) as admin, admin.cursor() as cursor:
            for statement in ("SET sql_log_bin = 0", "CREATE DATABASE tpch", "USE tpch", *self.statements()):
                cursor.execute(statement)
            for table in tables_of(self.source):
                for rows in self.data.batches(table.name):
                    self._load(cursor, table.name, rows)
            for statement in self.indexes():
                cursor.execute(statement)
            cursor.execute(f"ANALYZE TABLE {', '.join(t.name for t in tables_of(self.source))}")
            cursor.execute("CREATE USER weir@localhost IDENTIFIED BY %s", (os.environ[self.password],))
            cursor.execute("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO weir@localhost")
            cursor.execute("GRANT SELECT ON tpch.* TO weir@localhost")

    def _load(self, cursor: Any, table: str, rows: pa.Table) -> None:
        with tempfile.NamedTemporaryFile(suffix=".csv") as file:
            file.write(_csv(rows))
            file.flush()
            form = "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY ''"
            cursor.execute(f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE {table} CHARACTER SET utf8mb4 {form}")
        cursor.connection.commit()

    @property
    def arguments(self) -> dict[str, Any]:
        socket = str(self.server.socket)
        return {"unix_socket": socket, "user": "root", "database": "tpch", "ssl_disabled": True, "autocommit": True}

    @property
    def options(self) -> dict[str, Any]:
        return {
            "unix_socket": str(self.server.socket), "database": "tpch", "user": "weir",
            "password": f"env:{self.password}",
        }  # fmt: skip

    def size(self) -> int:
        with closing(self.server.connect("information_schema")) as admin, admin.cursor() as cursor:
            cursor.execute("SELECT SUM(data_length + index_length) FROM tables WHERE table_schema = 'tpch'")
            return int((cursor.fetchone() or [0])[0])


class SqlitePlace(TpchDatabase):
    """A file in a temporary folder, with a trigger log."""

    kind = "sqlite"

    def start(self) -> None:
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-tpch-")))
        self.path = folder / f"{self.source}.db"
        with closing(sqlite3.connect(self.path)) as database:
            database.execute("PRAGMA synchronous = OFF")
            for statement in self.statements():
                database.execute(statement)
            for table in tables_of(self.source):
                for rows in self.data.batches(table.name):
                    _insert(database, table.name, rows)
            for statement in (*self.indexes(), "ANALYZE"):
                database.execute(statement)
            database.commit()
        install(self.path, [table.name for table in tables_of(self.source)])

    @property
    def arguments(self) -> dict[str, Any]:
        return {"database": str(self.path), "isolation_level": None, "timeout": 60}

    @property
    def options(self) -> dict[str, Any]:
        return {"path": str(self.path)}

    def size(self) -> int:
        return self.path.stat().st_size


PLACES: dict[str, type[TpchDatabase]] = {place.kind: place for place in (PostgresPlace, MariadbPlace, SqlitePlace)}


@contextmanager
def open_places(sources: str, data: Data) -> Iterator[dict[str, TpchDatabase]]:
    """The three sources by name, started and filled."""
    if sources not in MIXTURES:
        raise WeirError(f"unknown sources '{sources}': use one of {', '.join(MIXTURES)}")
    with ExitStack() as stack:
        kinds = zip(SOURCES, MIXTURES[sources], strict=True)
        yield {source: stack.enter_context(PLACES[kind](source, data)) for source, kind in kinds}


def addresses(places: Mapping[str, TpchDatabase]) -> dict[str, Address]:
    """By table."""
    by_source = {source: place.address for source, place in places.items()}
    return {table.name: by_source[table.source] for table in TABLES.values()}


def _declared(type_: pa.DataType) -> str:
    """The type in SQL, in words that all three kinds know and that mean the same."""
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    return {pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.date32(): "DATE", pa.string(): "VARCHAR(160)"}[type_]


def _csv(rows: pa.Table) -> bytes:
    out = BytesIO()
    pa.csv.write_csv(rows, out, pa.csv.WriteOptions(include_header=False))
    return out.getvalue()


def _insert(database: sqlite3.Connection, table: str, rows: pa.Table) -> None:
    columns = [_to_sqlite(column) for column in rows.columns]
    marks = ", ".join("?" * len(columns))
    database.executemany(f"INSERT INTO {table} VALUES ({marks})", zip(*columns, strict=True))


def _to_sqlite(column: pa.ChunkedArray) -> list[Any]:
    """Dates and decimals as text: SQLite makes the nearest real of it, which Arrow's own cast does not."""
    texts = pa.types.is_date(column.type) or pa.types.is_decimal(column.type)
    values: list[Any] = (column.cast(pa.string()) if texts else column).to_pylist()
    return values
