"""Reading rows of SQLite into Arrow, with an error that names the row where a value does not fit."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.catalog import Relation
from weir.algebra.types import Schema
from weir.sources.source import SourceError
from weir.sources.sqlite.values import Misfit, to_arrow

FetchedRows = list[tuple[Any, ...]]


def fetch(database: sqlite3.Connection, statement: str, values: Sequence[Any] = ()) -> FetchedRows:
    """All rows. Text that is not UTF-8 comes with its stray bytes marked, for ``columns`` to refuse by name."""
    try:
        return database.execute(statement, values).fetchall()
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):
            raise
    try:
        database.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        return database.execute(statement, values).fetchall()
    finally:
        database.text_factory = str


def columns(rows: FetchedRows, schema: Schema, relation: Relation, skip: int = 0) -> list[pa.Array]:
    """The rows' values, after the first ``skip``, as one Arrow array per column of ``schema``."""
    across = list(zip(*rows, strict=True)) if rows else [()] * (skip + len(schema))
    arrays = []
    for column, values in zip(schema, across[skip:], strict=True):
        try:
            arrays.append(to_arrow(values, column.type))
        except Misfit as misfit:
            raise _refusal(relation, column.name, misfit, rows[misfit.at][skip:], schema) from None
    return arrays


def as_table(rows: FetchedRows, schema: Schema, relation: Relation) -> pa.Table:
    """The rows as an Arrow table; without columns still as many rows."""
    if not schema:
        return pa.table({"": pa.nulls(len(rows))}).select([])
    return pa.Table.from_arrays(columns(rows, schema, relation), schema=arrow_schema(schema))


def _refusal(relation: Relation, column: str, misfit: Misfit, row: tuple[Any, ...], schema: Schema) -> SourceError:
    shown = ", ".join(f"{name}={_short(value)}" for name, value in zip(schema.names, row, strict=True))
    return SourceError(
        f"table {relation}, column '{column}', row ({shown}): {misfit}. Correct it, or the column's declared type, "
        "then load the views that use this source again"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
