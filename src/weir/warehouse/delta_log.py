"""The Delta log of one view: which files a version holds, what its commit says, and committing the next version.

A commit is one file that is put where none is yet, for one expected version: whoever comes second is told so, decides
what that means for what it wanted to commit, and tries again or gives up. Nothing is ever rebased in silence.

The files of the newest version are kept in memory and brought forward commit by commit; opening reads the newest
checkpoint and the commits after it. Checkpoints are written by ``deltalake``.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.types import Schema
from weir.warehouse.columns import stored_arrow
from weir.warehouse.damage import COMMIT, HINT, checkpoints, hint_is_wrong, numbered, parsed_commit, why_unreadable
from weir.warehouse.errors import Damaged, NotAView, StoreError
from weir.warehouse.place import LOG, Place, Stamp
from weir.warehouse.record import CREATE, REWRITE, Record
from weir.warehouse.replaying import LogAction, State, brought_forward, commit_name, last_checkpoint, opened
from weir.warehouse.statistics import DataFile, with_vector

APPLICATION = "weir"
LAYOUT, COLUMNS, HASH_BITS = "weir.layout", "weir.columns", "weir.hashBits"
OUR_LAYOUT = "3"
CHECKPOINT_EVERY = 100  # versions; opening a table reads the last checkpoint and what came after it
AT_THE_LATEST = 1000  # versions after which the writer writes one itself, where nobody cares for the table
CONFIGURATION = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableExpiredLogCleanup": "false",  # what is forgotten is Weir's decision
    "delta.deletedFileRetentionDuration": "interval 1 days",  # how long checkpoints tell of files that are gone
}


class Outrun(Exception):
    """Another commit took the version that this one was made for. Never leaves the warehouse layer."""


@dataclass(frozen=True)
class FileChange:
    """What a commit does to the table's files."""

    added: Sequence[DataFile] = ()
    removed: Sequence[DataFile] = ()
    changes: Sequence[DataFile] = ()  # of the change feed
    visible: bool = True  # whether it changes rows that a reader sees

    def actions(self, now: int) -> list[LogAction]:
        removed = [{"remove": _removal(file, now, self.visible)} for file in self.removed]
        added = [{"add": _addition(file, now, self.visible)} for file in self.added]
        told = [{"path": file.name, "partitionValues": {}, "size": file.size} for file in self.changes]
        return [*removed, *added, *({"cdc": {**each, "dataChange": False}} for each in told)]


def _addition(file: DataFile, now: int, visible: bool) -> LogAction:
    told = {"path": file.name, "partitionValues": {}, "size": file.size, "modificationTime": now}
    told |= {"dataChange": visible, "stats": with_vector(file.statistics) if file.vector else file.statistics}
    return told | ({"deletionVector": file.vector.document()} if file.vector else {})


def _removal(file: DataFile, now: int, visible: bool) -> LogAction:
    told = {"path": file.name, "deletionTimestamp": now, "dataChange": visible, "extendedFileMetadata": True}
    told |= {"partitionValues": {}, "size": file.size}
    return told | ({"deletionVector": file.vector.document()} if file.vector else {})


