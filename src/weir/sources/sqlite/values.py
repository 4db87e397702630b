"""Values of SQLite as values of our types, exactly or not at all.

A SQLite column may hold any kind of value, whatever its declaration. A value that is not of the column's type is
refused with its table, column and row; it is never bent. A value of ours that is looked up goes the other way:
``key_forms`` gives every form in which a column may hold it, so that a lookup misses none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from weir.algebra.arrow_types import arrow_type
from weir.algebra.errors import TypeMismatch
from weir.algebra.types import Type, Value, normalise
from weir.sources.sqlite.bulk import at_once

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.(\d{3}|\d{6}))?(Z|\+00:00)?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

STORED_AS_THEY_ARE = ("bigint", "string", "binary", "double")


class Misfit(TypeMismatch):
    """A value that its column's type cannot hold; ``at`` is its place in the column."""

    def __init__(self, at: int, value: Any, type_: Type) -> None:
        self.at, self.value, self.type = at, value, type_
        super().__init__(f"{_shown(value)} is not a value of type {type_}")


def to_arrow(values: Sequence[Any], type_: Type) -> pa.Array:
    """A column of SQLite's values as Arrow; raises Misfit at the first that does not fit."""
    whole = at_once(values, type_)
    return one_by_one(values, type_) if whole is None else whole


def one_by_one(values: Sequence[Any], type_: Type) -> pa.Array:
    """The same, value by value."""
    convert = _CONVERTERS[type_.name]
    converted = [None if value is None else _converted(at, value, type_, convert) for at, value in enumerate(values)]
    return pa.array(converted, type=arrow_type(type_))


def _converted(at: int, value: Any, type_: Type, convert: Callable[[Any], Value]) -> Value:
    try:
        return normalise(convert(value), type_)
    except (ValueError, ArithmeticError, TypeMismatch):
        raise Misfit(at, value, type_) from None


Forms = Callable[[Value], tuple[Any, ...]]


def key_forms(column: Type, key: Type) -> Forms | None:
    """How keys of type ``key`` are bound for a column; None where SQLite would compare the two unlike Spark.

    Numbers without a fraction's rounding compare by value, whatever their types.
    """
    if column.is_integer and key.name == "decimal":
        return _whole_number
    exact_numbers = {column.family, key.family} <= {"integer", "decimal"}
    if not exact_numbers and column.family != key.family:
        return None
    if column.name in STORED_AS_THEY_ARE:
        return as_it_is
    return partial(stored_forms, type_=column)


def as_it_is(value: Value) -> tuple[Any, ...]:
    return (value,)


def _whole_number(value: Decimal) -> tuple[Any, ...]:
    """Nothing for a number that no integer column holds."""
    whole = int(value)
    return (whole,) if whole == value and -(2**63) <= whole < 2**63 else ()


def stored_forms(value: Value, type_: Type) -> tuple[Any, ...]:
    """Every value under which SQLite may store one of ours, to be bound in a lookup; never NULL."""
    match type_.name:
        case "boolean":
            return (int(value),)
        case "decimal":
            number = Decimal(value)
            whole = number == number.to_integral_value() and abs(number) < 2**63
            return (int(number),) if whole else (float(number),)
        case "date":
            return (value.isoformat(),)
        case "timestamp" | "timestamp_ntz":
            return tuple(_moments(value, type_.name == "timestamp"))
        case _:
            return (value,)


def _moments(value: datetime, zoned: bool) -> list[str]:
    """With a blank or a T, and with as many fraction digits as are needed or more."""
    plain = value.astimezone(UTC).replace(tzinfo=None) if zoned else value
    precisions = [p for p, unit in (("seconds", 10**6), ("milliseconds", 10**3)) if plain.microsecond % unit == 0]
    zones = ("Z", "+00:00") if zoned else ("",)
    return [plain.isoformat(sep, p) + z for sep in " T" for p in (*precisions, "microseconds") for z in zones]


def _refuse(value: Any) -> Value:
    raise ValueError(value)


def _only(storage: type) -> Callable[[Any], Value]:
    return lambda value: value if type(value) is storage else _refuse(value)


def _text(value: Any) -> Value:
    """Text that is UTF-8 throughout; a stray byte raises, being no character."""
    return value if type(value) is str and value.encode() is not None else _refuse(value)


def _boolean(value: Any) -> Value:
    return bool(value) if type(value) is int and value in (0, 1) else _refuse(value)


def _decimal(value: Any) -> Value:
    """A real that is no whole number stands for the shortest decimal that reads back as it:

    what was written into the column.
    """
    if type(value) is int:
        return Decimal(value)
    if type(value) is float and abs(value) < float("inf"):
        return Decimal(int(value)) if value == int(value) else Decimal(repr(value))
    return _refuse(value)


def _date(value: Any) -> Value:
    return date.fromisoformat(value) if type(value) is str and _DAY.fullmatch(value) else _refuse(value)


def _moment(value: Any, zoned: bool) -> Value:
    match = _MOMENT.fullmatch(value) if type(value) is str else None
    return datetime.fromisoformat(value) if match and bool(match[3]) == zoned else _refuse(value)


_CONVERTERS: dict[str, Callable[[Any], Value]] = {
    "bigint": _only(int),
    "double": _only(float),
    "string": _text,
    "binary": _only(bytes),
    "boolean": _boolean,
    "decimal": _decimal,
    "date": _date,
    "timestamp": partial(_moment, zoned=True),
    "timestamp_ntz": partial(_moment, zoned=False),
}


def _shown(value: Any) -> str:
    kinds = {int: "integer", float: "real", str: "text", bytes: "blob"}
    text = repr(value)
    return f"the {kinds[type(value)]} {text if len(text) <= 60 else text[:57] + '...'}"
