"""What the databases' SQL dialects write differently: names, literals, tables; and their rows as Spark's values.

Rows are read by the plain drivers, as the audit reads them (``weir.sources.plain``), with no decoder in between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from weir.algebra.quoting import backquoted, double_quoted
from weir.algebra.types import parse_type
from weir.proving.fuzz.case import FuzzColumn, FuzzTable
from weir.sources.mysql import plain as mysql
from weir.sources.plain import Conversions
from weir.sources.postgres import plain as postgres
from weir.sources.sqlite import plain as sqlite


class SqlDialect:
    """One driver's dialect."""

    conversions: Conversions = MappingProxyType({})  # of what the driver gives, into values of Spark's types

    def name(self, name: str) -> str:
        return double_quoted(name)

    def create(self, table: FuzzTable) -> str:
        """The CREATE TABLE statement."""
        columns = [f"{self.name(column.name)} {column.declared}" for column in table.columns]
        key = [f"PRIMARY KEY ({', '.join(map(self.name, table.key))})"] if table.key else []
        return f"CREATE TABLE {self.name(table.name)} ({', '.join([*columns, *key, *table.extra])})"

    def literal(self, value: Any) -> str:
        """A value in a statement."""
        match value:
            case None:
                return "NULL"
            case bool():
                return self.boolean(value)
            case float():
                return self.real(value)
            case bytes():
                return self.binary(value)
            case datetime() | date():
                return self.text(self.moment(value))
            case str():
                return self.text(value)
        return str(value)

    def boolean(self, value: bool) -> str:
        return "TRUE" if value else "FALSE"

    def real(self, value: float) -> str:
        return repr(value) if "e" in repr(value) else f"{value!r}e0"

    def binary(self, value: bytes) -> str:
        return f"X'{value.hex()}'"

    def text(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def moment(self, value: date) -> str:
        if not isinstance(value, datetime):
            return value.isoformat()
        return value.isoformat(" ")

    def select(self, column: FuzzColumn) -> str:
        """The column in a query that reads it exactly."""
        return self.name(column.name)


class SqliteDialect(SqlDialect):
    """Booleans, dates and decimals are numbers and text."""

    conversions = sqlite.CONVERSIONS

    def boolean(self, value: bool) -> str:
        return str(int(value))

    def real(self, value: float) -> str:
        if math.isinf(value):
            return "9e999" if value > 0 else "-9e999"
        return "NULL" if math.isnan(value) else repr(value)


class FilesDialect(SqliteDialect):
    """The shadow tables of files, whose columns declare nothing: they keep whatever was written as a number."""

    conversions: Conversions = MappingProxyType(
        {**sqlite.CONVERSIONS, "decimal": lambda found: Decimal(str(found)), "double": float, "float": float}
    )


class PostgresDialect(SqlDialect):
    """Its literals carry their types."""

    def real(self, value: float) -> str:
        return f"'{value!r}'::float8"

    def binary(self, value: bytes) -> str:
        return f"'\\x{value.hex()}'::bytea"

    def select(self, column: FuzzColumn) -> str:
        return postgres.asked(column.name, column.declared).as_string(None)


class MariadbDialect(SqlDialect):
    """Its backslashes escape."""

    conversions = mysql.CONVERSIONS

    def name(self, name: str) -> str:
        return backquoted(name)

    def boolean(self, value: bool) -> str:
        return f"b'{int(value)}'"

    def text(self, value: str) -> str:
        return super().text(value.replace("\\", "\\\\"))

    def moment(self, value: date) -> str:
        return super().moment(value).removesuffix("+00:00")

    def select(self, column: FuzzColumn) -> str:
        return mysql.asked(column.name, parse_type(column.type))


DIALECTS: Mapping[str, SqlDialect] = {
    "sqlite": SqliteDialect(), "postgres": PostgresDialect(), "mariadb": MariadbDialect(), "files": FilesDialect(),
}  # fmt: skip
DRIVERS: Mapping[str, str] = {  # kind -> its dialect
    "sqlite": "sqlite", "postgres": "postgres", "postgres-triggers": "postgres", "mariadb": "mariadb",
    "mariadb-locks": "mariadb", "mysql": "mariadb", "files": "files",
}  # fmt: skip


def dialect_of(kind: str) -> SqlDialect:
    return DIALECTS[DRIVERS[kind]]
