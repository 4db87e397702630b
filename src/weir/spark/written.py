"""Expressions given to Spark as the user wrote them.

The user's text calls a column ``slot.name`` (``weir.algebra.expression.Written``). Here the frame gets a struct for
each slot, whose fields are the columns under the names that the user spelled: so ``struct(o.id)`` has a field ``id``
and every operator binds as Spark's own parser says. Spark's optimizer takes the structs away again.

An expression of our own (no user wrote it) is given as its text over the frame's columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from weir.algebra.expression import Expression
from weir.algebra.quoting import backquoted

NameOf = Callable[[str], str]  # from a bag's column to the frame's


def with_slots(frame: DataFrame, expressions: Sequence[Expression], name_of: NameOf) -> DataFrame:
    """The frame, and behind its columns the structs that these expressions read."""
    fields: dict[str, dict[str, str]] = {}
    for expression in expressions:
        for column, slot, name in expression.written.reads if expression.written else ():
            fields.setdefault(slot, {}).setdefault(column, name)
    structs = {slot: _struct(columns, name_of) for slot, columns in fields.items()}
    return frame.withColumns(structs) if structs else frame


def _struct(columns: dict[str, str], name_of: NameOf) -> SparkColumn:
    return F.struct(*[F.col(backquoted(name_of(column))).alias(name) for column, name in columns.items()])


def as_written(expression: Expression, name_of: NameOf) -> SparkColumn:
    """The expression over a frame with its slots."""
    if expression.written is not None:
        return F.expr(expression.written.text)
    return F.expr(expression.rename({name: name_of(name) for name in expression.columns}).sql)


def rows_where(frame: DataFrame, condition: Expression, name_of: NameOf) -> DataFrame:
    """The frame's rows that satisfy the condition."""
    chosen = with_slots(frame, [condition], name_of).where(as_written(condition, name_of))
    return chosen.select(*map(F.col, map(backquoted, frame.columns)))
