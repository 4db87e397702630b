"""Arithmetic, comparison and concatenation of compiled operands: picks the type, casts to it, applies the operation."""

from __future__ import annotations

import operator as python
from collections.abc import Sequence
from decimal import Decimal

from weir.algebra.errors import TypeMismatch, UnsupportedExpression
from weir.algebra.scalar import arithmetic as compute
from weir.algebra.scalar.arithmetic import DIVISIONS, Operation
from weir.algebra.scalar.coercion import as_decimal, common_type, decimal_result, promoted_string
from weir.algebra.scalar.compiled import (
    FALSE,
    TRUE,
    Compiled,
    cast,
    refuse_failing,
    spark_alone,
    strict,
    strict_from_right,
    unary,
)
from weir.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DATETIMES,
    DOUBLE,
    INT,
    MAX_PRECISION,
    NULL,
    STRING,
    Row,
    Type,
    Value,
    decimal,
)  # fmt: skip

_BIGINT_BOUND = 2**63


# -- arithmetic ----------------------------------------------------------------------------------------------


def arithmetic(symbol: str, left: Compiled, right: Compiled) -> Compiled:
    """``left symbol right`` for ``+ - * / % div``."""
    if left.type in DATETIMES or right.type in DATETIMES:
        return _date_arithmetic(symbol, left, right)
    left, right = _meet_in_numbers(symbol, left, right)
    if left.type.is_integer and right.type.is_integer:
        return _integer_arithmetic(symbol, left, right)
    if left.type.is_fraction or right.type.is_fraction:
        return _fraction_arithmetic(symbol, left, right)
    return _decimal_arithmetic(symbol, left, right)


def _meet_in_numbers(symbol: str, left: Compiled, right: Compiled) -> tuple[Compiled, Compiled]:
    """Both as numbers: a string and a NULL take their type from the other operand."""
    if left.type == right.type == NULL:
        type_ = BIGINT if symbol == "div" else DOUBLE
        return cast(left, type_), cast(right, type_)
    if left.type == NULL and right.type.is_numeric:
        type_ = DOUBLE if symbol == "/" else right.type
        return cast(left, type_), cast(right, type_)
    if right.type == NULL and left.type.is_numeric:
        return left, cast(right, left.type)
    if STRING in (left.type, right.type):
        other = right.type if left.type == STRING else left.type
        if other.is_numeric:
            return cast(left, promoted_string(other)), cast(right, promoted_string(other))
    if left.type.is_numeric and right.type.is_numeric:
        return _decimals_by_digits(left, right)
    raise _no_arithmetic(symbol, left.type, right.type)


def _integer_arithmetic(symbol: str, left: Compiled, right: Compiled) -> Compiled:
    if symbol == "/":
        return _fraction_arithmetic(symbol, left, right)
    type_ = BIGINT if symbol == "div" else _common(left, right)
    return _apply(symbol, type_, compute.on_integers(symbol, type_), cast(left, type_), cast(right, type_))


def _fraction_arithmetic(symbol: str, left: Compiled, right: Compiled) -> Compiled:
    if symbol == "div":
        raise _no_arithmetic(symbol, left.type, right.type)
    type_ = DOUBLE if symbol == "/" else _common(left, right)
    return _apply(symbol, type_, compute.on_fractions(symbol, type_), cast(left, type_), cast(right, type_))


def _decimal_arithmetic(symbol: str, left: Compiled, right: Compiled) -> Compiled:
    """Operands keep their own scales; only an integer is made a decimal."""
    left, right = cast(left, as_decimal(left.type)), cast(right, as_decimal(right.type))
    type_ = BIGINT if symbol == "div" else decimal_result(symbol, left.type, right.type)
    return _apply(symbol, type_, compute.on_decimals(symbol, type_), left, right)


def _apply(symbol: str, type_: Type, operation: Operation, left: Compiled, right: Compiled) -> Compiled:
    combine = strict_from_right if symbol in DIVISIONS else strict
    return combine(type_, operation, left, right)


def _date_arithmetic(symbol: str, left: Compiled, right: Compiled) -> Compiled:
    days = {"+": 1, "-": -1}.get(symbol)
    if left.type == DATE and _counts_days(right.type) and days:
        return _moved(days, left, right)
    if right.type == DATE and _counts_days(left.type) and symbol == "+":
        return _moved(1, right, left)
    if _makes_interval(symbol, left.type, right.type):
        what = f"{left.type} {symbol} {right.type} works with intervals"
        raise UnsupportedExpression(f"{what}: Spark evaluates it, the in-memory evaluator (simulator) does not")
    raise _no_arithmetic(symbol, left.type, right.type)


def _moved(sign: int, start: Compiled, days: Compiled) -> Compiled:
    """A date so many days later. Only of constants it is known beforehand that Python has such a date."""
    if not (start.fixed and days.fixed):
        raise spark_alone(days.type, DATE, "which may be a year that Python does not have")
    return strict(DATE, compute.on_date_and_days(sign), start, cast(days, INT))


def _makes_interval(symbol: str, left: Type, right: Type) -> bool:
    """Spark takes a NULL beside a datetime for an interval, and the difference of two datetimes is one."""
    if symbol == "-":
        return {left, right} <= {*DATETIMES, NULL, STRING}
    return symbol == "+" and NULL in (left, right)


