"""Lookups: the rows whose key columns occur among the keys, and only the needed columns, as Arrow.

``COPY (SELECT ...) TO STDOUT`` is the fastest way out of PostgreSQL, but takes no bound values. So the keys travel as
bound values into settings of the transaction (``set_config``), as one array per key column, and the query reads them
from there: no value ever enters SQL text, and the planner still sees how many keys there are. A semi-join (``IN``)
returns a row once however many of the keys match it.

The key columns' types decide how to compare so that an index serves and nothing is missed. Where SQL types compare
unlike Spark's (a float against a decimal, text against a date), the whole table is fetched: more than asked for is
allowed, less is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.csv
from psycopg import sql

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.types import Type
from weir.sources.postgres.catalogue import ColumnFacts, WatchedPostgresTable
from weir.sources.postgres.connection import PostgresConnection, copy_out
from weir.sources.postgres.values import to_arrow
from weir.sources.source import SourceError

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BIGINT = 1 << 63


# The element type of the array of keys that a column is compared with.
_KEYS = {
    "int2": "int8", "int4": "int8", "int8": "int8", "numeric": "numeric", "float4": "float8", "float8": "float8",
    "text": "text", "varchar": "text", "bpchar": "bpchar", "name": "text", "uuid": "uuid", "json": "text",
    "jsonb": "text", "enum": "text", "bool": "bool", "date": "date", "timestamp": "timestamp",
    "timestamptz": "timestamptz", "bytea": "bytea",
}  # fmt: skip
_BY_TEXT = ("json", "jsonb", "enum")  # the column itself is cast, so that no index on it can serve


def answer(
    connection: PostgresConnection, lookup: Lookup, tables: Mapping[Relation, WatchedPostgresTable], utf8: bool = True
) -> pa.Table:
    """Answers one lookup in the connection's open transaction."""
    table = tables.get(lookup.relation)
    if table is None:
        raise SourceError(f"a lookup in {lookup.relation}, which is not watched")
    columns = [table.column(name) for name in lookup.columns]
    select = select_columns(table, columns)
    arrays = _key_arrays(lookup, table, utf8)
    if arrays is None:
        return fetch(connection, select, columns, lookup.relation)
    if not arrays[0]:
        return _empty(columns)
    _bind(connection, [_literal(array) for array in arrays])
    return fetch(connection, select + _condition(table, lookup.key_columns), columns, lookup.relation)


def select_columns(table: WatchedPostgresTable, columns: Sequence[ColumnFacts]) -> sql.Composed:
    """``SELECT a, b FROM ONLY t``: ONLY, because rows of inheriting tables are those tables' own.

    Without columns (a view may need to know only that there are rows) it is ``SELECT 1``.
    """
    shown: list[sql.Composable] = [sql.Identifier(column.name) for column in columns]
    names = sql.SQL(", ").join(shown or [sql.SQL("1")])
    return sql.SQL("SELECT {} FROM ONLY {} AS t").format(names, table.name)


# -- keys -----------------------------------------------------------------------------------------------------------


def _key_arrays(lookup: Lookup, table: WatchedPostgresTable, utf8: bool) -> list[list[str]] | None:
    """The keys as text, an array per key column; None without keys, or when only fetching everything can compare them.

    Keys with a NULL are left out (NULL joins nothing), and so are keys that no value of the column can equal.
    """
    if lookup.keys is None:
        return None
    keys = lookup.keys.keep(lookup.key_columns)
    columns = [table.column(name) for name in lookup.key_columns]
    writers = [_writer(c, type_) for c, type_ in zip(columns, keys.schema.types, strict=True)]
    if any(writer is None for writer in writers):
        return None
    arrays = _columns([row for row, _ in keys.items()], [writer for writer in writers if writer is not None])
    if not utf8 and not all(text.isascii() for array in arrays for text in array):
        return None  # the server might not know the character; it would refuse the whole array
    return arrays


def _columns(rows: list[tuple[Any, ...]], writers: Sequence[Write]) -> list[list[Any]]:
    if len(writers) == 1:
        (write,) = writers
        return [[text for (value,) in rows if value is not None and (text := write(value)) is not None]]
    written = [[None if v is None else w(v) for w, v in zip(writers, row, strict=True)] for row in rows]
    return [list(column) for column in zip(*(row for row in written if None not in row), strict=True)] or [[]]


Write = Callable[[Any], str | None]


def _writer(column: ColumnFacts, type_: Type) -> Write | None:
    """How a key of ``type_`` is written for this column; None when types so unlike need the whole table."""
    assert column.type is not None
    mine = column.type
    if type_.is_integer and (mine.is_integer or mine.name == "decimal"):
        return str
    if type_.name == "decimal" and (mine.is_integer or mine.name == "decimal"):
        return _write_integer if mine.is_integer else str
    if mine.family != type_.family:
        return None
    if column.kind == "uuid":
        return _write_uuid
    return _WRITERS[mine.name]


