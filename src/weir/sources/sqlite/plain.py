"""SQLite's values as the module ``sqlite3`` gives them, and what stands for a type that SQLite lacks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from weir.algebra.catalog import Relation
from weir.algebra.quoting import double_quoted, double_quoted_list
from weir.algebra.types import Schema
from weir.sources.plain import Conversions, plain_batches


def _boolean(value: Any) -> Any:
    return {0: False, 1: True}.get(value, value)


def _decimal(value: Any) -> Any:
    """A real that is no whole number stands for what was written: the shortest decimal that reads back as it."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else Decimal(repr(value))


CONVERSIONS: Conversions = {
    "boolean": _boolean, "decimal": _decimal, "date": date.fromisoformat, "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
}  # fmt: skip


def read_table(database: sqlite3.Connection, relation: Relation, schema: Schema) -> Iterator[pa.RecordBatch]:
    """All rows of a table, in the connection's transaction."""
    columns = double_quoted_list(schema.names) or "1"
    cursor = database.execute(f"SELECT {columns} FROM {double_quoted(relation.table)}")
    yield from plain_batches(cursor, schema, relation, CONVERSIONS)
