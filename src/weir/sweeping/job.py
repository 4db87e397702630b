"""Batched sweeps on Spark: one job per round, each task takes its slice of every view's batch through all hops.

A task reads the held snapshots (``lookups``), drives the algorithms' own ``sweep`` (``slices``) and hands back its part
of the delta: small ones as Arrow, to be written by the driver as one file, large ones as files it wrote itself. Views
that are swept together share what they look up. A view with expressions that only Spark knows goes through a job of
its own, in which Spark SQL applies them to the joined rows (``raw``).
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from weir.algebra.bag import WEIGHT, Bag
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.quoting import ddl
from weir.algebra.types import BIGINT, Column, Schema, parse_type
from weir.algebra.view import View, needed_schemas
from weir.algorithms.sweeping import ARRIVAL, width
from weir.planning.request import spark_only
from weir.sources.source import SnapshotReader
from weir.spark.arrow_bag import ArrowBag
from weir.sweeping.failures import asking, writing_letters
from weir.sweeping.lookups import Access
from weir.sweeping.packed import PackedUpdates
from weir.sweeping.raw import RawTerm, raw_terms
from weir.sweeping.slices import MOST_ROWS, swept
from weir.warehouse.bags import batch_of
from weir.warehouse.columns import ARRIVAL as STORED_ARRIVAL
from weir.warehouse.staging import Staged, Stager

ROWS_IN_SLICE = 500  # fewer are not worth another task
INLINE_BYTES, FILE_BYTES = 2 << 20, 64 << 20
_ENVELOPE = "sweep int, rows binary, staged binary, costs binary"
_BINARIES = [(name, pa.binary()) for name in ("rows", "staged", "costs")]
_ARROW_ENVELOPE = pa.schema([("sweep", pa.int32()), *_BINARIES])


@dataclass(frozen=True)
class Numbering:
    """How a sub-update's number becomes the arrival number that is stored: its update's own, or, where only the state
    at the end of the batch is kept, that of the last one (``end``).
    """

    width: int
    end: int | None = None

    def __call__(self, numbers: Any) -> Any:
        if self.end is not None:
            return pa.repeat(pa.scalar(self.end, pa.int64()), len(numbers))
        return pc.divide(numbers, self.width)


@dataclass(frozen=True)
class SweepOrder:
    """One view's batch, to be swept on held snapshots. ``arrived`` is what its answers have seen too much of."""

    view: View
    batch: PackedUpdates
    arrived: PackedUpdates
    stager: Stager
    numbering: Numbering


@dataclass(frozen=True)
class Costs:
    """What was asked of the sources."""

    lookups: int = 0
    keys: int = 0
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Costs) -> Costs:
        return Costs(
            self.lookups + other.lookups, self.keys + other.keys, self.rows + other.rows, self.bytes + other.bytes
        )


@dataclass
class SweptDelta:
    """A batch's change of a view, in rows at hand and in files that wait for their commit."""

    rows: list[pa.Table] = field(default_factory=list)
    staged: list[Staged] = field(default_factory=list)
    costs: Costs = Costs()


def sweep_on_spark(
    spark: SparkSession,
    orders: Sequence[SweepOrder],
    access: Mapping[str, Access],
    tasks: int,
    most_rows: int = MOST_ROWS,
) -> list[SweptDelta]:
    """The change of every order's view; one job for all of them, and one for each that needs Spark's own functions."""
    plain = {number for number, order in enumerate(orders) if not spark_only(order.view)}
    jobs = [sorted(plain)] if plain else []
    jobs += [[number] for number in range(len(orders)) if number not in plain]
    results = [SweptDelta() for _ in orders]
    for numbers in jobs:
        work = _Work({n: orders[n] for n in numbers}, access, most_rows, tasks)
        frame = _plain_job(spark, work) if set(numbers) <= plain else _raw_job(spark, work, numbers[0])
        _collect(frame, results)
    return results


def _plain_job(spark: SparkSession, work: _Work) -> DataFrame:
    return spark.range(0, work.tasks, 1, work.tasks).mapInArrow(work, _ENVELOPE)


