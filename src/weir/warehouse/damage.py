"""What is wrong with a table that cannot be read, in words: which file, and what is the matter with it.

Also what such a table still tells: the last arrival number that it has given. A table made anew in its place goes on
after that number, so that no number ever means two states.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from weir.warehouse.columns import ARRIVAL
from weir.warehouse.errors import CannotRead, NotAView, StoreError
from weir.warehouse.place import LOG, OURS, Place, first_line
from weir.warehouse.statistics import DataFile

DATA = ("rows/", "_change_data/", f"{OURS}/", "part-", "deletion_vector_")  # files that belong to a table
OLDER = ("base/", "net/", "log/")  # the same in older layouts
HINT = f"{LOG}/_last_checkpoint"
COMMIT = re.compile(rf"{LOG}/(\d{{20}})\.json")
CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint(?:\.\d+\.(\d+))?\.parquet")  # or one of so many parts of it


def why_unreadable(place: Place, problem: object) -> StoreError:
    """The error for a table that Delta refuses to open: Delta's own words name no file and bring a backtrace."""
    try:
        if not place.has_table():
            return _no_table(place, problem)
        wrong = next(_faults_of_log(place), f"Delta cannot read its log: {first_line(problem)}")
    except OSError as unreadable:
        return cannot_read(place, unreadable)
    return place.damaged(wrong)


def _no_table(place: Place, problem: object) -> StoreError:
    if rows := leftovers(place):
        return place.damaged(f"its log, the folder {LOG}, is gone; {len(rows)} files of it are left")
    return NotAView(
        f"'{place.uri}' is not a Delta table that can be read: {first_line(problem)}. "
        f"Create the view there, or correct the path."
    )


def cannot_read(place: Place, problem: OSError) -> CannotRead:
    return CannotRead(
        f"the table at '{place.uri}' cannot be read: {_reason(problem)}; give this account the right to read and write "
        f"there, and to all that is in it"
    )


def leftovers(place: Place) -> list[str]:
    """Files of a table, of whichever state."""
    return [name for name in place.listing() if name.startswith(DATA + OLDER)]


# -- the log -----------------------------------------------------------------------------------------------------------


def _faults_of_log(place: Place) -> Iterator[str]:
    """Newest first: what was written last is what a crash of the machine has most often left half written."""
    names = sorted(place.listing(LOG), reverse=True)
    commits = numbered(names, COMMIT)
    found = checkpoints(names)
    for version in commits:
        yield from _fault_of_commit(place, commits[version])
    if 0 not in commits:
        yield from _fault_of_hint(place, names, found)
    yield from _missing_commits(commits, max(found, default=-1) + 1)
    for name in (name for files in found.values() for name in files):
        if (problem := _parquet_problem(place, name)) is not None:
            yield f"{name} is no checkpoint any more ({problem})"
    yield from _fault_of_hint(place, names, found)
    yield from _missing_commits(commits, min(commits, default=0))  # of an older state that was asked for


def numbered(names: Iterable[str], kind: re.Pattern[str]) -> dict[int, str]:
    return {int(found[1]): name for name in names if (found := kind.fullmatch(name))}


def checkpoints(names: Iterable[str]) -> dict[int, list[str]]:
    """The files of each version's: one, or as many parts as some engines write, if all of them are there."""
    found = defaultdict[tuple[int, int], list[str]](list)
    for name in names:
        if match := CHECKPOINT.fullmatch(name):
            found[int(match[1]), int(match[2] or 1)].append(name)
    return {version: files for (version, parts), files in found.items() if len(files) == parts}


def _fault_of_commit(place: Place, name: str) -> Iterator[str]:
    try:
        parsed_commit(place.read_bytes(name))
    except OSError as problem:
        yield f"{name} cannot be read ({_reason(problem)})"
    except ValueError as problem:
        yield f"{name} {problem}"


