"""Three-valued logic, membership, LIKE, and the choices (CASE, IF, COALESCE, NULLIF) over compiled operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weir.algebra.errors import TypeMismatch
from weir.algebra.scalar.coercion import common_type_of_all
from weir.algebra.scalar.compiled import Compiled, Evaluate, cast, refuse_failing, strict, unary
from weir.algebra.scalar.operators import compare, for_comparison
from weir.algebra.scalar.patterns import like_pattern
from weir.algebra.types import BOOLEAN, NULL, STRING, Row, Type, Value

# -- three-valued logic --------------------------------------------------------------------------------------


def both(left: Compiled, right: Compiled) -> Compiled:
    """AND: FALSE when one is FALSE, else NULL when one is NULL. The right is not evaluated after a FALSE."""
    return _connective("AND", False, left, right)


def either(left: Compiled, right: Compiled) -> Compiled:
    """OR: TRUE when one is TRUE, else NULL when one is NULL. The right is not evaluated after a TRUE."""
    return _connective("OR", True, left, right)


def _connective(name: str, deciding: bool, left: Compiled, right: Compiled) -> Compiled:
    one, other = (operand.value for operand in _truth_values(name, left, right))

    def evaluate(row: Row) -> Value:
        first = one(row)
        if first is deciding:
            return deciding
        second = other(row)
        return second if first is not None or second is deciding else None

    return Compiled(BOOLEAN, evaluate)


def _truth_values(name: str, left: Compiled, right: Compiled) -> tuple[Compiled, Compiled]:
    types = {left.type, right.type}
    if types <= {BOOLEAN, NULL} or types == {BOOLEAN, STRING}:
        return cast(left, BOOLEAN), cast(right, BOOLEAN)
    raise TypeMismatch(f"{left.type} {name} {right.type} is not defined: both sides must be boolean")


def negation(operand: Compiled) -> Compiled:
    """NOT."""
    if operand.type not in (BOOLEAN, STRING, NULL):
        raise TypeMismatch(f"NOT needs a boolean, not a value of type {operand.type}")
    return unary(BOOLEAN, lambda value: not value, cast(operand, BOOLEAN))


def is_null(operand: Compiled) -> Compiled:
    inner = operand.value
    return Compiled(BOOLEAN, lambda row: inner(row) is None)


# -- membership and LIKE -------------------------------------------------------------------------------------


def between(operand: Compiled, low: Compiled, high: Compiled) -> Compiled:
    return both(compare(">=", operand, low), compare("<=", operand, high))


def member(operand: Compiled, choices: Sequence[Compiled]) -> Compiled:
    """IN: TRUE when one is equal, else NULL when one is NULL. Nothing after the first equal one is evaluated."""
    type_ = common_type_of_all(part.type for part in (operand, *choices))
    if type_ is None:
        types = ", ".join(str(choice.type) for choice in choices)
        raise TypeMismatch(f"{operand.type} cannot be compared with all of ({types}): cast them to one type")
    refuse_failing(operand, *choices)
    value, elements = for_comparison(operand, type_).value, [for_comparison(choice, type_) for choice in choices]
    refuse_failing(*elements)
    if all(element.fixed for element in elements):
        return Compiled(BOOLEAN, _in_constants(value, [element.constant for element in elements]))
    return Compiled(BOOLEAN, _in_list(value, [element.value for element in elements]))


def _in_constants(value: Evaluate, constants: list[Value]) -> Evaluate:
    known = frozenset(constants) - {None}  # the one NaN object is found by identity
    otherwise = None if None in constants else False

    def evaluate(row: Row) -> Value:
        wanted = value(row)
        return None if wanted is None else True if wanted in known else otherwise

    return evaluate


def _in_list(value: Evaluate, elements: list[Evaluate]) -> Evaluate:
    def evaluate(row: Row) -> Value:
        wanted = value(row)
        if wanted is None:
            return None
        otherwise: bool | None = False
        for element in elements:
            found = element(row)
            if found is None:
                otherwise = None
            elif found is wanted or found == wanted:  # ``is`` for the one NaN object
                return True
        return otherwise

    return evaluate


def like(operand: Compiled, pattern: Compiled, escape: str) -> Compiled:
    operand, pattern = cast(operand, STRING), cast(pattern, STRING)
    if pattern.fixed and pattern.constant is not None:
        matches = like_pattern(pattern.constant, escape).fullmatch  # a wrong pattern fails at once, as it does in Spark
        return unary(BOOLEAN, lambda text: matches(text) is not None, operand)
    return strict(
        BOOLEAN, lambda text, given: like_pattern(given, escape).fullmatch(text) is not None, operand, pattern
    )


# -- choices -------------------------------------------------------------------------------------------------


def case(branches: Sequence[tuple[Compiled, Compiled]], otherwise: Compiled) -> Compiled:
    """CASE WHEN: the first branch whose condition is TRUE; conditions must be boolean, not even a bare NULL."""
    for condition, _ in branches:
        if condition.type != BOOLEAN:
            raise TypeMismatch(f"CASE WHEN needs a boolean, not a value of type {condition.type}")
    results = _alternatives("CASE", [*(result for _, result in branches), otherwise])
    steps = [(condition.value, result.value) for (condition, _), result in zip(branches, results, strict=False)]
    last = results[-1].value

    def evaluate(row: Row) -> Value:
        for holds, result in steps:
            if holds(row) is True:
                return result(row)
        return last(row)

    return Compiled(results[-1].type, evaluate)


def choose(condition: Compiled, then: Compiled, otherwise: Compiled) -> Compiled:
    """IF(condition, then, otherwise)."""
    if condition.type == NULL:
        condition = cast(condition, BOOLEAN)
    return case([(condition, then)], otherwise)


def coalesce(operands: Sequence[Compiled]) -> Compiled:
    """The first operand that is not NULL; later ones are not evaluated."""
    results = _alternatives("COALESCE", operands)
    functions = [result.value for result in results]

    def evaluate(row: Row) -> Value:
        for function in functions:
            value = function(row)
            if value is not None:
                return value
        return None

    return Compiled(results[0].type, evaluate)


def null_if(operand: Compiled, unwanted: Compiled) -> Compiled:
    """NULLIF: NULL when the two are equal, else the first, in its own type."""
    equal, inner = compare("=", operand, unwanted).value, operand.value
    return Compiled(operand.type, lambda row: None if equal(row) is True else inner(row))


def _alternatives(name: str, operands: Sequence[Compiled]) -> list[Compiled]:
    """All cast to the one type that the result can have."""
    type_ = common_type_of_all(operand.type for operand in operands)
    if type_ is None:
        types = ", ".join(str(operand.type) for operand in operands)
        raise TypeMismatch(f"{name} over {types}: the alternatives have no common type, cast them to one")
    return [_as_alternative(operand, type_) for operand in operands]


def _as_alternative(operand: Compiled, type_: Type) -> Compiled:
    return replace(operand, type=type_) if operand.type == NULL else cast(operand, type_)
