"""The layout of the folder: which snapshots a table has, and which of them are complete.

::

    FOLDER/TABLE/NAME/part-*.parquet + _SUCCESS     as Spark and Hadoop jobs write it, the marker last
    FOLDER/TABLE/NAME/*.csv + _MANIFEST.json        the manifest, written last, lists the files
    FOLDER/TABLE/NAME.parquet                       one file: its footer, written last, tells that it is whole

Names order snapshots as text does. A name that begins with ``_`` or ``.`` is nobody's snapshot, so a producer can
write under such a name and rename. What is not complete is never read: a missing file is not a mass delete.

The manifest is ``{"files": [{"name": "a.csv", "bytes": 120, "rows": 7}, ...]}``; bytes and rows may be left out.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SUCCESS, MANIFEST = "_SUCCESS", "_MANIFEST.json"
FORMATS = ("parquet", "csv")


@dataclass(frozen=True)
class SourceFile:
    """One file as it was when we looked."""

    path: Path
    size: int
    modified: int  # nanoseconds
    rows: int | None = None  # as the manifest promises

    @classmethod
    def of(cls, path: Path, rows: int | None = None) -> SourceFile:
        facts = path.stat()
        return cls(path, facts.st_size, facts.st_mtime_ns, rows)


@dataclass(frozen=True)
class TableSnapshot:
    """One complete snapshot of one table."""

    table: str
    name: str
    format: str
    files: tuple[SourceFile, ...]
    place: Path = field(compare=False)  # the folder or file that is the snapshot

    @property
    def fingerprint(self) -> str:
        """Tells another state of the same files."""
        facts = [(file.path.name, file.size, file.modified) for file in self.files]
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]

    @property
    def paths(self) -> list[str]:
        return [str(file.path) for file in self.files]

    def is_unchanged(self) -> bool:
        """Whether every file is still the one we looked at."""
        try:
            return all(SourceFile.of(file.path, file.rows) == file for file in self.files)
        except OSError:
            return False


class Incomplete(Exception):
    """Why a snapshot cannot be read yet."""


@dataclass(frozen=True)
class Shelf:
    """The folder of one table."""

    folder: Path
    table: str
    trust_renames: bool = False

    def names(self, after: str = "") -> list[str]:
        """Names of snapshots, complete or not, in order."""
        return sorted({name for path in self._entries() if (name := _name(path)) > after})

    def _entries(self) -> Iterator[Path]:
        place = self.folder / self.table
        try:
            yield from (path for path in place.iterdir() if _is_ours(path))
        except OSError:
            return

    def open(self, name: str) -> TableSnapshot:
        """The complete snapshot of this name, or Incomplete with the reason."""
        places = [path for path in self._entries() if _name(path) == name]
        if not places:
            raise Incomplete("it is not there")
        if len(places) > 1:
            raise Incomplete(f"there are {' and '.join(sorted(p.name for p in places))}: keep one of them")
        try:
            return self._open(places[0], name)
        except OSError as problem:
            raise Incomplete(f"it cannot be read: {problem.strerror or problem}") from None

    def delete_before(self, name: str) -> None:
        """Deletes older snapshots: hidden first, so that nobody sees half of one."""
        for path in list(self._entries()):
            if _name(path) < name:
                hidden = path.rename(path.with_name(f"_{path.name}"))
                shutil.rmtree(hidden) if hidden.is_dir() else hidden.unlink()

    def _open(self, place: Path, name: str) -> TableSnapshot:
        files = _listed(place) if place.is_dir() else self._single(place)
        formats = {file.path.suffix.removeprefix(".") for file in files}
        if len(formats) > 1:
            raise Incomplete("it mixes Parquet and CSV files")
        format_ = formats.pop() if formats else "parquet"
        if format_ == "parquet":
            _check_footers(files)
        return TableSnapshot(self.table, name, format_, tuple(files), place)

    def _single(self, place: Path) -> list[SourceFile]:
        if place.suffix == ".csv" and not self.trust_renames:
            raise Incomplete(
                "nothing tells whether a CSV file by itself is whole: put it into a folder with the marker "
                f"{SUCCESS} or a {MANIFEST}, or set trust_renames = true if finished files are renamed into place"
            )
        return [SourceFile.of(place)]


def _is_ours(path: Path) -> bool:
    if path.name.startswith(("_", ".")):
        return False
    return path.suffix.removeprefix(".") in FORMATS or path.is_dir()


def _name(path: Path) -> str:
    return path.stem if path.suffix.removeprefix(".") in FORMATS and not path.is_dir() else path.name


def _listed(folder: Path) -> list[SourceFile]:
    """The files of a snapshot that is a folder, once its marker is there."""
    there = sorted(path for path in folder.iterdir() if not path.name.startswith(("_", ".")))
    if (folder / MANIFEST).exists():
        return _as_promised(folder, {path.name for path in there})
    if not (folder / SUCCESS).exists():
        raise Incomplete(f"it has neither {SUCCESS} nor {MANIFEST}: still being written, or its producer failed")
    if strangers := [path.name for path in there if path.suffix.removeprefix(".") not in FORMATS]:
        raise Incomplete(f"{strangers[0]} is neither a .parquet nor a .csv file (folders inside are not read)")
    if not there:
        raise Incomplete("it has a marker and no file: an empty table is a file without rows")
    return [SourceFile.of(path) for path in there]


def _as_promised(folder: Path, there: set[str]) -> list[SourceFile]:
    """The files of the manifest, each as large as it says; no others."""
    try:
        promised = {str(file["name"]): file for file in json.loads((folder / MANIFEST).read_text("utf-8"))["files"]}
    except (ValueError, KeyError, TypeError):
        raise Incomplete(f"its {MANIFEST} is no list of files: half-written, or not as documented") from None
    if missing := sorted(promised.keys() - there):
        raise Incomplete(f"{missing[0]} is in its {MANIFEST} and not there ({len(missing)} missing)")
    if more := sorted(there - promised.keys()):
        raise Incomplete(f"{more[0]} is there and not in its {MANIFEST}")
    files = [SourceFile.of(folder / name, promised[name].get("rows")) for name in sorted(promised)]
    for file in files:
        size = promised[file.path.name].get("bytes", file.size)
        if size != file.size:
            raise Incomplete(f"{file.path.name} has {file.size} bytes, its {MANIFEST} says {size}")
        if file.path.suffix.removeprefix(".") not in FORMATS:
            raise Incomplete(f"{file.path.name} is neither a .parquet nor a .csv file")
    if not files:
        raise Incomplete(f"its {MANIFEST} lists no file: an empty table is a file without rows")
    return files


def _check_footers(files: list[SourceFile]) -> None:
    """A Parquet file ends with its footer: one that was cut has none."""
    for file in files:
        try:
            rows = pq.read_metadata(file.path).num_rows
        except (pa.ArrowException, OSError):
            raise Incomplete(f"{file.path.name} has no whole Parquet footer: torn, or still being written") from None
        if file.rows is not None and file.rows != rows:
            raise Incomplete(f"{file.path.name} has {rows} rows, its {MANIFEST} says {file.rows}")
