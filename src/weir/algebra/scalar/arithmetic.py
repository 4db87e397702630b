"""Arithmetic on two values, as Spark does it in ANSI mode: what overflows fails, and so does division by zero.

Each function here makes an operation for given types; the operation takes two values that are not NULL, already cast to
those types, and returns a normalised result.
"""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable
from datetime import date, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from functools import partial

from weir.algebra.errors import EvaluationError
from weir.algebra.scalar.text_numbers import EXACT, Unreadable, bounded_decimal
from weir.algebra.scalar.text_times import out_of_reach
from weir.algebra.types import BIGINT, INTEGER_BITS, MAX_PRECISION, NAN, Type, Value, to_float32

Operation = Callable[[Value, Value], Value]

DIVISIONS = ("/", "%", "div")
_DIVISION_SCALE = (
    MAX_PRECISION + 1
)  # Spark divides decimals to so many digits behind the point, then rounds to the result's scale
_PRODUCT = Context(prec=MAX_PRECISION, rounding=ROUND_HALF_UP)  # and rounds a product to 38 digits first
_QUOTIENT = Context(prec=MAX_PRECISION, rounding=ROUND_DOWN)
_NEGATION = Context(prec=34, rounding=ROUND_HALF_EVEN)  # and even when it only changes the sign, to 34
_PLAIN: dict[str, Operation] = {"+": python.add, "-": python.sub, "*": python.mul}


def on_integers(symbol: str, type_: Type) -> Operation:
    bound = 1 << (INTEGER_BITS[type_.name] - 1)
    compute = {"%": _integer_remainder, "div": _integer_quotient}.get(symbol) or _PLAIN[symbol]

    def operation(left: int, right: int) -> int:
        result: int = compute(left, right)
        if -bound <= result < bound:
            return result
        raise overflow(f"{left} {symbol} {right}", type_)

    return operation


def _integer_quotient(left: int, right: int) -> int:
    """Cut off towards zero, where Python rounds down."""
    _refuse_zero(left, right)
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) is (right < 0) else -quotient


def _integer_remainder(left: int, right: int) -> int:
    """With the sign of the dividend, where Python takes the divisor's."""
    _refuse_zero(left, right)
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def on_fractions(symbol: str, type_: Type) -> Operation:
    compute = {"/": _divide_fractions, "%": _fraction_remainder}.get(symbol) or _PLAIN[symbol]
    if type_.name == "float":
        return lambda left, right: tidy(to_float32(compute(left, right)))
    return lambda left, right: tidy(compute(left, right))


def tidy(number: float) -> float:
    """The one NaN, and no negative zero."""
    return NAN if number != number else number + 0.0


def _divide_fractions(left: float, right: float) -> float:
    _refuse_zero(left, right)
    return left / right


def _fraction_remainder(left: float, right: float) -> float:
    _refuse_zero(left, right)
    return math.fmod(left, right) if math.isfinite(left) else NAN


def on_decimals(symbol: str, type_: Type) -> Operation:
    """``type_`` is the type of the result."""
    if symbol == "div":
        return _decimal_quotient
    compute = _DECIMAL_OPERATIONS[symbol]

    def operation(left: Decimal, right: Decimal) -> Decimal:
        try:
            return bounded_decimal(compute(left, right), type_)
        except Unreadable:
            raise overflow(f"{left} {symbol} {right}", type_) from None

    return operation


def _divide_decimals(left: Decimal, right: Decimal) -> Decimal:
    """Rounded half up at a fixed scale, in whole numbers so that it is rounded once."""
    _refuse_zero(left, right)
    top, bottom = _unscaled(left), _unscaled(right)
    shift = _DIVISION_SCALE + _exponent(left) - _exponent(right)
    quotient, remainder = divmod(abs(top) * 10**shift, abs(bottom))
    quotient += 2 * remainder >= abs(bottom)
    return Decimal(quotient if (top < 0) is (bottom < 0) else -quotient).scaleb(-_DIVISION_SCALE, EXACT)


def _unscaled(number: Decimal) -> int:
    return int(number.scaleb(-_exponent(number), EXACT))


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def _decimal_remainder(left: Decimal, right: Decimal) -> Decimal:
    _whole_quotient(left, right)
    return EXACT.remainder(left, right)


def _decimal_quotient(left: Decimal, right: Decimal) -> int:
    """As a bigint; of a quotient that does not fit, but has at most 38 digits, Spark keeps the last 64 bits."""
    quotient = _whole_quotient(left, right)
    if quotient.adjusted() >= MAX_PRECISION:
        raise overflow(f"{left} div {right}", BIGINT)
    return (int(quotient) + 2**63) % 2**64 - 2**63


def _whole_quotient(left: Decimal, right: Decimal) -> Decimal:
    """Fails, as it does in Java, when it needs more than 38 digits, not counting zeros at the end."""
    _refuse_zero(left, right)
    quotient = EXACT.divide_int(left, right)
    if _QUOTIENT.plus(quotient) != quotient:
        raise overflow(f"{left} div {right}", BIGINT)
    return quotient


_DECIMAL_OPERATIONS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": _PRODUCT.multiply,
    "/": _divide_decimals,
    "%": _decimal_remainder,
}


def on_date_and_days(sign: int) -> Operation:
    def operation(start: date, days: int) -> date:
        try:
            return start + timedelta(days=sign * days)
        except OverflowError:
            raise out_of_reach(f"{start} and {sign * days} days") from None

    return operation


def negate(type_: Type) -> Callable[[Value], Value]:
    if type_.is_integer:
        return partial(on_integers("-", type_), 0)
    return _negate_fraction if type_.is_fraction else _negate_decimal(type_)


def _negate_fraction(value: float) -> float:
    return tidy(-value)


def _negate_decimal(type_: Type) -> Callable[[Value], Value]:
    def operation(value: Decimal) -> Decimal:
        try:
            return bounded_decimal(_NEGATION.minus(value), type_)
        except Unreadable:
            raise overflow(f"-({value})", type_) from None

    return operation


def _refuse_zero(left: Value, right: Value) -> None:
    if not right:
        raise EvaluationError(f"division by zero: {left} by {right}; write NULLIF(divisor, 0) to get NULL instead")


def overflow(what: str, type_: Type) -> EvaluationError:
    return EvaluationError(f"overflow: the result of {what} does not fit {type_}; cast an operand to a wider type")
