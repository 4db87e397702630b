"""Writing a DataFrame's rows as a delta: every task writes its own, rows and index in one pass."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from weir.algebra.quoting import backquoted
from weir.algebra.types import Schema
from weir.warehouse.columns import ARRIVAL, WEIGHT, missing_columns
from weir.warehouse.place import Place
from weir.warehouse.staging import Staged, Stager

FILE_BYTES = 256 << 20  # of rows in memory that become one file
REFUSALS = ("No space left", "Permission denied", "File too large", "Read-only file system", "quota")
_ENVELOPE = pa.schema([("staged", pa.binary())])


@dataclass(frozen=True)
class StagingTask:
    """What the tasks do. Columns come numbered: Spark could not find some names that a view may have."""

    stager: Stager
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for staged in self._written(batches):
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(staged)])], schema=_ENVELOPE)

    def _written(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Staged]:
        waiting, size = list[pa.RecordBatch](), 0
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size > FILE_BYTES:
                yield self._stage(waiting)
                waiting, size = [], 0
        if waiting:
            yield self._stage(waiting)

    def _stage(self, batches: list[pa.RecordBatch]) -> Staged:
        return self.stager.write(pa.Table.from_batches(batches).rename_columns(self.names))


def stage_frame(stager: Stager, batch: DataFrame) -> Staged:
    """Its columns, WEIGHT (else 1), ARRIVAL (else the stager's)."""
    missing = [name for name in stager.schema.names if name not in batch.columns]
    if missing:
        raise missing_columns(missing, batch.columns)
    numbers = [name for name in (WEIGHT, ARRIVAL) if name in batch.columns]
    columns = [*_fitted(stager.schema), *(F.col(name).cast("bigint") for name in numbers)]
    rows = batch.select(*(column.alias(f"c{at}") for at, column in enumerate(columns)))
    task = StagingTask(stager, (*stager.schema.names, *numbers))
    try:
        found = rows.mapInArrow(task, "staged binary").collect()
    except Exception as problem:  # Spark wraps what its tasks met in its own errors, classic and Connect differently
        raise _refused(stager.place, problem) from problem
    return reduce(Staged.__add__, [pickle.loads(row[0]) for row in found], Staged())


def _refused(place: Place, problem: Exception) -> Exception:
    """What the disk or the store has refused is said as such."""
    refused = next((line for line in str(problem).splitlines() if any(s in line for s in REFUSALS)), None)
    return problem if refused is None else place.cannot_write(refused.strip())


def _fitted(schema: Schema) -> list[Column]:
    """The columns in the declared types."""
    return [F.col(backquoted(column.name)).cast(str(column.type)) for column in schema]