class DeltaLog:
    """One table's log."""

    def __init__(self, place: Place, state: State, metadata: Mapping[str, Any]) -> None:
        self.place = place
        self._state = state
        self._turn = threading.RLock()  # appends and rewrites of one process share the handle
        self._known: tuple[int, Stamp | None, Record] | None = None
        configuration = metadata["configuration"]
        if configuration.get(LAYOUT) != OUR_LAYOUT:
            raise _not_ours(place, configuration.get(LAYOUT))
        self.schema = Schema.parse(configuration[COLUMNS])
        self._columns = _columns(_delta_schema(self.schema))
        self.identity = str(metadata["id"])  # Delta's own; a table made anew at the same place has another
        self.hash_bits = int(configuration[HASH_BITS])
        self.arrow = stored_arrow(self.schema)

    # -- opening and creating ---------------------------------------------------------------------------------------

    @classmethod
    def open(cls, place: Place) -> DeltaLog:
        try:
            state, metadata = opened(place)
            if hint_is_wrong(place):  # we do without; other clients stumble over it
                place.discard([HINT])
        except OSError as problem:
            raise why_unreadable(place, problem) from problem
        return cls(place, state, metadata)

    @classmethod
    def create(cls, place: Place, schema: Schema, name: str, hash_bits: int, after: int = 0) -> DeltaLog:
        """Version 0: the columns and no rows. ``after``: the last arrival number that a table before it has given."""
        refuse_occupied(place)
        metadata = _metadata(schema, name, {LAYOUT: OUR_LAYOUT, COLUMNS: str(schema), HASH_BITS: str(hash_bits)})
        record = Record(CREATE, {}, last_arrival=after, transaction=0, token=uuid.uuid4().hex)
        actions = [_info(record, int(time.time() * 1000)), {"protocol": _protocol(metadata)}, {"metaData": metadata}]
        if not place.writing(lambda: place.put_if_absent(_lines(actions), commit_name(0))):
            refuse_occupied(place)
        return cls(place, State(0, {}), metadata)

    # -- looking ----------------------------------------------------------------------------------------------------

    def latest(self) -> int:
        """The newest version, also when another process wrote it."""
        with self._turn:
            try:
                while (actions := self._next()) is not None:
                    self._state = brought_forward(self._state, actions)
                if not self.place.exists(commit_name(self._state.version)):
                    self._state, _ = opened(self.place)  # others have come far, and what was between is forgotten
            except OSError as problem:
                raise why_unreadable(self.place, problem) from problem
            except ValueError as problem:
                raise self.place.damaged(f"{commit_name(self._state.version + 1)} {problem}") from problem
            return self._state.version

    def _next(self) -> list[LogAction] | None:
        try:
            return parsed_commit(self.place.read_bytes(commit_name(self._state.version + 1)))
        except FileNotFoundError:
            return None

    def head(self) -> Record:
        """What the newest commit says. Reads that commit and nothing else."""
        with self._turn:
            version = self.latest()
            return self.record(version)

    def record(self, version: int) -> Record:
        """What a version's commit says. A commit of somebody else's that changed no visible row is looked through. The
        last one asked for is remembered, as long as its file is the same.
        """
        stamp = self.place.stamp(commit_name(version))
        known = self._known
        if known is None or stamp is None or known[:2] != (version, stamp):
            known = self._known = version, stamp, self._read_record(version)
        return known[2]

    def _read_record(self, version: int) -> Record:
        actions = self.actions(version)
        info: LogAction = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        if APPLICATION in info:
            record = Record.parse(info[APPLICATION], version, info.get("timestamp", 0))
            added = sum(action["add"]["size"] for action in actions if "add" in action)
            if added != record.bytes:
                wrong = f"adds {added} bytes of rows and says {record.bytes}: lines of it are missing"
                raise self.place.damaged(f"{commit_name(version)} {wrong}")
            return record
        if not info and _is_ours(actions):
            raise self.place.damaged(f"{commit_name(version)} has lost its line commitInfo")
        if version > 0 and not _changes_rows(actions) and all(map(self._is_as_before, actions)):
            before = self.record(version - 1)
            return replace(before, version=version, kind=REWRITE, arrivals=None, steps=(), inside=(), anew=False)
        raise Damaged(
            f"version {version} of the table at '{self.place.uri}' was not written by Weir (operation "
            f"{info.get('operation', 'unknown')}): its rows are not the view's any more, and Weir writes nothing to it"
        )

    def is_ours(self, version: int) -> bool:
        """Whether its commit itself says what is known of the view."""
        return any(APPLICATION in action.get("commitInfo", {}) for action in self.actions(version))

    def _is_as_before(self, action: LogAction) -> bool:
        """Whether what the table says of itself, where it is said anew, leaves columns and layout as they are."""
        told = action.get("metaData")
        return told is None or (_columns(told["schemaString"]) == self._columns and str(told["id"]) == self.identity)

    def actions(self, version: int) -> list[LogAction]:
        name = commit_name(version)
        try:
            return parsed_commit(self.place.read_bytes(name))
        except FileNotFoundError as problem:
            raise self.place.damaged(f"{name} is missing") from problem
        except OSError as problem:
            raise why_unreadable(self.place, problem) from problem
        except ValueError as problem:
            raise self.place.damaged(f"{name} {problem}") from problem

    def versions(self) -> list[int]:
        """The versions whose commits are kept, oldest first. Commits before the first checkpoint of a log without its
        first commit are what a killed ``forget`` has left: no state can be made of them.
        """
        names = self.place.listing(LOG)
        commits = sorted(numbered(names, COMMIT))
        first = 0 if 0 in commits else min(checkpoints(names), default=0)
        return [version for version in commits if version >= first]

    def state(self, version: int | None = None) -> State:
        """The files of a version; None is the newest."""
        with self._turn:
            newest = self.latest()
            if version in (None, newest):
                return self._state
        try:
            return opened(self.place, version)[0]
        except OSError as problem:
            raise why_unreadable(self.place, problem) from problem

    # -- committing -------------------------------------------------------------------------------------------------

    def commit(self, expected: int, record: Record, change: FileChange) -> int:
        """Makes version ``expected + 1``, all or nothing, or raises Outrun or CannotWrite."""
        now = int(time.time() * 1000)
        rows, size = sum(file.rows for file in change.added), sum(file.size for file in change.added)
        marked = replace(record, token=uuid.uuid4().hex, rows=rows, bytes=size)
        txn = {"appId": APPLICATION, "version": record.transaction, "lastUpdated": now}
        actions = [_info(marked, now), {"txn": txn}, *change.actions(now)]
        name = commit_name(expected + 1)
        with self._turn:
            if self._state.version != expected:
                raise Outrun
            try:
                taken = not self.place.put_if_absent(_lines(actions), name)
            except OSError as problem:
                # The answer may have been lost after the commit was made: the log itself says what happened.
                if not self.place.exists(name):
                    raise self.place.cannot_write(problem) from problem
                taken = True
            if taken and self.record(expected + 1).token != marked.token:
                raise Outrun
            self._state = brought_forward(self._state, actions)
        if (expected + 1) % AT_THE_LATEST == 0:
            self.checkpoint()
        return expected + 1

    def is_checkpoint_due(self) -> bool:
        last = max(last_checkpoint(self.place) or {0: []})
        return self.latest() - last >= CHECKPOINT_EVERY

    def checkpoint(self) -> bool:
        """It only saves time: where it cannot be written the commits stand, and a later one covers this one."""
        try:
            open_table(self.place, self.latest()).create_checkpoint()
        except (DeltaError, OSError, StoreError):
            return False
        return True


