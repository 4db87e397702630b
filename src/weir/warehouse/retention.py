"""Forgetting old states, and deleting files that no kept state names.

What is kept is what the log holds: a version is addressable while its commit file is there. So the commits go first,
oldest first, behind a checkpoint; the data files go after. A crash in between leaves orphans, never a hole.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import unquote

from deltalake.exceptions import DeltaError

from weir.warehouse.addressing import find_version
from weir.warehouse.delta_log import DeltaLog, commit_name, open_table
from weir.warehouse.place import LOG
from weir.warehouse.record import AsOf

GRACE = timedelta(hours=1)


def forget(log: DeltaLog, before: AsOf) -> list[str]:
    oldest, _ = find_version(log, before)
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
    orphans = sorted(name for name, written in found.items() if written <= limit and _data_name(name) not in referenced)
    log.place.discard(orphans)
    return orphans


def _data_name(name: str) -> str:
    """A checksum beside a data file goes when that file goes."""
    folder, _, file = name.rpartition("/")
    return f"{folder}/{file[1:-4]}" if file.startswith(".") and file.endswith(".crc") else name


def _referenced(log: DeltaLog, oldest: int | None = None) -> list[str]:
    """Every data file that a kept version names: those of the oldest, and all that were added since.

    Where a commit is missing nobody knows what it has added, so nothing may be deleted.
    """
    versions = [version for version in log.versions() if oldest is None or version >= oldest]
    for version in range(versions[0], versions[-1]):
        if version not in versions:
            raise log.place.damaged(f"{commit_name(version)} is missing, so no file is deleted")
    names = log.state(versions[0]).names("")
    for version in versions[1:]:
        names += [unquote(action["add"]["path"]) for action in log.actions(version) if "add" in action]
    return names


def _checkpoint(log: DeltaLog, version: int) -> None:
    """The oldest kept version must be readable without the commits before it."""
    if any("checkpoint" in name and _version_of(name) == version for name in log.place.listing(LOG)):
        return
    try:
        open_table(log.place, version).create_checkpoint()
    except (DeltaError, OSError) as problem:
        raise log.place.cannot_write(problem) from problem


def _version_of(name: str) -> int:
    digits = name.rpartition("/")[2][:20]
    return int(digits) if digits.isdigit() else -1
