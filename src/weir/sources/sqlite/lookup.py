"""Lookups in SQLite: rows for given keys, every value bound, each matching row once.

An answer may hold more rows than asked for, never fewer: keys of a type that SQLite compares unlike Spark (text with a
date, an integer with a double) ask for the whole table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import chain, product
from typing import Any

from weir.algebra.hops import Lookup
from weir.algebra.quoting import double_quoted, double_quoted_list
from weir.algebra.types import Schema
from weir.sources.sqlite.values import as_it_is, key_forms

MOST_BOUND = 30_000  # SQLite binds at most 32,766 values by default; beyond, keys go into a temporary table
_Key = tuple[Any, ...]
FetchRows = Callable[[sqlite3.Connection, str, Sequence[Any]], list[Any]]


def question(lookup: Lookup) -> str:
    """The SELECT without its condition."""
    columns = double_quoted_list(lookup.columns) or "1"
    return f"SELECT {columns} FROM {double_quoted(lookup.relation.table)}"


def bound_keys(lookup: Lookup, schema: Schema) -> list[_Key] | None:
    """The keys, each given once, in every form that the table may hold them in; None where all rows must be asked for.

    NULL equals nothing, so it is not sent.
    """
    if lookup.keys is None:
        return None
    given = lookup.keys.keep(lookup.key_columns)
    keys = [row for row, _ in given.items() if None not in row]
    types = zip(map(schema.type_of, lookup.key_columns), given.schema.types, strict=True)
    ways = [key_forms(column, key) for column, key in types] if keys else []
    if all(way is as_it_is for way in ways):
        return keys
    known = [way for way in ways if way is not None]
    if len(known) < len(ways):
        return None
    return [key for row in keys for key in product(*(way(value) for way, value in zip(known, row, strict=True)))]


def rows_for(database: sqlite3.Connection, lookup: Lookup, keys: Sequence[_Key] | None, fetch: FetchRows) -> list[Any]:
    """The rows whose key columns are among ``keys``, by IN:

    a row that two keys match under a loose collation comes once. Without keys all rows.
    """
    if keys is None:
        return fetch(database, question(lookup), ())
    if not keys:
        return []
    try:
        if len(keys) * len(lookup.key_columns) > MOST_BOUND:
            return _by_table(database, lookup, keys, fetch)
        condition = _condition(lookup.key_columns, len(keys))
        return fetch(database, f"{question(lookup)} WHERE {condition}", list(chain.from_iterable(keys)))
    except (OverflowError, UnicodeEncodeError):  # a value that SQLite cannot hold: no row has it
        return rows_for(database, lookup, [key for key in keys if all(map(_storable, key))], fetch)


def _storable(value: Any) -> bool:
    try:
        return not (isinstance(value, int) and not -(2**63) <= value < 2**63) and bool(str(value).encode() or True)
    except UnicodeEncodeError:
        return False


def _condition(columns: Sequence[str], many: int) -> str:
    if len(columns) == 1:
        return f"{double_quoted(columns[0])} IN ({', '.join('?' * many)})"
    row = f"({', '.join('?' * len(columns))})"
    names = ", ".join(f"k{number}" for number in range(len(columns)))
    # The WITH lets SQLite use an index; a bare VALUES list makes it scan the table.
    return f"{_row(columns)} IN (WITH keys({names}) AS (VALUES {', '.join([row] * many)}) SELECT {names} FROM keys)"


def _row(columns: Sequence[str]) -> str:
    names = double_quoted_list(columns)
    return f"({names})" if len(columns) > 1 else names


def _by_table(database: sqlite3.Connection, lookup: Lookup, keys: Sequence[_Key], fetch: FetchRows) -> list[Any]:
    names = [f"k{number}" for number in range(len(lookup.key_columns))]
    database.execute("DROP TABLE IF EXISTS temp.weir_keys")
    database.execute(f"CREATE TEMP TABLE weir_keys ({', '.join(names)})")
    database.executemany(f"INSERT INTO temp.weir_keys VALUES ({', '.join('?' * len(names))})", keys)
    chosen = f"SELECT {', '.join(names)} FROM temp.weir_keys"
    rows = fetch(database, f"{question(lookup)} WHERE {_row(lookup.key_columns)} IN ({chosen})", ())
    database.execute("DROP TABLE temp.weir_keys")
    return rows
