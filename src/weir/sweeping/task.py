"""Inside a task: slices of batches are swept, and what comes out goes to the driver or into files.

Views that are swept together share what they look up. What a task hands back is an envelope: small deltas as Arrow, to
be written by the driver as one file, large ones as files that the task has written itself.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.view import View, needed_schemas
from weir.algorithms.sweeping import ARRIVAL
from weir.sources.source import SnapshotReader
from weir.spark.arrow_bag import ArrowBag
from weir.sweeping.failures import asking, writing_letters
from weir.sweeping.lookups import Access
from weir.sweeping.order import Asked, SweepOrder
from weir.sweeping.slices import swept
from weir.warehouse.bags import batch_of
from weir.warehouse.columns import ARRIVAL as STORED_ARRIVAL
from weir.warehouse.staging import Staged, Stager

ROWS_IN_SLICE = 500  # fewer are not worth another task
INLINE_BYTES, FILE_BYTES = 2 << 20, 64 << 20
ENVELOPE = "sweep int, rows binary, staged binary, asked binary"
_ARROW_ENVELOPE = pa.schema([("sweep", pa.int32()), *((name, pa.binary()) for name in ("rows", "staged", "asked"))])


@dataclass(frozen=True)
class SweepTask:
    """What the tasks do; task k of n takes slice k of every order."""

    orders: Mapping[int, SweepOrder]
    access: Mapping[str, Access]
    most_rows: int
    most_tasks: int

    @property
    def task_count(self) -> int:
        most = max(order.batch.rows for order in self.orders.values())
        return max(1, min(self.most_tasks, -(-most // ROWS_IN_SLICE)))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in _tasks(batches):
            with writing_letters(), _Readers(self.access, [order.view for order in self.orders.values()]) as readers:
                for number, order in self.orders.items():
                    output = _Output(number, order.stager)
                    for bag in self.swept_slices(order, task, readers):
                        output.add(_stored(bag, order))
                    yield from output.envelopes(readers.take_asked())

    def swept_slices(self, order: SweepOrder, task: int, readers: _Readers) -> Iterator[ArrowBag]:
        slices = order.batch.slices(self.task_count)
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
class RawRowsTask:
    """The joined rows of a raw view, before Spark's own expressions."""

    work: SweepTask
    number: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = self.work.orders[self.number]
        for task in _tasks(batches):
            with writing_letters(), _Readers(self.work.access, [order.view]) as readers:
                for bag in self.work.swept_slices(order, task, readers):
                    netted = _numbered(bag.table, order)  # Spark's expressions must not meet rows that cancel
                    yield from netted.combine_chunks().to_batches(max_chunksize=20_000)


@dataclass(frozen=True)
class StoringTask:
    """Takes a task's finished rows to the driver or into files."""

    number: int
    stager: Stager
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        output = _Output(self.number, self.stager)
        for batch in batches:
            output.add(batch_of(pa.Table.from_batches([batch]), (*self.names, STORED_ARRIVAL)))
        yield from output.envelopes(Asked())


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

    def envelopes(self, asked: Asked) -> Iterator[pa.RecordBatch]:
        if self._tables and (self._staged or self._bytes > INLINE_BYTES):
            self._stage()
        rows = _stream(pa.concat_tables(self._tables)) if self._tables else None
        lines: list[tuple[Any, ...]] = [(self._number, rows, None, pickle.dumps(asked))]
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
        self._asked_so_far = Asked()

    def __enter__(self) -> _Readers:
        return self

    def __exit__(self, *problem: object) -> None:
        for reader in self._open.values():
            reader.close()

    def take_asked(self) -> Asked:
        asked, self._asked_so_far = self._asked_so_far, Asked()
        return asked

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
            if known.key_columns == lookup.key_columns and known.keys == lookup.keys:
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
        self._asked_so_far += Asked(1, sent[0], answer.num_rows, answer.nbytes + sent[1])
        return answer
