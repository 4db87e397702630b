"""A typed, compiled expression, and how to build on one: cast it, apply an operation that NULL passes through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter

from weir.algebra.errors import EvaluationError, UnsupportedExpression
from weir.algebra.scalar.arithmetic import Operation
from weir.algebra.scalar.casts import caster
from weir.algebra.scalar.text_numbers import BLANKS, Unreadable
from weir.algebra.scalar.text_times import CLOCK_WORDS
from weir.algebra.types import BOOLEAN, DATETIMES, NULL, STRING, Row, Type, Value

Evaluate = Callable[[Row], Value]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A type and a function from row to value, with what else is known, for shorter functions on the hot paths."""

    type: Type
    value: Evaluate
    column: int | None = None  # it is nothing but this column
    fixed: bool = False  # it is the same for every row, namely:
    constant: Value = None
    fails: bool = False  # it would be fixed, but computing it fails
    literal: bool = False  # it is written as a literal (Spark types an integer literal beside a decimal by its digits)


def column(type_: Type, position: int) -> Compiled:
    return Compiled(type_, itemgetter(position), column=position)


def constant(type_: Type, value: Value, literal: bool = False) -> Compiled:
    return Compiled(type_, lambda row: value, fixed=True, constant=value, literal=literal)


TRUE, FALSE = constant(BOOLEAN, True), constant(BOOLEAN, False)


def cast(operand: Compiled, target: Type, safe: bool = False) -> Compiled:
    """CAST, or TRY_CAST when ``safe``."""
    convert = caster(operand.type, target)
    _leave_to_spark(operand, target)
    if convert is None:
        return replace(operand, type=target, literal=False)
    inner = operand.value

    def evaluate(row: Row) -> Value:
        value = inner(row)
        try:
            return None if value is None else convert(value)
        except Unreadable:
            if safe:
                return None
            way_out = "use TRY_CAST to get NULL instead"
            raise EvaluationError(f"{value!r} of type {operand.type} cannot be cast to {target}; {way_out}") from None

    return _folded(Compiled(target, evaluate), operand)


def _leave_to_spark(operand: Compiled, target: Type) -> None:
    """A number or a text can become a date beyond the year 9999, which Python does not have.

    Only of a constant it is known before.
    """
    source = operand.type
    if target in DATETIMES and (source.is_numeric or source == STRING):
        if not operand.fixed:
            raise spark_alone(source, target, "which may be a year that Python does not have")
        if source == STRING and str(operand.constant).strip(BLANKS).lower() in CLOCK_WORDS:
            raise spark_alone(source, target, f"and '{operand.constant}' is what the clock says")


def spark_alone(source: Type, target: Type, why: str) -> UnsupportedExpression:
    return UnsupportedExpression(f"{source} as {target}, {why}: Spark evaluates it, the in-memory evaluator does not")


def _folded(result: Compiled, *operands: Compiled) -> Compiled:
    """Computed once when the operands are fixed; unless that fails, for then it must fail only where it is reached."""
    if not all(operand.fixed or operand.fails for operand in operands):
        refuse_failing(*operands)
        return result
    try:
        return constant(result.type, result.value(()))
    except EvaluationError:
        return replace(result, fails=True)


def refuse_failing(*operands: Compiled) -> None:
    """A constant that fails, such as ``1 / 0``, fails Spark's whole query while it is planned, unless it stands in a
    branch that may not be reached. Beside a NULL nothing here would look at it: so Spark shall decide.
    """
    if any(operand.fails for operand in operands):
        raise UnsupportedExpression("a constant that fails: Spark decides when, the in-memory evaluator does not")


def strict(type_: Type, operation: Operation, left: Compiled, right: Compiled) -> Compiled:
    """``operation`` on two operands; NULL when the left is NULL, and then when the right is."""
    if NULL in (left.type, right.type):
        assert left.type == right.type, "operands are cast to one type first"
    return _folded(Compiled(type_, _strict_function(operation, left, right)), left, right)


def _strict_function(operation: Operation, left: Compiled, right: Compiled) -> Evaluate:
    if left.column is not None and right.column is not None:
        return _column_and_column(operation, left.column, right.column)
    if left.column is not None and right.fixed and right.constant is not None:
        return _column_and_constant(operation, left.column, right.constant)
    return _in_turn(operation, left.value, right.value)


def _in_turn(operation: Operation, first: Evaluate, second: Evaluate) -> Evaluate:
    def evaluate(row: Row) -> Value:
        one = first(row)
        if one is None:
            return None
        other = second(row)
        return None if other is None else operation(one, other)

    return evaluate


def _column_and_column(operation: Operation, left: int, right: int) -> Evaluate:
    def evaluate(row: Row) -> Value:
        one, other = row[left], row[right]
        return None if one is None or other is None else operation(one, other)

    return evaluate


def _column_and_constant(operation: Operation, left: int, other: Value) -> Evaluate:
    def evaluate(row: Row) -> Value:
        one = row[left]
        return None if one is None else operation(one, other)

    return evaluate


def strict_from_right(type_: Type, operation: Operation, left: Compiled, right: Compiled) -> Compiled:
    """The same, but the right operand is evaluated first: so Spark treats a divisor."""
    swapped = _in_turn(lambda divisor, dividend: operation(dividend, divisor), right.value, left.value)
    return _folded(Compiled(type_, swapped), left, right)


def unary(type_: Type, operation: Callable[[Value], Value], operand: Compiled) -> Compiled:
    """``operation`` on one operand; NULL when that is NULL."""
    inner = operand.value

    def evaluate(row: Row) -> Value:
        value = inner(row)
        return None if value is None else operation(value)

    return _folded(Compiled(type_, evaluate), operand)