def _changes_rows(actions: Sequence[LogAction]) -> bool:
    touched = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
    return any(told.get("dataChange", True) for told in touched)


def _columns(schema: str) -> list[tuple[Any, ...]]:
    """What of Delta's schema must not change; a comment may."""
    return [(field["name"], field["type"], field["nullable"]) for field in json.loads(schema)["fields"]]


def _delta_schema(schema: Schema) -> str:
    return str(deltalake.Schema.from_arrow(arrow_schema(schema)).to_json())


def _is_ours(actions: Sequence[Mapping[str, Any]]) -> bool:
    return any(action.get("txn", {}).get("appId") == APPLICATION for action in actions)


# -- what a commit is made of ------------------------------------------------------------------------------------------


def _info(record: Record, now: int) -> LogAction:
    told = {"timestamp": now, "operation": "WRITE", "operationParameters": {}, "engineInfo": APPLICATION}
    return {"commitInfo": {**told, APPLICATION: record.document()}}


def _metadata(schema: Schema, name: str, ours: Mapping[str, str]) -> LogAction:
    return {
        "id": str(uuid.uuid4()),
        "name": name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _delta_schema(schema),
        "partitionColumns": [],
        "configuration": {**CONFIGURATION, **ours},
        "createdTime": int(time.time() * 1000),
    }


def _protocol(metadata: LogAction) -> LogAction:
    types = [field["type"] for field in json.loads(metadata["schemaString"])["fields"]]
    both = ["deletionVectors", *(["timestampNtz"] if "timestamp_ntz" in types else [])]
    writers = [*both, "changeDataFeed"]
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": both, "writerFeatures": writers}


def _lines(actions: Iterable[LogAction]) -> bytes:
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()


def _not_ours(place: Place, layout: str | None) -> NotAView | Damaged:
    if layout is None:
        return NotAView(
            f"the Delta table at '{place.uri}' was not made by Weir but by somebody else; it is left alone. "
            f"Give the view another path."
        )
    return Damaged(
        f"the table at '{place.uri}' was made by another version of Weir (its layout is {layout}, this one's is "
        f"{OUR_LAYOUT}) and cannot be gone on with"
    )


def open_table(place: Place, version: int | None = None) -> deltalake.DeltaTable:
    """As other clients see it."""
    options = dict(place.options) if place.options else None
    try:
        return deltalake.DeltaTable(place.uri, version=version, storage_options=options)
    except (TableNotFoundError, DeltaError, OSError) as problem:
        raise why_unreadable(place, problem) from problem


def refuse_occupied(place: Place) -> None:
    """What a process that was killed while creating has left in the log's folder is no table, and is written over."""
    try:
        found = [name for name in place.listing() if not name.startswith(f"{LOG}/")]
        taken = place.has_table()
    except OSError as problem:
        raise place.cannot_write(problem) from problem
    if taken:
        raise NotAView(f"there is a Delta table at '{place.uri}' already: open it, or give the view another path.")
    if found:
        raise NotAView(f"the folder '{place.uri}' is not empty ({min(found)}): give the view a folder of its own.")
