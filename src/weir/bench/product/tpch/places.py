"""The three sources: databases of their own with the TPC-H tables, keys, indexes, and a change log that Weir reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weir.algebra.errors import WeirError
from weir.bench.product.tpch.bare import Address
from weir.bench.product.tpch.data import Data
from weir.bench.product.tpch.tables import SOURCES, TABLES, tables_of
from weir.proving.databases import PrivateDatabase, Servers
from weir.proving.kinds import KINDS

MIXTURES: Mapping[str, tuple[str, ...]] = {  # the kinds of crm, sales and catalog
    **{driver: (driver,) * len(SOURCES) for driver in KINDS.values()},
    "mixed": ("postgres", "mariadb", "sqlite"),
}
SETTINGS = {
    "postgres": {"shared_buffers": "256MB", "max_wal_size": "4GB", "maintenance_work_mem": "256MB"},
    "mariadb": {
        "innodb_buffer_pool_size": "512M", "innodb_log_file_size": "256M", "innodb_flush_log_at_trx_commit": "2",
        "max_binlog_size": "256M",
    },
}  # fmt: skip


@dataclass(frozen=True)
class TpchDatabase:
    """One source's database, and what its tables look like."""

    database: PrivateDatabase
    schemas: Mapping[str, pa.Schema]

    @property
    def address(self) -> Address:
        return Address(self.database.login, self.schemas)

    @property
    def kind(self) -> str:
        return self.database.kind

    @property
    def options(self) -> dict[str, Any]:
        """What ``Warehouse.source`` is told besides the kind."""
        return self.database.options

    def size(self) -> int:
        return self.database.size()


@contextmanager
def open_places(sources: str, data: Data) -> Iterator[dict[str, TpchDatabase]]:
    """The three sources by name, each on a server of its own, started and filled."""
    if sources not in MIXTURES:
        raise WeirError(f"unknown sources '{sources}': use one of {', '.join(MIXTURES)}")
    with ExitStack() as stack:
        kinds = zip(SOURCES, MIXTURES[sources], strict=True)
        opened = {source: (stack.enter_context(Servers(settings=SETTINGS)), kind) for source, kind in kinds}
        yield {source: _open(servers, kind, source, data) for source, (servers, kind) in opened.items()}


def _open(servers: Servers, kind: str, source: str, data: Data) -> TpchDatabase:
    """Keys and indexes are made after the rows, which is quicker, where a table can get its key later."""
    tables = tables_of(source)
    keys = {table.name: f"PRIMARY KEY ({', '.join(table.key)})" for table in tables}
    later = {name: f"ALTER TABLE {name} ADD {key}" for name, key in keys.items() if kind == "postgres"}

    def create(table: str) -> str:
        columns = [f"{field.name} {_declared(field.type)} NOT NULL" for field in data.schema(table)]
        return f"CREATE TABLE {table} ({', '.join(columns if table in later else [*columns, keys[table]])})"

    def fill(database: PrivateDatabase) -> None:
        for table in tables:
            database.load(table.name, data.batches(table.name))
            indexes = [f"CREATE INDEX {table.name}_{column} ON {table.name} ({column})" for column in table.indexes]
            database.execute(*([later[table.name]] if table.name in later else []), *indexes)
        database.analyze()

    names = [table.name for table in tables]
    return TpchDatabase(servers.open(kind, source, map(create, names), fill, names), data.schemas())


def addresses(places: Mapping[str, TpchDatabase]) -> dict[str, Address]:
    """By table."""
    by_source = {source: place.address for source, place in places.items()}
    return {table.name: by_source[table.source] for table in TABLES.values()}


def _declared(type_: pa.DataType) -> str:
    """The type in SQL, in words that all three kinds know and that mean the same."""
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    return {pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.date32(): "DATE", pa.string(): "VARCHAR(160)"}[type_]
