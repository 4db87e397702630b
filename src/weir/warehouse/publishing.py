"""Publishing: the view's rows as a plain Delta table at another place, for clients that know no deletion vectors.

Every file of the view has its copy there, without the rows that are gone. Publishing again writes only what has changed
since: files that are new, and files that have lost rows. One commit exchanges them: readers see the old or the new.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from weir.algebra.arrow_types import arrow_schema
from weir.warehouse.addressing import ShownState, find_state, find_version
from weir.warehouse.delta_log import APPLICATION, DeltaLog, open_table
from weir.warehouse.errors import NotAView, WriterConflict
from weir.warehouse.place import LOG, Place
from weir.warehouse.reading import ArrowReader
from weir.warehouse.record import AsOf
from weir.warehouse.statistics import DataFile, describe_file

PUBLISHED = "Published by Weir"  # the table's description; a property of our own could not be part of the first commit
ROWS = "rows/"
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
Mirrored = dict[str, str]  # by the name of a file: what it mirrors


def publish(log: DeltaLog, target: Place, as_of: AsOf) -> int:
    """Brings the published table to a state of the view. Its version.

    The first commit makes the table and brings the rows: a reader never sees it empty.
    """
    version, arrival = find_version(log, as_of)
    table = _existing(target)
    before = _mirrored(table, log) if table is not None else {}
    added, mirrored = _write(log, target, find_state(log, as_of), before)
    record = log.record(version)
    about = {"view": log.place.uri, "version": version, "arrival": record.last_arrival if arrival is None else arrival}
    about |= {"mirrored": mirrored, "table": log.identity}
    if arrival is None:
        about["positions"] = dict(record.positions)
    try:
        _create(log, target, added, about) if table is None else _replace(table, added, mirrored, about)
    except (DeltaError, OSError) as problem:
        target.discard(file.name for file in added)
        if target.has_table() and (table is None or open_table(target).version() > table.version()):
            raise WriterConflict(f"somebody else wrote to '{target.uri}' meanwhile; publish again") from problem
        raise target.cannot_write(problem) from problem
    return int(open_table(target).version())


# -- files and what they mirror ----------------------------------------------------------------------------------------


def _write(log: DeltaLog, target: Place, shown: ShownState, before: Mirrored) -> tuple[list[DataFile], Mirrored]:
    """Files for what has none yet; and what each of the table then mirrors. A state inside a batch is one new file."""
    reader, known = ArrowReader(log.place, log.schema), {origin: name for name, origin in before.items()}
    if shown.arrival is not None:
        file = _copy(target, reader.read(shown, counted=False))
        return [file], {file.name: ""}
    added, mirrored = list[DataFile](), Mirrored()
    for file in shown.state.files.values():
        origin = _origin(file)
        if origin not in known:
            added.append(_copy(target, reader.visible(file)))
        mirrored[known[origin] if origin in known else added[-1].name] = origin
    return added, mirrored


def _origin(file: DataFile) -> str:
    """What tells a file's rows from those that it had before."""
    return file.name if file.vector is None else json.dumps([file.name, file.vector.document()])


def _copy(target: Place, rows: pa.Table) -> DataFile:
    name = target.new_name(ROWS)
    target.write_parquet(rows, name)
    return describe_file(target, name)


def _mirrored(table: DeltaTable, log: DeltaLog) -> Mirrored:
    """What the published table says its files mirror; nothing, where they are another view's."""
    told = table.history(1)[0].get(APPLICATION, {})
    about = json.loads(told) if isinstance(told, str) else told
    present = set(table.get_add_actions(flatten=True).column("path").to_pylist())
    if about.get("table") != log.identity:
        return {}
    return {name: origin for name, origin in about.get("mirrored", {}).items() if name in present and origin}


# -- commits -----------------------------------------------------------------------------------------------------------


def _create(log: DeltaLog, target: Place, files: Sequence[DataFile], about: Mapping[str, Any]) -> None:
    create_table_with_add_actions(
        target.uri,
        Schema.from_arrow(arrow_schema(log.schema)),
        _added(files),
        description=PUBLISHED,
        storage_options=dict(target.options) if target.options else None,
        commit_properties=CommitProperties(custom_metadata={APPLICATION: about}, max_commit_retries=0),
        post_commithook_properties=NO_HOOKS,
    )


def _replace(table: DeltaTable, files: Sequence[DataFile], mirrored: Mirrored, about: Mapping[str, Any]) -> None:
    before = table.get_add_actions(flatten=True)
    old = zip(before.column("path").to_pylist(), before.column("size_bytes").to_pylist(), strict=True)
    removed = [RemoveAction(name, True, _now(), size, {}) for name, size in old if name not in mirrored]
    properties = CommitProperties(custom_metadata={APPLICATION: about}, max_commit_retries=0)
    table.create_write_transaction(
        [*_added(files), *removed],
        "append",
        table.schema(),
        commit_properties=properties,
        post_commithook_properties=NO_HOOKS,
    )


def _added(files: Sequence[DataFile]) -> list[AddAction]:
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
