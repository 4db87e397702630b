"""Publishing: a plain Delta table with the view's rows and nothing of ours, for tools that want no weights."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame

from weir.sources.arrow import arrow_schema
from weir.warehouse.addressing import find_version
from weir.warehouse.delta_log import APPLICATION, NO_HOOKS, DeltaLog, open_table
from weir.warehouse.errors import NotAView, WriterConflict
from weir.warehouse.place import LOG, Place
from weir.warehouse.record import AsOf
from weir.warehouse.spark_engine import write_frame
from weir.warehouse.statistics import DataFile, describe_file

PUBLISHED = "weir.published"
ROWS = "rows/"


def publish(log: DeltaLog, target: Place, rows: pa.Table | DataFrame, as_of: AsOf) -> int:
    """Replaces the published table's rows in one commit; readers see the old rows or the new ones. Its version."""
    version, arrival = find_version(log, as_of)
    table = _open_or_create(log, target)
    files = _write(target, rows)
    record = log.record(version)
    about = {"view": log.place.uri, "version": version, "arrival": record.last_arrival if arrival is None else arrival}
    if arrival is None:
        about["positions"] = dict(record.positions)
    try:
        _commit(table, files, about)
    except (DeltaError, OSError) as problem:
        target.discard(file.name for file in files)
        if open_table(target).version() > table.version():
            raise WriterConflict(f"somebody else wrote to '{target.uri}' meanwhile; publish again") from problem
        raise target.cannot_write(problem) from problem
    return int(open_table(target).version())


def _commit(table: DeltaTable, files: list[DataFile], about: Mapping[str, Any]) -> None:
    now = int(time.time() * 1000)
    before = table.get_add_actions(flatten=True)
    old = zip(before.column("path").to_pylist(), before.column("size_bytes").to_pylist(), strict=True)
    actions = [AddAction(file.name, file.size, {}, now, True, file.statistics) for file in files]
    actions += [RemoveAction(name, True, now, size, {}) for name, size in old]
    properties = CommitProperties(custom_metadata={APPLICATION: about}, max_commit_retries=0)
    table.create_write_transaction(
        actions, "append", table.schema(), commit_properties=properties, post_commithook_properties=NO_HOOKS
    )


def _open_or_create(log: DeltaLog, target: Place) -> DeltaTable:
    try:
        found = target.listing()
    except OSError as problem:
        raise target.cannot_write(problem) from problem
    if any(name.startswith(f"{LOG}/") for name in found):
        table = open_table(target)
        if PUBLISHED not in table.metadata().configuration:
            raise NotAView(
                f"the Delta table at '{target.uri}' was not published by Weir; it is left alone. "
                f"Publish to another path."
            )
        return table
    if found:
        raise NotAView(f"the folder '{target.uri}' is not empty ({min(found)}): publish to a folder of its own.")
    try:
        return DeltaTable.create(
            target.uri,
            schema=arrow_schema(log.schema),
            configuration={PUBLISHED: "1"},
            storage_options=dict(target.options) if target.options else None,
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as problem:
        raise target.cannot_write(problem) from problem


def _write(target: Place, rows: pa.Table | DataFrame) -> list[DataFile]:
    if isinstance(rows, DataFrame):
        return write_frame(target, rows, ROWS)
    name = target.new_name(ROWS)
    target.write_parquet(rows, name)
    return [describe_file(target, name)]
