"""Rows as a plain driver converts them, in Arrow: how the audit and the fuzz read a table.

What a source delivers, by load, change and lookup, comes through decoders of ours that were written to be fast. A
witness must not share them. Here a table is one SELECT of the driver's own cursor, its values are the Python objects
that the driver makes, and ``pyarrow.array`` makes columns of them. All that a kind adds is in its own ``plain.py``:
columns for which it asks the server in another form, because the driver would lose something, and values that stand
for others, because the database lacks the type.

``pyarrow.array`` would bend some values (1.5 into 1, bytes into text). So one that is not of its type's Python class
is refused: an audit that cannot read is no clean audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa

from weir.algebra.arrow_types import arrow_schema, arrow_type
from weir.algebra.types import INTEGER_BITS, Column, Schema
from weir.sources.source import SourceError

DriverRow = tuple[Any, ...]
Conversions = Mapping[str, Callable[[Any], Any]]  # name of our type -> from the driver's value, never NULL

ROWS_IN_BATCH = 10_000
_CLASSES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(INTEGER_BITS, (int,)), "decimal": (int, Decimal), "float": (float,), "double": (float,),
    "string": (str,), "binary": (bytes,), "boolean": (bool,), "date": (date,), "timestamp": (datetime,),
    "timestamp_ntz": (datetime,),
}  # fmt: skip


class PlainCursor(Protocol):
    """Every driver's cursor, of which only some rows are in memory at a time."""

    def fetchmany(self, size: int, /) -> Sequence[Any]: ...


def plain_batches(
    cursor: PlainCursor, schema: Schema, table: object, conversions: Conversions | None = None
) -> Iterator[pa.RecordBatch]:
    """What a cursor still has; ``table`` is named in errors."""
    while rows := _fetched(cursor, table):
        yield from plain_table(rows, schema, table, conversions).to_batches()


def _fetched(cursor: PlainCursor, table: object) -> Sequence[DriverRow]:
    try:
        return cursor.fetchmany(ROWS_IN_BATCH)
    except ValueError as problem:  # text that is none
        raise SourceError(f"table {table}: its driver cannot read a row: {problem}") from problem


def plain_table(
    rows: Sequence[DriverRow], schema: Schema, table: object, conversions: Conversions | None = None
) -> pa.Table:
    """A driver's rows with columns of our types; without columns still as many rows."""
    if not schema:
        return pa.table({"": pa.nulls(len(rows))}).select([])
    across = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [_column(values, column, table, conversions or {}) for values, column in zip(across, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))


def _column(values: Sequence[Any], column: Column, table: object, conversions: Conversions) -> pa.Array:
    name, convert = column.type.name, conversions.get(column.type.name)
    try:
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        if strangers := {*map(type, values)} - {type(None), *_CLASSES[name]}:
            raise TypeError(f"a value of the class {strangers.pop().__name__}")
        return pa.array(values, arrow_type(column.type))
    except (TypeError, ValueError, ArithmeticError) as problem:  # Arrow's own are among them
        told = f"{table}.{column.name}: its driver gives what the type {column.type} cannot hold: {problem}"
        raise SourceError(f"{told}; change the value (or the column's type) at the source, then load again") from None
