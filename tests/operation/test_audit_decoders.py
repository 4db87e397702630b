"""The audit shares no decoder with what it judges: rows that a source reads wrongly, always in the same way, are found.

Each kind gets a decoder that misreads text, decimals, moments, bytes and NULLs, as a careless change could make it. It
does so by every way, so that load, changes and lookups agree with each other, and only the plain driver tells.
Snapshots are not shared with Spark's tasks, whose processes the planted code would not reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.runtime.databases import Database
from weir import Warehouse
from weir.algebra.arrow_types import arrow_schema
from weir.algebra.types import Schema
from weir.proving.databases import Servers
from weir.proving.fuzz.dialects import dialect_of
from weir.sources.files import csv_copy, shapes
from weir.sources.files import lookup as files_lookup
from weir.sources.mysql import changes as mysql_changes
from weir.sources.mysql import columns as mysql_columns
from weir.sources.mysql import lookup as mysql_lookup
from weir.sources.postgres import lookup as postgres_lookup
from weir.sources.postgres import values as postgres_values
from weir.sources.postgres.held import HeldPostgresSnapshot
from weir.sources.sqlite import rows as sqlite_rows
from weir.sources.sqlite import values as sqlite_values

pytestmark = pytest.mark.spark

COLUMNS = {  # as SQLite, PostgreSQL and MariaDB declare them, and as our types
    "id": ("INT NOT NULL", "int", "INT", "int"),
    "t": ("TEXT", "text", "VARCHAR(9)", "string"),
    "d": ("DECIMAL(10,2)", "numeric(10,2)", "DECIMAL(10,2)", "decimal(10,2)"),
    "m": ("DATETIME", "timestamp", "DATETIME(6)", "timestamp_ntz"),
    "b": ("BLOB", "bytea", "VARBINARY(9)", "binary"),
    "n": ("BIGINT", "bigint", "BIGINT", "bigint"),
}
DRIVERS = ("sqlite", "postgres", "mariadb")
DAY, LATER = datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 0, 500_000)
HARMLESS = (0, "a", Decimal("1.00"), DAY, b"a", 1)
ROWS = [  # a blank at the end, digits, a fraction of a second, a zero at the end, NULL: each row can lose one of them
    HARMLESS,
    (1, "a ", Decimal("1.00"), DAY, b"a", 1),
    (2, "a", Decimal("1.25"), DAY, b"a", 1),
    (3, "a", Decimal("1.00"), LATER, b"a", 1),
    (4, "a", Decimal("1.00"), DAY, b"a\0", 1),
    (5, "a", Decimal("1.00"), DAY, b"a", None),
]


def misread(column: Any) -> Any:
    """A column as a careless decoder makes it."""
    kind = column.type
    if pa.types.is_string(kind):
        return pc.utf8_rtrim_whitespace(column)
    if pa.types.is_decimal(kind):
        return pc.round(column).cast(kind)
    if pa.types.is_timestamp(kind):
        return pc.floor_temporal(column, unit="second")
    if pa.types.is_binary(kind):
        return pa.array([None if value is None else value.rstrip(b"\0") for value in column.to_pylist()], kind)
    return pc.fill_null(column, 0) if pa.types.is_int64(kind) else column


def misread_table(table: Any) -> Any:
    columns = [misread(column.combine_chunks()) for column in pa.table(table).columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def after(decode: Callable[..., Any], change: Callable[[Any], Any] = misread) -> Callable[..., Any]:
    return lambda *asked: change(decode(*asked))


def plant_sqlite(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sqlite_rows, "to_arrow", after(sqlite_values.to_arrow))


def plant_postgres(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HeldPostgresSnapshot, "token", None)  # this process answers, where the fault is planted
    planted = after(postgres_values.to_arrow)
    patch.setattr(postgres_lookup, "to_arrow", planted)
    patch.setattr(postgres_values, "to_arrow", planted)


def plant_mariadb(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mysql_lookup, "answer_finish", after(mysql_columns.answer_finish, after))
    patch.setattr(mysql_changes, "log_finish", after(mysql_columns.log_finish, after))


def plant_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files_lookup.HeldFiles, "token", None)
    patch.setattr(files_lookup, "checked", after(shapes.checked, misread_table))


def plant_csv(patch: pytest.MonkeyPatch) -> None:
    """In the copy that is made once: all that ever reads the snapshot reads the copy."""
    whole = csv_copy.CsvCopies._reader

    @contextmanager
    def reader(copies: Any, path: Path, schema: pa.Schema) -> Iterator[Any]:
        with whole(copies, path, schema) as batches:
            yield (misread_table(pa.Table.from_batches([batch])).to_batches()[0] for batch in batches)

    patch.setattr(csv_copy.CsvCopies, "_reader", reader)


PLANTED = {
    "sqlite": plant_sqlite, "postgres": plant_postgres, "mariadb": plant_mariadb, "files": plant_files,
    "csv": plant_csv,
}  # fmt: skip


@contextmanager
def source(kind: str, servers: Servers, folder: Path) -> Iterator[dict[str, Any]]:
    """A table ``r`` at a source of this kind; what ``Warehouse.source`` is told."""
    if kind in ("files", "csv"):
        yield snapshot(kind, folder / kind)
        return
    database = Database(servers, kind)
    dialect, types = dialect_of(kind), [types[DRIVERS.index(database.driver)] for types in COLUMNS.values()]
    declared = ", ".join(f"{name} {type_}" for name, type_ in zip(COLUMNS, types, strict=True))
    rows = ", ".join(f"({', '.join(map(dialect.literal, row))})" for row in ROWS)
    try:
        database.create(["r"], [f"CREATE TABLE r ({declared}, PRIMARY KEY (id))", f"INSERT INTO r VALUES {rows}"])
        yield {"kind": kind, **database.options}
    finally:
        database.close()


def snapshot(kind: str, folder: Path) -> dict[str, Any]:
    """Bytes are text in CSV, with a blank at the end."""
    (folder / "r").mkdir(parents=True)
    ours = ", ".join(f"{name} {types[-1]}" for name, types in COLUMNS.items())
    if kind == "csv":
        lines = [",".join("" if value is None else _in_csv(value) for value in row) for row in [COLUMNS, *ROWS]]
        (folder / "r" / "1.csv").write_text("\n".join(lines))
        schemas = {"r": ours.replace("binary", "string")}
        return {"kind": "files", "folder": str(folder), "schemas": schemas, "trust_renames": True}
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
    pq.write_table(pa.Table.from_pylist(rows, arrow_schema(Schema.parse(ours))), folder / "r" / "1.parquet")
    return {"kind": "files", "folder": str(folder)}


def _in_csv(value: Any) -> str:
    return value.replace(b"\0", b" ").decode() if isinstance(value, bytes) else str(value)


def test_decoders_that_misread_are_found(
    servers: Servers, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every kind: each row that lost something is missing and its misread form too many; the other one is there."""
    with ExitStack() as sources, Warehouse(tmp_path / "warehouse", spark=spark) as warehouse:
        for kind, plant in PLANTED.items():
            plant(monkeypatch)
            warehouse.source(kind, **sources.enter_context(source(kind, servers, tmp_path)))
            warehouse.view(f"CREATE MATERIALIZED VIEW of_{kind} AS SELECT {', '.join(COLUMNS)} FROM {kind}.r")
        warehouse.run(until_caught_up=True)
        found = {audit.view: (audit.rows, audit.missing, audit.extra) for audit in warehouse.verify_all()}
    assert found == {f"of_{kind}": (6, 5, 5) for kind in PLANTED}
