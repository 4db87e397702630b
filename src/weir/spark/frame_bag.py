"""The signed bag as a Spark DataFrame: the columns, and behind them a column of weights. For data that is large.

**Lazy throughout.** No operation runs a Spark job; only ``items``, ``to_arrow`` and what a caller does with ``frame``
do. So there is no ``==`` by content: it would be a job. Like an Arrow bag it may hold a tuple in several rows, and one
place (``_consolidate``) groups them, only where a result depends on it: each grouping is a shuffle. Conditions and
computed columns therefore also meet tuples whose weights cancel; one that fails (a division by zero) fails there too.

**Columns have numbers inside.** They are called ``c0``, ``c1``, ... and ``weight``; the bag's own names, which may hold
points or differ in case only, are in its schema. So a rename costs nothing and no name is ever ambiguous.

**Spark's own meaning.** Bags of unlike types add up in Spark's common types. ``=`` joins no NULLs, joins NaN with NaN
and 0.0 with -0.0, and brings unlike types together. On top of that a bag holds no -0.0 (see weir.algebra.types):
entering and computed fractions lose it.

Only the DataFrame API is used (no RDD, no JVM handle): the same code runs through Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from weir.algebra.bag import WEIGHT, Pairs, join_and_compare
from weir.algebra.errors import TypeMismatch
from weir.algebra.expression import Expression
from weir.algebra.memory import MemoryBag
from weir.algebra.quoting import backquoted
from weir.algebra.types import BIGINT, Column, Row, Schema, Type, parse_type
from weir.spark.arrow_bag import ArrowBag
from weir.spark.frames import frame_of
from weir.spark.written import NameOf, as_written, rows_where, with_slots

_WEIGHT, _OTHER_WEIGHT = "weight", "other_weight"


class FrameBag:
    """A signed bag in a DataFrame."""

    __slots__ = ("_consolidated", "_frame", "schema")

    def __init__(self, schema: Schema, frame: DataFrame, consolidated: bool = False) -> None:
        """``frame``: columns ``c0``, ``c1``, ... of the schema's types, without -0.0, then ``weight``. See
        ``from_frame``.
        """
        self.schema = schema
        self._frame = frame
        self._consolidated = consolidated

    # -- making one, and back ------------------------------------------------------------------------------------------

    @classmethod
    def from_frame(cls, frame: DataFrame) -> FrameBag:
        """From a DataFrame with a column WEIGHT; without it, every row counts once. Column names must be unique."""
        fields = [field for field in frame.schema.fields if field.name != WEIGHT]
        schema = Schema(Column(field.name, parse_type(field.dataType.simpleString())) for field in fields)
        weight = F.expr(f"CAST({backquoted(WEIGHT)} AS BIGINT)") if len(fields) < len(frame.columns) else _bigint(1)
        columns = [_entering(F.col(backquoted(column.name)), column.type) for column in schema]
        return cls(schema, frame.select(*_numbered(columns), weight.alias(_WEIGHT)))

    @classmethod
    def from_arrow(cls, session: SparkSession, bag: ArrowBag) -> FrameBag:
        """The same bag, handed to Spark."""
        columns = [f"{_name(at)} {type_}" for at, type_ in enumerate(bag.schema.types)]
        table = bag.table.rename_columns([*map(_name, range(len(bag.schema))), _WEIGHT])
        frame = frame_of(session, table, ", ".join([*columns, f"{_WEIGHT} bigint"]))
        return cls(bag.schema, frame, consolidated=True)

    @classmethod
    def from_memory(cls, session: SparkSession, bag: MemoryBag) -> FrameBag:
        return cls.from_arrow(session, ArrowBag.from_memory(bag))

    def to_arrow(self) -> ArrowBag:
        """The bag, fetched: a Spark job."""
        table: pa.Table = self._consolidate().toArrow()
        return ArrowBag.from_table(self.schema, table.rename_columns([*self.schema.names, WEIGHT]))

    def to_memory(self) -> MemoryBag:
        return self.to_arrow().to_memory()

    @property
    def frame(self) -> DataFrame:
        """Every tuple once, under the bag's column names, and WEIGHT."""
        return self._consolidate().toDF(*self.schema.names, WEIGHT)

    @property
    def rows(self) -> DataFrame:
        """The rows as they are, a tuple perhaps in several whose weights add up: for those who group anyway."""
        return self._frame.toDF(*self.schema.names, WEIGHT)

    # -- linear structure ----------------------------------------------------------------------------------------------

    def __add__(self, other: FrameBag) -> FrameBag:
        if len(self.schema) != len(other.schema):
            raise TypeMismatch(f"cannot add a bag of ({other.schema}) to one of ({self.schema})")
        both = self._frame.unionAll(other._frame)
        if self.schema.types == other.schema.types:
            return FrameBag(self.schema, both)
        return FrameBag(_retyped(self.schema.names, both), both)

    def __sub__(self, other: FrameBag) -> FrameBag:
        return self + (-other)

    def __neg__(self) -> FrameBag:
        return self.scale(-1)

    def scale(self, factor: int) -> FrameBag:
        if not factor:
            return FrameBag(self.schema, self._frame.where(F.lit(False)), consolidated=True)
        return self._same(self._select(self._columns(), F.col(_WEIGHT) * _bigint(factor)))

    # -- select, project, join -----------------------------------------------------------------------------------------

    def select(self, predicate: Expression) -> FrameBag:
        return self._same(rows_where(self._frame, predicate, _inside(self.schema)))

    def project(self, columns: Sequence[tuple[str, Expression]]) -> FrameBag:
        plain = [expression.plain_column for _, expression in columns]
        names = [name for name, _ in columns]
        if None not in plain:
            kept = self.keep([name for name in plain if name is not None])
            return kept.rename(names)
        inside, expressions = _inside(self.schema), [expression for _, expression in columns]
        slots = with_slots(self._frame, expressions, inside)
        computed_columns = [as_written(expression, inside) for expression in expressions]
        frame = slots.select(*_numbered(computed_columns), F.col(_WEIGHT))
        schema = _retyped(names, frame)
        computed = FrameBag(schema, frame)
        return FrameBag(schema, computed._select(map(_entering, computed._columns(), schema.types)))

    def keep(self, names: Sequence[str]) -> FrameBag:
        if tuple(names) == self.schema.names:
            return self
        return FrameBag(self.schema.only(names), self._select(map(_column, self.schema.positions(names))))

    def rename(self, names: Sequence[str]) -> FrameBag:
        columns = zip(names, self.schema.types, strict=True)
        return FrameBag(Schema(Column(name, type_) for name, type_ in columns), self._frame, self._consolidated)

    def tagged(self, name: str, value: int) -> FrameBag:
        schema = Schema((*self.schema, Column(name, BIGINT)))
        return FrameBag(schema, self._select([*self._columns(), _bigint(value)]), self._consolidated)

    def join(self, other: FrameBag, on: Pairs = (), where: Expression | None = None) -> FrameBag:
        schema = self.schema.joined(other.schema)
        behind = other._frame.toDF(*map(_name, range(len(self.schema), len(schema))), _OTHER_WEIGHT)
        ties = [schema.positions(pair) for pair in on]
        conditions = [_column(mine) == _column(theirs) for mine, theirs in ties]
        joined = self._frame.join(behind, _all(conditions), "inner")
        pairs = FrameBag(schema, joined if where is None else rows_where(joined, where, _inside(schema)))
        weight = F.col(_WEIGHT) * F.col(_OTHER_WEIGHT)
        # Pairs of distinct tuples are distinct, and no product of weights is zero.
        return FrameBag(schema, pairs._select(pairs._columns(), weight), self._consolidated and other._consolidated)

    def join_as_of(
        self, other: FrameBag, moment: str, validity: str, on: Pairs = (), where: Expression | None = None
    ) -> FrameBag:
        return join_and_compare(self, other, moment, validity, on, where)

    # -- keys and sets (not linear) ------------------------------------------------------------------------------------

    def distinct(self) -> FrameBag:
        shown = self.positive()
        return FrameBag(self.schema, shown._select(shown._columns(), _bigint(1)), consolidated=True)

    def occurring(self, names: Sequence[str]) -> FrameBag:
        kept = self.keep(names)
        ones = kept._frame.select(*kept._columns()).distinct().withColumn(_WEIGHT, _bigint(1))
        return FrameBag(kept.schema, ones, consolidated=True)

    def positive(self) -> FrameBag:
        return FrameBag(self.schema, self._consolidate().where(F.col(_WEIGHT) > 0), consolidated=True)

    def matching(self, keys: FrameBag, on: Pairs) -> FrameBag:
        return self._filter_by(keys, on, "left_semi", SparkColumn.__eq__)

    def without(self, keys: FrameBag, on: Pairs, nulls_match: bool = False) -> FrameBag:
        compare = SparkColumn.eqNullSafe if nulls_match else SparkColumn.__eq__
        return self._filter_by(keys, on, "left_anti", compare)

    def _filter_by(self, keys: FrameBag, on: Pairs, kind: str, compare: Any) -> FrameBag:
        """A semi- or anti-join: it keeps a row or not, however often its key is found."""
        found = keys.positive().keep([right for _, right in on])
        names = [f"key{at}" for at in range(len(on))]
        mine = self.schema.positions(left for left, _ in on)
        conditions = [compare(_column(at), F.col(name)) for at, name in zip(mine, names, strict=True)]
        return self._same(self._frame.join(found._frame.toDF(*names, _OTHER_WEIGHT), _all(conditions), kind))

    # -- looking in ----------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[tuple[Row, int]]:
        """Runs a Spark job."""
        return self.to_arrow().items()

    def __repr__(self) -> str:
        return f"FrameBag({self.schema})"

    # -- inside --------------------------------------------------------------------------------------------------------

    def _consolidate(self) -> DataFrame:
        """Every tuple in one row, no zero weights. The one place that groups; the plan is remembered, not the rows."""
        if not self._consolidated:
            self._frame, self._consolidated = added_up(self._frame, self._columns(), _WEIGHT), True
        return self._frame

    def _same(self, frame: DataFrame) -> FrameBag:
        """Some of my rows, or all with other weights: as consolidated as I am."""
        return FrameBag(self.schema, frame, self._consolidated)

    def _columns(self) -> list[SparkColumn]:
        return [_column(at) for at in range(len(self.schema))]

    def _select(self, columns: Iterable[SparkColumn], weight: SparkColumn | None = None) -> DataFrame:
        """These columns, numbered anew, and the weight."""
        kept = F.col(_WEIGHT) if weight is None else weight
        return self._frame.select(*_numbered(columns), kept.alias(_WEIGHT))


