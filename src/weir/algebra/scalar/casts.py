"""CAST between the core types, as Spark does it in ANSI mode: what does not fit fails.

``caster`` gives a function from a non-NULL, normalised value of one type to a normalised value of the other. The
function raises ``Unreadable`` where CAST fails and TRY_CAST gives NULL. A cast that Spark does not know raises
TypeMismatch at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, time
from decimal import Decimal

from weir.algebra.errors import TypeMismatch, UnsupportedExpression
from weir.algebra.scalar import text_numbers as numbers
from weir.algebra.scalar import text_times as times
from weir.algebra.scalar.text_numbers import EXACT, Unreadable, bounded_decimal, bounded_integer, float32_of
from weir.algebra.types import INTEGER_BITS, NAN, NULL, Type, Value, to_float32

Cast = Callable[[Value], Value]


def caster(source: Type, target: Type) -> Cast | None:
    """How to cast; None when nothing needs doing."""
    if source in (target, NULL):
        return None
    make = _CASTS.get((_kind(source), _kind(target)))
    if make is None:
        raise TypeMismatch(f"{source} cannot be cast to {target}: Spark knows no such cast")
    return make(source, target)


def _kind(type_: Type) -> str:
    return "integer" if type_.is_integer else type_.name


def _to_integer(source: Type, target: Type) -> Cast | None:
    narrower = INTEGER_BITS[target.name] < INTEGER_BITS[source.name]
    return (lambda value: bounded_integer(value, target)) if narrower else None


def _fraction_to_integer(source: Type, target: Type) -> Cast:
    largest = (1 << (INTEGER_BITS[target.name] - 1)) - 1

    def cast(value: float) -> int:
        # For bigint the bounds are doubles themselves: 2**63 passes and becomes the largest bigint, as in Spark.
        if not (
            math.isfinite(value) and math.floor(value) <= float(largest) and math.ceil(value) >= float(-largest - 1)
        ):
            raise Unreadable
        return min(int(value), largest)

    return cast


def _as_java_writes(source: Type, target: Type) -> Cast:
    """How many digits a float or double has as text depends on the version of Java; so does the decimal made of it."""
    raise UnsupportedExpression(
        f"{source} as {target}: Spark gives it the digits that Java writes, the in-memory evaluator does not know them"
    )


def _decimal_to_decimal(source: Type, target: Type) -> Cast:
    return lambda value: bounded_decimal(value, target)


def _integer_to_decimal(source: Type, target: Type) -> Cast:
    return lambda value: bounded_decimal(Decimal(value), target)


def _exact_to_fraction(source: Type, target: Type) -> Cast:
    return float32_of if target.name == "float" else float


def _fraction_to_fraction(source: Type, target: Type) -> Cast | None:
    return _to_float if target.name == "float" else None


def _to_float(value: float) -> float:
    return NAN if value != value else to_float32(value) + 0.0


def _fraction_to_timestamp(source: Type, target: Type) -> Cast:
    def cast(value: float) -> datetime:
        micros = value * 1_000_000
        if not math.isfinite(micros) or abs(micros) >= 2.0**63:
            raise Unreadable
        return times.from_micros(int(micros))

    return cast


def _wrapped(number: int) -> int:
    """As Java keeps 64 bits of a number that does not fit."""
    return (number + 2**63) % 2**64 - 2**63


def _timestamp_to_integer(source: Type, target: Type) -> Cast:
    return lambda value: bounded_integer(times.to_micros(value) // 1_000_000, target)


def _timestamp_to_fraction(source: Type, target: Type) -> Cast:
    if target.name == "float":
        return lambda value: to_float32(times.to_micros(value) / 1_000_000)
    return lambda value: times.to_micros(value) / 1_000_000


def _always(cast: Cast) -> Callable[[Type, Type], Cast]:
    return lambda source, target: cast


def _to_typed(read: Callable[[Value, Type], Value]) -> Callable[[Type, Type], Cast]:
    return lambda source, target: lambda value: read(value, target)


_MIDNIGHT = time()
_MILLION = Decimal(1_000_000)
_FRACTIONS = ("float", "double")
_NUMBERS = ("integer", "float", "double", "decimal")

_CASTS: dict[tuple[str, str], Callable[[Type, Type], Cast | None]] = {
    ("integer", "integer"): _to_integer,
    ("integer", "decimal"): _integer_to_decimal,
    ("integer", "string"): _always(str),
    ("integer", "timestamp"): _always(lambda value: times.from_micros(value * 1_000_000)),
    ("decimal", "integer"): _to_typed(lambda value, target: bounded_integer(int(value), target)),
    ("decimal", "decimal"): _decimal_to_decimal,
    ("decimal", "string"): _always(numbers.write_decimal),
    ("decimal", "timestamp"): _always(lambda value: times.from_micros(_wrapped(int(EXACT.multiply(value, _MILLION))))),
    **{(fraction, "string"): _as_java_writes for fraction in _FRACTIONS},
    **{(fraction, "integer"): _fraction_to_integer for fraction in _FRACTIONS},
    **{(fraction, "decimal"): _as_java_writes for fraction in _FRACTIONS},
    **{(fraction, "timestamp"): _fraction_to_timestamp for fraction in _FRACTIONS},
    **{(one, other): _fraction_to_fraction for one in _FRACTIONS for other in _FRACTIONS},
    **{(exact, fraction): _exact_to_fraction for exact in ("integer", "decimal") for fraction in _FRACTIONS},
    **{(number, "boolean"): _always(lambda value: value != 0) for number in _NUMBERS},
    ("boolean", "integer"): _always(int),
    ("boolean", "decimal"): _integer_to_decimal,
    ("boolean", "float"): _always(float),
    ("boolean", "double"): _always(float),
    ("boolean", "string"): _always(lambda value: "true" if value else "false"),
    ("string", "integer"): _to_typed(numbers.read_integer),
    ("string", "decimal"): _to_typed(numbers.read_decimal),
    ("string", "float"): _to_typed(numbers.read_fraction),
    ("string", "double"): _to_typed(numbers.read_fraction),
    ("string", "boolean"): _always(numbers.read_boolean),
    ("string", "binary"): _always(lambda value: value.encode()),
    ("string", "date"): _always(times.read_date),
    ("string", "timestamp"): _always(times.read_timestamp),
    ("string", "timestamp_ntz"): _always(times.read_timestamp_ntz),
    ("binary", "string"): _always(lambda value: value.decode("utf-8", "replace")),
    ("date", "string"): _always(times.write_date),
    ("date", "timestamp"): _always(lambda value: datetime.combine(value, _MIDNIGHT, UTC)),
    ("date", "timestamp_ntz"): _always(lambda value: datetime.combine(value, _MIDNIGHT)),
    ("timestamp", "integer"): _timestamp_to_integer,
    ("timestamp", "decimal"): _as_java_writes,
    ("timestamp", "float"): _timestamp_to_fraction,
    ("timestamp", "double"): _timestamp_to_fraction,
    ("timestamp", "string"): _always(times.write_timestamp),
    ("timestamp", "date"): _always(lambda value: value.date()),
    ("timestamp", "timestamp_ntz"): _always(lambda value: value.replace(tzinfo=None)),
    ("timestamp_ntz", "string"): _always(times.write_timestamp),
    ("timestamp_ntz", "date"): _always(lambda value: value.date()),
    ("timestamp_ntz", "timestamp"): _always(lambda value: value.replace(tzinfo=UTC)),
}
