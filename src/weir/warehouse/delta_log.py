"""The Delta log of one view: which files a version holds, what its commit says, and committing the next version.

Every commit is made for one expected version. ``deltalake`` would rebase a commit silently onto what others wrote
meanwhile; then a compaction's commit could carry older positions than the append before it. So it is told never to
retry, and whoever commits decides.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from weir.algebra.types import Schema
from weir.warehouse.columns import WEIGHT, stored_arrow
from weir.warehouse.damage import parsed_commit, why_unreadable
from weir.warehouse.errors import NotAView
from weir.warehouse.place import LOG, Place
from weir.warehouse.record import CREATE, FOLD, NET, Record
from weir.warehouse.statistics import DataFile

APPLICATION = "weir"
LAYOUT, COLUMNS, HASH_BITS = "weir.layout", "weir.columns", "weir.hashBits"
OUR_LAYOUT = "2"
CHECKPOINT_EVERY = 20  # versions; opening a table reads the last checkpoint and what came after it
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class Outrun(Exception):
    """Another commit took the version that this one was made for. Never leaves the warehouse layer."""


@dataclass(frozen=True)
class State:
    """The files of one version. The folder says what a file is.

    ``base/``: the view's rows, every tuple once. ``net/``: the netted log, no two rows with the same hash; an ``old``
    row is the one row of the base that has its hash, a ``new`` row is not in the base. ``log/``: what was appended
    since, and what would break these rules.
    """

    version: int
    files: tuple[DataFile, ...]
    arrival: int | None = None  # when set, log rows after it do not count

    def names(self, *folders: str) -> list[str]:
        return [file.name for file in self.files if file.name.startswith(folders)]

    def files_in(self, *folders: str) -> list[DataFile]:
        return [file for file in self.files if file.name.startswith(folders)]

    def bytes(self, *folders: str) -> int:
        return sum(file.size for file in self.files_in(*folders))

    def rows(self, *folders: str) -> int:
        return sum(file.rows for file in self.files_in(*folders))

    def weights(self, *folders: str) -> tuple[float, float]:
        """Bounds of the weights in some files; where there are none, any will do."""
        known = [file.weights or (-inf, inf) for file in self.files_in(*folders)] or [(1, 1)]
        return min(low for low, _ in known), max(high for _, high in known)


class DeltaLog:
    """One table's log."""

    def __init__(self, place: Place, table: DeltaTable) -> None:
        self.place = place
        self._table = table
        self._turn = threading.RLock()  # appends and compactions of one process share the handle
        configuration = table.metadata().configuration
        if configuration.get(LAYOUT) != OUR_LAYOUT:
            maker = "another version of Weir" if LAYOUT in configuration else "somebody else"
            raise NotAView(
                f"the Delta table at '{place.uri}' was not made by Weir but by {maker}; it is left alone. "
                f"Give the view another path."
            )
        self.schema = Schema.parse(configuration[COLUMNS])
        self.identity = str(table.metadata().id)  # Delta's own; a table made anew at the same place has another
        self.hash_bits = int(configuration[HASH_BITS])
        self.arrow = stored_arrow(self.schema)

    # -- opening and creating ---------------------------------------------------------------------------------------

    @classmethod
    def open(cls, place: Place) -> DeltaLog:
        return cls(place, open_table(place))

    @classmethod
    def create(cls, place: Place, schema: Schema, name: str, hash_bits: int, after: int = 0) -> DeltaLog:
        """Version 0: the columns and no rows. ``after``: the last arrival number that a table before it has given."""
        refuse_occupied(place)
        configuration = {LAYOUT: OUR_LAYOUT, COLUMNS: str(schema), HASH_BITS: str(hash_bits)}
        configuration |= {"delta.enableExpiredLogCleanup": "false"}  # what is forgotten is Weir's decision
        record = Record(CREATE, {}, last_arrival=after, transaction=0, token=uuid.uuid4().hex)
        try:
            table = place.writing(
                lambda: DeltaTable.create(
                    place.uri,
                    schema=stored_arrow(schema),
                    name=name,
                    configuration=configuration,
                    storage_options=dict(place.options) if place.options else None,
                    commit_properties=CommitProperties(custom_metadata={APPLICATION: record.document()}),
                    raise_if_key_not_exists=False,
                )
            )
        except DeltaError as problem:
            raise place.cannot_write(problem) from problem
        return cls(place, table)

    # -- looking ----------------------------------------------------------------------------------------------------

    def latest(self) -> int:
        """The newest version, also when another process wrote it."""
        with self._turn:
            try:
                self._table.update_incremental()
            except (DeltaError, OSError) as problem:
                raise why_unreadable(self.place, problem) from problem
            return int(self._table.version())

    def head(self) -> Record:
        """What the newest commit says. Reads that commit and nothing else."""
        return self.record(self.latest())

    def record(self, version: int) -> Record:
        """What a version's commit says; a commit of somebody else's that touched no file is looked through."""
        actions = self.actions(version)
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        if APPLICATION in info:
            record = Record.parse(info[APPLICATION], version, info.get("timestamp", 0))
            added = sum(action["add"]["size"] for action in actions if "add" in action)
            if added != record.bytes:
                wrong = f"adds {added} bytes of rows and says {record.bytes}: lines of it are missing"
                raise self.place.damaged(f"{commit_name(version)} {wrong}")
            return record
        if version > 0 and not any("add" in action or "remove" in action for action in actions):
            return replace(self.record(version - 1), version=version)
        if not info and _is_ours(actions):
            raise self.place.damaged(f"{commit_name(version)} has lost its line commitInfo")
        raise NotAView(
            f"version {version} of the table at '{self.place.uri}' was not written by Weir "
            f"(operation {info.get('operation', 'unknown')}): its source positions are unknown. "
            f"Build the view anew at another path, and publish it for tools that rewrite tables."
        )

    def actions(self, version: int) -> list[dict[str, Any]]:
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
        """The versions whose commits are kept, oldest first."""
        names = [name.rpartition("/")[2] for name in self.place.listing(LOG)]
        commits = [name for name in names if len(name) == 25 and name.endswith(".json") and name[:20].isdigit()]
        return sorted(int(name[:20]) for name in commits)

    def state(self, version: int | None = None) -> State:
        """The files of a version; None is the newest."""
        with self._turn:
            newest = self.latest()
            table = self._table if version in (None, newest) else open_table(self.place, version)
            actions = table.get_add_actions(flatten=True)
        return State(newest if version is None else version, _files(actions))

    # -- committing -------------------------------------------------------------------------------------------------

    def commit(self, expected: int, record: Record, added: Sequence[DataFile], removed: Sequence[DataFile]) -> int:
        """Makes version ``expected + 1``, all or nothing, or raises Outrun or CannotWrite."""
        marked = replace(record, token=uuid.uuid4().hex)
        with self._turn:
            if self.latest() != expected:
                raise Outrun
            try:
                self._write(marked, added, removed)
            except (DeltaError, OSError) as problem:
                # The answer may have been lost after the commit was made: the log itself says what happened.
                if self.latest() == expected:
                    raise self.place.cannot_write(problem) from problem
                if self.record(expected + 1).token != marked.token:
                    raise Outrun from problem
            self._checkpoint(expected + 1)
        return expected + 1

    def _write(self, record: Record, added: Sequence[DataFile], removed: Sequence[DataFile]) -> None:
        now, changes = int(time.time() * 1000), record.kind not in (NET, FOLD)
        actions = [AddAction(f.name, f.size, {}, now, changes, f.statistics) for f in added]
        actions += [RemoveAction(f.name, changes, now, f.size, {}) for f in removed]
        properties = CommitProperties(
            custom_metadata={APPLICATION: record.document()},
            max_commit_retries=0,
            app_transactions=[Transaction(APPLICATION, record.transaction, now)],
        )
        self._table.create_write_transaction(
            actions, "append", self.arrow, commit_properties=properties, post_commithook_properties=NO_HOOKS
        )

    def _checkpoint(self, version: int) -> None:
        if version % CHECKPOINT_EVERY == 0:
            try:
                self.latest()
                self._table.create_checkpoint()
            except (DeltaError, OSError):
                return  # a checkpoint only saves time: the commit stands, and the next checkpoint covers this one


def _files(actions: Any) -> tuple[DataFile, ...]:
    """From the table of a version's files; clients keep bounds of the first columns only, so they may be missing."""
    bounds = [f"{bound}.{WEIGHT}" for bound in ("min", "max")]
    if not set(bounds) <= set(actions.schema.names):
        bounds = []
    columns = [actions.column(name).to_pylist() for name in ("path", "size_bytes", "num_records", *bounds)]
    return tuple(_file(*row) for row in zip(*columns, strict=True))


def _file(name: str, size: int, rows: int, low: int | None = None, high: int | None = None) -> DataFile:
    return DataFile(name, size, rows, weights=None if low is None or high is None else (low, high))


def _is_ours(actions: Sequence[Mapping[str, Any]]) -> bool:
    return any(action.get("txn", {}).get("appId") == APPLICATION for action in actions)


def commit_name(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def open_table(place: Place, version: int | None = None) -> DeltaTable:
    try:
        return DeltaTable(place.uri, version=version, storage_options=dict(place.options) if place.options else None)
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