def added_up(frame: DataFrame, columns: Iterable[SparkColumn | str], weight: str) -> DataFrame:
    """Rows that are equal in these columns as one, their weights added up; those that cancel are dropped."""
    return frame.groupBy(*columns).agg(F.sum(weight).alias(weight)).where(F.col(weight) != 0)


def _retyped(names: Iterable[str], frame: DataFrame) -> Schema:
    """The columns under these names with the types that Spark gives them."""
    types = [parse_type(field.dataType.simpleString()) for field in frame.schema.fields[:-1]]
    return Schema(Column(name, type_) for name, type_ in zip(names, types, strict=True))


def _name(position: int) -> str:
    return f"c{position}"


def _column(position: int) -> SparkColumn:
    return F.col(_name(position))


def _numbered(columns: Iterable[SparkColumn]) -> list[SparkColumn]:
    return [column.alias(_name(at)) for at, column in enumerate(columns)]


def _inside(schema: Schema) -> NameOf:
    """From a column's name to its number."""
    return lambda name: _name(schema.position(name))


def _entering(column: SparkColumn, type_: Type) -> SparkColumn:
    """The gate for columns: no -0.0."""
    return F.when(column == 0, F.lit(0).cast(str(type_))).otherwise(column) if type_.is_fraction else column


def without_minus_zero(frame: DataFrame) -> DataFrame:
    """The same columns, fractions through the gate."""
    types = [parse_type(field.dataType.simpleString()) for field in frame.schema.fields]
    names = zip(frame.columns, types, strict=True)
    return frame.select(*[_entering(F.col(backquoted(name)), type_).alias(name) for name, type_ in names])


def _bigint(value: int) -> SparkColumn:
    return F.lit(value).cast("bigint")


def _all(conditions: Sequence[SparkColumn]) -> SparkColumn:
    return reduce(SparkColumn.__and__, conditions, F.lit(True))
