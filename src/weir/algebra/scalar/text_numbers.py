"""Numbers and booleans as text, the way Spark (that is, Java) reads and writes them.

Every reader takes the text of a string and returns a value, or raises ``Unreadable``.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Context, Decimal
from fractions import Fraction

from weir.algebra.types import INTEGER_BITS, MAX_PRECISION, NAN, Type, to_float32

EXACT = Context(
    prec=200, Emax=999_999_999, Emin=-999_999_999
)  # wide enough that nothing here is ever rounded by accident

# What Spark cuts off both ends before it reads an integer, a boolean, a date or a timestamp.
BLANKS = "".join(map(chr, range(33))) + "\x7f"
JAVA_BLANKS = BLANKS[:-1]  # what Java cuts off before it reads a decimal or a double

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,10})?")
_DOUBLE = re.compile(r"([+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_DOUBLE = re.compile(r"([+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAMED = (
    {"nan": NAN}
    | dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf)
    | dict.fromkeys(("-inf", "-infinity"), -math.inf)
)
_TRUE, _FALSE = frozenset(("t", "true", "y", "yes", "1")), frozenset(("f", "false", "n", "no", "0"))


class Unreadable(Exception):
    """A value cannot be cast: CAST fails on it, TRY_CAST makes it NULL."""


def read_integer(text: str, type_: Type) -> int:
    digits = text.strip(BLANKS)
    if not _INTEGER.fullmatch(digits):
        raise Unreadable
    return bounded_integer(int(digits), type_)


def bounded_integer(number: int, type_: Type) -> int:
    """The number itself when the type holds it."""
    bound = 1 << (INTEGER_BITS[type_.name] - 1)
    if not -bound <= number < bound:
        raise Unreadable
    return number


def read_decimal(text: str, type_: Type) -> Decimal:
    digits = text.strip(JAVA_BLANKS)
    if not _DECIMAL.fullmatch(digits):
        raise Unreadable
    number = Decimal(digits)
    if number.adjusted() >= MAX_PRECISION and number:
        raise Unreadable
    return bounded_decimal(number, type_)


def bounded_decimal(number: Decimal, type_: Type) -> Decimal:
    """The number rounded half up to the type's scale, when the type then holds it."""
    if not number or number.adjusted() < -2 * MAX_PRECISION:
        number = Decimal(0)  # nothing is left of it at any scale; and it may have an absurd exponent
    if number.adjusted() >= MAX_PRECISION:
        raise Unreadable
    rounded = number.quantize(Decimal(1).scaleb(-type_.scale), rounding="ROUND_HALF_UP", context=EXACT)
    if not rounded:
        return abs(rounded)  # no negative zero
    if rounded.adjusted() >= type_.precision - type_.scale:
        raise Unreadable
    return rounded


def read_fraction(text: str, type_: Type) -> float:
    """A float or a double."""
    word = text.strip(JAVA_BLANKS)
    named = _NAMED.get(word.lower())
    if named is not None:
        return named
    if word in ("+NaN", "-NaN"):
        return NAN
    if match := _DOUBLE.fullmatch(word):
        number = float(match[1])
        return float32_of(Decimal(match[1])) if type_.name == "float" else number + 0.0
    if match := _HEX_DOUBLE.fullmatch(word):
        number = float.fromhex(match[1])
        return (to_float32(number) if type_.name == "float" else number) + 0.0
    raise Unreadable


def float32_of(exact: int | Decimal) -> float:
    """The 32-bit float nearest to an exact number.

    Rounding to 64 bits first and to 32 after can end one off. It cannot when the first rounding picks, of the two
    doubles around the number, the one with an odd last bit.
    """
    number = float(exact)
    if math.isfinite(number) and 1e-60 < abs(number) < 1e60:
        error = Fraction(exact) - Fraction(number)
        if error and not struct.unpack("<q", struct.pack("<d", number))[0] & 1:
            number = math.nextafter(number, math.inf if error > 0 else -math.inf)
    return to_float32(number) + 0.0


def read_boolean(text: str) -> bool:
    word = text.strip(BLANKS).lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise Unreadable


def write_decimal(number: Decimal) -> str:
    return format(number, "f")
