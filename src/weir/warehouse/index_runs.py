"""Runs of the row index: sorted hashes, and for each the file and the number of the row that has it.

A run lies in one Arrow file below ``_weir/index/`` that is mapped into memory, so that a look-up reads the few pages
that it needs. The run itself says which data files it covers. Data files never change, so a run is right for ever; one
that is damaged or missing, or made of other hashes, is made again from the data files.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.warehouse.place import OURS, Place
from weir.warehouse.row_hash import HASHING

INDEX = f"{OURS}/index/"
LARGE = 50_000  # rows of a data file that gets a run of its own; smaller ones are indexed in memory
_NAMES, _SUM, _HASHING = b"files", b"sum", b"hashing"
NumberArray = npt.NDArray[Any]


@dataclass(frozen=True)
class IndexRun:
    """Entries sorted by hash: file ``names[file[i]]`` has at ``row[i]`` a row of hash ``hash[i]``."""

    names: tuple[str, ...]
    hash: NumberArray
    file: NumberArray
    row: NumberArray
    stored: str = ""  # where it lies; empty: in memory only

    def __len__(self) -> int:
        return len(self.hash)


def run_of(hashes: Mapping[str, NumberArray]) -> IndexRun:
    """Of some files, given by the hashes of their rows."""
    names, parts = tuple(hashes), list(hashes.values())
    together = np.concatenate(parts) if parts else np.empty(0, np.int64)
    files = np.repeat(np.arange(len(parts), dtype=np.uint32), [len(part) for part in parts])
    rows = np.concatenate([np.arange(len(part), dtype=np.uint32) for part in parts]) if parts else files
    return _sorted(names, together, files, rows)


def merged(runs: Sequence[IndexRun], wanted: frozenset[str]) -> IndexRun:
    """Several as one, with every file once, and without those that are not wanted."""
    numbers, parts = dict[str, int](), []
    for run in runs:
        fresh = [name for name in run.names if name in wanted and name not in numbers]
        mine = {name: len(numbers) + number for number, name in enumerate(fresh)}
        numbers |= mine
        renumbered = np.array([mine.get(name, -1) for name in run.names], dtype=np.int64)[run.file]
        kept = renumbered >= 0
        parts.append((run.hash[kept], renumbered[kept].astype(np.uint32), run.row[kept]))
    hashes, files, rows = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return _sorted(tuple(numbers), hashes, files, rows)


def _sorted(names: tuple[str, ...], hashes: NumberArray, files: NumberArray, rows: NumberArray) -> IndexRun:
    order = np.argsort(hashes, kind="stable")
    return IndexRun(names, hashes[order], files[order], rows[order])


# -- files -------------------------------------------------------------------------------------------------------------


def write_run(place: Place, hashes: Mapping[str, NumberArray]) -> str:
    return store_run(place, run_of(hashes)).stored


def store_run(place: Place, run: IndexRun) -> IndexRun:
    """The same run, in a file; its name is new."""
    columns = [pa.array(values) for values in (run.hash, run.file, run.row)]
    about = {_NAMES: json.dumps(run.names), _SUM: str(_checksum(run)), _HASHING: HASHING}
    table = pa.table(columns, names=["hash", "file", "row"]).replace_schema_metadata(about)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    name = place.new_name(INDEX, ".arrow")
    place.write_bytes(sink.getvalue(), name)
    return IndexRun(run.names, run.hash, run.file, run.row, name)


def open_run(place: Place, name: str, checked: bool = True) -> IndexRun | None:
    """None: it is no run any more."""
    try:
        source = pa.memory_map(str(Path(place.uri, name))) if place.is_local else pa.py_buffer(place.read_bytes(name))
        table = pa.ipc.open_file(source).read_all()
        about = table.schema.metadata
        hashes, files, rows = (table.column(each).combine_chunks().to_numpy() for each in ("hash", "file", "row"))
        run = IndexRun(tuple(json.loads(about[_NAMES])), hashes, files, rows, name)
        if about.get(_HASHING) != HASHING.encode():
            return None
        return run if not checked or _checksum(run) == int(about[_SUM]) else None
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _checksum(run: IndexRun) -> int:
    """Of the numbers, which nothing else would find wrong."""
    found = 0
    for values in (run.hash, run.file, run.row):
        found = zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data, found)
    return found
