"""Views evaluated on Spark from whole tables: the first load, recomputation, and the audit's other side.

The tables are read in parts from snapshots that are held at known positions, while the sources go on. The parts of a
snapshot that can be shared are read by Spark's tasks, in parallel; those of another one by a thread of its own, into
Parquet files of a private scratch folder, which is gone when the work is done.

The audit wants its tables read *plainly*: undivided, by the plain driver, so that it shares no decoder with what it
judges (``weir.sources.plain``).
"""

from __future__ import annotations

import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.catalog import Relation
from weir.algebra.hops import begin, extend, finish, hop_order
from weir.algebra.query import BoundTerm, Query
from weir.algebra.quoting import backquoted, ddl
from weir.algebra.types import Schema
from weir.rounds.holds import Hold
from weir.rounds.threads import spawn
from weir.scratch import private_file, private_subfolder
from weir.sources.source import HeldSnapshot, Partition, SharedReader
from weir.spark.frame_bag import FrameBag
from weir.sweeping.failures import asking, writing_letters

Frames = Mapping[Relation, DataFrame]


@dataclass(frozen=True)
class _Reading:
    """A task: reads its parts of a table from a shared snapshot."""

    source: str
    token: Any
    parts: tuple[Partition, ...]
    plainly: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with writing_letters(), asking(self.source), closing(self.token.reader()) as reader:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from _rows(reader, self.parts[number], self.plainly)


def _rows(snapshot: SharedReader | HeldSnapshot, part: Partition, plainly: bool) -> Iterator[pa.RecordBatch]:
    return snapshot.read_plainly(part) if plainly else snapshot.read(part)


class HeldTables:
    """Every table of some held snapshots as a DataFrame. A context: leaving it removes the scratch files."""

    def __init__(
        self, spark: SparkSession, holds: Mapping[str, Hold], schemas: Mapping[Relation, Schema], scratch: str,
        plainly: bool = False,
    ) -> None:  # fmt: skip
        self._spark, self._holds, self._schemas, self._plainly = spark, holds, schemas, plainly
        self._scratch = Path(scratch) / f"load-{uuid.uuid4().hex}"

    def __enter__(self) -> Frames:
        private_subfolder(self._scratch)
        holds = self._holds.values()
        pending = [(hold, spawn(f"weir-load-{hold.source}", partial(self._take, hold.snapshot))) for hold in holds]
        frames: dict[Relation, DataFrame] = {}
        for hold, taken in pending:
            with asking(hold.source):
                found = taken.result()
            frames |= {relation: self._frame(hold.snapshot, relation, where) for relation, where in found.items()}
        return frames

    def __exit__(self, *problem: object) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _take(self, held: HeldSnapshot) -> dict[Relation, Path | _Parts]:
        """The parts, or, where the snapshot cannot be shared, files with their rows."""
        parts = _by_relation(held.whole_tables() if self._plainly else held.parts())
        wanted = [relation for relation in self._schemas if relation.source == held.source]
        if held.token is None:
            return {relation: self._spool(held, relation, parts[relation]) for relation in wanted}
        divided = _by_relation(held.parts()) if self._plainly else parts
        return {relation: _Parts(tuple(parts[relation]), _are_small(divided[relation])) for relation in wanted}

    def _spool(self, held: HeldSnapshot, relation: Relation, parts: Sequence[Partition]) -> Path:
        path = self._scratch / f"{uuid.uuid4().hex}.parquet"
        private_file(path).close()
        shape = arrow_schema(self._schemas[relation])
        with pq.ParquetWriter(path, shape) as writer:
            for part in parts:
                for batch in _rows(held, part, self._plainly):
                    writer.write_table(pa.Table.from_batches([batch]).select(shape.names).cast(shape))
        return path

    def _frame(self, held: HeldSnapshot, relation: Relation, found: Path | _Parts) -> DataFrame:
        schema = self._schemas[relation]
        types = ddl(schema)
        if isinstance(found, Path):
            return self._spark.read.schema(types).parquet(found.as_uri())
        if not found.parts:
            return self._spark.createDataFrame([], types)
        reading = _Selected(_Reading(held.source, held.token, found.parts, self._plainly), schema.names)
        frame = self._spark.range(0, len(found.parts), 1, len(found.parts)).mapInArrow(reading, types)
        return frame.hint("broadcast" if found.are_small else "merge")


@dataclass(frozen=True)
class _Parts:
    """The parts of a table, and whether every task can hold all of it. Spark cannot know: to it, what tasks read is a
    few numbers long, and it would send any table to everybody.
    """

    parts: tuple[Partition, ...]
    are_small: bool


def _by_relation(parts: Iterable[Partition]) -> dict[Relation, list[Partition]]:
    found: dict[Relation, list[Partition]] = defaultdict(list)
    for part in parts:
        found[part.relation].append(part)
    return found


def _are_small(parts: Sequence[Partition]) -> bool:
    return len(parts) <= 1 and all(part.is_small for part in parts)


@dataclass(frozen=True)
class _Selected:
    """Only some columns of what a task reads, in this order."""

    reading: _Reading
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self.reading(batches):
            yield batch.select(list(self.names))


def evaluate(query: Query, tables: Frames) -> FrameBag:
    """The value of a query without bound slots over whole tables: Spark's own joins."""
    return reduce(FrameBag.__add__, [_term(bound, tables) for bound in query])


def _term(bound: BoundTerm, tables: Frames) -> FrameBag:
    term = bound.term
    needed = [tables[slot.relation].select(*map(backquoted, slot.schema.names)) for slot in term.slots]
    rows = [FrameBag.from_frame(frame) for frame in needed]
    partial = begin(term, 0, rows[0])
    for slot in hop_order(term, [0]):
        partial = extend(partial, slot, rows[slot])
    value = finish(partial)
    assert isinstance(value, FrameBag)
    return value.scale(bound.sign) if bound.sign != 1 else value
