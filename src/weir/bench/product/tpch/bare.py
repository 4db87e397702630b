"""The bare drivers: rows of a table by a condition, as Arrow, each kind the quickest way that its driver knows.

Nothing of Weir is in the way: no snapshot, no log, no check of shapes. Keys are whole numbers of our own making, so
they stand in the text of the question; that saves the round trip that binding them would cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv
import pymysql.cursors
from psycopg import sql
from pymysql.converters import encoders

from weir.proving.kinds import Login
from weir.sources.postgres.connection import copy_out

ROWS_AT_ONCE = 50_000
BYTES_AT_ONCE = 4 << 20


@dataclass(frozen=True)
class Address:
    """Where a database is and what its tables look like; picklable, so that tasks and processes can open it."""

    login: Login
    schemas: Mapping[str, pa.Schema] = field(repr=False)

    def open(self) -> Bare:
        return DRIVERS[self.login.driver](self)


class Bare(ABC):
    """One connection of the driver, and what went over it."""

    keys_at_once: ClassVar[int] = 1_000_000
    ways: ClassVar[Mapping[str, Any]] = {}  # how the driver is told to connect, beside the login

    def __init__(self, address: Address) -> None:
        self.address, self.driver, self.mark = address, address.login.driver, address.login.mark
        self.connection: Any = address.login.connect(**self.ways)
        self.sent = self.received = 0  # bytes: the questions' text, and the rows as Arrow

    @abstractmethod
    def select(self, statement: str, schema: pa.Schema) -> Iterator[pa.Table]:
        """The rows of a SELECT, some at a time."""

    @abstractmethod
    def parts(self, table: str, many: int) -> list[str]:
        """Conditions that cut a table into about so many parts, each row in one."""

    def scan(self, table: str, columns: Sequence[str], condition: str = "") -> Iterator[pa.Table]:
        schema = pa.schema([self.address.schemas[table].field(name) for name in columns])
        statement = f"SELECT {', '.join(columns)} FROM {table}" + (f" WHERE {condition}" if condition else "")
        self.sent += len(statement)
        for rows in self.select(statement, schema):
            self.received += rows.nbytes
            yield rows

    def look(self, table: str, columns: Sequence[str], key: str, keys: Sequence[int]) -> pa.Table:
        """The rows whose key is among the keys."""
        found = [
            rows
            for start in range(0, len(keys), self.keys_at_once)
            for rows in self.scan(table, columns, self.condition(key, keys[start : start + self.keys_at_once]))
        ]
        empty = pa.schema([self.address.schemas[table].field(name) for name in columns]).empty_table()
        return pa.concat_tables([empty, *found])

    def condition(self, key: str, keys: Sequence[int]) -> str:
        return f"{key} IN ({', '.join(map(str, keys))})"

    def bounds(self, expression: str, table: str) -> tuple[int, int]:
        cursor = self.connection.cursor()
        cursor.execute(f"SELECT MIN({expression}), MAX({expression}) FROM {table}")
        low, high = cursor.fetchone()
        return int(low or 0), int(high or 0)

    def close(self) -> None:
        self.connection.close()


class BarePostgres(Bare):
    """psycopg: ``COPY`` as CSV, which Arrow parses."""

    def select(self, statement: str, schema: pa.Schema) -> Iterator[pa.Table]:
        copy = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(sql.SQL(statement))
        gathered: list[bytes] = []
        size = 0
        for row in copy_out(self.connection, copy):
            gathered.append(row)
            size += len(row)
            if size >= BYTES_AT_ONCE:
                yield _from_csv(b"".join(gathered), schema)
                gathered, size = [], 0
        if gathered:
            yield _from_csv(b"".join(gathered), schema)

    def condition(self, key: str, keys: Sequence[int]) -> str:
        return f"{key} = ANY ('{{{','.join(map(str, keys))}}}'::bigint[])"

    def parts(self, table: str, many: int) -> list[str]:
        """Ranges of pages."""
        (pages,) = self.connection.execute(
            "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int", (table,)
        ).fetchone()
        return _ranges("ctid", 0, pages - 1, many, "'({},0)'::tid")


class BareMariadb(Bare):
    """PyMySQL without its conversions of answers: values stay text, which Arrow converts by the column."""

    keys_at_once = 512  # beyond, the server stops reading ranges of the index
    ways: ClassVar[Mapping[str, Any]] = {"conv": encoders, "cursorclass": pymysql.cursors.SSCursor}

    def select(self, statement: str, schema: pa.Schema) -> Iterator[pa.Table]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                columns = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
                yield pa.table(columns, names=schema.names).cast(schema)

    def parts(self, table: str, many: int) -> list[str]:
        """Ranges of the key's first column."""
        key = self.address.schemas[table].names[0]
        return _ranges(key, *self.bounds(key, table), many)


class BareSqlite(Bare):
    """The standard library's sqlite3."""

    def select(self, statement: str, schema: pa.Schema) -> Iterator[pa.Table]:
        cursor = self.connection.execute(statement)
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            across = zip(*rows, strict=True)
            columns = [_from_sqlite(values, type_) for values, type_ in zip(across, schema.types, strict=True)]
            yield pa.table(columns, schema=schema)

    def parts(self, table: str, many: int) -> list[str]:
        """Ranges of the row number."""
        return _ranges("rowid", *self.bounds("rowid", table), many)


DRIVERS: dict[str, type[Bare]] = {"postgres": BarePostgres, "mariadb": BareMariadb, "sqlite": BareSqlite}


def _ranges(expression: str, low: int, high: int, many: int, value: str = "{}") -> list[str]:
    starts = [value.format(n) for n in sorted({low + (high - low + 1) * part // many for part in range(many)})]
    ends = [f" AND {expression} < {end}" for end in starts[1:]] + [""]
    return [f"{expression} >= {start}{end}" for start, end in zip(starts, ends, strict=True)]


def _from_csv(data: bytes, schema: pa.Schema) -> pa.Table:
    return pa.csv.read_csv(
        BytesIO(data),
        read_options=pa.csv.ReadOptions(column_names=schema.names, block_size=len(data) + 1, use_threads=False),
        convert_options=pa.csv.ConvertOptions(column_types=schema),
    )


def _from_sqlite(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(type_):  # stored as a whole number or a real
        return pa.array(values, pa.float64()).cast(type_)
    return pa.array(values, pa.string()).cast(type_) if pa.types.is_date(type_) else pa.array(values, type_)
