"""Reading, netting and folding on Arrow, in the driver's memory: for small views, tools and tests.

Everything is one sum of weights over all columns; hashes matter only because a netted log must keep what the Spark
engine relies on (see ``State``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.types import Schema
from weir.spark.arrow_bag import added_up
from weir.spark.arrow_keys import codes, present
from weir.warehouse.columns import ARRIVAL, HASH, WEIGHT, stored_arrow
from weir.warehouse.delta_log import DeltaLog, State
from weir.warehouse.staging import Stager
from weir.warehouse.statistics import BASE, NET_NEW, NET_OLD, TAIL, DataFile


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

    def _stored_rows(self, state: State, folders: tuple[str, ...], columns: list[str] | None = None) -> pa.Table:
        stored = self.place.read_parquet(state.names(*folders), self.log.arrow, columns)
        if state.arrival is None:
            return stored
        return stored.filter(pc.less_equal(stored.column(ARRIVAL), state.arrival))

    def netted_tail(self, state: State) -> pa.Table:
        """What was appended since the last compaction, one row per tuple."""
        return self._sum(state, (TAIL,))

    def tail_without_twins(self, state: State) -> pa.Table | None:
        """The numbers of what was appended; None when two of its rows share a hash."""
        tail = self._stored_rows(state, (TAIL,), [WEIGHT, ARRIVAL, HASH])
        return tail if pc.count_distinct(tail.column(HASH)).as_py() == tail.num_rows else None

    def netted(self, state: State) -> pa.Table:
        """The whole log as one row per tuple."""
        return self._sum(state, (NET_OLD, NET_NEW, TAIL))

    # -- writing ----------------------------------------------------------------------------------------------------

    def stage(self, batch: pa.Table, arrival: int) -> list[DataFile]:
        """A delta as a file of the log."""
        return list(replace(self._stager, arrival=arrival).write(batch).files)

    def load(self, batch: pa.Table, arrival: int) -> list[DataFile]:
        return self._write(self._at(summed(self._stager.stored(batch, arrival), self.schema), arrival), BASE)

    def net(self, state: State, arrival: int) -> list[DataFile]:
        """The log as one row per tuple, split by whether it is in the base."""
        log = self.netted(state)
        base = self.place.read_parquet(state.names(BASE), self.log.arrow)
        return self.split(log, base.filter(pc.is_in(base.column(HASH), log.column(HASH))), arrival)

    def split(self, log: pa.Table, base: pa.Table, arrival: int) -> list[DataFile]:
        """Writes a netted log by what it is to the base; ``base`` has at least the rows that share a hash with it."""
        alone = first_of_each_hash(log, alone=True)
        in_base = self._in_base(log, base)
        crowd = pc.is_in(log.column(HASH), base.column(HASH).filter(pc.invert(first_of_each_hash(base, alone=True))))
        known = pc.and_(alone, pc.invert(pc.and_(in_base, crowd)))
        parts = {
            NET_OLD: pc.and_(known, in_base),
            NET_NEW: pc.and_(known, pc.invert(in_base)),
            TAIL: pc.invert(known),
        }
        placed = self._at(log, arrival)
        return [file for folder, mask in parts.items() for file in self._write(placed.filter(mask), folder)]

    def _in_base(self, log: pa.Table, base: pa.Table) -> pa.Array:
        """A mask: the log's rows whose tuple is in the base."""
        mine, theirs = ([(rows.column(column.name), column.type) for column in self.schema] for rows in (log, base))
        return pa.array(present(*codes(mine, theirs, (log.num_rows, base.num_rows), nulls_match=True)))

    def fold(self, state: State, arrival: int) -> list[DataFile]:
        return self._write(self._at(self._sum(state, (BASE, NET_OLD, NET_NEW, TAIL)), arrival), BASE)

    def _at(self, rows: pa.Table, arrival: int) -> pa.Table:
        marked = rows.append_column(ARRIVAL, constant(arrival, rows.num_rows))
        return marked.select(self.log.arrow.names).cast(self.log.arrow)

    def _write(self, table: pa.Table, folder: str) -> list[DataFile]:
        return list(self._stager.write_stored(table, folder))


def constant(number: int, rows: int) -> pa.Array:
    return pa.array(np.full(rows, number, dtype=np.int64))


def greatest(rows: pa.Table) -> int:
    """The greatest weight, at least 0."""
    return max(pc.max(rows.column(WEIGHT)).as_py() or 0, 0)


def summed(stored: pa.Table, schema: Schema) -> pa.Table:
    """Weights added over equal rows, whenever they arrived; zero is dropped, negative counts are kept."""
    return added_up(stored.select([*schema.names, HASH, WEIGHT]), WEIGHT)


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
