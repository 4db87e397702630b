"""CSV becomes Parquet once, with declared types, and is read from there: one reading of the text, whoever reads.

A value that does not fit its type is refused by file, row and column. Unquoted, the NULL text is NULL; quoted it is
itself. The header names the columns, in any order; columns that are not declared are ignored.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.types import Schema
from weir.scratch import PrivateFolder, machine_place
from weir.sources.files.options import FilesOptions
from weir.sources.files.snapshots import Incomplete, SourceFile, TableSnapshot
from weir.sources.source import LOAD_AGAIN, SchemaChanged, SourceError

_COLUMN = re.compile(r"In CSV column #(\d+): ")


class WorkFolder:
    """Where copies are kept, with one user at first; a temporary one goes with its last user."""

    def __init__(self, path: str) -> None:
        self._own = None if path else PrivateFolder(machine_place())  # ours to remove
        self.path = Path(path) if self._own is None else self._own.path
        self._users, self._counting = 1, threading.Lock()

    def shared(self) -> WorkFolder:
        """For one more user."""
        with self._counting:
            self._users += 1
        return self

    def leave(self) -> None:
        with self._counting:
            self._users -= 1
            if self._users or self._own is None:
                return
        self._own.close()


@dataclass(frozen=True)
class CsvCopies:
    """The folder in which CSV snapshots are kept as Parquet."""

    options: FilesOptions
    folder: Path

    def copy_of(self, snapshot: TableSnapshot, schema: Schema) -> TableSnapshot:
        """The same snapshot as Parquet, made when it is not there yet."""
        folder = self.folder / snapshot.table / snapshot.name / f"{snapshot.fingerprint}-{_mark(schema)}"
        folder.mkdir(parents=True, exist_ok=True)
        targets = [folder / f"{number:05}.parquet" for number in range(len(snapshot.files))]
        for file, target in zip(snapshot.files, targets, strict=True):
            if not target.exists():
                self._convert(file, target, schema, snapshot.table)
        return replace(snapshot, format="parquet", files=tuple(map(SourceFile.of, targets)), place=folder)

    def forget_before(self, table: str, name: str) -> None:
        """Removes the copies of older snapshots."""
        there = self.folder / table
        for folder in there.iterdir() if there.exists() else ():
            if folder.name < name:
                shutil.rmtree(folder, ignore_errors=True)

    def _convert(self, file: SourceFile, target: Path, schema: Schema, table: str) -> None:
        unfinished = target.with_name(f".{target.name}")
        header: list[str] = []
        try:
            header = self._header(file.path)
            _check_header(header, schema, file.path, table, self.options.name)
            rows = self._write(file.path, unfinished, arrow_schema(schema))
        except pa.ArrowInvalid as problem:
            where, what = _explained(str(problem), header)
            raise SourceError(
                f"source '{self.options.name}': {file.path}{where}: {what}; mend the file, or remove this snapshot"
            ) from None
        if file.rows is not None and rows != file.rows:
            raise Incomplete(f"{file.path.name} has {rows} rows, its manifest says {file.rows}")
        unfinished.rename(target)

    def _header(self, path: Path) -> list[str]:
        parse = csv.ParseOptions(delimiter=self.options.delimiter, newlines_in_values=True)
        with csv.open_csv(path, csv.ReadOptions(use_threads=False), parse) as reader:
            return list(reader.schema.names)

    def _write(self, path: Path, target: Path, schema: pa.Schema) -> int:
        rows = 0
        with self._reader(path, schema) as reader, pq.ParquetWriter(target, schema) as writer:
            for batch in reader:
                rows += batch.num_rows
                writer.write_batch(batch.cast(schema))
        return rows

    def _reader(self, path: Path, schema: pa.Schema) -> Any:
        return csv.open_csv(
            path,
            read_options=csv.ReadOptions(use_threads=False),  # only so does an error tell its row
            parse_options=csv.ParseOptions(delimiter=self.options.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=schema,
                include_columns=schema.names,
                null_values=[self.options.null_text],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


def _mark(schema: Schema) -> str:
    """A copy made with other types is another copy."""
    return hashlib.sha256(str(schema).encode()).hexdigest()[:8]


def _check_header(header: Sequence[str], schema: Schema, path: Path, table: str, source: str) -> None:
    if doubled := {name for name in header if header.count(name) > 1 and name in schema.names}:
        raise SourceError(f"source '{source}': {path} has two columns named '{doubled.pop()}'")
    if missing := [name for name in schema.names if name not in header]:
        raise SchemaChanged(
            f"table {source}.{table}: {path} has no column '{missing[0]}'; it has {', '.join(header)}. Write it again "
            f"with that column, or change schema and views and {LOAD_AGAIN}"
        )


def _explained(problem: str, header: Sequence[str]) -> tuple[str, str]:
    """Where (row and column, the header being row 1) and what, from Arrow's words."""
    text = problem.splitlines()[0]
    column = _COLUMN.match(text)
    where = ""
    if column:
        text = text[column.end() :]
    if row := re.search(r"Row #(\d+): ", text):
        where = f", row {row[1]}"
        text = text[: row.start()] + text[row.end() :]
    if column:
        where += f", column '{header[int(column[1])]}'"
    return where, text