def _raw_job(spark: SparkSession, work: _Work, number: int) -> DataFrame:
    order = work.orders[number]
    parts = [_raw_rows(spark, work, number, term) for term in raw_terms(order.view)]
    rows = reduce(DataFrame.union, parts)
    # mapInArrow looks its columns up by their names as text, in which a point would ask for a field.
    numbered = rows.toDF(*(f"c{at}" for at in range(len(rows.columns))))
    return numbered.mapInArrow(_Storing(number, order.stager, order.view.columns), _ENVELOPE)


def _raw_rows(spark: SparkSession, work: _Work, number: int, term: RawTerm) -> DataFrame:
    """One term's joined rows, then Spark's own selection and select list."""
    order = work.orders[number]
    numbering = replace(order.numbering, width=width(term.view))
    raw = replace(work, orders={number: replace(order, view=term.view, numbering=numbering)})
    types = ddl((*term.schema, Column(ARRIVAL, BIGINT), Column(WEIGHT, BIGINT)))
    rows = spark.range(0, work.tasks, 1, work.tasks).mapInArrow(_RawRows(raw, number), types)
    if term.condition is not None:
        rows = rows.where(F.expr(term.condition.sql))
    selected = [F.expr(expression.sql).alias(name) for name, expression in term.output]
    return rows.select(*selected, ARRIVAL, WEIGHT)


def _collect(frame: DataFrame, results: list[SweptDelta]) -> None:
    for row in frame.toArrow().to_pylist():
        delta = results[row["sweep"]]
        if row["rows"] is not None:
            delta.rows.append(pa.ipc.open_stream(row["rows"]).read_all())
        if row["staged"] is not None:
            delta.staged.append(pickle.loads(row["staged"]))
        if row["costs"] is not None:
            delta.costs += pickle.loads(row["costs"])


