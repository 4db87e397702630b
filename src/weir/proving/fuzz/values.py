"""Column types of every kind, the odd ones too, and the values that tables are filled with.

Values are drawn from small pools, the same for all types of a family, so that joins find partners; among them are those
that databases, Spark and Python like to disagree about.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

NUMBERS, TEXTS, FLOATS, BYTES, TRUTHS, DATES, MOMENTS, INSTANTS = (
    "numbers", "texts", "floats", "bytes", "truths", "dates", "moments", "instants",
)  # fmt: skip


class ColumnType(NamedTuple):
    """A type as its database declares it, as Spark sees it, and what may be stored in it."""

    declared: str
    type: str
    weight: int = 2
    values: Sequence[Any] = ()  # instead of the family's

    @property
    def family(self) -> str:
        return family_of(self.type)


def family_of(type_: str) -> str:
    """Types of one family can be compared without a cast that might fail."""
    return _FAMILIES.get(type_, NUMBERS)


_FAMILIES = {
    "string": TEXTS, "float": FLOATS, "double": FLOATS, "binary": BYTES, "boolean": TRUTHS, "date": DATES,
    "timestamp_ntz": MOMENTS, "timestamp": INSTANTS,
}  # fmt: skip
_INTEGERS = (0, 1, 2, 3, 1, 2, 7, -1, 50)
_DECIMALS = tuple(map(Decimal, ("0", "1", "2", "3", "1.50", "2.25", "-1", "50", "0.01")))
_ASCII = ("", "a", "A", "b", "a ", "ab", "a_b", "a%", "1", "2", "it's", "x\\y", "1.50", "a\nb")
_LATIN = (*_ASCII, "ä", "É", "ß", "Ä")
_UNICODE = (*_LATIN, "😀", "ı", "e\u0301", "é", "あ", "\u2028")
_FLOATS = (0.0, 1.0, 2.0, 1.5, -1.0, 0.1, 3.0, 2e23, 1e-5, 1e7, 123456.789, -0.0)
_WILD = (*_FLOATS, float("nan"), float("inf"), float("-inf"))
_BYTES = (b"", b"\x00", b"a", b"\xff\x00", b"ab", b"a\x00")
_DATES = (date(2020, 1, 1), date(2020, 2, 29), date(1969, 12, 31), date(2020, 1, 1), date(1, 1, 1), date(9999, 12, 31),
          date(1582, 10, 10), date(2021, 3, 28))  # fmt: skip
_MOMENTS = (datetime(2020, 1, 1), datetime(2020, 2, 29, 12, 30), datetime(1969, 12, 31, 23, 59, 59), datetime(1, 1, 1),
            datetime(9999, 12, 31, 23, 59, 59), datetime(2021, 3, 28, 2, 30))  # fmt: skip
_FINE = (*_MOMENTS, datetime(2020, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))
_POOLS: Mapping[str, Sequence[Any]] = {
    NUMBERS: _INTEGERS, TEXTS: _UNICODE, FLOATS: _FLOATS, BYTES: _BYTES, TRUTHS: (True, False), DATES: _DATES,
    MOMENTS: _MOMENTS, INSTANTS: tuple(moment.replace(tzinfo=UTC) for moment in _MOMENTS),
}  # fmt: skip
_FINE_INSTANTS = tuple(moment.replace(tzinfo=UTC) for moment in _FINE)
_YOUNG = tuple(moment for moment in _POOLS[INSTANTS] if 1970 < moment.year < 2038)
_UUIDS = ("00000000-0000-0000-0000-000000000001", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
_LONG_DECIMALS = (*_DECIMALS, Decimal("1234567890123456789012345678.0000000001"))
_LARGE = (*_INTEGERS, 2**64 - 1, 2**63)


def _short(values: Sequence[str], most: int) -> tuple[str, ...]:
    return tuple(value for value in values if len(value) <= most)


COLUMN_TYPES: Mapping[str, Sequence[ColumnType]] = {  # by dialect; the first two are keys' favourites
    "sqlite": (
        ColumnType("INTEGER", "bigint", 6), ColumnType("TEXT", "string", 5, tuple(v for v in _UNICODE)),
        ColumnType("REAL", "double", 2, tuple(v for v in _WILD if v == v)), ColumnType("VARCHAR(10)", "string"),
        ColumnType("BLOB", "binary", 1), ColumnType("BOOLEAN", "boolean"), ColumnType("DATE", "date"),
        ColumnType("DATETIME", "timestamp_ntz", 1, _FINE), ColumnType("TIMESTAMPTZ", "timestamp", 1, _FINE_INSTANTS),
        ColumnType("DECIMAL(10,2)", "decimal(10,2)", 3, _DECIMALS), ColumnType("BIGINT", "bigint"),
    ),
    "postgres": (
        ColumnType("int", "int", 5), ColumnType("text", "string", 4), ColumnType("bigint", "bigint"),
        ColumnType("smallint", "smallint", 1), ColumnType("numeric(10,2)", "decimal(10,2)", 3, _DECIMALS),
        ColumnType("numeric(38,10)", "decimal(38,10)", 1, _LONG_DECIMALS), ColumnType("real", "float", 1, _WILD),
        ColumnType("double precision", "double", 2, _WILD), ColumnType("varchar(10)", "string"),
        ColumnType("char(4)", "string", 2, _short(_UNICODE, 4)), ColumnType("uuid", "string", 1, _UUIDS),
        ColumnType("boolean", "boolean"), ColumnType("bytea", "binary", 1), ColumnType("date", "date"),
        ColumnType("timestamp", "timestamp_ntz", 1, _FINE), ColumnType("timestamptz", "timestamp", 1, _FINE_INSTANTS),
        ColumnType("json", "string", 1, ('{"a": 1}', "[1,  2]", "null")),
        ColumnType("jsonb", "string", 1, ('{"a": 1}', "[1,  2]", '{"b":1,"a":2}')),
    ),
    "mariadb": (
        ColumnType("INT", "int", 5), ColumnType("VARCHAR(10)", "string", 4), ColumnType("BIGINT", "bigint"),
        ColumnType("TINYINT", "tinyint", 1), ColumnType("SMALLINT", "smallint", 1), ColumnType("MEDIUMINT", "int", 1),
        ColumnType("INT UNSIGNED", "bigint", 1, (0, 1, 2, 3, 50, 2**32 - 1)),
        ColumnType("BIGINT UNSIGNED", "decimal(20,0)", 1, tuple(v for v in _LARGE if v >= 0)),
        ColumnType("DECIMAL(10,2)", "decimal(10,2)", 3, _DECIMALS), ColumnType("FLOAT", "float", 1),
        ColumnType("DOUBLE", "double", 2), ColumnType("BIT(1)", "boolean", 1),
        ColumnType("BIT(8)", "bigint", 1, (0, 1, 2)),
        ColumnType("YEAR", "smallint", 1, (1901, 2020, 2155)), ColumnType("DATE", "date"),
        ColumnType("DATETIME", "timestamp_ntz", 1), ColumnType("DATETIME(6)", "timestamp_ntz", 1, _FINE),
        ColumnType("TIMESTAMP NULL", "timestamp", 1, _YOUNG), ColumnType("TEXT", "string", 1),
        ColumnType("CHAR(4)", "string", 2, _short(_UNICODE, 4)),
        ColumnType("VARCHAR(10) CHARACTER SET latin1", "string", 2, _LATIN),
        ColumnType("VARCHAR(10) CHARACTER SET utf16", "string", 1),
        ColumnType("VARCHAR(10) CHARACTER SET ucs2", "string", 1, tuple(v for v in _UNICODE if v != "😀")),
        ColumnType("VARCHAR(10) CHARACTER SET ascii", "string", 1, _ASCII),
        ColumnType("VARCHAR(10) COLLATE utf8mb4_bin", "string", 1),
        ColumnType("CHAR(4) CHARACTER SET latin1 COLLATE latin1_german2_ci", "string", 1, _short(_LATIN, 4)),
        ColumnType("ENUM('a','b','é')", "string", 1, ("a", "b", "é")),
        ColumnType("SET('a','b')", "string", 1, ("", "a", "a,b")),
        ColumnType("BINARY(2)", "binary", 1, tuple(v for v in _BYTES if len(v) < 3)),
        ColumnType("VARBINARY(5)", "binary", 1),
        ColumnType("BLOB", "binary", 1),
    ),
    "files": (
        ColumnType("bigint", "bigint", 4), ColumnType("string", "string", 4), ColumnType("int", "int"),
        ColumnType("smallint", "smallint", 1), ColumnType("double", "double", 2, tuple(v for v in _WILD if v == v)),
        ColumnType("float", "float", 1, (0.0, 1.0, 1.5, 2.0)), ColumnType("boolean", "boolean"),
        ColumnType("date", "date"),
        ColumnType("binary", "binary", 1), ColumnType("timestamp", "timestamp", 1, _FINE_INSTANTS),
        ColumnType("timestamp_ntz", "timestamp_ntz", 1, _FINE),
        ColumnType("decimal(10,2)", "decimal(10,2)", 2, _DECIMALS),
    ),
}  # fmt: skip


def draw_type(dice: random.Random, dialect: str, family: str = "") -> ColumnType:
    """A column's type, of a family if one is named."""
    known = [each for each in COLUMN_TYPES[dialect] if not family or each.family == family]
    return dice.choices(known, [each.weight for each in known])[0]


def pool(column: ColumnType) -> Sequence[Any]:
    return column.values or _POOLS[column.family]


def type_declared(dialect: str, declared: str) -> ColumnType:
    return next(each for each in COLUMN_TYPES[dialect] if each.declared == declared)