def parsed_commit(content: bytes) -> list[dict[str, Any]]:
    """A commit's actions; a ValueError says what is wrong with the file."""
    actions = [_action(line, number) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    if not actions:
        raise ValueError("is empty")
    if not any(action.keys() & KNOWN for action in actions):
        raise ValueError("holds no action that Delta knows")
    return actions


KNOWN = {"commitInfo", "add", "remove", "metaData", "protocol", "txn", "domainMetadata", "cdc"}


def _action(line: bytes, number: int) -> dict[str, Any]:
    try:
        action = json.loads(line)
    except ValueError:  # also what is no text at all
        action = None
    if not isinstance(action, dict):
        raise ValueError(f"is cut off or overwritten: line {number} is no JSON object")
    return action


def _missing_commits(commits: Iterable[int], first: int) -> Iterator[str]:
    known = set(commits)
    for version in range(first, max(known, default=-1)):
        if version not in known:
            yield f"{LOG}/{version:020}.json is missing, and there are later commits"


def hint_is_wrong(place: Place) -> bool:
    """Whether there is one that names no checkpoint."""
    if not place.exists(HINT):
        return False
    names = place.listing(LOG)
    return next(_fault_of_hint(place, names, checkpoints(names)), None) is not None


def _fault_of_hint(place: Place, names: Iterable[str], checkpoints: Iterable[int]) -> Iterator[str]:
    if HINT not in names:
        return
    try:
        named = json.loads(place.read_bytes(HINT))["version"]
    except (OSError, ValueError, KeyError, TypeError):
        yield f"{HINT} cannot be understood"
        return
    if named not in checkpoints:
        yield f"{HINT} names the checkpoint of version {named}, which is not there"


# -- files with rows ---------------------------------------------------------------------------------------------------


def check_files(place: Place, files: Iterable[DataFile]) -> None:
    """Refuses a state of which a file is missing or has not the size that its commit says."""
    held = list(files)
    wanted = {file.name: file.size for file in held}
    vectors = dict[str, int]()  # how long their files must be at least
    for vector in (file.vector for file in held if file.vector is not None):
        if vector.file is not None:
            vectors[vector.file] = max(vectors.get(vector.file, 0), vector.end)
    try:
        sizes = place.sizes([*wanted, *vectors])
    except OSError as problem:
        raise cannot_read(place, problem) from problem
    for name in (*wanted, *sorted(vectors)):
        if (size := sizes.get(name)) is None:
            raise place.damaged(f"{name} is missing")
        if size != wanted.get(name, size):
            raise place.damaged(f"{name} has {size} bytes, its commit says {wanted[name]}")
        if size < vectors.get(name, 0):
            raise place.damaged(f"{name} is cut off: it has {size} bytes, its vectors need {vectors[name]}")


def _parquet_problem(place: Place, name: str) -> str | None:
    try:
        with place.files.open_input_file(name) as source:
            pq.ParquetFile(source)
    except (OSError, pa.ArrowException) as problem:
        return first_line(problem)
    return None


# -- what is still known -----------------------------------------------------------------------------------------------


def last_known_arrival(place: Place) -> int:
    """The greatest arrival number that any commit or any file with rows still tells; 0 when none does."""
    names = place.listing()
    commits = [name for name in names if COMMIT.fullmatch(name)]
    rows = [name for name in names if name.startswith(DATA + OLDER) and name.endswith(".parquet")]
    told = [_told_by_commit(place, name) for name in commits] + [_told_by_rows(place, name) for name in rows]
    return max(told, default=0)


def _told_by_commit(place: Place, name: str) -> int:
    """From as many of its lines as can be read."""
    found = 0
    try:
        for line in place.read_bytes(name).splitlines():
            record = json.loads(line)["commitInfo"]["weir"]
            found = max(found, int(record["last_arrival"]))
    except (OSError, ValueError, KeyError, TypeError):
        return found
    return found


def _told_by_rows(place: Place, name: str) -> int:
    try:
        with place.files.open_input_file(name) as source:
            footer = pq.ParquetFile(source).metadata
        if (told := (footer.metadata or {}).get(ARRIVAL.encode())) is not None:
            return int(told)
        at = footer.schema.names.index(ARRIVAL)
        bounds = [footer.row_group(group).column(at).statistics for group in range(footer.num_row_groups)]
        return max((int(each.max) for each in bounds if each is not None and each.has_min_max), default=0)
    except (OSError, ValueError, pa.ArrowException):
        return 0


def _reason(problem: OSError) -> str:
    return problem.strerror or first_line(problem)