# -- inside a task -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Work:
    """What the tasks do; task k of n takes slice k of every order."""

    orders: Mapping[int, SweepOrder]
    access: Mapping[str, Access]
    most_rows: int
    most_tasks: int

    @property
    def tasks(self) -> int:
        most = max(order.batch.rows for order in self.orders.values())
        return max(1, min(self.most_tasks, -(-most // ROWS_IN_SLICE)))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in _tasks(batches):
            with writing_letters(), _Readers(self.access, [order.view for order in self.orders.values()]) as readers:
                for number, order in self.orders.items():
                    output = _Output(number, order.stager)
                    for bag in self.swept(order, task, readers):
                        output.add(_stored(bag, order))
                    yield from output.envelopes(readers.take_costs())

    def swept(self, order: SweepOrder, task: int, readers: _Readers) -> Iterator[ArrowBag]:
        slices = order.batch.slices(self.tasks)
        if task < len(slices):
            yield from swept(order.view, slices[task], order.arrived, readers.look, self.most_rows)


def _tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _stored(bag: ArrowBag, order: SweepOrder) -> pa.Table:
    """A delta's rows as the view store takes them, which nets them."""
    return batch_of(_numbered(bag.rows, order), (*order.view.columns, STORED_ARRIVAL))


def _numbered(rows: pa.Table, order: SweepOrder) -> pa.Table:
    arrivals = order.numbering(rows.column(ARRIVAL))
    return rows.set_column(rows.column_names.index(ARRIVAL), ARRIVAL, arrivals)


@dataclass(frozen=True)
class _RawRows:
    """The joined rows of a raw view, before Spark's own expressions."""

    work: _Work
    number: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = self.work.orders[self.number]
        for task in _tasks(batches):
            with writing_letters(), _Readers(self.work.access, [order.view]) as readers:
                for bag in self.work.swept(order, task, readers):
                    netted = _numbered(bag.table, order)  # Spark's expressions must not meet rows that cancel
                    yield from netted.combine_chunks().to_batches(max_chunksize=20_000)


@dataclass(frozen=True)
class _Storing:
    """Takes a task's finished rows to the driver or into files."""

    number: int
    stager: Stager
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        output = _Output(self.number, self.stager)
        for batch in batches:
            output.add(batch_of(pa.Table.from_batches([batch]), (*self.names, STORED_ARRIVAL)))
        yield from output.envelopes(Costs())


class _Output:
    """One task's part of one view's delta: kept while small, written to files as it grows."""

    def __init__(self, number: int, stager: Stager) -> None:
        self._number, self._stager = number, stager
        self._tables: list[pa.Table] = []
        self._staged: list[Staged] = []
        self._bytes = 0

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._tables.append(rows)
            self._bytes += rows.nbytes
        if self._bytes > FILE_BYTES:
            self._stage()

    def _stage(self) -> None:
        self._staged.append(self._stager.write(pa.concat_tables(self._tables)))
        self._tables, self._bytes = [], 0

    def envelopes(self, costs: Costs) -> Iterator[pa.RecordBatch]:
        if self._tables and (self._staged or self._bytes > INLINE_BYTES):
            self._stage()
        rows = _stream(pa.concat_tables(self._tables)) if self._tables else None
        lines: list[tuple[Any, ...]] = [(self._number, rows, None, pickle.dumps(costs))]
        lines += [(self._number, None, pickle.dumps(staged), None) for staged in self._staged]
        values = zip(*lines, strict=True)
        columns = [pa.array(column, type_) for column, type_ in zip(values, _ARROW_ENVELOPE.types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=_ARROW_ENVELOPE)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


class _Readers:
    """A task's readers of all sources, opened when first asked; what several views look up alike is read once."""

    def __init__(self, access: Mapping[str, Access], views: Sequence[View]) -> None:
        self._access = access
        self._open: dict[str, SnapshotReader] = {}
        self._columns = {relation: schema.names for relation, schema in needed_schemas(views).items()}
        self._shared = len(views) > 1
        self._known: dict[Relation, list[tuple[Lookup, pa.Table]]] = defaultdict(list)
        self._costs = Costs()

    def __enter__(self) -> _Readers:
        return self

    def __exit__(self, *problem: object) -> None:
        for reader in self._open.values():
            reader.close()

    def take_costs(self) -> Costs:
        costs, self._costs = self._costs, Costs()
        return costs

    def look(self, lookup: Lookup) -> pa.Table:
        """The answer's rows, exactly the lookup's columns."""
        wide = replace(lookup, columns=self._columns[lookup.relation], selection=None) if self._shared else lookup
        rows = self._remembered(wide)
        if rows is None:
            rows = self._asked(wide)
            if self._shared:
                self._known[lookup.relation].append((wide, rows))
        return rows.select(list(lookup.columns))

    def _remembered(self, lookup: Lookup) -> pa.Table | None:
        for known, rows in self._known[lookup.relation]:
            if known.key_columns == lookup.key_columns and _same_keys(known.keys, lookup.keys):
                return rows
        return None

    def _asked(self, lookup: Lookup) -> pa.Table:
        source = lookup.relation.source
        with asking(source):
            if source not in self._open:
                self._open[source] = self._access[source].open()
            (answer,) = self._open[source].answer((lookup,))
        keys: Any = lookup.keys
        sent = (len(keys), keys.table.nbytes) if keys is not None else (0, 0)
        self._costs += Costs(1, sent[0], answer.num_rows, answer.nbytes + sent[1])
        return answer


def _same_keys(one: Bag | None, other: Bag | None) -> bool:
    return one == other


def schema_of_view(view: View, spark: SparkSession) -> Schema:
    """The view's columns with the types that Spark gives them."""
    frames = []
    for term in raw_terms(view):
        empty = spark.createDataFrame([], ddl(term.schema))
        frames.append(empty.select(*[F.expr(e.sql).alias(name) for name, e in term.output]))
    fields = reduce(DataFrame.union, frames).schema.fields
    return Schema(Column(field.name, parse_type(field.dataType.simpleString())) for field in fields)
