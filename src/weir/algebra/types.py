"""Column types, schemas, and what a value of each type looks like in Python.

The types are Spark's, because a view means what Spark SQL means. A value is an ordinary Python object (``int``,
``Decimal``, ``float``, ``str``, ``bool``, ``date``, ``datetime``, ``bytes``) or ``None`` for NULL. ``normalise`` is
the one gate through which values enter a bag: it checks them against the type and picks one representative where
Python has several for what SQL calls the same value, so that bags can be compared with ``==``:

- NaN becomes the one object ``NAN`` (Spark: NaN equals NaN in grouping and in joins);
- ``-0.0`` becomes ``0.0`` (Spark normalises it in grouping and in joins);
- a ``float`` (32 bit) is rounded to 32 bits;
- a decimal is brought to its column's scale;
- a timestamp with zone is kept in UTC, one without zone stays naive; neither remembers a ``fold``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from functools import cached_property
from typing import Any

from weir.algebra.errors import TypeMismatch

Value = Any  # int | Decimal | float | str | bool | date | datetime | bytes | None
Row = tuple[Value, ...]

NAN = float("nan")
INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class Type:
    """A column type. ``precision`` and ``scale`` matter for decimals only.

    >>> str(Type("decimal", 10, 2)), str(BIGINT)
    ('decimal(10,2)', 'bigint')
    """

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGER_BITS

    @property
    def is_fraction(self) -> bool:
        return self.name in ("float", "double")

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_fraction or self.name == "decimal"

    @property
    def whole_digits(self) -> int:
        """The digits before the point, for an integer as many as Spark gives it beside a decimal."""
        return _INTEGER_DIGITS.get(self.name, self.precision - self.scale)

    @property
    def family(self) -> str:
        """Types of one family compare value by value, without a cast that could lose something."""
        return "integer" if self.is_integer else "fraction" if self.is_fraction else self.name


TINYINT, SMALLINT, INT, BIGINT = Type("tinyint"), Type("smallint"), Type("int"), Type("bigint")
FLOAT, DOUBLE = Type("float"), Type("double")
STRING, BINARY, BOOLEAN, DATE = Type("string"), Type("binary"), Type("boolean"), Type("date")
TIMESTAMP, TIMESTAMP_NTZ = Type("timestamp"), Type("timestamp_ntz")  # with a zone (an instant) and without
DATETIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
NULL = Type("void")  # the type of a bare NULL literal

SIMPLE_TYPES = {
    t.name: t
    for t in (
        TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, NULL,
    )
}  # fmt: skip


def decimal(precision: int = 10, scale: int = 0) -> Type:
    """The decimal type with so many digits, ``scale`` of them behind the point."""
    if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
        limits = f"1 <= precision <= {MAX_PRECISION}, 0 <= scale <= precision"
        raise TypeMismatch(f"decimal({precision},{scale}) does not exist: {limits}")
    return Type("decimal", precision, scale)


def parse_type(text: str) -> Type:
    """The type written as Spark writes it.

    >>> parse_type("decimal(12, 2)"), parse_type("int")
    (Type(name='decimal', precision=12, scale=2), Type(name='int', precision=0, scale=0))
    """
    name = text.strip().lower()
    if name.startswith("decimal"):
        arguments = [int(part) for part in name[len("decimal") :].strip("() ").split(",") if part.strip()]
        return decimal(*arguments)
    known = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "text": "string"}
    simple = SIMPLE_TYPES.get(known.get(name, name))
    if simple is None:
        raise TypeMismatch(f"unknown column type '{text}': use one of {', '.join(SIMPLE_TYPES)}, decimal(p,s)")
    return simple


@dataclass(frozen=True, slots=True)
class Column:
    """A named, typed column."""

    name: str
    type: Type


class Schema(tuple[Column, ...]):
    """The columns of a bag, in order.

    >>> s = Schema.of(a=INT, b=STRING)
    >>> s.names, s.position("b"), str(s)
    (('a', 'b'), 1, 'a int, b string')
    """

    @classmethod
    def of(cls, **columns: Type) -> Schema:
        return cls(Column(name, type_) for name, type_ in columns.items())

    @classmethod
    def parse(cls, text: str) -> Schema:
        """From ``"a int, b decimal(10,2)"``."""
        columns, depth, start = [], 0, 0
        for at, char in enumerate(text + ","):
            depth += (char == "(") - (char == ")")
            if char == "," and depth == 0:
                name, _, type_ = text[start:at].strip().partition(" ")
                columns.append(Column(name, parse_type(type_)))
                start = at + 1
        return cls(columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self)

    @cached_property
    def types(self) -> tuple[Type, ...]:
        return tuple(column.type for column in self)

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {name: at for at, name in reversed(list(enumerate(self.names)))}

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return (Schema, (tuple(self),))  # without the hash: another process hashes text differently

    def position(self, name: str) -> int:
        try:
            return self._positions[name]
        except KeyError:
            raise TypeMismatch(f"no column '{name}' among {', '.join(self.names)}") from None

    def positions(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.position(name) for name in names)

    def type_of(self, name: str) -> Type:
        return self[self.position(name)].type

    def only(self, names: Iterable[str]) -> Schema:
        return Schema(self[self.position(name)] for name in names)

    def joined(self, other: Schema) -> Schema:
        """My columns, then the other's; the two must not share a name."""
        if set(self.names) & set(other.names):
            raise TypeMismatch(f"both sides of a join have a column of the same name: ({self}) and ({other})")
        return Schema((*self, *other))

    def __str__(self) -> str:
        return ", ".join(f"{column.name} {column.type}" for column in self)