def _write_integer(value: Decimal) -> str | None:
    """Nothing for a number that no integer column holds."""
    whole = int(value)
    return str(whole) if whole == value and -_BIGINT <= whole < _BIGINT else None


def _write_text(value: str) -> str | None:
    """Nothing for text that PostgreSQL cannot hold: NUL, or half a surrogate pair."""
    if "\0" in value:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return _quoted(value)


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write_uuid(value: str) -> str | None:
    return value if _UUID.fullmatch(value) else None


def _write_float(value: float) -> str:
    return repr(float(value))  # 'nan', 'inf' and '-inf' are read as well


def _write_moment(value: date | datetime) -> str:
    return _quoted(value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat())


_WRITERS: dict[str, Write] = {
    "float": _write_float,
    "double": _write_float,
    "string": _write_text,
    "boolean": lambda value: "t" if value else "f",
    "binary": lambda value: _quoted("\\x" + value.hex()),
    "date": _write_moment,
    "timestamp": _write_moment,
    "timestamp_ntz": _write_moment,
}


def _literal(array: Iterable[str]) -> str:
    return "{" + ",".join(array) + "}"


def _bind(connection: PostgresConnection, arrays: Sequence[str]) -> None:
    """Hands the arrays over as bound values, for the rest of the transaction."""
    calls = ", ".join("set_config(%s, %s, true)" for _ in arrays)
    values = [value for at, array in enumerate(arrays) for value in (_setting(at), array)]
    connection.execute(f"SELECT {calls}", values)


def _setting(at: int) -> str:
    return f"weir.key{at}"


def _condition(table: WatchedPostgresTable, names: Sequence[str]) -> sql.Composed:
    """``WHERE (a, b::text) IN (SELECT * FROM unnest(keys of a, keys of b))``.

    One column with an index is ``a = ANY (keys of a)``: the index is walked once, in half the time of a join. The keys
    stand in a sub-select, which is evaluated once: where they reach most of a table, the server might read all of it
    and take the setting apart again for every row. Without an index a join is better: it can hash.
    """
    columns = [table.column(name) for name in names]
    served = table.keys.serves([column.name for column in columns if column.kind not in _BY_TEXT])
    elements = [sql.SQL(_KEYS[column.kind]) for column in columns]
    sides, arrays = [], []
    for at, (column, element) in enumerate(zip(columns, elements, strict=True)):
        cast = sql.SQL("::text" if column.kind in _BY_TEXT else "")
        sides.append(sql.SQL("t.{}{}").format(sql.Identifier(column.name), cast))
        arrays.append(sql.SQL("current_setting({})::{}[]").format(sql.Literal(_setting(at)), element))
    if served and len(columns) == 1:
        once = sql.SQL("(SELECT {})::{}[]").format(arrays[0], elements[0])
        return sql.SQL(" WHERE {} = ANY ({})").format(sides[0], once)
    comma = sql.SQL(", ")
    return sql.SQL(" WHERE ({}) IN (SELECT * FROM unnest({}))").format(comma.join(sides), comma.join(arrays))


# -- rows -----------------------------------------------------------------------------------------------------------


def fetch(
    connection: PostgresConnection, query: sql.Composable, columns: Sequence[ColumnFacts], relation: Relation
) -> pa.Table:
    """The query's rows as an Arrow table, read through ``COPY``."""
    return parse_csv(b"".join(copy_rows(connection, query)), columns, relation)


def copy_rows(connection: PostgresConnection, query: sql.Composable) -> Iterator[bytes]:
    return copy_out(connection, sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(query))


def parse_csv(data: bytes, columns: Sequence[ColumnFacts], relation: Relation) -> pa.Table:
    """CSV as ``COPY`` writes it: an empty field is NULL, a quoted empty one is the empty string."""
    if not data:
        return _empty(columns)
    if not columns:
        return pa.table({"": pa.nulls(data.count(b"\n"))}).select([])  # a line a row, of nothing but a 1
    names = [f"c{at}" for at in range(len(columns))]  # two columns may not share a name in CSV, in SQL they might
    texts = pa.csv.read_csv(
        BytesIO(data),
        read_options=pa.csv.ReadOptions(column_names=names, block_size=max(1 << 20, len(data) + 1), use_threads=False),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    arrays = [_typed(texts.column(at), column, relation) for at, column in enumerate(columns)]
    return pa.table(arrays, names=[column.name for column in columns])


def _typed(texts: pa.ChunkedArray, column: ColumnFacts, relation: Relation) -> pa.Array:
    assert column.type is not None
    return to_arrow(texts.combine_chunks(), column.type, f"{relation}.{column.name}")


def _empty(columns: Sequence[ColumnFacts]) -> pa.Table:
    return pa.table(
        [_typed(pa.chunked_array([], pa.binary()), column, Relation("", "")) for column in columns],
        names=[column.name for column in columns],
    )
