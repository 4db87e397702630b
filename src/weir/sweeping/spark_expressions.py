"""Views with expressions that only Spark can evaluate: the sweep joins, Spark SQL does the rest in the same job.

A **raw** view joins the same slots by the same equalities and keeps every needed column. Selections that the in-memory
evaluator covers stay, so that fewer rows travel; everything else becomes a condition and a select list in Spark SQL
over the raw rows. There is one raw view per term of a UNION ALL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from weir.algebra.expression import Expression, column, conjunction
from weir.algebra.quoting import ddl
from weir.algebra.types import Column, Schema, parse_type
from weir.algebra.view import Term, View
from weir.spark.written import as_written, rows_where, with_slots


@dataclass(frozen=True)
class RawTerm:
    """One term as a raw view, and what Spark applies to its rows."""

    view: View
    schema: Schema  # of the raw rows
    condition: Expression | None
    output: tuple[tuple[str, Expression], ...]


def raw_terms(view: View) -> list[RawTerm]:
    return [_raw(view, term) for term in view.terms]


def _raw(view: View, term: Term) -> RawTerm:
    dropped = [each for each in term.selections if each is not None and each in term.spark_only]
    kept = tuple(None if selection in dropped else selection for selection in term.selections)
    plain = tuple((name, column(name)) for name in term.schema.names)
    raw = Term(term.slots, term.equalities, kept, (), plain)
    condition = conjunction([*dropped, *term.rest])
    return RawTerm(View(view.name, (raw,), view.options), term.schema, condition, _named(view, term))


def _named(view: View, term: Term) -> tuple[tuple[str, Expression], ...]:
    """The select list under the view's names: a UNION ALL has those of its first part."""
    return tuple((name, expression) for name, (_, expression) in zip(view.columns, term.output, strict=True))


def finished(rows: DataFrame, term: RawTerm, *extra: str) -> DataFrame:
    """Spark's own selection and select list over raw rows; ``extra`` columns of the caller's are kept behind it."""
    if term.condition is not None:
        rows = rows_where(rows, term.condition, str)
    expressions = [expression for _, expression in term.output]
    slots = with_slots(rows, expressions, str)
    selected = [as_written(expression, str).alias(name) for name, expression in term.output]
    return slots.select(*selected, *extra)


def schema_of_view(view: View, spark: SparkSession) -> Schema:
    """The view's columns with the types that Spark gives them."""
    frames = [finished(spark.createDataFrame([], ddl(term.schema)), term) for term in raw_terms(view)]
    fields = reduce(DataFrame.union, frames).schema.fields
    return Schema(Column(field.name, parse_type(field.dataType.simpleString())) for field in fields)
