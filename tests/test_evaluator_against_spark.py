"""The in-memory evaluator against a real Spark: same type, same value, and an error here where there is an error there.

How the comparison is kept fair. Whether an expression fails on a row depends on what is evaluated. Spark's optimizer
may drop a part that would fail (it knows that ``x = NULL`` is NULL whatever ``x`` is); the evaluator has no
optimizer. So there are two comparisons:

- **exact**: with the optimizer's rewriting of expressions switched off. Every pair of expression and row must agree,
  errors included. The rows are a local relation, which Spark then evaluates by itself, interpreting, without a job; a
  pair on which the evaluator fails is asked alone, since one error ends a whole query.
- **optimized**: Spark as it comes, generated code, a real job. Every pair for which the evaluator has a value must give
  that value; where the evaluator fails, Spark may know better.

In both, an expression that fails on some rows is asked as ``CASE WHEN id IN (the others) THEN ... END``, which Spark
does not evaluate on the rows left out and which has the type of the expression.

What the evaluator does not know it leaves to Spark on every path; what it knows it must know exactly, and so nothing is
compared by halves: no text of a number as a number, no value taken as out of reach.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests import test_evaluator as facts
from tests.generated_expressions import SCHEMA, expressions
from tests.values import rows
from weir.algebra.errors import EvaluationError, TypeMismatch, UnsupportedExpression
from weir.algebra.expression import Expression
from weir.algebra.scalar.coercion import common_type
from weir.algebra.types import NULL, Row, Schema, Type, Value, normalise, normalise_row

pytestmark = pytest.mark.spark

REWRITING = (
    "BooleanSimplification", "CombineConcats", "ConstantFolding", "ConstantPropagation", "FoldablePropagation",
    "LikeSimplification", "NullDownPropagation", "NullPropagation", "OptimizeIn",
    "PushFoldableIntoBranches", "RemoveDispensableExpressions",
    "ReplaceNullWithFalseInPredicate", "ReorderAssociativeOperator", "SimplifyBinaryComparison",
    "SimplifyCasts", "SimplifyConditionals", "SimplifyConditionalsInPredicate", "UnwrapCastInBinaryComparison",
)  # fmt: skip
EXCLUDED = "spark.sql.optimizer.excludedRules"
OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer."
ARROW = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "boolean": pa.bool_(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip

compared: Counter[str] = Counter()
disagreements: list[str] = []


@dataclass(frozen=True)
class Question:
    """An expression over some rows, with the evaluator's answers: a value, or the error, per row."""

    sql: str
    type: Type
    answers: tuple[Value | EvaluationError, ...]

    @property
    def good(self) -> list[int]:
        return [at for at, answer in enumerate(self.answers) if not isinstance(answer, EvaluationError)]

    @property
    def bad(self) -> list[int]:
        return [at for at, answer in enumerate(self.answers) if isinstance(answer, EvaluationError)]

    def select(self, name: str) -> str:
        if not self.bad:
            return f"({self.sql}) AS {name}"
        return f"CASE WHEN id IN ({', '.join(map(str, self.good))}) THEN ({self.sql}) END AS {name}"


