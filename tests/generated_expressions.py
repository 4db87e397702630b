"""Hypothesis strategies for scalar SQL text, typed well enough that most of it passes Spark's analysis.

Every operand that is not a leaf stands in parentheses, so that the text means the same to everybody; how operators
bind without them is tested on its own. Left out, because the evaluator leaves it to Spark: the text of a float or
double, and words that ask the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from hypothesis import strategies as st

from tests.values import TEXTS
from weir.algebra.types import Schema

LETTERS = {
    "y": "tinyint", "h": "smallint", "i": "int", "l": "bigint", "f": "float", "d": "double", "n": "decimal(10,2)",
    "m": "decimal(38,18)", "w": "decimal(38,0)", "s": "string", "b": "binary", "o": "boolean", "a": "date",
    "t": "timestamp", "z": "timestamp_ntz",
}  # fmt: skip
SCHEMA = Schema.parse(", ".join(f"{side}.{letter} {type_}" for side in "uv" for letter, type_ in LETTERS.items()))

Text = st.SearchStrategy[str]
EXACT, FRACTIONS, TIMES = "yhilnmw", "fd", "atz"

_NUMBERS = st.sampled_from([
    "0", "1", "-1", "2", "7", "100", "127", "-128", "2147483647", "-2147483648", "2147483648", "9223372036854775807",
    "-9223372036854775808", "9223372036854775808", "99999999999999999999999999999999999999", "0.0", "1.5", "-2.50",
    "0.25", "0.000000000000000001", "12345678901234567890.5", "-99999999999999999999", "NULL",
])  # fmt: skip
_FRACTIONS = st.sampled_from(
    ["1e0", "-1.5e0", "1e308", "1e-320", "CAST('NaN' AS DOUBLE)", "CAST('-inf' AS FLOAT)", "1e-3", "NULL"]
)
_TIMES = st.sampled_from([
    "DATE '2020-01-01'", "DATE '0002-01-01'", "TIMESTAMP '2020-01-01 10:00:00.5'",
    "TIMESTAMP '1969-12-31 23:59:59.999999+01:00'",
    "TIMESTAMP_NTZ '2020-01-01 00:00:00'", "NULL",
])  # fmt: skip
_TARGETS = st.sampled_from([*LETTERS.values(), "decimal(5,0)", "decimal(38,37)", "decimal(4,4)"])


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def columns(letters: str) -> Text:
    return st.sampled_from([f"`{side}.{letter}`" for side in "uv" for letter in letters])


def _format(template: str, *parts: Text) -> Text:
    return st.tuples(*parts).map(lambda given: template.format(*given))


@cache
def numbers(depth: int) -> Text:
    """Of any numeric type."""
    leaf = columns(EXACT + FRACTIONS) | columns(EXACT) | _NUMBERS | _FRACTIONS
    if depth == 0:
        return leaf
    inner = numbers(depth - 1)
    operators = st.sampled_from(["+", "-", "*", "/", "%"])
    return st.one_of(
        leaf,
        _format("({} {} {})", inner, operators, inner),
        _format("({} DIV {})", exact_numbers(depth - 1), exact_numbers(depth - 1)),
        _format("(- {})", inner),
        _format("({} {} {})", columns("s") | strings(0), operators, columns(EXACT + FRACTIONS)),
        _choices(depth, numbers),
        _casts(
            depth, ["int", "tinyint", "bigint", "double", "float", "decimal(10,2)", "decimal(38,18)", "decimal(5,0)"]
        ),
    )


@cache
def exact_numbers(depth: int) -> Text:
    """Integers and decimals."""
    leaf = columns(EXACT) | _NUMBERS
    if depth == 0:
        return leaf
    return leaf | _format("({} {} {})", leaf, st.sampled_from(["+", "-", "*", "%"]), leaf)


@cache
def strings(depth: int) -> Text:
    leaf = columns("s") | st.sampled_from(TEXTS).map(quoted)
    if depth == 0:
        return leaf
    concatenated = strings(depth - 1) | columns("yhilnmwoatzb") | st.just("NULL")
    return st.one_of(
        leaf,
        _format("({} || {})", concatenated, concatenated),
        _format("CAST({} AS STRING)", columns("yhilnmwoatzs")),
        _choices(depth, strings),
    )


@cache
def times(depth: int) -> Text:
    leaf = columns(TIMES) | _TIMES
    if depth == 0:
        return leaf
    return st.one_of(
        leaf,
        _format("({} {} {})", columns("a"), st.sampled_from("+-"), columns("yh") | st.sampled_from(["1", "-400"])),
        _format("(1 + {})", columns("a")),
        _choices(depth, times),
        _casts(depth, ["date", "timestamp", "timestamp_ntz"]),
    )


@cache
def binaries(depth: int) -> Text:
    leaf = columns("b") | st.sampled_from(["X'6162'", "X''", "NULL"])
    return leaf if depth == 0 else leaf | _format("({} || {})", leaf, leaf) | _format("CAST({} AS BINARY)", strings(0))


@cache
def booleans(depth: int) -> Text:
    leaf = columns("o") | st.sampled_from(["TRUE", "FALSE"])
    if depth == 0:
        return leaf
    inner = booleans(depth - 1)
    return st.one_of(
        leaf,
        _comparisons(depth),
        _comparisons(depth),
        _memberships(depth),
        _likes(depth),
        _format("({} {} {})", inner, st.sampled_from(["AND", "OR"]), inner),
        _format("(NOT {})", inner | st.just("NULL")),
        _format(
            "({} IS {}{})", inner, st.sampled_from(["", "NOT "]), st.sampled_from(["TRUE", "FALSE", "NULL", "UNKNOWN"])
        ),
        _format("({} IS {}NULL)", anything(depth - 1), st.sampled_from(["", "NOT "])),
        _choices(depth, booleans),
        _casts(depth, ["boolean"]),
    )


def _pairs(depth: int) -> list[tuple[Text, Text]]:
    """Operands that can be compared."""
    families = [numbers, strings, times, binaries, booleans]
    alike = [(family(depth - 1), family(depth - 1)) for family in families]
    return [
        *alike,
        alike[0],
        alike[0],
        (columns("s"), columns("yhilnmwfdoatzb")),
        (columns("il"), _NUMBERS),
        (columns("mw"), columns("nl")),
    ]


def _comparisons(depth: int) -> Text:
    plain = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
    either_way = [_format("({0} {1} {2})", left, plain, right) for left, right in _pairs(depth)]
    return st.one_of(either_way + [_format("({0} {1} {2})", right, plain, left) for left, right in _pairs(depth)])


def _memberships(depth: int) -> Text:
    negated = st.sampled_from(["", "NOT "])
    return st.one_of([
        form
        for left, right in _pairs(depth)
        for form in (
            _format("({} {}IN ({}, {}, NULL))", left, negated, right, right),
            _format("({} {}IN ({}, {}))", left, negated, right, left),
            _format("({} {}BETWEEN {} AND {})", left, negated, right, left),
        )
    ])  # fmt: skip


_PATTERNS = st.sampled_from(["%", "_", "", "a%", "%b%", "a\\_b", "a\\\\%", "\\%", "_\\\\", "😀", "__", "1%", "2020%"])


def _likes(depth: int) -> Text:
    text = strings(depth - 1) | columns("inat")
    negated = st.sampled_from(["", "NOT "])
    return st.one_of(
        _format("({} {}LIKE {})", text, negated, _PATTERNS.map(quoted)),
        _format("({} {}LIKE {})", text, negated, columns("s")),
        _format("({} {}LIKE '%/_%' ESCAPE '/')", text, negated),
    )


def _choices(depth: int, family: Callable[[int], Text]) -> Text:
    """CASE, IF, COALESCE, NULLIF over operands of one family."""
    inner, condition = family(depth - 1), booleans(depth - 1)
    return st.one_of(
        _format("CASE WHEN {} THEN {} WHEN {} THEN {} ELSE {} END", condition, inner, condition, inner, inner),
        _format("CASE {} WHEN {} THEN {} END", inner, inner, inner),
        _format("IF({}, {}, {})", condition | st.just("NULL"), inner, inner),
        _format("COALESCE({}, {}, {})", inner, st.just("NULL") | inner, inner),
        _format("NULLIF({}, {})", inner, inner),
    )


def _casts(depth: int, targets: list[str]) -> Text:
    source = strings(0) | columns("".join(LETTERS)) | numbers(depth - 1)
    return _format("{}({} AS {})", st.sampled_from(["CAST", "TRY_CAST"]), source, st.sampled_from(targets))


@cache
def anything(depth: int) -> Text:
    return st.one_of(numbers(depth), strings(depth), times(depth), binaries(depth), booleans(depth))


def expressions() -> Text:
    """Mostly well typed; one in some has operands of any types, to see both sides refuse it."""
    leaf = columns("".join(LETTERS)) | st.just("NULL")
    operators = st.sampled_from(["+", "-", "*", "/", "%", "DIV", "=", "<", "<=>", "AND", "||"])
    return st.one_of(
        anything(2),
        booleans(2),
        numbers(2),
        _format("({} {} {})", leaf, operators, leaf),
        _format("COALESCE({}, {})", leaf, leaf),
        _format("CAST({} AS {})", leaf, _TARGETS),
        _format("TRY_CAST({} AS {})", leaf, _TARGETS),
    )
