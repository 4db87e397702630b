"""Where a table lies: a folder or a URI, reached by Spark, by ``deltalake``, by Arrow's file systems and, where a file
must be there once and for all, by ``obstore``, which has put-if-absent for folders and object stores alike.
"""

from __future__ import annotations

import os
import posixpath
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from obstore.exceptions import AlreadyExistsError, BaseError

from weir.warehouse.errors import CannotWrite, Damaged, StoreError

GLOB = "*?[]{}"  # Spark would expand these in a path
LOG, OURS = "_delta_log", "_weir"  # the folders of the log, and of what only Weir needs
WRITTEN = {"compression": "snappy", "store_decimal_as_integer": True}  # how rows are written: quick to read back
T = TypeVar("T")
Stamp = tuple[int | None, int | None]  # a file's size, and when it was written


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

    @cached_property
    def _store(self) -> Any:
        """The same for ``obstore``."""
        if self.is_local:
            return obstore.store.LocalStore(self.uri, mkdir=True)
        options: Any = dict(self.options or {})
        return obstore.store.from_url(self.uri, config=options)

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
        return self.read_table(name, columns)

    def read_table(self, name: str, columns: list[str]) -> pa.Table:
        """Some columns of a file, as they are."""
        return self._reading(
            name, lambda: pq.read_table(name, filesystem=self.files, columns=columns, partitioning=None)
        )

    def batches(self, name: str, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        """A file in parts of so many rows at most."""
        file = self._reading(name, lambda: pq.ParquetFile(name, filesystem=self.files))
        parts = file.iter_batches(rows, columns=columns)
        while (batch := self._reading(name, lambda: next(parts, None))) is not None:
            yield batch

    def read_rows(self, name: str, rows: Any, schema: pa.Schema) -> pa.Table:
        """Some rows of a file, given by ascending numbers; of its row groups only those that hold them are read."""

        def read() -> pa.Table:
            file = pq.ParquetFile(name, filesystem=self.files)
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            ends = np.cumsum(sizes, dtype=np.int64)
            owners = np.searchsorted(ends, rows, "right")
            groups = np.unique(owners)
            before = ends - np.asarray(sizes, dtype=np.int64)  # rows of the file before each group
            begins = np.cumsum([0, *(sizes[group] for group in groups)])[:-1]  # of each group among those read
            places = rows - before[owners] + begins[np.searchsorted(groups, owners)]
            read = file.read_row_groups(groups.tolist(), columns=schema.names)
            return read.select(schema.names).cast(schema).take(pa.array(places))

        return self._reading(name, read)

    def _reading(self, name: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except FileNotFoundError as problem:
            raise self.damaged(f"{name} is missing") from problem
        except (OSError, pa.ArrowException) as problem:
            raise self.damaged(f"{name} cannot be read ({first_line(problem)})") from problem

    def read_whole(self, name: str) -> bytes:
        """A file that must be there."""
        return self._reading(name, lambda: self.read_bytes(name))

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

    def stamp(self, name: str) -> Stamp | None:
        """What is another one when the file has been written anew. None: it cannot be looked at, who reads it says why.
        """
        try:
            info = self.files.get_file_info(name)
        except OSError:
            return None
        return info.size, info.mtime_ns

    def exists(self, name: str) -> bool:
        return bool(self.files.get_file_info(name).type == pafs.FileType.File)

    # -- writing ----------------------------------------------------------------------------------------------------

    def put_if_absent(self, content: bytes, name: str) -> bool:
        """A file that nobody else has written: all of it or nothing, whoever tries at the same time. False: there is
        one of this name.
        """
        try:
            obstore.put(self._store, name, content, mode="create")
        except (AlreadyExistsError, FileExistsError):
            return False
        except BaseError as problem:
            raise OSError(first_line(problem)) from problem
        return True

    def write_bytes(self, content: bytes, name: str) -> None:
        def write() -> None:
            with self.files.open_output_stream(self._ready(name)) as stream:
                stream.write(content)

        self._writing_file(name, write)

    def write_parquet(self, table: pa.Table, name: str) -> None:
        def write() -> None:
            pq.write_table(table, self._ready(name), filesystem=self.files, **WRITTEN)

        self._writing_file(name, write)

    def parquet_writer(self, name: str, schema: pa.Schema) -> pq.ParquetWriter:
        """For a file that is written in parts; whoever has it calls ``writing`` for each."""
        return self.writing(lambda: pq.ParquetWriter(self._ready(name), schema, filesystem=self.files, **WRITTEN))

    def _ready(self, name: str) -> str:
        """The name, of a file whose folder is there."""
        if self.is_local:
            self.files.create_dir(os.path.dirname(name), recursive=True)
        return name

    def _writing_file(self, name: str, write: Callable[[], None]) -> None:
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
