"""Publishing: a plain Delta table with the view's rows and nothing of ours, for tools that want no weights."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyspark.sql import DataFrame

from weir.algebra.arrow_types import arrow_schema
from weir.warehouse.addressing import find_version
from weir.warehouse.delta_log import APPLICATION, NO_HOOKS, DeltaLog, open_table
from weir.warehouse.errors import NotAView, WriterConflict
from weir.warehouse.place import LOG, Place
from weir.warehouse.record import AsOf
from weir.warehouse.spark_engine import write_frame
from weir.warehouse.statistics import DataFile, describe_file

PUBLISHED = "Published by Weir"  # the table's description; a property of our own could not be part of the first commit
ROWS = "rows/"


def publish(log: DeltaLog, target: Place, rows: pa.Table | DataFrame, as_of: AsOf) -> int:
    """Replaces the published table's rows in one commit; readers see the old rows or the new ones. Its version.

    The first commit makes the table and brings the rows: a reader never sees it empty.
    """
    version, arrival = find_version(log, as_of)
    table = _existing(target)
    files = _write(target, rows)
    record = log.record(version)
    about = {"view": log.place.uri, "version": version, "arrival": record.last_arrival if arrival is None else arrival}
    if arrival is None:
        about["positions"] = dict(record.positions)
    try:
        _create(log, target, files, about) if table is None else _replace(table, files, about)
    except (DeltaError, OSError) as problem:
        target.discard(file.name for file in files)
        if target.has_table() and (table is None or open_table(target).version() > table.version()):
            raise WriterConflict(f"somebody else wrote to '{target.uri}' meanwhile; publish again") from problem
        raise target.cannot_write(problem) from problem
    return int(open_table(target).version())


def _create(log: DeltaLog, target: Place, files: list[DataFile], about: Mapping[str, Any]) -> None:
    create_table_with_add_actions(
        target.uri,
        Schema.from_arrow(arrow_schema(log.schema)),
        _added(files),
        description=PUBLISHED,
        storage_options=dict(target.options) if target.options else None,
        commit_properties=CommitProperties(custom_metadata={APPLICATION: about}, max_commit_retries=0),
        post_commithook_properties=NO_HOOKS,
    )


def _replace(table: DeltaTable, files: list[DataFile], about: Mapping[str, Any]) -> None:
    before = table.get_add_actions(flatten=True)
    old = zip(before.column("path").to_pylist(), before.column("size_bytes").to_pylist(), strict=True)
    removed = [RemoveAction(name, True, _now(), size, {}) for name, size in old]
    properties = CommitProperties(custom_metadata={APPLICATION: about}, max_commit_retries=0)
    table.create_write_transaction(
        [*_added(files), *removed],
        "append",
        table.schema(),
        commit_properties=properties,
        post_commithook_properties=NO_HOOKS,
    )


def _added(files: list[DataFile]) -> list[AddAction]:
    return [AddAction(file.name, file.size, {}, _now(), True, file.statistics) for file in files]


def _now() -> int:
    return int(time.time() * 1000)


def _existing(target: Place) -> DeltaTable | None:
    """The table that was published here before; None for a free place. Rows without a table are a killed one's."""
    try:
        found = target.listing()
    except OSError as problem:
        raise target.cannot_write(problem) from problem
    if any(name.startswith(f"{LOG}/") for name in found):
        table = open_table(target)
        if table.metadata().description != PUBLISHED:
            raise NotAView(
                f"the Delta table at '{target.uri}' was not published by Weir; it is left alone. "
                f"Publish to another path."
            )
        return table
    strange = [name for name in found if not name.startswith(ROWS)]
    if strange:
        raise NotAView(f"the folder '{target.uri}' is not empty ({min(strange)}): publish to a folder of its own.")
    return None


def _write(target: Place, rows: pa.Table | DataFrame) -> list[DataFile]:
    if isinstance(rows, DataFrame):
        return write_frame(target, rows, ROWS)
    name = target.new_name(ROWS)
    target.write_parquet(rows, name)
    return [describe_file(target, name)]