# The same expressions every time. No shrinking: disagreements are collected, and each is small enough to read.
@settings(
    max_examples=16, derandomize=True, deadline=None, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(
    texts=st.lists(expressions(), min_size=40, max_size=40, unique=True),
    table=st.lists(rows(SCHEMA), min_size=7, max_size=7),
)
def check_generated(spark: SparkSession, texts: list[str], table: list[Row]) -> None:
    check(spark, texts, table, SCHEMA)


@pytest.fixture(autouse=True)
def _fresh_counts() -> Iterator[None]:
    """Each test counts for itself, prints its counts and fails when it met a disagreement."""
    compared.clear()
    disagreements.clear()
    yield
    print("\ncompared with Spark:", ", ".join(f"{count} {what}" for what, count in sorted(compared.items())))
    assert not disagreements, f"{len(disagreements)} disagreements\n" + "\n".join(disagreements[:40])


def test_generated_expressions_mean_what_spark_means(spark: SparkSession) -> None:
    """Thousands of generated pairs of expression and row have Spark's type, Spark's value and Spark's errors."""
    check_generated(spark)
    assert compared["exact values"] > 3000
    assert compared["errors"] > 50
    assert compared["refused expressions"] > 15
    assert compared["left to Spark"] < compared["exact values"] / 10


def test_the_listed_facts_are_sparks(spark: SparkSession) -> None:
    """The facts that ``test_evaluator.py`` lists one by one are facts of Spark."""
    listed = [*facts.LITERALS, *facts.ARITHMETIC, *facts.LOGIC, *facts.CHOICES, *facts.CASTS]
    check(spark, [sql for sql, _, _ in listed], [facts.ROW], facts.SCHEMA)
    assert compared["exact values"] == compared["optimized values"] == len(listed)


def test_operators_bind_as_in_spark(spark: SparkSession) -> None:
    """Without parentheses two operators either mean what Spark means or are refused with the wish for parentheses."""
    symbols = ["+", "-", "*", "DIV", "||", "=", "<", "<=>", "AND", "OR", "LIKE"]
    operands = [
        ("7", "3", "2"),
        ("'7'", "3", "'2'"),
        ("TRUE", "FALSE", "FALSE"),
        ("TRUE", "7", "'3'"),
        ("1", "1", "TRUE"),
    ]
    pairs = [(one, two) for one in symbols for two in symbols]
    texts = [f"{x} {one} {y} {two} {z}" for x, y, z in operands for one, two in pairs]
    tails = [(one, tail) for one in symbols for tail in ("IN ({1})", "BETWEEN {0} AND {1}", "IS NULL")]
    texts += [f"{x} {one} {y} {tail.format(y, z)}" for x, y, z in operands for one, tail in tails]
    texts += [f"NOT {x} {one} {y}" for x, y, _ in operands for one in symbols]
    texts += [f"- {x} {one} - {y}" for x, y, _ in operands for one in symbols]
    frame = _frame(spark, [facts.ROW], facts.SCHEMA)
    accepted = [text for text in texts if _spark_accepts(frame, text)]
    check(spark, accepted, [facts.ROW], facts.SCHEMA)
    assert compared["exact values"] > 100
    assert compared["left to Spark"] > 10


def test_unions_meet_in_sparks_types(spark: SparkSession) -> None:
    """Every pair of types, NULL too, as the columns of a UNION ALL: the same common type, or none on both sides."""
    types = [*dict.fromkeys(SCHEMA.types), NULL]
    for one, other in product(types, types):
        query = f"SELECT CAST(NULL AS {one}) AS x UNION ALL SELECT CAST(NULL AS {other})"
        query = query.replace(f"CAST(NULL AS {NULL})", "NULL")
        try:
            there = spark.sql(query).dtypes[0][1]
        except AnalysisException:
            there = "none"
        compared["unions"] += 1
        if there != str(here := common_type(one, other) or "none"):
            disagreements.append(f"{one} UNION ALL {other} is {there} in Spark, {here} here")
    assert compared["unions"] > 200


def check(spark: SparkSession, texts: list[str], table: list[Row], schema: Schema) -> None:
    """Compares the evaluator with Spark on every pair of expression and row."""
    frames = [_frame(spark, [row], schema) for row in table]
    whole = _frame(spark, table, schema)
    questions = [asked for text in texts if (asked := _ask_evaluator(whole, text, table, schema)) is not None]
    with _optimizer_without(spark, *REWRITING):
        _compare_values(whole, questions, "exact values")
        for question in questions:
            _compare_errors(question, frames)
    with _optimizer_without(spark, "ConvertToLocalRelation"):
        _compare_values(whole, questions, "optimized values")


def _ask_evaluator(frame: DataFrame, text: str, table: list[Row], schema: Schema) -> Question | None:
    """The evaluator's answers; None when it refuses the expression, as Spark then must too, or leaves it to Spark."""
    try:
        type_, function = Expression(text).compile(schema)
    except TypeMismatch as refusal:
        compared["refused expressions"] += 1
        if _spark_accepts(frame, text):
            disagreements.append(f"Spark accepts what is refused here: {refusal}")
        return None
    except UnsupportedExpression:
        compared["left to Spark"] += 1
        return None
    return Question(text, type_, tuple(_answer(function, normalise_row(row, schema)) for row in table))


def _spark_accepts(frame: DataFrame, text: str) -> bool:
    try:
        frame.selectExpr(f"({text})")
    except AnalysisException:
        return False
    return True


def _answer(function: Callable[[Row], Value], row: Row) -> Value | EvaluationError:
    try:
        return function(row)
    except EvaluationError as error:
        return error


def _compare_values(frame: DataFrame, questions: list[Question], what: str) -> None:
    questions = [question for question in questions if question.good]
    try:
        result = frame.selectExpr("id", *(question.select(f"c{at}") for at, question in enumerate(questions)))
        collected = sorted(result.collect(), key=lambda row: row["id"])
    except (PySparkException, ValueError) as error:
        if len(questions) == 1:
            disagreements.append(f"{what}: {questions[0]} fails in Spark: {str(error)[:300]}")
        else:  # find the one to blame
            _compare_values(frame, questions[::2], what)
            _compare_values(frame, questions[1::2], what)
        return
    for at, question in enumerate(questions):
        spark_type = result.schema[at + 1].dataType.simpleString()
        if spark_type != str(question.type):
            disagreements.append(f"{question.sql} is {spark_type} in Spark, {question.type} here")
            continue
        for number in question.good:
            _compare_value(question, number, collected[number][at + 1])
            compared[what] += 1


def _compare_errors(question: Question, frames: list[DataFrame]) -> None:
    """A failure of the evaluator must be one of Spark on the same row. One row is tried: it costs a query."""
    for number in question.bad[:1]:
        compared["errors"] += 1
        try:
            value = frames[number].selectExpr(f"({question.sql})").collect()[0][0]
        except (PySparkException, ValueError):
            continue
        disagreements.append(f"{question.sql} is {value!r} in Spark, here {question.answers[number]}")


def _compare_value(question: Question, number: int, collected: Any) -> None:
    here = question.answers[number]
    there = normalise(_plain(collected, question.type), question.type)
    if (type(here), repr(here)) != (type(there), repr(there)) or not (here is there or here == there):
        disagreements.append(f"{question.sql} is {there!r} in Spark, {here!r} here (row {number})")


def _plain(value: Any, type_: Type) -> Any:
    """A value out of PySpark, which gives an instant as local time without zone."""
    if isinstance(value, bytearray):
        return bytes(value)
    return value.astimezone(UTC) if isinstance(value, datetime) and type_.name == "timestamp" else value


def _frame(spark: SparkSession, table: list[Row], schema: Schema) -> DataFrame:
    """A local relation of the rows, with an ``id``: their numbers from 0."""
    arrays = [
        pa.array(column, _arrow(type_)) for column, type_ in zip(zip(*table, strict=True), schema.types, strict=True)
    ]
    table_ = pa.Table.from_arrays([pa.array(range(len(table)), pa.int32()), *arrays], ["id", *schema.names])
    types = ", ".join(f"`{column.name}` {column.type}" for column in schema)
    return spark.createDataFrame(table_, f"id int, {types}")


def _arrow(type_: Type) -> pa.DataType:
    return pa.decimal128(type_.precision, type_.scale) if type_.name == "decimal" else ARROW[type_.name]


@contextmanager
def _optimizer_without(spark: SparkSession, *rules: str) -> Iterator[None]:
    spark.conf.set(EXCLUDED, ",".join(OPTIMIZER + rule for rule in rules))
    try:
        yield
    finally:
        spark.conf.unset(EXCLUDED)
