"""Forgetting old states, and deleting files that no kept state names.

What is kept is what the log holds: a version is addressable while its commit file is there. So the commits go first,
oldest first, behind a checkpoint; the other files go after. A crash in between leaves orphans, never a hole.

A commit names files with rows, with vectors, of the change feed, with the states inside its batch and with what is
owed. The row index belongs to the newest version alone: a run that covers none of its files is not needed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import unquote

from deltalake.exceptions import DeltaError

from weir.warehouse.addressing import find_version
from weir.warehouse.damage import checkpoints
from weir.warehouse.delta_log import APPLICATION, DeltaLog, open_table
from weir.warehouse.index_runs import INDEX, open_run
from weir.warehouse.place import LOG
from weir.warehouse.record import AsOf
from weir.warehouse.replaying import commit_name
from weir.warehouse.vectors import DeletionVector

GRACE = timedelta(hours=1)


def forget(log: DeltaLog, before: AsOf) -> list[str]:
    oldest, _ = find_version(log, before)
    while not log.is_ours(oldest):  # another tool's commit says nothing of the view: the one before it stays, too
        oldest -= 1
    stale = [version for version in log.versions() if version < oldest]
    if not stale:
        return []
    forgotten = set(_referenced(log)) - set(_referenced(log, oldest))
    _checkpoint(log, oldest)
    for version in stale:
        log.place.writing(partial(log.place.files.delete_file, commit_name(version)))
    log.place.discard(name for name in log.place.listing(LOG) if _version_of(name) in range(oldest))
    log.place.discard(forgotten)
    return sorted(forgotten)


def clean_orphans(log: DeltaLog, older_than: timedelta) -> list[str]:
    limit = datetime.now(UTC) - older_than
    found = {name: written for name, written in log.place.listing().items() if not name.startswith(f"{LOG}/")}
    referenced = set(_referenced(log))  # after the listing: what was committed meanwhile is no orphan
    old = [name for name, written in found.items() if written <= limit]
    orphans = [name for name in old if not name.startswith(INDEX) and name not in referenced]
    orphans += _needless_runs(log, [name for name in old if name.startswith(INDEX)])
    log.place.discard(orphans)
    return sorted(orphans)


def _needless_runs(log: DeltaLog, names: list[str]) -> list[str]:
    """Runs that cover no file of the newest version, and what is no run."""
    files = log.state().files
    runs = {name: open_run(log.place, name, checked=False) for name in names}
    return [name for name, run in runs.items() if run is None or files.keys().isdisjoint(run.names)]


def _referenced(log: DeltaLog, oldest: int | None = None) -> list[str]:
    """Every data file that a kept version names: those of the oldest, and all that were added since.

    Where a commit is missing nobody knows what it has added, so nothing may be deleted.
    """
    versions = [version for version in log.versions() if oldest is None or version >= oldest]
    for version in range(versions[0], versions[-1]):
        if version not in versions:
            raise log.place.damaged(f"{commit_name(version)} is missing, so no file is deleted")
    names = [name for file in log.state(versions[0]).files.values() for name in _names_of(file.name, file.vector)]
    for version in versions:
        names += [name for action in log.actions(version) for name in _named(action)]
    return names


def _named(action: dict[str, Any]) -> list[str]:
    """The files that one line of a commit names."""
    if "cdc" in action:
        return [unquote(action["cdc"]["path"])]
    if "add" in action:
        vector = action["add"].get("deletionVector")
        return _names_of(unquote(action["add"]["path"]), DeletionVector.parse(vector) if vector else None)
    told = action.get("commitInfo", {}).get(APPLICATION, {})
    return [*told.get("inside", ()), *([told["owed"]] if told.get("owed") else [])]


def _names_of(name: str, vector: DeletionVector | None) -> list[str]:
    kept = vector.file if vector is not None else None
    return [name] if kept is None else [name, kept]


def _checkpoint(log: DeltaLog, version: int) -> None:
    """The oldest kept version must be readable without the commits before it."""
    if version in checkpoints(log.place.listing(LOG)):
        return
    try:
        open_table(log.place, version).create_checkpoint()
    except (DeltaError, OSError) as problem:
        raise log.place.cannot_write(problem) from problem


def _version_of(name: str) -> int:
    digits = name.rpartition("/")[2][:20]
    return int(digits) if digits.isdigit() else -1
