"""Which type two operands meet in, and which type an operation gives: Spark's rules in ANSI mode.

Integers widen to the wider one. An integer and a fraction, a decimal and a fraction, a string and a fraction or
decimal meet in double, a string and an integer in bigint; a string and anything else in that other type. A date
widens to either kind of timestamp, a timestamp without zone to one with. NULL takes the other's type. All else does
not mix.
"""

from __future__ import annotations

from collections.abc import Iterable

from weir.algebra.types import (
    BIGINT,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_BITS,
    MAX_PRECISION,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Type,
    decimal,
)  # fmt: skip

MINIMUM_ADJUSTED_SCALE = 6  # how many digits behind the point survive when a decimal result is too wide
_DATETIMES = (DATE, TIMESTAMP_NTZ, TIMESTAMP)  # from narrow to wide
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


def common_type(left: Type, right: Type) -> Type | None:
    """The type in which two operands are compared or become alternatives of one value; None when there is none."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if left.is_numeric and right.is_numeric:
        return _common_number(left, right)
    if left in _DATETIMES and right in _DATETIMES:
        return max(left, right, key=_DATETIMES.index)
    if STRING in (left, right):
        return promoted_string(right if left == STRING else left)
    return None


def common_type_of_all(types: Iterable[Type]) -> Type | None:
    """The common type of a list, met from left to right (so the order can matter, as it does in Spark)."""
    met: Type | None = NULL
    for type_ in types:
        met = common_type(met, type_) if met is not None else None
    return met


def promoted_string(other: Type) -> Type:
    """What a string becomes beside a value of another type; the other becomes the same."""
    if other.is_integer:
        return BIGINT
    return DOUBLE if other.is_numeric else other


def _common_number(left: Type, right: Type) -> Type:
    if left.is_integer and right.is_integer:
        return max(left, right, key=lambda type_: INTEGER_BITS[type_.name])
    if left.is_fraction or right.is_fraction:
        return FLOAT if left == right == FLOAT else DOUBLE
    return wider_decimal(as_decimal(left), as_decimal(right))


def as_decimal(type_: Type) -> Type:
    """The decimal type that holds every value of an integer type; a decimal type stays itself."""
    return decimal(_INTEGER_DIGITS[type_.name], 0) if type_.is_integer else type_


def wider_decimal(left: Type, right: Type) -> Type:
    """Holds the whole part of both first, and of the fraction what 38 digits leave room for."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return decimal(min(whole + scale, MAX_PRECISION), min(scale, MAX_PRECISION - whole))


def decimal_result(operator: str, left: Type, right: Type) -> Type:
    """The type of ``left operator right`` for two decimals.

    >>> str(decimal_result("*", decimal(10, 2), decimal(10, 2)))
    'decimal(21,4)'
    """
    scale = max(left.scale, right.scale)
    left_whole, right_whole = left.precision - left.scale, right.precision - right.scale
    if operator == "*":
        return _adjusted(left.precision + right.precision + 1, left.scale + right.scale)
    if operator == "/":
        scale = max(MINIMUM_ADJUSTED_SCALE, left.scale + right.precision + 1)
        return _adjusted(left_whole + right.scale + scale, scale)
    if operator == "%":
        return _adjusted(min(left_whole, right_whole) + scale, scale)
    return _adjusted(max(left_whole, right_whole) + scale + 1, scale)


def _adjusted(precision: int, scale: int) -> Type:
    """At most 38 digits: the whole part is kept, the fraction gives way down to six digits."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    room = MAX_PRECISION - (precision - scale)
    return decimal(MAX_PRECISION, max(room, min(scale, MINIMUM_ADJUSTED_SCALE)))