def _counts_days(type_: Type) -> bool:
    return type_.is_integer and type_ != BIGINT


def minus(operand: Compiled) -> Compiled:
    """Unary minus."""
    if operand.type in (STRING, NULL):
        operand = cast(operand, DOUBLE)
    if not operand.type.is_numeric:
        raise TypeMismatch(f"- needs a number, not a value of type {operand.type}: cast it")
    return unary(operand.type, compute.negate(operand.type), operand)


def _no_arithmetic(symbol: str, left: Type, right: Type) -> TypeMismatch:
    return TypeMismatch(f"{left} {symbol.upper()} {right} is not defined: cast an operand")


# -- comparison ----------------------------------------------------------------------------------------------


def compare(symbol: str, left: Compiled, right: Compiled) -> Compiled:
    """``left symbol right`` for ``= <> < <= > >=``."""
    decided = _beyond_bigint(symbol, left, right)
    if decided is not None:
        return decided
    left, right = meet(left, right)
    operations = _NAN_AWARE if left.type.is_fraction else _COMPARISONS
    return strict(BOOLEAN, operations[symbol], left, right)


def same(left: Compiled, right: Compiled) -> Compiled:
    """``left <=> right``: equal, or both NULL. Both sides are always evaluated."""
    left, right = meet(left, right)
    refuse_failing(left, right)
    one, other = left.value, right.value
    equal = (_NAN_AWARE if left.type.is_fraction else _COMPARISONS)["="]

    def evaluate(row: Row) -> Value:
        first, second = one(row), other(row)
        return first is second if first is None or second is None else equal(first, second)

    return Compiled(BOOLEAN, evaluate)


def meet(left: Compiled, right: Compiled) -> tuple[Compiled, Compiled]:
    """Both operands in the type in which they are compared."""
    left, right = _decimals_by_digits(left, right)
    type_ = common_type(left.type, right.type)
    if type_ is None:
        raise TypeMismatch(f"{left.type} and {right.type} cannot be compared: cast one of them")
    return for_comparison(left, type_), for_comparison(right, type_)


def for_comparison(operand: Compiled, type_: Type) -> Compiled:
    """Cast, unless Python compares the two exactly without it (integers and decimals that fit the common type)."""
    if type_.name == "decimal" and operand.type.is_numeric:
        exact = as_decimal(operand.type)
        if exact.scale <= type_.scale and exact.precision - exact.scale <= type_.precision - type_.scale:
            return operand
    return cast(operand, type_)


def _common(left: Compiled, right: Compiled) -> Type:
    type_ = common_type(left.type, right.type)
    assert type_ is not None, "any two numbers meet"
    return type_


def _decimals_by_digits(left: Compiled, right: Compiled) -> tuple[Compiled, Compiled]:
    """An integer literal beside a decimal is a decimal of just its own digits."""
    if left.type.name == "decimal" and right.literal and right.type.is_integer:
        return left, cast(right, _digits(right.constant))
    if right.type.name == "decimal" and left.literal and left.type.is_integer:
        return cast(left, _digits(left.constant)), right
    return left, right


def _digits(number: int) -> Type:
    return decimal(min(len(str(abs(number))), MAX_PRECISION), 0)


def _beyond_bigint(symbol: str, left: Compiled, right: Compiled) -> Compiled | None:
    """Spark decides an integer against a decimal literal that no bigint reaches without looking: also for NULL."""
    if symbol in ("=", "<>"):
        return None
    if left.type.is_integer and _unreachable(right):
        return TRUE if (right.constant > 0) is (symbol in ("<", "<=")) else FALSE
    if right.type.is_integer and _unreachable(left):
        return TRUE if (left.constant > 0) is (symbol in (">", ">=")) else FALSE
    return None


def _unreachable(operand: Compiled) -> bool:
    value = operand.constant
    return operand.literal and isinstance(value, Decimal) and not -_BIGINT_BOUND <= value < _BIGINT_BOUND


_COMPARISONS: dict[str, Operation] = {
    "=": python.eq, "<>": python.ne, "<": python.lt, "<=": python.le, ">": python.gt, ">=": python.ge,
}  # fmt: skip


def _equal(left: float, right: float) -> bool:
    """NaN equals itself."""
    return left == right or (left != left and right != right)


def _less(left: float, right: float) -> bool:
    """NaN is larger than everything else."""
    return left < right or (right != right and left == left)


_NAN_AWARE: dict[str, Operation] = {
    "=": _equal,
    "<>": lambda left, right: not _equal(left, right),
    "<": _less,
    "<=": lambda left, right: not _less(right, left),
    ">": lambda left, right: _less(right, left),
    ">=": lambda left, right: not _less(left, right),
}


# -- concatenation -------------------------------------------------------------------------------------------


def concatenate(parts: Sequence[Compiled]) -> Compiled:
    """``||``: of binaries a binary, of all else a string. Every part is evaluated, also after a NULL."""
    type_ = BINARY if all(part.type == BINARY for part in parts) else STRING
    functions = [cast(part, type_).value for part in parts]
    empty: str | bytes = b"" if type_ == BINARY else ""

    def evaluate(row: Row) -> Value:
        values = [function(row) for function in functions]
        return None if None in values else empty.join(values)

    return Compiled(type_, evaluate)
