"""PostgreSQL's values as psycopg gives them, from any process that can enter the snapshot."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from psycopg import sql

from weir.algebra.types import Column, Schema
from weir.sources.plain import plain_batches
from weir.sources.postgres.catalogue import WatchedPostgresTable
from weir.sources.postgres.connection import PostgresConnection

_AS_TEXT = ("json", "jsonb", "uuid")  # which psycopg would make objects of


def asked(name: str, kind: str) -> sql.Composable:
    """A column in a SELECT."""
    return sql.SQL("{}" + ("::text" if kind in _AS_TEXT else "")).format(sql.Identifier(name))


def read_table(connection: PostgresConnection, table: WatchedPostgresTable) -> Iterator[pa.RecordBatch]:
    """All rows of a table, by a cursor at the server: only some of them are here at a time."""
    schema = Schema(Column(column.name, column.type) for column in table.columns if column.type is not None)
    columns = [asked(column.name, column.kind) for column in table.columns] or [sql.SQL("1")]
    select = sql.SQL("SELECT {} FROM ONLY {}").format(sql.SQL(", ").join(columns), table.name)
    with connection.cursor("weir_plain") as cursor:
        yield from plain_batches(cursor.execute(select), schema, table.relation)
