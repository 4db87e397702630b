"""From a table's log to the files of a version: the newest checkpoint, and the commits after it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from weir.warehouse.damage import COMMIT, HINT, checkpoints, numbered, parsed_commit, why_unreadable
from weir.warehouse.errors import Damaged
from weir.warehouse.place import LOG, Place
from weir.warehouse.statistics import DataFile
from weir.warehouse.vectors import DeletionVector

LogAction = dict[str, Any]


@dataclass(frozen=True)
class State:
    """The files of one version, by their names."""

    version: int
    files: Mapping[str, DataFile]

    @property
    def live(self) -> int:
        """How many rows are visible."""
        return sum(file.live for file in self.files.values())

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())

    @property
    def rows(self) -> int:
        """How many rows are stored, also those that are gone."""
        return sum(file.rows for file in self.files.values())


def brought_forward(state: State, actions: Iterable[LogAction]) -> State:
    """The files after one more commit. Of one file that is removed and added again, the addition counts."""
    files, added = dict(state.files), dict[str, DataFile]()
    for action in actions:
        if "remove" in action:
            files.pop(unquote(action["remove"]["path"]), None)
        elif "add" in action:
            file = file_of(action["add"])
            added[file.name] = file
    return State(state.version + 1, files | added)


def file_of(told: Mapping[str, Any]) -> DataFile:
    """That a line of a commit, or of a checkpoint, tells of."""
    statistics = told.get("stats") or ""
    rows = json.loads(statistics).get("numRecords", 0) if statistics else 0
    vector = DeletionVector.parse(each) if (each := told.get("deletionVector")) else None
    return DataFile(unquote(told["path"]), told["size"], rows, statistics, vector)


def opened(place: Place, version: int | None = None) -> tuple[State, Mapping[str, Any]]:
    """The files of a version, and what the table says of itself."""
    state, metadata = _from_checkpoint(place, version)
    while version is None or state.version < version:
        name = commit_name(state.version + 1)
        try:
            actions = parsed_commit(place.read_bytes(name))
        except FileNotFoundError:
            if version is None and state.version >= 0 and _is_last(place, state.version):
                break
            if version is None and place.exists(name):
                continue  # it has come just now
            raise
        except ValueError as problem:
            raise place.damaged(f"{name} {problem}") from problem
        metadata = next((action["metaData"] for action in actions if "metaData" in action), metadata)
        state = brought_forward(state, actions)
    if metadata is None:
        raise place.damaged(f"{commit_name(0)} does not say what the table is")
    return state, metadata


def _is_last(place: Place, version: int) -> bool:
    """Whether there is no later commit: a hole in the log is not its end."""
    return max(numbered(place.listing(LOG), COMMIT), default=version) <= version


def _from_checkpoint(place: Place, version: int | None) -> tuple[State, Mapping[str, Any] | None]:
    """The newest checkpoint at or before a version; none is the empty state before version 0."""
    found = last_checkpoint(place) if version is None else None
    if found is None:
        found = checkpoints(place.listing(LOG))
    usable = [number for number in found if version is None or number <= version]
    if not usable:
        return State(-1, {}), None
    newest = max(usable)
    try:
        tables = [place.read_table(name, ["add", "metaData"]) for name in found[newest]]
    except Damaged as problem:
        raise why_unreadable(place, problem) from problem
    adds, metadata = ([told for table in tables for told in _told(table, name)] for name in ("add", "metaData"))
    if not metadata:
        raise place.damaged(f"{found[newest][0]} does not say what the table is")
    files = {file.name: file for file in map(file_of, adds)}
    return State(newest, files), {**metadata[-1], "configuration": dict(metadata[-1]["configuration"])}


def _told(table: pa.Table, name: str) -> list[Any]:
    return [told for told in table.column(name).drop_null().to_pylist() if told]


def last_checkpoint(place: Place) -> dict[int, list[str]] | None:
    """What the hint says, where it says something that is there."""
    try:
        told = json.loads(place.read_bytes(HINT))
        name = f"{LOG}/{int(told['version']):020}.checkpoint.parquet"
        return {int(told["version"]): [name]} if place.exists(name) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def commit_name(version: int) -> str:
    return f"{LOG}/{version:020}.json"
