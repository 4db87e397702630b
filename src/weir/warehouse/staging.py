"""Writing a delta's files without committing them, from anywhere: the driver, or a task of a Spark job.

A ``Stager`` travels to the task; what it has written travels back as a ``Staged``. A task that Spark repeats writes its
files again under other names: only those of the attempt that succeeded are returned and committed, the others are
orphans.

A part of a delta is up to four files. What it *brings* is a data file of the table, every row as often as it counts.
What it *takes* is found in the table when it is committed; until then it is named in the *changes*, the file of the
change feed, whose first rows are those that are brought and whose last are those that are taken. Where nothing is taken
there is no such file: the data file says it all. The signed rows by arrival number are kept for the states *inside* the
batch, unless all of them are its last one's. A large part's hashes are written as a *run* of the row index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.types import Schema
from weir.spark.arrow_bag import added_up
from weir.warehouse.columns import ARRIVAL, CHANGE, HASH, WEIGHT, fit, integers, stored_arrow, telling
from weir.warehouse.errors import BadColumns, StoreError
from weir.warehouse.index_runs import LARGE, write_run
from weir.warehouse.place import OURS, Place
from weir.warehouse.row_hash import row_hashes
from weir.warehouse.statistics import DataFile, describe_file

ROWS, CHANGES, STEPS = "rows/", "_change_data/", f"{OURS}/steps/"
INSERT, DELETE = "insert", "delete"
Hashes = npt.NDArray[np.int64]
_ODD = np.int64(0x1E3779B97F4A7C15)  # spreads arrival numbers over all bits


@dataclass(frozen=True)
class StagedPart:
    """The files of one part. The hashes are at hand for who has written them, and else come from the files."""

    brought: DataFile | None = None
    changes: DataFile | None = None
    inside: str = ""
    run: str = ""
    brought_hashes: Hashes | None = field(default=None, compare=False, repr=False)
    taken_hashes: Hashes | None = field(default=None, compare=False, repr=False)

    @property
    def taken(self) -> int:
        """How many rows it takes."""
        return 0 if self.changes is None else self.changes.rows - (self.brought.rows if self.brought else 0)

    @property
    def names(self) -> list[str]:
        files = [file.name for file in (self.brought, self.changes) if file is not None]
        return [*files, *(name for name in (self.inside, self.run) if name)]

    def document(self) -> dict[str, Any]:
        files = [_described(file) for file in (self.brought, self.changes)]
        return {"brought": files[0], "changes": files[1], "inside": self.inside, "run": self.run}

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> StagedPart:
        brought, changes = (DataFile(*told) if told else None for told in (document["brought"], document["changes"]))
        return cls(brought, changes, document["inside"], document["run"])


def _described(file: DataFile | None) -> list[Any] | None:
    return None if file is None else [file.name, file.size, file.rows, file.statistics]


@dataclass(frozen=True)
class Staged:
    """A delta whose files are written and wait for their commit. Parts of one delta are added up."""

    parts: tuple[StagedPart, ...] = ()

    def __add__(self, other: Staged) -> Staged:
        return Staged(self.parts + other.parts)

    @property
    def names(self) -> list[str]:
        return [name for part in self.parts for name in part.names]

    @property
    def inside(self) -> tuple[str, ...]:
        return tuple(part.inside for part in self.parts if part.inside)

    def document(self) -> list[Any]:
        return [part.document() for part in self.parts]

    @classmethod
    def parse(cls, document: Sequence[Mapping[str, Any]]) -> Staged:
        return cls(tuple(map(StagedPart.parse, document)))


@dataclass(frozen=True)
class Stager:
    """Writes the files of one table. Small and picklable; knows no version, so it never grows old."""

    place: Place
    schema: Schema
    hash_bits: int
    arrival: int | None = None  # of rows that name none
    last: int | None = None  # the arrival that the batch ends with: rows of this one need not be kept by arrival

    def write(self, table: pa.Table) -> Staged:
        """The view's columns, with WEIGHT (else 1) and ARRIVAL (else the stager's). No rows, no file."""
        stored, part = netted(self.stored(table)), StagedPart()
        try:
            for written in self._written(stored):
                part = written
        except StoreError:
            self.place.discard(part.names)
            raise
        return Staged((part,)) if part.names else Staged()

    def stored(self, batch: pa.Table) -> pa.Table:
        """A batch with its weights, arrivals and hashes."""
        if self.arrival is None and ARRIVAL not in batch.column_names:
            raise BadColumns(
                f"a batch for '{self.place.uri}' has no column {ARRIVAL}: add it, or say stager(arrival=...)"
            )
        columns = fit(batch, self.schema)
        weights, arrivals = integers(batch, WEIGHT, 1), integers(batch, ARRIVAL, self.arrival or 0)
        if weights.null_count or arrivals.null_count:
            raise BadColumns(f"a batch for '{self.place.uri}' has rows without {WEIGHT} or {ARRIVAL}")
        hashes = row_hashes(columns, self.hash_bits)
        return pa.table([*columns.columns, weights, arrivals, hashes], schema=stored_arrow(self.schema))

    def _written(self, stored: pa.Table) -> Iterator[StagedPart]:
        """The part after each of its files."""
        yield (part := StagedPart(inside=self._write_inside(stored)))
        change, last = over_arrivals(stored), _greatest(stored.column(ARRIVAL))
        weights = change.column(WEIGHT).to_numpy()
        brought, taken = (_repeated(change, np.maximum(times, 0)) for times in (weights, -weights))
        if brought.num_rows:
            file, hashes = self.write_file(brought.select(self.names), ROWS, last), brought.column(HASH).to_numpy()
            yield (part := replace(part, brought=file, brought_hashes=hashes))
            if len(hashes) >= LARGE:
                yield (part := replace(part, run=write_run(self.place, {file.name: hashes}), brought_hashes=None))
        if taken.num_rows:
            changes = self.write_file(self._changes(brought, taken), CHANGES, last)
            yield replace(part, changes=changes, taken_hashes=taken.column(HASH).to_numpy())

    def _write_inside(self, stored: pa.Table) -> str:
        """The signed rows by arrival, unless all came with the last one."""
        arrivals = stored.column(ARRIVAL).to_numpy()
        if not len(arrivals) or (self.last is not None and bool((arrivals == self.last).all())):
            return ""
        name = self.place.new_name(STEPS)
        self.place.write_parquet(stored.drop_columns([HASH]), name)
        return name

    def _changes(self, brought: pa.Table, taken: pa.Table) -> pa.Table:
        kinds = pa.array([INSERT, DELETE]).take(pa.array(np.repeat([0, 1], [brought.num_rows, taken.num_rows])))
        rows = pa.concat_tables([brought, taken]).select(self.names)
        return rows.append_column(CHANGE, kinds)

    @cached_property
    def names(self) -> list[str]:
        return list(self.schema.names)

    def write_file(self, table: pa.Table, folder: str, arrival: int) -> DataFile:
        name = self.place.new_name(folder)
        self.place.write_parquet(table.cast(telling(table.schema, arrival)), name)
        return describe_file(self.place, name)

    def hashes_of(self, name: str) -> Hashes:
        """Of the rows of a data file, or of a file of changes."""
        return self.hashes(self.place.read_parquet([name], arrow_schema(self.schema)))

    def hashes(self, rows: pa.Table) -> Hashes:
        return np.asarray(row_hashes(rows, self.hash_bits))


def _repeated(stored: pa.Table, times: npt.NDArray[np.int64]) -> pa.Table:
    """Every row so many times."""
    return stored.take(pa.array(np.repeat(np.arange(len(times)), times)))


def _greatest(arrivals: pa.ChunkedArray) -> int:
    return int(pc.max(arrivals).as_py() or 0)


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


def over_arrivals(stored: pa.Table) -> pa.Table:
    """The same added up over all arrivals."""
    same = pa.array(np.zeros(stored.num_rows, np.int64))
    return netted(stored.set_column(stored.column_names.index(ARRIVAL), ARRIVAL, same).cast(stored.schema))
