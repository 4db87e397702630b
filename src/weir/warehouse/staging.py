"""Writing a delta's files without committing them, from anywhere: the driver, or a task of a Spark job.

A ``Stager`` travels to the task; what it has written travels back as a ``Staged``. A task that Spark repeats writes its
files again under other names: only those of the attempt that succeeded are returned and committed, the others are
orphans.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.types import Schema
from weir.spark.arrow_bag import added_up
from weir.warehouse.columns import ARRIVAL, HASH, WEIGHT, fit, integers, stored_arrow
from weir.warehouse.errors import BadColumns
from weir.warehouse.place import Place
from weir.warehouse.row_hash import row_hashes
from weir.warehouse.statistics import TAIL, DataFile, describe_file

_ODD = np.int64(0x1E3779B97F4A7C15)  # spreads arrival numbers over all bits


@dataclass(frozen=True)
class Staged:
    """A delta whose files are written and wait for their commit. Parts of one delta are added up."""

    files: tuple[DataFile, ...] = ()

    def __add__(self, other: Staged) -> Staged:
        return Staged(self.files + other.files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class Stager:
    """Writes log files of one table. Small and picklable; knows no version, so it never grows old."""

    place: Place
    schema: Schema
    hash_bits: int
    arrival: int | None = None  # of rows that name none

    def write(self, table: pa.Table) -> Staged:
        """The view's columns, with WEIGHT (else 1) and ARRIVAL (else the stager's). No rows, no file."""
        return Staged(self.write_stored(netted(self.stored(table, self.arrival)), TAIL))

    def stored(self, batch: pa.Table, arrival: int | None) -> pa.Table:
        """A batch as the files hold it."""
        if arrival is None and ARRIVAL not in batch.column_names:
            raise BadColumns(
                f"a batch for '{self.place.uri}' has no column {ARRIVAL}: add it, or say stager(arrival=...)"
            )
        columns = fit(batch, self.schema)
        weights, arrivals = integers(batch, WEIGHT, 1), integers(batch, ARRIVAL, arrival or 0)
        if weights.null_count or arrivals.null_count:
            raise BadColumns(f"a batch for '{self.place.uri}' has rows without {WEIGHT} or {ARRIVAL}")
        hashes = row_hashes(columns, self.hash_bits)
        return pa.table([*columns.columns, weights, arrivals, hashes], schema=stored_arrow(self.schema))

    def write_stored(self, table: pa.Table, folder: str) -> tuple[DataFile, ...]:
        if not table.num_rows:
            return ()
        name = self.place.new_name(folder)
        self.place.write_parquet(table, name)
        return (describe_file(self.place, name),)


def netted(stored: pa.Table) -> pa.Table:
    """Equal rows of one arrival as one, without those whose weights cancel.

    The hashes say which rows can be equal to another at all. These are few as a rule, and only they are compared.
    """
    rows = stored.filter(pc.not_equal(stored.column(WEIGHT), 0))
    hashes, arrivals = (rows.column(name).to_numpy() for name in (HASH, ARRIVAL))
    mixed = hashes ^ (arrivals * _ODD)
    ordered = np.sort(mixed)
    twins = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twins):
        return rows
    perhaps = pa.array(np.isin(mixed, twins))
    sums = added_up(rows.filter(perhaps), WEIGHT).cast(stored.schema)
    return pa.concat_tables([rows.filter(pc.invert(perhaps)), sums])
