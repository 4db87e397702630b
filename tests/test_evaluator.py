"""Facts about the in-memory evaluator, one line each. ``test_evaluator_against_spark.py`` asks Spark about them too."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from weir.algebra.errors import EvaluationError, TypeMismatch, UnsupportedExpression
from weir.algebra.expression import Expression
from weir.algebra.types import NAN, Row, Schema, normalise_row

SCHEMA = Schema.parse(
    "r1.W int, r2.Z int, d double, n decimal(10,2), s string, o boolean, a date, t timestamp, l bigint"
)
ROW = normalise_row(
    (7, None, 1.5, Decimal("2.50"), "a_b", True, date(2020, 1, 31), datetime(2020, 1, 1, tzinfo=UTC), 5), SCHEMA
)


def evaluate(sql: str, row: Row = ROW) -> tuple[str, Any]:
    type_, function = Expression(sql).compile(SCHEMA)
    return str(type_), function(row)


LITERALS = [
    ("1", "int", 1),
    ("-2147483648", "int", -(2**31)),
    ("2147483648", "bigint", 2**31),
    ("-9223372036854775808", "bigint", -(2**63)),
    ("9223372036854775808", "decimal(19,0)", Decimal(2**63)),
    ("0.001", "decimal(3,3)", Decimal("0.001")),
    ("1.50", "decimal(3,2)", Decimal("1.50")),
    ("0.0", "decimal(1,1)", Decimal("0.0")),
    ("1e3", "double", 1000.0),
    ("5L", "bigint", 5),
    ("1.5BD", "decimal(2,1)", Decimal("1.5")),
    ("'it\\'s'", "string", "it's"),
    ("r'\\d'", "string", "\\d"),
    ("X'ABC'", "binary", b"\x0a\xbc"),
    ("TRUE", "boolean", True),
    ("NULL", "void", None),
    ("DATE '2020-02-29'", "date", date(2020, 2, 29)),
    ("TIMESTAMP '2020-01-01 12:00:00+01:00'", "timestamp", datetime(2020, 1, 1, 11, tzinfo=UTC)),
    ("TIMESTAMP_NTZ '2020-01-01 12:00:00'", "timestamp_ntz", datetime(2020, 1, 1, 12)),
    ("`r1.W`", "int", 7),
]
ARITHMETIC = [
    ("`r1.W` + 1", "int", 8),
    ("`r1.W` + `l`", "bigint", 12),
    ("`r1.W` / 2", "double", 3.5),
    ("-7 % 3", "int", -1),
    ("-7 DIV 2", "bigint", -3),
    ("`r1.W` + `r2.Z`", "int", None),
    ("`n` + 1", "decimal(11,2)", Decimal("3.50")),
    ("`n` * `n`", "decimal(21,4)", Decimal("6.2500")),
    ("`n` / 3", "decimal(14,6)", Decimal("0.833333")),
    ("`n` + `l`", "decimal(23,2)", Decimal("7.50")),
    ("`n` + `d`", "double", 4.0),
    ("'5' + 1", "bigint", 6),
    ("'5.5' + 1.5", "double", 7.0),
    ("- '5'", "double", -5.0),
    ("NULL + 1", "int", None),
    ("NULL / (1 / `r2.Z`)", "double", None),
    ("1e308 * 10", "double", float("inf")),
    ("CAST('inf' AS DOUBLE) % 2", "double", NAN),
    ("- CAST(0 AS DOUBLE)", "double", 0.0),
    ("CAST(0.1 AS FLOAT) + CAST(0.2 AS FLOAT)", "float", 0.30000001192092896),
]
LOGIC = [
    ("`r1.W` > `r2.Z`", "boolean", None),
    ("`r1.W` > 6", "boolean", True),
    ("`r1.W` <=> NULL", "boolean", False),
    ("`r2.Z` IS NOT DISTINCT FROM NULL", "boolean", True),
    ("`r2.Z` IS DISTINCT FROM 1", "boolean", True),
    ("FALSE AND `r2.Z` > 1", "boolean", False),
    ("`r2.Z` > 1 OR TRUE", "boolean", True),
    ("NOT `r2.Z` > 1", "boolean", None),
    ("FALSE AND 1 / 0 > 1", "boolean", False),
    ("(`r2.Z` > 1) IS NOT TRUE", "boolean", True),
    ("`o` IS TRUE", "boolean", True),
    ("`r2.Z` IS NULL", "boolean", True),
    ("7 IN (1, NULL, `r1.W`)", "boolean", True),
    ("`r1.W` IN (1, NULL)", "boolean", None),
    ("`r1.W` NOT IN (1, 2)", "boolean", True),
    ("`r1.W` BETWEEN '1' AND 7.5", "boolean", True),
    ("`r1.W` NOT BETWEEN 8 AND `r2.Z`", "boolean", True),
    ("CAST('NaN' AS DOUBLE) = CAST('NaN' AS FLOAT)", "boolean", True),
    ("CAST('NaN' AS DOUBLE) > CAST('inf' AS DOUBLE)", "boolean", True),
    ("CAST('NaN' AS DOUBLE) IN (1, CAST('NaN' AS DOUBLE))", "boolean", True),
    ("9007199254740993 = CAST(9007199254740992 AS DOUBLE)", "boolean", True),
    ("'5' = 5", "boolean", True),
    ("`a` < `t`", "boolean", False),
    ("'2020-01-31' = `a`", "boolean", True),
    ("X'61' = 'a'", "boolean", True),
    ("`r2.Z` < 99999999999999999999", "boolean", True),
    ("CAST(1 AS DECIMAL(38,0)) = CAST('0.6' AS DECIMAL(38,38))", "boolean", True),
    ("`s` LIKE 'a\\\\_b'", "boolean", True),
    ("`s` LIKE 'a/_b' ESCAPE '/'", "boolean", True),
    ("`s` NOT LIKE '%b'", "boolean", False),
    ("'a\nb' LIKE 'a_b'", "boolean", True),
    ("`r1.W` LIKE '7'", "boolean", True),
]
CHOICES = [
    ("CASE WHEN `r2.Z` > 1 THEN 1 WHEN `o` THEN 2.5 END", "decimal(11,1)", Decimal("2.5")),
    ("CASE `r1.W` WHEN '7' THEN 'x' ELSE 'y' END", "string", "x"),
    ("IF(NULL, 1, 2L)", "bigint", 2),
    ("IF(`o`, `a`, `t`)", "timestamp", datetime(2020, 1, 31, tzinfo=UTC)),
    ("COALESCE(`r2.Z`, `n`)", "decimal(12,2)", Decimal("2.50")),
    ("COALESCE(1, 1 / 0)", "double", 1.0),
    ("COALESCE(NULL, NULL)", "void", None),
    ("NULLIF(`r1.W`, 7.0)", "int", None),
    ("NULLIF(`r1.W`, NULL)", "int", 7),
    ("`s` || `r1.W` || TRUE", "string", "a_b7true"),
    ("'a' || NULL", "string", None),
    ("X'41' || X'42'", "binary", b"AB"),
]
CASTS = [
    ("CAST(' +12 ' AS INT)", "int", 12),
    ("CAST('1.555' AS DECIMAL(10,2))", "decimal(10,2)", Decimal("1.56")),
    ("CAST(-1.9 AS INT)", "int", -1),
    ("CAST(9223372036854775807e0 AS BIGINT)", "bigint", 2**63 - 1),
    ("CAST(16777217 AS FLOAT)", "float", 16777216.0),
    ("CAST(1e-10BD AS STRING)", "string", "0.0000000001"),
    ("CAST(' Yes ' AS BOOLEAN)", "boolean", True),
    ("CAST('2020-1' AS DATE)", "date", date(2020, 1, 1)),
    (
        "CAST('2020-01-01T10:00:00.1234567 Europe/Paris' AS TIMESTAMP)",
        "timestamp",
        datetime(2020, 1, 1, 9, 0, 0, 123456, UTC),
    ),
    ("CAST('2020-01-01 12:00:00+01:00' AS TIMESTAMP_NTZ)", "timestamp_ntz", datetime(2020, 1, 1, 12)),
    ("CAST(`t` AS STRING)", "string", "2020-01-01 00:00:00"),
    ("CAST(`t` AS BIGINT)", "bigint", 1577836800),
    ("CAST(1.5 AS TIMESTAMP)", "timestamp", datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)),
    ("TRY_CAST('12.5' AS INT)", "int", None),
    ("TRY_CAST(128 AS TINYINT)", "tinyint", None),
    ("`s`::binary", "binary", b"a_b"),
]


@pytest.mark.parametrize(("sql", "type_", "value"), [*LITERALS, *ARITHMETIC, *LOGIC, *CHOICES, *CASTS])
def test_expression_has_type_and_value(sql: str, type_: str, value: Any) -> None:
    """An expression of the core language has Spark's type and Spark's value, normalised."""
    found_type, found = evaluate(sql)
    assert found_type == type_
    assert (type(found), repr(found)) == (type(value), repr(value))
    assert found is value or found == value


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("2147483647 + `r1.W`", "overflow"),
        ("- CAST(-128 AS TINYINT)", "overflow"),
        ("-9223372036854775808 DIV -1", "overflow"),
        ("CAST('99999999999999999999999999999999999999' AS DECIMAL(38,0)) + 1", "overflow"),
        ("1 / 0", "division by zero"),
        ("1.5e0 % 0", "division by zero"),
        ("`n` DIV 0", "division by zero"),
        ("CAST(`s` AS INT)", "'a_b' of type string cannot be cast to int"),
        ("`s` > 5", "cannot be cast to bigint"),
        ("CAST(128 AS TINYINT)", "cannot be cast to tinyint"),
        ("CAST('2020-02-30' AS DATE)", "cannot be cast to date"),
        ("`s` LIKE `s` || '\\\\'", "LIKE pattern"),
    ],
)
def test_expression_fails_on_the_row(sql: str, message: str) -> None:
    """What ANSI mode makes fail in Spark raises EvaluationError here, on that row, and names the value."""
    _, function = Expression(sql).compile(SCHEMA)
    with pytest.raises(EvaluationError, match=message):
        function(ROW)


@pytest.mark.parametrize(
    "sql",
    [
        "`r1.W` = `o`", "`a` = 5", "`r1.W` AND `o`", "`s` AND `s`", "NOT `r1.W`", "`s` + `s`", "`o` + 1", "`d` DIV 2",
        "`a` + `l`", "- `o`", "CASE WHEN NULL THEN 1 END", "CASE WHEN `s` THEN 1 END", "IF(`s`, 1, 2)",
        "COALESCE(`a`, 1)", "`o` IN (1)", "CAST(1 AS DATE)", "CAST(`a` AS INT)", "`r1.W` IS TRUE", "`nowhere` = 1",
        "`r1`.`W` = 1",
    ],
)  # fmt: skip
def test_types_that_do_not_mix_are_refused(sql: str) -> None:
    """What Spark refuses at analysis raises TypeMismatch at compilation, and the message quotes the expression."""
    with pytest.raises(TypeMismatch, match="in: "):
        Expression(sql).compile(SCHEMA)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("upper(`s`)", "UPPER"),
        ("date_add(`a`, 1)", "ADD"),
        ("`s` RLIKE 'x'", "REGEXP_LIKE"),
        ("my_function(`s`)", "MY_FUNCTION"),
        ("current_date()", "CURRENT_DATE"),
        ("`a` - `a`", "intervals"),
        ("CAST('now' AS TIMESTAMP)", "clock"),
        ("CAST(`s` AS ARRAY<INT>)", "core types"),
        ("'a''b'", "side by side"),
        ("`a` + 1", "year that Python does not have"),
        ("`a` - 31", "year that Python does not have"),
        ("DATE '9999-12-31' + 1", "outside the years 1 to 9999"),
        ("CAST('12020-01-01' AS DATE)", "outside the years 1 to 9999"),
        ("CAST(`s` AS DATE)", "year that Python does not have"),
        ("CAST(`s` AS TIMESTAMP)", "year that Python does not have"),
        ("CAST(`r1.W` AS TIMESTAMP)", "year that Python does not have"),
        ("`a` > `s`", "year that Python does not have"),
        ("`a` < 'today'", "clock"),
        ("CAST(-2.5e0 AS DECIMAL(10,0))", "Java"),
        ("CAST(1e7 AS STRING)", "Java"),
        ("CAST(CAST(0.1 AS FLOAT) AS STRING)", "Java"),
        ("1e7 || 'x'", "Java"),
        ("CAST(TIMESTAMP '2020-01-01 00:00:00.1' AS DECIMAL(20,6))", "Java"),
        ("`r2.Z` + CAST(1 / 0 AS INT)", "constant that fails"),
        ("`r2.Z` IN (1, 1 / 0)", "constant that fails"),
        ("`r2.Z` <=> CAST('x' AS INT)", "constant that fails"),
    ],
)
def test_what_only_spark_can_do_is_named(sql: str, name: str) -> None:
    """Anything outside the core raises UnsupportedExpression that names it."""
    with pytest.raises(UnsupportedExpression, match=name):
        Expression(sql).compile(SCHEMA)


@pytest.mark.parametrize(
    "sql",
    [
        "`s` || 1 + 2",
        "`o` = 1 IN (TRUE)",
        "`o` = `s` LIKE 'x'",
        "`o` <=> `s` LIKE 'x'",
        "`o` <=> `r1.W` < 2",
        "`o` <=> `r1.W` IN (1, 2)",
        "`o` <=> `r1.W` BETWEEN 1 AND 2",
        "`r1.W` < 2 <=> `o`",
        "`r1.W` = 2 <=> `o`",
    ],
)
def test_unlike_precedence_is_refused(sql: str) -> None:
    """Where sqlglot and Spark bind operators differently, parentheses are demanded instead of a wrong value."""
    with pytest.raises(UnsupportedExpression, match="parentheses"):
        Expression(sql).compile(SCHEMA)


def test_an_unreached_part_does_not_fail() -> None:
    """A part that would fail does not when it is not reached: after a FALSE, in an untaken branch, behind a value."""
    for sql in (
        "FALSE AND 1 / 0 = 1",
        "IF(TRUE, 1, 1 / 0)",
        "COALESCE(1, CAST('x' AS INT))",
        "IF(`r2.Z` IS NOT NULL, 1 / 0, 1)",
    ):
        _, function = Expression(sql).compile(SCHEMA)
        function(ROW)


def test_a_predicate_must_be_boolean() -> None:
    """A filter is a boolean expression; anything else is refused before a row is looked at."""
    with pytest.raises(TypeMismatch, match="boolean"):
        Expression("`r1.W` + 1").predicate(SCHEMA)
    assert Expression("NULL").predicate(SCHEMA)(ROW) is None
