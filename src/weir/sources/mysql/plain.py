"""MariaDB's and MySQL's values as PyMySQL gives them, from the text that the server writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pymysql.cursors import SSCursor

from weir.algebra.catalog import Relation
from weir.algebra.quoting import backquoted
from weir.algebra.types import Schema, Type
from weir.sources.plain import Conversions, plain_batches


def asked(name: str, type_: Type) -> str:
    """A column in a SELECT: the text of a FLOAT has six digits, that of a double all of them."""
    return backquoted(name) + (" + 0e0" if type_.name == "float" else "")


def _number(value: Any) -> Any:
    """BIT comes as bytes."""
    return int.from_bytes(value, "big") if isinstance(value, bytes) else value


def _boolean(value: Any) -> Any:
    return {0: False, 1: True}.get(_number(value), value)


CONVERSIONS: Conversions = {"boolean": _boolean, "bigint": _number, "decimal": _number}


def read_table(connection: Any, relation: Relation, schema: Schema) -> Iterator[pa.RecordBatch]:
    """All rows of a table, in the connection's transaction; to the end before anything else is asked."""
    columns = ", ".join(asked(column.name, column.type) for column in schema) or "1"
    with connection.cursor(SSCursor) as cursor:
        cursor.execute(f"SELECT {columns} FROM {backquoted(relation.table)}")
        yield from plain_batches(cursor, schema, relation, CONVERSIONS)
