"""Reading, netting and folding on Arrow, in the driver's memory: for small views, tools and tests.

Everything is one sum of weights over all columns; hashes matter only because the files must keep what the Spark engine
relies on (see ``State``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.types import Schema
from weir.warehouse.columns import ARRIVAL, HASH, WEIGHT, stored_arrow
from weir.warehouse.delta_log import DeltaLog, State
from weir.warehouse.staging import Stager
from weir.warehouse.statistics import BASE, NET_NEW, NET_OLD, TAIL, DataFile

IN_BASE = "_weir_in_base"


class ArrowEngine:
    """The view store's work on Arrow tables."""

    def __init__(self, log: DeltaLog) -> None:
        self.log, self.place, self.schema = log, log.place, log.schema
        self._stager = Stager(log.place, log.schema, log.hash_bits)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, state: State, counted: bool) -> pa.Table:
        """The visible rows: those of positive weight, repeated, or once with their count."""
        table = self._sum(state, (BASE, NET_OLD, NET_NEW, TAIL))
        table = table.filter(pc.greater(table.column(WEIGHT), 0))
        return counted_rows(table, self.schema) if counted else repeated_rows(table, self.schema)

    def _sum(self, state: State, folders: tuple[str, ...]) -> pa.Table:
        """Columns, weight and hash of every row whose weights do not cancel."""
        return summed(self._stored_rows(state, folders), self.schema)

    def _stored_rows(self, state: State, folders: tuple[str, ...]) -> pa.Table:
        stored = self.place.read_parquet(state.names(*folders), self.log.arrow)
        if state.arrival is None:
            return stored
        return stored.filter(pc.less_equal(stored.column(ARRIVAL), state.arrival))

    def netted(self, state: State) -> pa.Table:
        """The log as one row per tuple, with what its files say of IN_BASE: 1, 0, or NULL for what was appended."""
        parts = []
        for folder, known in ((NET_OLD, 1), (NET_NEW, 0), (TAIL, None)):
            stored = self._stored_rows(state, (folder,))
            parts.append(stored.append_column(IN_BASE, pa.array([known] * stored.num_rows, pa.int8())))
        return summed(pa.concat_tables(parts), self.schema, [(IN_BASE, "max")])

    # -- writing ----------------------------------------------------------------------------------------------------

    def stage(self, batch: pa.Table, arrival: int) -> list[DataFile]:
        """A delta as a file of the log."""
        return list(replace(self._stager, arrival=arrival).write(batch).files)

    def load(self, batch: pa.Table, arrival: int) -> list[DataFile]:
        return self._as_base(summed(self._stager.stored(batch, arrival), self.schema), arrival)

    def net(self, state: State, arrival: int) -> list[DataFile]:
        """The log as one row per tuple, split by whether the hash is in the base."""
        rows = self._sum(state, (NET_OLD, NET_NEW, TAIL))
        first = first_of_each_hash(rows, alone=True)
        base = self.place.read_parquet(state.names(BASE), self.log.arrow, [HASH]).column(HASH)
        in_base = pc.is_in(rows.column(HASH), base)
        parts = {
            NET_OLD: pc.and_(first, in_base),
            NET_NEW: pc.and_(first, pc.invert(in_base)),
            TAIL: pc.invert(first),
        }
        placed = self._at(rows, arrival)
        return [file for folder, mask in parts.items() for file in self._write(placed.filter(mask), folder)]

    def fold(self, state: State, arrival: int) -> list[DataFile]:
        return self._as_base(self._sum(state, (BASE, NET_OLD, NET_NEW, TAIL)), arrival)

    def _as_base(self, rows: pa.Table, arrival: int) -> list[DataFile]:
        """Summed rows as a base; of rows that share a hash, all but one stay in the log."""
        first = first_of_each_hash(rows)
        placed = self._at(rows, arrival)
        return [*self._write(placed.filter(first), BASE), *self._write(placed.filter(pc.invert(first)), TAIL)]

    def _at(self, rows: pa.Table, arrival: int) -> pa.Table:
        marked = rows.append_column(ARRIVAL, pa.array(np.full(rows.num_rows, arrival, dtype=np.int64)))
        return marked.select(self.log.arrow.names).cast(self.log.arrow)

    def _write(self, table: pa.Table, folder: str) -> list[DataFile]:
        return list(self._stager.write_stored(table, folder))


def summed(stored: pa.Table, schema: Schema, more: Sequence[tuple[str, str]] = ()) -> pa.Table:
    """Weights added over equal rows; zero is dropped, negative counts are kept. ``more``: other columns, aggregated."""
    grouped = stored.group_by([*schema.names, HASH]).aggregate([(WEIGHT, "sum"), *more])
    grouped = grouped.rename_columns([*schema.names, HASH, WEIGHT, *(name for name, _ in more)])
    return grouped.filter(pc.not_equal(grouped.column(WEIGHT), 0))


def first_of_each_hash(rows: pa.Table, alone: bool = False) -> Any:
    """A mask: the first row of each hash. ``alone``: only rows that share their hash with no other."""
    hashes = rows.column(HASH).to_numpy()
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    mask = np.zeros(len(hashes), dtype=bool)
    mask[first[counts == 1] if alone else first] = True
    return pa.array(mask)


def counted_rows(table: pa.Table, schema: Schema) -> pa.Table:
    stored, names = stored_arrow(schema), [*schema.names, WEIGHT]
    return table.select(names).cast(pa.schema([stored.field(name) for name in names]))


def repeated_rows(table: pa.Table, schema: Schema) -> pa.Table:
    rows = counted_rows(table, schema)
    positions = np.repeat(np.arange(rows.num_rows), rows.column(WEIGHT).to_numpy())
    return rows.select(list(schema.names)).take(pa.array(positions, pa.int64()))