def normalise(value: Value, type_: Type) -> Value:
    """The one representative of ``value`` in a column of ``type_``; raises TypeMismatch when it does not fit."""
    if value is None:
        return None
    check = _NORMALISERS[type_.name if type_.name not in INTEGER_BITS else "integer"]
    return check(value, type_)


def normalise_row(row: Iterable[Value], schema: Schema) -> Row:
    values = tuple(row)
    if len(values) != len(schema):
        raise TypeMismatch(f"a row of {len(values)} values for {len(schema)} columns ({schema}): {values!r}")
    return tuple(normalise(value, column.type) for value, column in zip(values, schema, strict=True))


def _misfit(value: Value, type_: Type) -> TypeMismatch:
    return TypeMismatch(f"{value!r} is not a value of type {type_}")


def _integer(value: Value, type_: Type) -> Value:
    bound = 1 << (INTEGER_BITS[type_.name] - 1)
    if not isinstance(value, int) or isinstance(value, bool) or not -bound <= value < bound:
        raise _misfit(value, type_)
    return value


def _fraction(value: Value, type_: Type) -> Value:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _misfit(value, type_)
    number = float(value)
    if type_.name == "float":
        number = to_float32(number)
    return NAN if number != number else number + 0.0  # adding 0.0 turns -0.0 into 0.0


def to_float32(number: float) -> float:
    """The nearest 32-bit float; infinity where it does not fit, as in IEEE and Spark."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _decimal(value: Value, type_: Type) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _misfit(value, type_)
    with localcontext() as context:
        context.prec = 2 * MAX_PRECISION
        try:
            exact = Decimal(value).quantize(Decimal(1).scaleb(-type_.scale))
        except InvalidOperation:
            raise _misfit(value, type_) from None
        if exact != value or not fits_decimal(exact, type_):
            raise _misfit(value, type_)
        return exact + 0 if exact else abs(exact)  # no negative zero


def fits_decimal(value: Decimal, type_: Type) -> bool:
    return abs(value) < Decimal(10) ** (type_.precision - type_.scale)


def _instance(python_type: type) -> Any:
    def check(value: Value, type_: Type) -> Value:
        if not isinstance(value, python_type):
            raise _misfit(value, type_)
        return value

    return check


def _date(value: Value, type_: Type) -> Value:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise _misfit(value, type_)
    return value


def _timestamp(value: Value, type_: Type) -> Value:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise _misfit(value, type_)
    return value.astimezone(UTC).replace(fold=0)


def _timestamp_ntz(value: Value, type_: Type) -> Value:
    if not isinstance(value, datetime) or value.tzinfo is not None:
        raise _misfit(value, type_)
    return value.replace(fold=0)


def _void(value: Value, type_: Type) -> Value:
    raise _misfit(value, type_)


_NORMALISERS = {
    "integer": _integer,
    "float": _fraction,
    "double": _fraction,
    "decimal": _decimal,
    "string": _instance(str),
    "binary": _instance(bytes),
    "boolean": _instance(bool),
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
    "void": _void,
}


def sort_key(row: Row) -> list[tuple[bool, str, Value]]:
    """An order over rows of one schema, NULLs first; for printing only."""
    return [(value is not None, type(value).__name__, value) for value in row]
