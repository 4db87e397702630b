"""The signed bag as an Arrow table: the columns, and behind them a column of weights. What a Spark task works on.

**Lazily consolidated.** Inside, a tuple may stand in several rows whose weights add up; ``+`` only puts two tables
beside each other. One place (``_consolidate``) groups equal tuples and drops zero weights, and only what needs it asks
for it: looking in, equality, ``distinct`` and ``positive``, keys, pickling, and evaluation row by row (an expression
must not fail on a tuple that is not there). Once done it is remembered.

**Normalised at the gate.** Fractions that enter have one NaN and no -0.0 (see weir.algebra.types), so Arrow may compare
them by their bits.

Weights are 64-bit; a product that does not fit raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.arrow_types import arrow_schema, arrow_type
from weir.algebra.bag import WEIGHT, Pairs
from weir.algebra.errors import TypeMismatch
from weir.algebra.expression import Expression
from weir.algebra.memory import MemoryBag
from weir.algebra.types import BIGINT, Column, Row, Schema, Type, Value, normalise_row
from weir.spark.arrow_conditions import Condition, condition, python_rows
from weir.spark.arrow_keys import Keys, RowPairs, codes, found, meeting
from weir.spark.arrow_spans import meeting_at, spans


class ArrowBag:
    """A signed bag in Arrow columns.

    >>> r = ArrowBag.weighted(Schema.parse("W int, X int"), [((1, 2), 2), ((4, 2), 1)])
    >>> r - r.scale(2)
    ArrowBag(-2*(1, 2), -(4, 2))
    """

    __slots__ = ("_consolidated", "_table", "schema")

    def __init__(self, schema: Schema, table: pa.Table, consolidated: bool = False) -> None:
        """``table``: the schema's columns in their Arrow types, normalised, then the weights. See ``from_table``."""
        self.schema = schema
        self._table = table
        self._consolidated = consolidated

    # -- making one, and back ------------------------------------------------------------------------------------------

    @classmethod
    def from_table(cls, schema: Schema, table: pa.Table) -> ArrowBag:
        """From a table that has the schema's columns by name, and WEIGHT; without it, every row counts once."""
        columns = [_entering(table.column(column.name), column.type) for column in schema]
        weights = table.column(WEIGHT).cast(pa.int64()) if WEIGHT in table.column_names else _ones(table.num_rows)
        return cls(schema, _table(schema, columns, weights))

    @classmethod
    def weighted(cls, schema: Schema, rows: Iterable[tuple[Sequence[Value], int]]) -> ArrowBag:
        """From rows with weights, checked against the schema."""
        pairs = [(normalise_row(row, schema), weight) for row, weight in rows]
        return cls(schema, _from_python(schema, [row for row, _ in pairs], pa.array([w for _, w in pairs], pa.int64())))

    @classmethod
    def from_memory(cls, bag: MemoryBag) -> ArrowBag:
        return cls.weighted(bag.schema, bag.items())

    def to_memory(self) -> MemoryBag:
        return MemoryBag.weighted(self.schema, self.items())

    @property
    def table(self) -> pa.Table:
        """Every tuple once: the columns and WEIGHT."""
        return self._consolidate()

    @property
    def rows(self) -> pa.Table:
        """The rows as they are, a tuple perhaps in several whose weights add up: for those who add up anyway."""
        return self._table

    # -- linear structure ----------------------------------------------------------------------------------------------

    def __add__(self, other: ArrowBag) -> ArrowBag:
        if len(self.schema) != len(other.schema):
            raise TypeMismatch(f"cannot add a bag of ({other.schema}) to one of ({self.schema})")
        if not other._table.num_rows:
            return self
        return ArrowBag(self.schema, pa.concat_tables([self._table, _shaped(other._table, self.schema)]))

    def __sub__(self, other: ArrowBag) -> ArrowBag:
        return self + (-other)

    def __neg__(self) -> ArrowBag:
        return self.scale(-1)

    def scale(self, factor: int) -> ArrowBag:
        if not factor:
            return ArrowBag(self.schema, self._table.slice(0, 0), consolidated=True)
        weights = pc.multiply_checked(self._table.column(WEIGHT), factor)
        return self._same(self._table.set_column(len(self.schema), WEIGHT, weights))

    # -- select, project, join -----------------------------------------------------------------------------------------

    def select(self, predicate: Expression) -> ArrowBag:
        filter_ = condition(predicate, self.schema)
        table = self._table if filter_.on_columns is not None else self._consolidate()
        return self._same(table.filter(filter_.mask(table)))

    def project(self, columns: Sequence[tuple[str, Expression]]) -> ArrowBag:
        plain = [expression.plain_column for _, expression in columns]
        table = self._table if None not in plain else self._consolidate()
        made = [
            self._computed(table, expression) if name is None else (self.schema.type_of(name), table.column(name))
            for name, (_, expression) in zip(plain, columns, strict=True)
        ]
        schema = Schema(Column(name, type_) for (name, _), (type_, _) in zip(columns, made, strict=True))
        return ArrowBag(schema, _table(schema, [values for _, values in made], table.column(WEIGHT)))

    def _computed(self, table: pa.Table, expression: Expression) -> tuple[Type, pa.Array]:
        """Row by row, as the in-memory evaluator does it."""
        type_, function = expression.compile(self.schema)
        values = [function(row) for row in python_rows(table, self.schema)]
        return type_, pa.array(values, arrow_type(type_))

    def keep(self, names: Sequence[str]) -> ArrowBag:
        if tuple(names) == self.schema.names:
            return self
        return ArrowBag(self.schema.only(names), self._table.select([*names, WEIGHT]))

    def rename(self, names: Sequence[str]) -> ArrowBag:
        columns = zip(names, self.schema.types, strict=True)
        schema = Schema(Column(name, type_) for name, type_ in columns)
        return ArrowBag(schema, self._table.rename_columns([*names, WEIGHT]), self._consolidated)

    def tagged(self, name: str, value: int) -> ArrowBag:
        tag = pa.repeat(pa.scalar(value, pa.int64()), self._table.num_rows)
        table = self._table.add_column(len(self.schema), name, tag)
        return ArrowBag(Schema((*self.schema, Column(name, BIGINT))), table, self._consolidated)

    def join(self, other: ArrowBag, on: Pairs = (), where: Expression | None = None) -> ArrowBag:
        schema = self.schema.joined(other.schema)
        filter_ = condition(where, schema) if where is not None else None
        if filter_ is not None and filter_.on_columns is None:
            self._consolidate(), other._consolidate()
        pairs = meeting(self._keys(left for left, _ in on), other._keys(right for _, right in on), self._sizes(other))
        return self._paired(other, schema, pairs, filter_)

    def join_as_of(
        self, other: ArrowBag, moment: str, validity: str, on: Pairs = (), where: Expression | None = None
    ) -> ArrowBag:
        times = spans(other._table, validity, WEIGHT)  # netted: as good as consolidated
        rows = ArrowBag(other.schema.only([name for name in other.schema.names if name != validity]), times.rows)
        schema = self.schema.joined(rows.schema)
        filter_ = condition(where, schema) if where is not None else None
        if filter_ is not None and filter_.on_columns is None:
            self._consolidate()
        keys = codes(self._keys(left for left, _ in on), rows._keys(right for _, right in on), self._sizes(rows))
        pairs = meeting_at(keys, self._table.column(moment).to_numpy(), times.since, times.until)
        return self._paired(rows, schema, pairs, filter_)

    def _paired(self, other: ArrowBag, schema: Schema, pairs: RowPairs, filter_: Condition | None) -> ArrowBag:
        """The pairs of rows that satisfy a condition, their weights multiplied."""
        mine, theirs = map(pa.array, pairs)
        if filter_ is not None:
            mine, theirs = self._passing(other, mine, theirs, filter_)
        left, right = self._table.take(mine), other._table.take(theirs)
        weights = pc.multiply_checked(left.column(WEIGHT), right.column(WEIGHT))
        columns = [*left.columns[:-1], *right.columns[:-1]]
        # Pairs of distinct tuples are distinct, and no product of weights is zero.
        return ArrowBag(schema, _table(schema, columns, weights), self._consolidated and other._consolidated)

    def _passing(self, other: ArrowBag, mine: Any, theirs: Any, filter_: Condition) -> tuple[Any, Any]:
        """The pairs that satisfy a condition; only the columns it reads are fetched for all of them."""
        read = filter_.schema.names
        left = self._table.select([name for name in read if name in self.schema.names]).take(mine)
        right = other._table.select([name for name in read if name in other.schema.names]).take(theirs)
        # The row numbers ride along, so that the table has its length also when the condition reads nothing.
        columns = [*left.columns, *right.columns, mine]
        mask = filter_.mask(pa.table(columns, [*left.column_names, *right.column_names, "row number"]))
        return mine.filter(mask), theirs.filter(mask)

    # -- keys and sets (not linear) ------------------------------------------------------------------------------------

    def distinct(self) -> ArrowBag:
        shown = self.positive()._table
        ones = _ones(shown.num_rows)
        return ArrowBag(self.schema, shown.set_column(len(self.schema), WEIGHT, ones), consolidated=True)

    def occurring(self, names: Sequence[str]) -> ArrowBag:
        """Without consolidating all columns first, which would cost more than a key too many."""
        numbered = self._table.select(list(names)).rename_columns([str(at) for at in range(len(names))])
        found = numbered.group_by(numbered.column_names).aggregate([]).rename_columns(list(names))
        return ArrowBag(self.schema.only(names), found.append_column(WEIGHT, _ones(found.num_rows)), consolidated=True)

    def positive(self) -> ArrowBag:
        table = self._consolidate()
        shown = table.filter(pc.greater(table.column(WEIGHT), 0))
        return ArrowBag(self.schema, shown, consolidated=True)

    def matching(self, keys: ArrowBag, on: Pairs) -> ArrowBag:
        return self._filter_by(keys, on, wanted=True, nulls_match=False)

    def without(self, keys: ArrowBag, on: Pairs, nulls_match: bool = False) -> ArrowBag:
        return self._filter_by(keys, on, wanted=False, nulls_match=nulls_match)

    def _filter_by(self, keys: ArrowBag, on: Pairs, wanted: bool, nulls_match: bool) -> ArrowBag:
        present = keys.positive()
        mine, theirs = self._keys(left for left, _ in on), present._keys(right for _, right in on)
        return self._same(self._table.take(pa.array(found(mine, theirs, self._sizes(present), wanted, nulls_match))))

    # -- looking in ----------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[tuple[Row, int]]:
        table = self._consolidate()
        return zip(python_rows(table, self.schema), table.column(WEIGHT).to_pylist(), strict=True)

    def __len__(self) -> int:
        """The number of different tuples."""
        return int(self._consolidate().num_rows)

    def __eq__(self, other: object) -> bool:
        """The same tuples with the same weights. Column names do not matter."""
        if not isinstance(other, ArrowBag) or len(self.schema) != len(other.schema):
            return False
        try:
            return len(self) == len(other) and not len(self - other)
        except TypeMismatch:
            return False

    def __hash__(self) -> int:
        return hash((len(self.schema), len(self)))

    def __repr__(self) -> str:
        return f"ArrowBag({self})"

    def __str__(self) -> str:
        return str(self.to_memory())

    def __reduce__(self) -> tuple[Any, ...]:
        """As one Arrow stream of the consolidated rows: a pickled slice of a table would take the whole table along."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table)
        return (_from_stream, (self.schema, sink.getvalue().to_pybytes()))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _consolidate(self) -> pa.Table:
        """Every tuple in one row, no zero weights. The bag stays what it is; only the work is remembered."""
        if not self._consolidated:
            self._table, self._consolidated = added_up(self._table), True
        return self._table

    def _same(self, table: pa.Table) -> ArrowBag:
        """Some of my rows, or all with other weights: as consolidated as I am."""
        return ArrowBag(self.schema, table, self._consolidated)

    def _keys(self, names: Iterable[str]) -> Keys:
        return [(self._table.column(at), self.schema[at].type) for at in self.schema.positions(names)]

    def _sizes(self, other: ArrowBag) -> tuple[int, int]:
        return self._table.num_rows, other._table.num_rows


def added_up(table: pa.Table, weight: str = WEIGHT) -> pa.Table:
    """The one constructor of consolidated rows: equal tuples add their weights up, zero weights are dropped."""
    names, numbers = table.column_names, [str(at) for at in range(table.num_columns)]
    counted = numbers[names.index(weight)]
    columns = [number for number in numbers if number != counted]
    groups = table.rename_columns(numbers).group_by(columns).aggregate([(counted, "sum")])
    sums = groups.rename_columns([*columns, counted]).select(numbers).rename_columns(names)
    return sums.filter(pc.not_equal(sums.column(weight), 0))  # the sum of no rows at all is NULL, and goes too


def _table(schema: Schema, columns: Sequence[pa.ChunkedArray], weights: pa.ChunkedArray) -> pa.Table:
    return pa.table([*columns, weights], names=[*schema.names, WEIGHT])


def _shaped(table: pa.Table, schema: Schema) -> pa.Table:
    """A bag's table under another bag's names and types."""
    columns = [_cast(values, column.type) for values, column in zip(table.columns[:-1], schema, strict=True)]
    return _table(schema, columns, table.column(WEIGHT))


def _entering(values: pa.ChunkedArray, type_: Type) -> pa.ChunkedArray:
    """The gate for columns: the type's Arrow type; one NaN and no -0.0."""
    values = _cast(values, type_)
    if not type_.is_fraction:
        return values
    positive_zero = pc.add(values, pa.scalar(0.0, values.type))
    return pc.if_else(pc.is_nan(positive_zero), pa.scalar(float("nan"), values.type), positive_zero)


def _cast(values: pa.ChunkedArray, type_: Type) -> pa.ChunkedArray:
    try:
        return values.cast(arrow_type(type_))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeMismatch(f"a column of {values.type} does not fit the type {type_}: {error}") from None


def _from_python(schema: Schema, rows: Sequence[Row], weights: pa.Array) -> pa.Table:
    """From normalised rows."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(values, type_) for values, type_ in zip(columns, arrow_schema(schema).types, strict=True)]
    return _table(schema, arrays, weights)


def _ones(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(1, pa.int64()), count)


def _from_stream(schema: Schema, stream: bytes) -> ArrowBag:
    return ArrowBag(schema, pa.ipc.open_stream(stream).read_all(), consolidated=True)
