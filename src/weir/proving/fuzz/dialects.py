"""What the databases' SQL dialects write differently: names, literals, tables; and their rows as Spark's values.

Rows are read by the plain drivers, with nothing of Weir in between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from weir.algebra.quoting import backquoted, double_quoted
from weir.proving.fuzz.case import FuzzColumn, FuzzTable


class SqlDialect:
    """One driver's dialect."""

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

    def value(self, found: Any, column: FuzzColumn) -> Any:
        """What the driver gave, as a value of the column's Spark type."""
        return found


class SqliteDialect(SqlDialect):
    """Booleans, dates and decimals are numbers and text; the shadow tables of files are kept so too."""

    def boolean(self, value: bool) -> str:
        return str(int(value))

    def real(self, value: float) -> str:
        if math.isinf(value):
            return "9e999" if value > 0 else "-9e999"
        return "NULL" if math.isnan(value) else repr(value)

    def value(self, found: Any, column: FuzzColumn) -> Any:
        if found is None:
            return None
        if column.type.startswith("decimal"):
            return Decimal(repr(found) if isinstance(found, float) else str(found))
        made = _FROM_SQLITE.get(column.type)
        return made(found) if made else found


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


_FROM_SQLITE: Mapping[str, Any] = {
    "boolean": bool, "date": date.fromisoformat, "timestamp_ntz": datetime.fromisoformat, "timestamp": _instant,
    "double": float, "float": float,
}  # fmt: skip


class PostgresDialect(SqlDialect):
    """Reads what is delivered as text (uuid, json, enumerations) as text."""

    def real(self, value: float) -> str:
        return f"'{value!r}'::float8"

    def binary(self, value: bytes) -> str:
        return f"'\\x{value.hex()}'::bytea"

    def select(self, column: FuzzColumn) -> str:
        as_text = column.type == "string" and not column.declared.startswith(("char", "varchar", "text"))
        return self.name(column.name) + ("::text" if as_text else "")


class MariadbDialect(SqlDialect):
    """A FLOAT is shown rounded unless it is a double; BIT comes as bytes."""

    def name(self, name: str) -> str:
        return backquoted(name)

    def boolean(self, value: bool) -> str:
        return f"b'{int(value)}'"

    def text(self, value: str) -> str:
        return super().text(value.replace("\\", "\\\\"))

    def moment(self, value: date) -> str:
        return super().moment(value).removesuffix("+00:00")

    def select(self, column: FuzzColumn) -> str:
        return self.name(column.name) + (" + 0e0" if column.type == "float" else "")

    def value(self, found: Any, column: FuzzColumn) -> Any:
        if isinstance(found, bytes) and column.declared.startswith("BIT"):
            number = int.from_bytes(found, "big")
            return bool(number) if column.type == "boolean" else number
        if isinstance(found, datetime) and column.type == "timestamp":
            return found.replace(tzinfo=UTC)
        return found


DIALECTS: Mapping[str, SqlDialect] = {
    "sqlite": SqliteDialect(), "postgres": PostgresDialect(), "mariadb": MariadbDialect(), "files": SqliteDialect(),
}  # fmt: skip
DRIVERS: Mapping[str, str] = {  # kind -> its dialect
    "sqlite": "sqlite", "postgres": "postgres", "postgres-triggers": "postgres", "mariadb": "mariadb",
    "mariadb-locks": "mariadb", "mysql": "mariadb", "files": "files",
}  # fmt: skip


def dialect_of(kind: str) -> SqlDialect:
    return DIALECTS[DRIVERS[kind]]
