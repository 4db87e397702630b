"""Producers of snapshots: whole ones in every documented way, and torn ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ITEM = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.float64()), ("unused", pa.list_(pa.int8()))])
Row = tuple[Any, ...]


def table_of(rows: Sequence[Row], schema: pa.Schema = ITEM) -> pa.Table:
    """Rows may be shorter than the schema: the rest is NULL."""
    columns = [[row[at] if at < len(row) else None for row in rows] for at in range(len(schema))]
    return pa.table(columns, schema=schema)


def put(folder: Path, table: str, name: str, rows: Sequence[Row], schema: pa.Schema = ITEM, parts: int = 1) -> Path:
    """As Spark writes: files, then the marker."""
    place = folder / table / name
    place.mkdir(parents=True)
    for part in range(parts):
        pq.write_table(table_of(rows[part::parts], schema), place / f"part-{part}.parquet")
    (place / "_SUCCESS").touch()
    return place


def put_csv(folder: Path, table: str, name: str, text: str, rows: int | None = None) -> Path:
    """A CSV file with a manifest."""
    place = folder / table / name
    place.mkdir(parents=True)
    (place / "data.csv").write_text(text)
    facts: Mapping[str, Any] = {"name": "data.csv", "bytes": len(text.encode())}
    promise = facts if rows is None else {**facts, "rows": rows}
    (place / "_MANIFEST.json").write_text(json.dumps({"files": [promise]}))
    return place


def tear(path: Path) -> None:
    """Cuts a file in half."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
