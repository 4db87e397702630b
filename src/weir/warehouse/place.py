"""Where a table lies: a folder or a URI, reached by Spark, by ``deltalake`` and, here, by Arrow's file systems."""

from __future__ import annotations

import os
import posixpath
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from weir.warehouse.errors import CannotWrite, Damaged, StoreError

GLOB = "*?[]{}"  # Spark would expand these in a path
LOG = "_delta_log"
T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """A table's folder. All names of files are relative to it."""

    uri: str
    options: Mapping[str, str] | None = None

    @classmethod
    def of(cls, path: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Place:
        text = os.fspath(path)
        if any(char in GLOB for char in text):
            raise StoreError(
                f"'{text}': a warehouse path must not hold any of {' '.join(GLOB)}, Spark would expand it; "
                f"rename the folder"
            )
        text = text.removeprefix("file://")
        return cls(text.rstrip("/") if "://" in text else os.path.abspath(text), options)

    def __reduce__(self) -> tuple[Any, ...]:
        return Place, (self.uri, dict(self.options) if self.options else None)  # the file system is opened anew

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri

    @cached_property
    def files(self) -> Any:
        """Arrow's file system with this folder as its root."""
        if self.is_local:
            return pafs.SubTreeFileSystem(self.uri, pafs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return pafs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options) if self.options else None))

    def spark_path(self, name: str) -> str:
        return f"file://{self.uri}/{name}" if self.is_local else f"{self.uri}/{name}"

    def has_table(self) -> bool:
        """Whether there is a Delta table, of whomever."""
        return any(name.endswith((".json", ".parquet")) for name in self.listing(LOG))

    def new_name(self, folder: str, suffix: str = ".parquet") -> str:
        """A name nobody has used: files are never overwritten."""
        return f"{folder}{uuid.uuid4().hex}{suffix}"

    # -- other tables -----------------------------------------------------------------------------------------------

    def path_to(self, other: Place) -> str:
        """The way from here to another table: a warehouse that is moved or copied as a whole keeps it."""
        (root, here), (there_root, there) = _split(self.uri), _split(other.uri)
        return posixpath.relpath(there, here) if root == there_root else other.uri

    def at(self, path: str) -> Place:
        """The table at the end of such a way, reached with the same options."""
        if "://" in path or path.startswith("/"):
            return Place.of(path, self.options)
        root, here = _split(self.uri)
        return Place(root + posixpath.normpath(posixpath.join(here, path)), self.options)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read_parquet(self, names: Iterable[str], schema: pa.Schema, columns: list[str] | None = None) -> pa.Table:
        wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
        tables = [self._read_file(name, wanted.names) for name in names]
        fitted = [table.select(wanted.names).cast(wanted) for table in tables]
        return pa.concat_tables(fitted) if fitted else wanted.empty_table()

    def _read_file(self, name: str, columns: list[str]) -> pa.Table:
        try:
            return pq.read_table(name, filesystem=self.files, columns=columns, partitioning=None)
        except FileNotFoundError as problem:
            raise self.damaged(f"{name} is missing") from problem
        except (OSError, pa.ArrowException) as problem:
            raise self.damaged(f"{name} cannot be read ({first_line(problem)})") from problem

    def damaged(self, wrong: str) -> Damaged:
        return Damaged(f"the table at '{self.uri}' is damaged: {wrong}")

    def read_bytes(self, name: str) -> bytes:
        with self.files.open_input_stream(name) as stream:
            return bytes(stream.readall())

    def listing(self, folder: str = "") -> dict[str, datetime]:
        """Every file below a folder, with the time it was last written."""
        found = self.files.get_file_info(pafs.FileSelector(folder, allow_not_found=True, recursive=True))
        return {info.path: info.mtime for info in found if info.type == pafs.FileType.File}

    def sizes(self, names: Sequence[str]) -> dict[str, int]:
        """Of the files named that are there. On local disks each is asked for, elsewhere one listing is quicker."""
        selector = names if self.is_local else pafs.FileSelector("", allow_not_found=True, recursive=True)
        found = self.files.get_file_info(selector)
        return {info.path: info.size for info in found if info.type == pafs.FileType.File}

    # -- writing ----------------------------------------------------------------------------------------------------

    def write_parquet(self, table: pa.Table, name: str) -> None:
        def write() -> None:
            if self.is_local:
                self.files.create_dir(os.path.dirname(name), recursive=True)
            pq.write_table(table, name, filesystem=self.files, compression="snappy")

        try:
            self.writing(write)
        except CannotWrite:
            self.discard([name])
            raise

    def writing(self, action: Callable[[], T]) -> T:
        """Runs something that writes here; what the disk or the store refuses becomes one clear error."""
        try:
            return action()
        except (OSError, pa.ArrowException) as problem:
            raise self.cannot_write(problem) from problem

    def cannot_write(self, problem: object) -> CannotWrite:
        reason = " ".join(str(problem).split()) or type(problem).__name__
        return CannotWrite(
            f"cannot write to the table at '{self.uri}': {reason}\n"
            f"Nothing was committed, the table reads as before. Make room or give write rights there, then run again."
        )

    def discard(self, names: Iterable[str]) -> None:
        """Deletes files that no commit will name; what cannot be deleted now is an orphan, cleaned later."""
        for name in names:
            try:
                self.files.delete_file(name)
            except (OSError, pa.ArrowException):
                continue


def first_line(problem: object) -> str:
    """What an error of others says, without its backtrace."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return (lines or [type(problem).__name__])[0].rstrip(".")


def _split(uri: str) -> tuple[str, str]:
    """Scheme and host, and the path below them."""
    scheme, found, rest = uri.partition("://")
    if not found:
        return "", uri
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}", f"/{path}"
