"""Every type that a kind of source supports audits clean, its edge values too: plain drivers agree with our decoders.

The values are those by which the kinds' own tests compare load, change and lookup. Half of the rows are there at the
first load, half come as changes. PostgreSQL's tables and files are read by Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.runtime.databases import Database
from tests.sources.files import test_files_csv, test_files_types
from tests.sources.files.producer import put_csv
from tests.sources.mariadb import test_types as mariadb_types
from tests.sources.postgres import test_postgres_values
from tests.sources.test_sqlite_values import EXACT
from weir import Warehouse
from weir.proving.databases import Servers

pytestmark = pytest.mark.spark

POSTGRES_TYPES = (
    "CREATE TYPE mood AS ENUM ('happy', 'it''s \"so\", so')", "CREATE DOMAIN positive AS int CHECK (value > 0)",
    "CREATE DOMAIN amount AS numeric(7,2)", "CREATE DOMAIN price AS amount",
)  # fmt: skip
NANS = ("nan4 real", "nan8 double precision")


class Filled(NamedTuple):
    """A source with a table ``t``; ``change`` brings the second half of its rows."""

    options: dict[str, Any]
    columns: list[str]
    change: Any
    rows: int


def run(database: Database, *statements: tuple[str, Any] | str) -> None:
    with closing(database.made.administrator()) as admin:
        for statement in statements:
            admin.cursor().execute(*([statement] if isinstance(statement, str) else statement))


def postgres(database: Database) -> Filled:
    types = test_postgres_values.COLUMNS
    declared = ", ".join([*(f"{name} {kind}" for name, (kind, _) in types.items()), *NANS])
    rows = [*zip(*(values for _, values in types.values()), strict=True), (None,) * len(types)]
    marks = ", ".join(f"%s::{kind}" for kind, _ in types.values())
    inserts = [(f"INSERT INTO t VALUES ({marks}, 'NaN', 'NaN')", row) for row in rows]
    run(database, *POSTGRES_TYPES, f"CREATE TABLE t ({declared})", *inserts[::2])
    database.tables = ("t",)
    database.made.capture("t")
    return _filled(database, [*types, "nan4", "nan8"], inserts)


def mariadb(database: Database) -> Filled:
    cases = mariadb_types.CASES
    columns = [f"c{at}" for at in range(len(cases))]
    declared = ", ".join(f"{name} {case[0]}" for name, case in zip(columns, cases, strict=True))
    texts = [[text for text, _ in values] for _, _, values in cases]
    rows = [[of[at] if at < len(of) else "NULL" for of in texts] for at in range(max(map(len, texts)) + 1)]
    inserts = [
        "SET SESSION sql_mode = '', time_zone = '+00:00'",
        *(f"INSERT INTO t VALUES ({', '.join(row)})" for row in rows),
    ]
    run(database, inserts[0], f"CREATE TABLE t ({declared})", *inserts[1::2])
    return Filled(database.options, columns, lambda: run(database, inserts[0], *inserts[2::2]), len(rows))


def sqlite(database: Database) -> Filled:
    columns = [f"c{at}" for at in range(len(EXACT))]
    declared = ", ".join(f"{name} {case[0]}" for name, case in zip(columns, EXACT, strict=True))
    insert = f"INSERT INTO t VALUES ({', '.join('?' * len(EXACT))})"
    inserts = [(insert, [stored for _, stored, _ in EXACT])] * 2 + [(insert, [None] * len(EXACT))] * 2
    run(database, f"CREATE TABLE t ({declared})", *inserts[::2])
    database.made.capture("t")
    return _filled(database, columns, inserts)


def _filled(database: Database, columns: list[str], inserts: list[Any]) -> Filled:
    return Filled(database.options, columns, lambda: run(database, *inserts[1::2]), len(inserts))


def parquet(folder: Path, cases: dict[str, Any], old: bool) -> Filled:
    folder.mkdir()

    def put(name: str, first: int) -> None:
        kept = {column: (type_, values[first:]) for column, (type_, values) in cases.items()}
        test_files_types.write(folder, name, kept, use_deprecated_int96_timestamps=old)

    put("1", 1)
    return Filled({"folder": str(folder)}, list(cases), lambda: put("2", 0), 3)


def csv(folder: Path) -> Filled:
    folder.mkdir()
    text = (
        f'{test_files_csv.HEADER}\n"a ""b"",\nc",1,10.5,{test_files_csv.WHOLE}\n"",2,,,,,,,,\n,3,-0.01,,,,,nan,,\n'
        'x,4,1e3,0001-01-01,9999-12-31 23:59:59.999999Z,1969-12-31,FALSE,1e-310,127,\n'
        '"1",5,-999999.99,9999-12-31,2024-10-27 01:30:00+0100,0001-01-01T00:00,1,-0.0,0,\n'
    )
    put_csv(folder, "t", "1", text)
    columns = [part.split()[0] for part in test_files_csv.SCHEMA.split(", ")]
    schemas = {"t": test_files_csv.SCHEMA}
    changed = text.replace(",3,-0.01", ",3,-0.02").replace("nan", "-inf")
    return Filled({"folder": str(folder), "schemas": schemas}, columns, lambda: put_csv(folder, "t", "2", changed), 5)


FILLERS = {"sqlite": sqlite, "postgres": postgres, "mariadb": mariadb}


def sources(servers: Servers, folder: Path, opened: ExitStack) -> Iterator[tuple[str, str, Filled]]:
    """Name and kind of every source. MySQL's way, which is that of ``mariadb-locks``, is proved on MariaDB."""
    for kind in ("sqlite", "postgres", "postgres-triggers", "mariadb", "mysql"):
        database = Database(servers, "mariadb-locks" if kind == "mysql" else kind)
        opened.callback(database.close)
        yield kind.replace("-", "_"), kind, FILLERS[database.driver](database)
    yield "parquet", "files", parquet(folder / "lake", test_files_types.CASES, False)
    yield "int96", "files", parquet(folder / "old", test_files_types.INT96, True)
    yield "csv", "files", csv(folder / "csv")


def test_every_type_of_every_kind_audits_clean(servers: Servers, spark: SparkSession, tmp_path: Path) -> None:
    """After the first load and after changes: no row missing, none too many, and as many as were written."""
    with ExitStack() as opened, Warehouse(tmp_path / "warehouse", spark=spark) as warehouse:
        filled = {}
        for name, kind, source in sources(servers, tmp_path, opened):
            filled[name] = source
            warehouse.source(name, kind=kind, **source.options)
            warehouse.view(f"CREATE MATERIALIZED VIEW of_{name} AS SELECT {', '.join(source.columns)} FROM {name}.t")
        warehouse.run(until_caught_up=True)
        for source in filled.values():
            source.change()
        warehouse.run(until_caught_up=True)
        audits = {audit.view: audit for audit in warehouse.verify_all()}
    assert [str(audit) for audit in audits.values() if not audit.clean] == []
    assert {name: audit.rows for name, audit in audits.items()} == {f"of_{n}": one.rows for n, one in filled.items()}
