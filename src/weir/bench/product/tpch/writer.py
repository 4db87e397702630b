"""Applies batches to the sources: every transaction begun and committed at its own database, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from decimal import Decimal
from itertools import groupby
from typing import Any

from weir.bench.product.tpch.bare import Bare
from weir.bench.product.tpch.changes import ChangeBatch, NamedRow, RowChange, RowChanges
from weir.bench.product.tpch.tables import TABLES


class TpchWriter:
    """A connection per table; tables of one source share it."""

    def __init__(self, bare: Mapping[str, Bare]) -> None:
        self.bare = bare

    def apply(self, batch: ChangeBatch) -> None:
        for transaction in batch.transactions:
            self._commit(transaction)

    def _commit(self, transaction: RowChanges) -> None:
        bare = self.bare[transaction[0].table]
        cursor = bare.connection.cursor()
        with _together(bare):
            cursor.execute("BEGIN")
            for statement, rows in _statements(transaction, bare.mark):
                cursor.executemany(statement, [[_written(value, bare) for value in row] for row in rows])
            cursor.execute("COMMIT")


def _together(bare: Bare) -> AbstractContextManager[Any]:
    """PostgreSQL takes all statements of a transaction in one round trip."""
    pipeline: AbstractContextManager[Any] = (
        bare.connection.pipeline() if bare.driver == "postgres" else nullcontext()
    )
    return pipeline


def _statements(transaction: RowChanges, mark: str) -> Iterator[tuple[str, list[list[Any]]]]:
    """Changes of the same kind that follow each other are one statement with many rows."""
    for (table, inserted, deleted), changes in groupby(transaction, lambda c: (c.table, c.old is None, c.new is None)):
        key = TABLES[table].key
        found = " AND ".join(f"{name} = {mark}" for name in key)
        rows = list(changes)
        columns = list(_image(rows[0]))
        if inserted:
            marks = ", ".join([mark] * len(columns))
            statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
            yield statement, [list(_image(row).values()) for row in rows]
        elif deleted:
            yield f"DELETE FROM {table} WHERE {found}", [[_image(row)[name] for name in key] for row in rows]
        else:
            others = [name for name in columns if name not in key]
            settings = ", ".join(f"{name} = {mark}" for name in others)
            values = [[_image(row)[name] for name in (*others, *key)] for row in rows]
            yield f"UPDATE {table} SET {settings} WHERE {found}", values


def _image(change: RowChange) -> NamedRow:
    image = change.new or change.old
    assert image is not None, f"a change of {change.table} that changes nothing"
    return image


def _written(value: Any, bare: Bare) -> Any:
    """SQLite takes a date or a decimal as text; the column makes a number of it."""
    plain = bare.driver == "sqlite" and isinstance(value, date | Decimal)
    return str(value) if plain else value
