"""Literals and type names in sqlglot trees, typed as Spark types them."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import expressions as exp

from weir.algebra.errors import TypeMismatch, UnsupportedExpression
from weir.algebra.scalar.compiled import Compiled, constant
from weir.algebra.types import BIGINT, DOUBLE, INT, MAX_PRECISION, TIMESTAMP, Type, decimal, parse_type


def number_literal(text: str, negative: bool = False) -> Compiled:
    """A number: int or bigint, whichever holds it, else decimal; decimal with a point; double with an exponent."""
    signed = "-" + text if negative else text
    if "e" in text.lower():
        return _double(signed)
    exact = Decimal(signed)
    if "." not in text:
        number = int(exact)
        for type_, bits in ((INT, 31), (BIGINT, 63)):
            if -(1 << bits) <= number < 1 << bits:
                return constant(type_, number, literal=True)
    return _decimal(exact, text)


def _double(text: str) -> Compiled:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise TypeMismatch(f"the number {text} is outside the range of double")
    return constant(DOUBLE, number + 0.0, literal=True)


def _decimal(number: Decimal, text: str) -> Compiled:
    digits, exponent = number.as_tuple().digits, number.as_tuple().exponent
    assert isinstance(exponent, int)
    precision = max(len(str(int("".join(map(str, digits))))), -exponent)
    if precision > MAX_PRECISION:
        raise TypeMismatch(f"the number {text} has more than {MAX_PRECISION} digits")
    return constant(decimal(precision, -exponent), number if number else abs(number), literal=True)


def read_type(node: exp.Expression) -> Type:
    """The type a CAST names."""
    name = node.sql(dialect="spark").lower()
    try:
        return TIMESTAMP if name == "timestamp_ltz" else parse_type(name)
    except (TypeMismatch, ValueError):
        raise UnsupportedExpression(
            f"CAST to {name}: the in-memory evaluator (simulator) knows the core types only"
        ) from None
