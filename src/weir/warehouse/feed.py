"""The change feed of one version, as any client reads it: the files that the commit names for it, or, where it names
none, the files that it has added and removed."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.spark.arrow_bag import added_up
from weir.warehouse.columns import ARRIVAL, CHANGE, HASH, WEIGHT
from weir.warehouse.delta_log import DeltaLog
from weir.warehouse.reading import ArrowReader
from weir.warehouse.replaying import LogAction, file_of
from weir.warehouse.staging import INSERT


def changes_of(log: DeltaLog, version: int) -> pa.Table:
    """The rows that a version has brought (WEIGHT 1) and taken (-1)."""
    actions, columns = log.actions(version), pa.schema([log.arrow.field(name) for name in log.schema.names])
    told = [unquote(action["cdc"]["path"]) for action in actions if "cdc" in action]
    if told:
        rows = log.place.read_parquet(told, columns.append(pa.field(CHANGE, pa.string())))
        kinds = pc.equal(rows.column(CHANGE), INSERT).to_numpy()
        return _weighted(rows.drop_columns([CHANGE]), np.where(kinds, 1, -1))
    reader = ArrowReader(log.place, log.schema)
    added, removed = (_files(reader, actions, kind) for kind in ("add", "remove"))
    weights = np.repeat([1, -1], [added.num_rows, removed.num_rows])
    return _weighted(pa.concat_tables([added, removed]), weights)


def _files(reader: ArrowReader, actions: Sequence[LogAction], kind: str) -> pa.Table:
    """The rows of the files that a commit has added, or removed, where it has changed rows with it."""
    told = [action[kind] for action in actions if kind in action and action[kind]["dataChange"]]
    return reader.of_files([file_of(each) for each in told])


def steps_of_version(log: DeltaLog, version: int) -> pa.Table:
    """A version's change by arrival (WEIGHT, ARRIVAL): what is kept by arrival, and the rest, which came with the last.

    Rows that came and went inside the batch are in what is kept by arrival, and not in the feed.
    """
    record = log.record(version)
    kept = log.place.read_parquet(record.inside, log.arrow.remove(log.arrow.get_field_index(HASH)))
    before = kept.filter(pc.less(kept.column(ARRIVAL), record.last_arrival))
    inverse = before.drop_columns([ARRIVAL])
    negated = pc.negate(inverse.column(WEIGHT))
    inverse = inverse.set_column(inverse.num_columns - 1, WEIGHT, negated)
    last = added_up(pa.concat_tables([changes_of(log, version).cast(inverse.schema), inverse]), WEIGHT)
    arrivals = pa.repeat(pa.scalar(record.last_arrival, pa.int64()), last.num_rows)
    placed = last.append_column(ARRIVAL, arrivals).select(before.column_names)
    return pa.concat_tables([before, placed.cast(before.schema)])


def _weighted(rows: pa.Table, weights: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array(weights, pa.int64()))
