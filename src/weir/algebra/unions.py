"""The columns of a UNION ALL in their common types, as Spark finds them: two SELECTs meet, the next meets the result.

A column that differs is cast in every SELECT whose type gives way, so that below the algebra all terms of a view have
the same types. Where one of the types is known to Spark alone, nothing is cast: such a view is Spark's as a whole, and
Spark brings its terms together itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weir.algebra.errors import UnsupportedExpression
from weir.algebra.expression import Expression, Written
from weir.algebra.scalar.coercion import common_type
from weir.algebra.types import Type
from weir.algebra.view import Term


class NoCommonType(Exception):
    """Column ``at`` of term ``term`` does not go together with those before it."""

    def __init__(self, term: int, at: int, before: Type, here: Type) -> None:
        self.term, self.at, self.before, self.here = term, at, before, here


def in_common_types(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The same terms, each with the casts that make its columns those of the others."""
    columns = [_casts([_type_of(term, at) for term in terms], at) for at in range(len(terms[0].output))]
    return tuple(_cast_term(term, [casts[number] for casts in columns]) for number, term in enumerate(terms))


def _type_of(term: Term, at: int) -> Type | None:
    try:
        return term.output[at][1].compile(term.schema)[0]
    except UnsupportedExpression:
        return None


def _casts(types: Sequence[Type | None], at: int) -> list[list[Type]]:
    """For every term, the types that its column is cast to, one after the other."""
    steps: list[list[Type]] = [[] for _ in types]
    known = [type_ for type_ in types if type_ is not None]
    if len(known) < len(types):
        return steps
    met = known[0]
    for number, here in enumerate(known[1:], 1):
        common = common_type(met, here)
        if common is None:
            raise NoCommonType(number, at, met, here)
        for earlier in range(number if common != met else 0):
            steps[earlier].append(common)
        if common != here:
            steps[number].append(common)
        met = common
    return steps


def _cast_term(term: Term, casts: Sequence[Sequence[Type]]) -> Term:
    if not any(casts):
        return term
    outputs = zip(term.output, casts, strict=True)
    return replace(term, output=tuple((name, _cast(expression, types)) for (name, expression), types in outputs))


def _cast(expression: Expression, types: Sequence[Type]) -> Expression:
    for type_ in types:
        written = expression.written
        if written is not None:
            written = Written(f"CAST({written.text} AS {type_})", written.reads)
        expression = Expression(f"CAST({expression.sql} AS {type_})", written)
    return expression
