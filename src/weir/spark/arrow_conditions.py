"""Conditions over Arrow tables, meaning what Spark means.

Where Arrow's comparison is surely Spark's, a condition runs on whole columns: comparisons between integers, of a
decimal column with an integer literal, or between columns of one exact type whose order is plain (text by its bytes,
dates, times, decimals), IS NULL, AND, OR, NOT. Everything else is evaluated row by row with the in-memory evaluator:
exact, and slow. In a Spark task only the first kind occurs; what only Spark can evaluate raises UnsupportedExpression
and names itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import expressions as exp

from weir.algebra.arrow_types import arrow_type
from weir.algebra.expression import Expression, column_name, parse
from weir.algebra.types import Row, Schema, Type, Value, normalise

Evaluation = Callable[[pa.Table], pa.ChunkedArray]
Kernels = dict[type[exp.Expression], Callable[..., pa.ChunkedArray]]

_COMPARISONS: Kernels = {
    exp.EQ: pc.equal, exp.NEQ: pc.not_equal, exp.LT: pc.less, exp.LTE: pc.less_equal, exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}  # fmt: skip
_CONNECTIVES: Kernels = {exp.And: pc.and_kleene, exp.Or: pc.or_kleene}
_DECIMAL_DIGITS = 38
_PLAIN_ORDER = {"string", "binary", "date", "timestamp", "timestamp_ntz", "decimal"}


@dataclass(frozen=True)
class Condition:
    """A predicate made ready for tables that hold (at least) the columns of ``schema``, by name."""

    schema: Schema  # the columns it reads
    predicate: Callable[[Row], Value]
    on_columns: Evaluation | None

    def mask(self, table: pa.Table) -> pa.Array | pa.ChunkedArray:
        """TRUE for the rows that pass; FALSE or NULL for the others."""
        if self.on_columns is not None:
            return self.on_columns(table)
        return pa.array((self.predicate(row) is True for row in python_rows(table, self.schema)), pa.bool_())


def condition(predicate: Expression, schema: Schema) -> Condition:
    """The predicate over a bag of ``schema``."""
    read = Schema(column for column in schema if column.name in predicate.columns)
    # Compiling it for rows first also refuses what is ill-typed, or what Spark would read otherwise.
    by_rows = predicate.predicate(read)
    return Condition(read, by_rows, _vectorised(parse(predicate.sql), read) if read else None)


def python_rows(table: pa.Table, schema: Schema) -> Iterator[Row]:
    """The rows of these columns as normalised Python tuples."""
    if not schema:
        return iter([()] * table.num_rows)
    return zip(*(_python_values(table.column(column.name), column.type) for column in schema), strict=True)


def _python_values(values: pa.ChunkedArray, type_: Type) -> Iterable[Value]:
    found: Sequence[Value] = values.to_pylist()
    if type_.is_fraction or type_.name == "timestamp":  # the one NaN, the one UTC
        return (normalise(value, type_) for value in found)
    return found


# -- on whole columns --------------------------------------------------------------------------------------------------


def _vectorised(node: exp.Expression, schema: Schema) -> Evaluation | None:
    """The node on whole columns, or None where Arrow might differ from Spark."""
    if isinstance(node, exp.Paren):
        return _vectorised(node.this, schema)
    if isinstance(node, exp.Not):
        return _apply(pc.invert, _vectorised(node.this, schema))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return _apply(pc.is_null, _operand(node.this, schema)[1])
    if type(node) in _CONNECTIVES:
        parts = (_vectorised(node.this, schema), _vectorised(node.expression, schema))
        return _apply(_CONNECTIVES[type(node)], *parts)
    return _comparison(node, schema)


def _comparison(node: exp.Expression, schema: Schema) -> Evaluation | None:
    compare = _COMPARISONS.get(type(node))
    if compare is None:
        return None
    (left, one), (right, other) = _operand(node.this, schema), _operand(node.expression, schema)
    if left is None or right is None:
        return None
    if _compared_alike(left, right):
        return _apply(compare, one, other)
    if (number := _decimal_literal(node.expression, left)) is not None:
        return _apply(compare, one, number)
    if (number := _decimal_literal(node.this, right)) is not None:
        return _apply(compare, number, other)
    return None


def _decimal_literal(node: exp.Expression, column: Type) -> Evaluation | None:
    """An integer literal beside a decimal column, as a number of the column's scale, where both surely fit."""
    if column.name != "decimal" or isinstance(node, exp.Column):
        return None
    _, literal = _operand(node, Schema())
    if literal is None:
        return None
    value = literal(pa.table({})).as_py()
    if max(column.precision - column.scale, len(str(abs(value)))) + column.scale > _DECIMAL_DIGITS:
        return None
    scalar = pa.scalar(Decimal(value), pa.decimal128(_DECIMAL_DIGITS, column.scale))
    return lambda table: scalar


def _compared_alike(left: Type, right: Type) -> bool:
    return (left.is_integer and right.is_integer) or (left == right and left.name in _PLAIN_ORDER)


def _operand(node: exp.Expression, schema: Schema) -> tuple[Type | None, Evaluation | None]:
    """A column, or an integer literal."""
    if isinstance(node, exp.Column):
        name = column_name(node)
        return schema.type_of(name), lambda table: table.column(name)
    number = node.this if isinstance(node, exp.Neg) else node
    if isinstance(number, exp.Literal) and not number.is_string:
        return _integer_literal(node)
    return None, None


def _integer_literal(node: exp.Expression) -> tuple[Type | None, Evaluation | None]:
    type_, value = Expression(node.sql(dialect="spark")).compile(Schema())
    if not type_.is_integer:
        return None, None
    scalar = pa.scalar(value(()), arrow_type(type_))
    return type_, lambda table: scalar


def _apply(function: Callable[..., pa.ChunkedArray], *parts: Evaluation | None) -> Evaluation | None:
    evaluations = [part for part in parts if part is not None]
    if len(evaluations) < len(parts):
        return None
    return lambda table: function(*(evaluate(table) for evaluate in evaluations))
