"""The soak's databases: one per source, on a private server or in a file, with one table, filled and captured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from weir.proving.databases import PrivateDatabase, Servers
from weir.proving.soak.journal import JournalRow

TABLES = {
    "crm": ("customer", ("id", "name")),
    "sales": ("orders", ("id", "customer", "status")),
    "shop": ("item", ("id", "order_id", "quantity")),
}
INDEXES = {"sales": "customer", "shop": "order_id"}
_SETTINGS = {"mariadb": {"innodb_flush_log_at_trx_commit": "2", "max_binlog_size": "64M"}}


@contextmanager
def open_databases(
    kinds: Mapping[str, str], rows: Mapping[str, Mapping[int, JournalRow]], folder: Path
) -> Iterator[dict[str, PrivateDatabase]]:
    """The databases by source, each of the kind wanted and holding these rows. Servers are shared between sources."""
    with Servers(folder, _SETTINGS) as servers:
        yield {source: _open(servers, source, kind, rows.get(source, {})) for source, kind in kinds.items()}


def _open(servers: Servers, source: str, kind: str, rows: Mapping[int, JournalRow]) -> PrivateDatabase:
    table, columns = TABLES[source]
    values = [(key, *row) for key, row in rows.items()]
    first = pa.table({name: [row[at] for row in values] for at, name in enumerate(columns)})
    return servers.open(kind, source, _create(source), lambda database: database.load(table, [first]), [table])


def _create(source: str) -> list[str]:
    table, (key, *others) = TABLES[source]
    columns = [f"{name} {'VARCHAR(80)' if name == 'name' else 'INTEGER'} NOT NULL" for name in others]
    made = [f"CREATE TABLE {table} ({key} INTEGER PRIMARY KEY, {', '.join(columns)})"]
    return [*made, f"CREATE INDEX {table}_up ON {table} ({INDEXES[source]})"] if source in INDEXES else made
