"""A Delta table written by hand: deletion vectors, change files and commits, from the protocol's text and nothing else.

It shares no code with Weir's own writer, so a mistake in the bytes cannot be on both sides of a test.
"""

from __future__ import annotations

import json
import struct
import time
import uuid
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Action = dict[str, Any]
Vector = dict[str, Any]  # a deletion vector's descriptor, as it stands in an ``add``

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
MAGIC = 1681511377
NO_RUNS = 12346  # the cookie of a portable Roaring bitmap without run containers
FEATURES = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors", "changeDataFeed"]}
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}


def z85(data: bytes) -> str:
    """Five characters for each four bytes; zeros fill up the last four."""
    text = ""
    for (number,) in struct.iter_unpack(">I", data + b"\0" * (-len(data) % 4)):
        text += "".join(DIGITS[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def bitmap(rows: Iterable[int]) -> bytes:
    """Row numbers below 65,536 as a Roaring bitmap array: one bitmap, one container, which lists them."""
    numbers = sorted(rows)
    header = struct.pack("<IIHHI", NO_RUNS, 1, 0, len(numbers) - 1, 16)
    return struct.pack("<IQI", MAGIC, 1, 0) + header + struct.pack(f"<{len(numbers)}H", *numbers)


def inline_vector(rows: Sequence[int]) -> Vector:
    data = bitmap(rows)
    return {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": len(rows)}


def vector_file(table: Path, prefix: str, *vectors: Sequence[int]) -> list[Vector]:
    """One file with all these vectors, in the folder ``prefix`` of the table."""
    name, content, made = uuid.uuid4(), b"\x01", []
    for rows in vectors:
        data = bitmap(rows)
        where = {"storageType": "u", "pathOrInlineDv": prefix + z85(name.bytes), "offset": len(content)}
        made.append({**where, "sizeInBytes": len(data), "cardinality": len(rows)})
        content += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (table / prefix).mkdir(exist_ok=True)
    (table / prefix / f"deletion_vector_{name}.bin").write_bytes(content)
    return made


@dataclass
class HandTable:
    """A table of two columns, ``a long, b string``; each ``commit`` is the next version."""

    path: Path
    version: int = -1

    def file(self, name: str, rows: Sequence[tuple[int, str | None]], **more: Sequence[Any]) -> tuple[str, int, int]:
        """Writes a Parquet file; its path in the table, its size in bytes and its number of rows."""
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        columns = {"a": pa.array([a for a, _ in rows], pa.int64()), "b": pa.array([b for _, b in rows], pa.string())}
        pq.write_table(pa.table({**columns, **more}), place)
        return name, place.stat().st_size, len(rows)

    def add(self, file: tuple[str, int, int], vector: Vector | None = None) -> Action:
        name, size, count = file
        told = {"path": name, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
        stats = {"numRecords": count, **({"tightBounds": False} if vector else {})}
        return {"add": {**told, "stats": json.dumps(stats), **({"deletionVector": vector} if vector else {})}}

    def remove(self, file: tuple[str, int, int], vector: Vector | None = None) -> Action:
        name, size, _ = file
        now = int(time.time() * 1000)
        told = {"path": name, "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}
        whole = {**told, "partitionValues": {}, "size": size}
        return {"remove": {**whole, **({"deletionVector": vector} if vector else {})}}

    def mark(self, file: tuple[str, int, int], before: Vector | None, after: Vector) -> list[Action]:
        """The file as it was goes away, the same file with another vector comes."""
        return [self.remove(file, before), self.add(file, after)]

    def changed(self, changes: Sequence[tuple[str, int, str | None]]) -> Action:
        """A file of the change data feed: each row with what happened to it."""
        name = f"_change_data/cdc-{uuid.uuid4()}.parquet"
        kinds = pa.array([kind for kind, _, _ in changes], pa.string())
        _, size, _ = self.file(name, [(a, b) for _, a, b in changes], _change_type=kinds)
        return {"cdc": {"path": name, "partitionValues": {}, "size": size, "dataChange": False}}

    def commit(self, *actions: Action, operation: str = "WRITE") -> int:
        self.version += 1
        log = self.path / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        told = {"commitInfo": {"timestamp": 1_700_000_000_000 + self.version * 1000, "operation": operation,
                               "operationParameters": {}}}  # fmt: skip
        first = [self.protocol(), self.metadata()] if self.version == 0 else []
        lines = [json.dumps(action, separators=(",", ":")) for action in [told, *first, *actions]]
        (log / f"{self.version:020}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self.version

    def protocol(self) -> Action:
        return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **FEATURES}}

    def metadata(self) -> Action:
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}}
                  for name, kind in (("a", "long"), ("b", "string"))]  # fmt: skip
        schema = json.dumps({"type": "struct", "fields": fields})
        told = {"id": str(uuid.uuid4()), "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
        return {"metaData": {**told, "partitionColumns": [], "configuration": PROPERTIES, "createdTime": 1}}
