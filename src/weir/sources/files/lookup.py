"""Lookups in one snapshot, by Arrow: rows whose key columns are among the keys asked for, needed columns only.

Values reach Arrow as values, never as text. A composite key is looked up column by column, which may bring more rows
than asked for; the view's own conditions decide.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from weir.algebra.arrow_types import arrow_schema, arrow_type
from weir.algebra.catalog import Relation
from weir.algebra.errors import TypeMismatch
from weir.algebra.hops import Lookup
from weir.algebra.types import Schema, Type, Value, normalise
from weir.sources.files.options import FilesOptions
from weir.sources.files.plain import read_table
from weir.sources.files.shapes import checked
from weir.sources.files.snapshots import TableSnapshot
from weir.sources.source import Answers, HeldSnapshot, Partition, SharedReader, SourceError

SMALL = 32 << 20  # bytes of a file
_PARQUET = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))


@dataclass(frozen=True)
class Shown(SharedReader):
    """What a visit answers from, per table; picklable: it is its own reader, in any process that sees the files."""

    snapshots: Mapping[Relation, TableSnapshot]
    schemas: Mapping[Relation, Schema]
    originals: Mapping[Relation, TableSnapshot]  # of those that are copies
    options: FilesOptions

    def reader(self) -> Shown:
        return self

    def close(self) -> None:
        """Nothing is open."""

    def answer(self, lookups: Sequence[Lookup]) -> Answers:
        answers = tuple(self._answer(lookup) for lookup in lookups)
        self._check_unchanged(self.snapshots)
        return answers

    def _check_unchanged(self, relations: Iterable[Relation]) -> None:
        for snapshot in map(self.snapshots.__getitem__, relations):
            if not snapshot.is_unchanged():
                raise SourceError(f"snapshot {snapshot.place} was changed or removed while it was read")

    def parts(self) -> tuple[Partition, ...]:
        return tuple(
            Partition(relation, self.schemas[relation].names, path, _is_small(path))
            for relation, snapshot in self.snapshots.items()
            for path in snapshot.paths
        )

    def read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        yield from batches([partition.detail], self.schemas[partition.relation].only(partition.columns))
        self._check_unchanged([partition.relation])

    def read_plainly(self, table: Partition) -> Iterator[pa.RecordBatch]:
        """The snapshots themselves, not their copies."""
        return read_table(self.options, self.originals[table.relation], self.schemas[table.relation])

    def _answer(self, lookup: Lookup) -> pa.Table:
        """The rows of one lookup. Files have no index: whole columns are read."""
        snapshot, schema = self.snapshots[lookup.relation], self.schemas[lookup.relation]
        if lookup.keys is None:
            return read(snapshot, schema.only(lookup.columns))
        keys = _keys(lookup, schema)
        if not keys:
            return arrow_schema(schema.only(lookup.columns)).empty_table()
        found = read(snapshot, schema.only({*lookup.columns, *keys}), _sure(keys))
        for name, values in keys.items():
            if pa.types.is_floating(values.type):
                found = found.filter(pc.is_in(pc.add(found.column(name), 0.0), value_set=values))
        return found.select(lookup.columns)


class HeldFiles(HeldSnapshot):
    """Snapshots stay as they are: nothing is open. ``released`` is told that these are needed no more."""

    def __init__(self, source: str, shown: Shown, released: Callable[[], None]) -> None:
        super().__init__(source)
        self._shown, self._released = shown, released

    @property
    def token(self) -> Shown:
        return self._shown

    def _look(self, lookups: Sequence[Lookup]) -> Answers:
        return self._shown.answer(lookups)

    def _parts(self) -> tuple[Partition, ...]:
        return self._shown.parts()

    def _read(self, partition: Partition) -> Iterator[pa.RecordBatch]:
        return self._shown.read(partition)

    def _whole_tables(self) -> tuple[Partition, ...]:
        return tuple(Partition(relation, schema.names) for relation, schema in self._shown.schemas.items())

    def _read_plainly(self, table: Partition) -> Iterator[pa.RecordBatch]:
        return self._shown.read_plainly(table)

    def _end(self) -> None:
        self._released()


def read(snapshot: TableSnapshot, schema: Schema, condition: Any = None) -> pa.Table:
    """The columns of a snapshot, in one table."""
    try:
        table = dataset(snapshot.paths, schema).to_table(columns=list(schema.names), filter=condition)
    except (OSError, pa.ArrowException) as problem:
        raise SourceError(f"snapshot {snapshot.place} cannot be read: {str(problem).splitlines()[0]}") from problem
    return checked(table, str(snapshot.place))


def batches(paths: Sequence[str], schema: Schema) -> Iterator[pa.RecordBatch]:
    try:
        for batch in dataset(paths, schema).to_batches(columns=list(schema.names)):
            yield from checked(pa.Table.from_batches([batch]), paths[0]).to_batches()
    except (OSError, pa.ArrowException) as problem:
        raise SourceError(f"{paths[0]} cannot be read: {str(problem).splitlines()[0]}") from problem


def dataset(paths: Sequence[str], schema: Schema) -> Any:
    return ds.dataset(list(paths), schema=arrow_schema(schema), format=_PARQUET)


def _keys(lookup: Lookup, schema: Schema) -> dict[str, pa.Array]:
    """Per key column the values asked for. NULL equals nothing, nor does what the type of the column has no room for:
    no key with one is looked for.
    """
    assert lookup.keys is not None
    types = [schema.type_of(name) for name in lookup.key_columns]
    asked = (row for row, _ in lookup.keys.keep(lookup.key_columns).items())
    rows = [found for row in asked if None not in (found := [*map(_of_type, row, types)])]
    columns = zip(lookup.key_columns, types, zip(*rows, strict=True), strict=True) if rows else ()
    return {name: pa.array(set(values), arrow_type(type_)) for name, type_, values in columns}


def _of_type(value: Value, type_: Type) -> Value:
    """The same value as a column of this type has it; None where it has none that is equal."""
    whole = type_.is_integer and isinstance(value, Decimal) and value == value.to_integral_value()
    try:
        return normalise(int(value) if whole else value, type_)
    except TypeMismatch:
        return None


def _sure(keys: Mapping[str, pa.Array]) -> Any:
    """The condition on all but fractions: the statistics of a Parquet file do not know NaN."""
    conditions = [ds.field(name).isin(values) for name, values in keys.items() if not pa.types.is_floating(values.type)]
    if not conditions:
        return None
    first, *rest = conditions
    for condition in rest:
        first = first & condition
    return first


def _is_small(path: str) -> bool:
    """One that is not there any more is found out when it is read."""
    try:
        return os.path.getsize(path) <= SMALL
    except OSError:
        return True
