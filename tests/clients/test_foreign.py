"""Every client reads a table of deletion vectors and change files alike, version by version, and its feed.

The table is written by hand, so what is proved here is the layout and the clients, not Weir's writer.
"""

from __future__ import annotations

import datetime
import decimal
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from tests.clients.foreign import DuckDBClient, ForeignClient, ForeignError, ReferenceClient
from tests.clients.hand_written import HandTable, inline_vector, vector_file
from tests.warehouse.batches import EVERY_TYPE
from weir.algebra.arrow_types import arrow_schema

Rows = list[tuple[Any, ...]]
Row = tuple[int, str | None]
A: list[Row] = [(0, "a"), (1, "a"), (2, None), (2, None), (4, "ä"), (5, "")]
B: list[Row] = [(10, "b"), (11, "b"), (12, "b")]
C: list[Row] = [(1, "a"), (1, "a")]
D: list[Row] = [(20, "d"), (21, "d"), (22, "d")]


@dataclass
class Known:
    """A table, and what every client must find in it."""

    path: Path
    states: list[Rows]
    feed: list[tuple[int, str, int, str | None]]  # version, what happened, row


def known(path: Path, inline: bool = True) -> Known:
    """All forms of vectors and changes, one version each; without ``inline`` every vector lies in a file."""
    table = HandTable(path)
    a, b, c, d = (table.file(f"rows/{name}.parquet", rows) for name, rows in zip("abcd", (A, B, C, D), strict=True))
    table.commit(table.add(a))
    table.commit(table.add(b))  # insert only: no change file
    first = inline_vector([1]) if inline else vector_file(path, "_weir", [1])[0]
    table.commit(*table.mark(a, None, first), table.changed([("delete", 1, "a")]))
    second, of_b = vector_file(path, "_weir", [1, 3], [0])  # two in one file
    changes = [("delete", 2, None), ("delete", 10, "b"), ("insert", 1, "a"), ("insert", 1, "a")]
    marks = [*table.mark(a, first, second), *table.mark(b, None, of_b)]
    table.commit(*marks, table.add(c), table.changed(changes))
    (of_d,) = vector_file(path, "", [1])  # beside the log, and the file comes with its vector
    table.commit(table.add(d, of_d), table.changed([("insert", 20, "d"), ("insert", 22, "d")]))
    table.commit(table.remove(c), table.remove(b, of_b), table.changed([("delete", *row) for row in [*C, *B[1:]]]))
    third = inline_vector([0, 1, 3]) if inline else vector_file(path, "_weir", [0, 1, 3])[0]
    table.commit(*table.mark(a, second, third))  # a mark that says nothing: the vectors tell
    (whole,) = vector_file(path, "_weir", range(6))
    table.commit(*table.mark(a, third, whole), table.changed([("delete", *A[at]) for at in (2, 4, 5)]))
    return Known(path, *expected())


def expected() -> tuple[list[Rows], list[tuple[int, str, int, str | None]]]:
    less = [A[0], *A[2:]]
    few, last = [A[2], A[4], A[5]], [D[0], D[2]]
    much = [A[0], *few, *B[1:], *C]
    states: list[Rows] = [A, A + B, less + B, much, much + last, [A[0], *few, *last], few + last, last]
    feed = [(0, "insert", *row) for row in A] + [(1, "insert", *row) for row in B]
    feed += [(2, "delete", 1, "a"), (3, "delete", 2, None), (3, "delete", 10, "b")]
    feed += [(3, "insert", *row) for row in C] + [(4, "insert", *row) for row in last]
    feed += [(5, "delete", *row) for row in [*C, *B[1:]]] + [(6, "delete", 0, "a")]
    return states, feed + [(7, "delete", *row) for row in few]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Known:
    return known(tmp_path_factory.mktemp("foreign") / "view's")  # no space in it: Polars would look for %20


@pytest.fixture(scope="module")
def duckdb() -> Iterator[DuckDBClient]:
    with DuckDBClient() as client:
        yield client


@pytest.fixture(scope="module")
def reference() -> Iterator[ReferenceClient]:
    with ReferenceClient() as client:
        yield client


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def rows_of(table: pa.Table, *names: str) -> Rows:
    columns = [table.column(name).to_pylist() for name in names or table.column_names]
    return in_order(list(zip(*columns, strict=True)))


def same_states(client: ForeignClient, table: Known) -> None:
    for version, rows in enumerate(table.states):
        assert rows_of(client.rows(table.path, version)) == in_order(rows), version
    assert rows_of(client.rows(table.path)) == in_order(table.states[-1])


FEED = ("_commit_version", "_change_type", "a", "b")


# -- clients in our own environment ------------------------------------------------------------------------------------


def test_polars_reads_every_version(table: Known) -> None:
    for version, rows in enumerate(table.states):
        assert in_order(polars.scan_delta(str(table.path), version=version).collect().rows()) == in_order(rows), version


def test_deltalake_reads_every_version(table: Known) -> None:
    for version, rows in enumerate(table.states):
        builder = QueryBuilder().register("t", DeltaTable(table.path, version=version))
        assert rows_of(pa.table(builder.execute("SELECT a, b FROM t").read_all())) == in_order(rows), version


def deltalake_feed(path: Path, first: int, last: int) -> Rows:
    return rows_of(pa.table(DeltaTable(path).load_cdf(first, last).read_all()), *FEED)


def test_deltalake_reads_the_feed(table: Known) -> None:
    """All versions at once, and each alone; where no change file is, the files that come and their vectors tell."""
    assert deltalake_feed(table.path, 0, len(table.states) - 1) == in_order(list(table.feed))
    for version in range(len(table.states)):
        assert deltalake_feed(table.path, version, version) == in_order([c for c in table.feed if c[0] == version])


@pytest.mark.parametrize("goes", [False, True])
def test_deltalake_needs_a_change_file_where_a_file_with_a_vector_comes_or_goes(tmp_path: Path, goes: bool) -> None:
    """Without one it tells the row that the vector hides, and neither of the two that are to be seen. So a version of a
    view that adds or removes such a file has a change file; the day this fails, deltalake has learnt it.
    """
    table = HandTable(tmp_path)
    file, vector = table.file("rows/d.parquet", D), inline_vector([1])
    version = table.commit(table.add(file, vector))
    if goes:
        version = table.commit(table.remove(file, vector))
    hidden = (version, "delete" if goes else "insert", *D[1])
    assert deltalake_feed(tmp_path, version, version) == [hidden]


# -- clients in environments of their own ------------------------------------------------------------------------------


def test_duckdb_reads_every_version(duckdb: DuckDBClient, table: Known) -> None:
    same_states(duckdb, table)


def one_row_of_every_type() -> pa.Table:
    day, now = datetime.date(1969, 12, 31), datetime.datetime(2024, 2, 29, 23, 59, 59, 123456)
    amounts = (decimal.Decimal("-0.01"), decimal.Decimal("12345678901234567890123456789012.345678"))
    values = (-128, -32768, -(2**31), -(2**63), 0.5, 0.1, "ä", b"\0\xff", True, day, now, now, *amounts)
    fields = arrow_schema(EVERY_TYPE)
    return pa.table([pa.array([value, None], field.type) for value, field in zip(values, fields, strict=True)], fields)


def same_types(client: ForeignClient, path: Path) -> None:
    wanted = one_row_of_every_type()
    write_deltalake(path, wanted)
    found = client.rows(path)
    assert found.schema.types == wanted.schema.types
    assert rows_of(found) == rows_of(wanted)


def test_duckdb_keeps_types(duckdb: DuckDBClient, tmp_path: Path) -> None:
    same_types(duckdb, tmp_path / "types")


def test_what_a_client_refuses_is_told_and_it_goes_on(duckdb: DuckDBClient, table: Known) -> None:
    with pytest.raises(ForeignError, match=r"duckdb: .*version 77"):
        duckdb.rows(table.path, 77)
    assert duckdb.rows(table.path, 0).num_rows == len(A)


def test_a_missing_environment_names_the_way_out() -> None:
    class Unknown(ForeignClient):
        environment = "unknown"

    with pytest.raises(ForeignError, match=r"no environment 'unknown' in .*: run scripts/clients"):
        Unknown().__enter__()


@pytest.mark.slow
def test_the_reference_reads_every_version_and_the_feed(reference: ReferenceClient, table: Known) -> None:
    same_states(reference, table)
    last = len(table.states) - 1
    assert rows_of(reference.changes(table.path, 0, last), *FEED) == in_order(list(table.feed))
    assert rows_of(reference.changes(table.path, 6, 6), *FEED) == [(6, "delete", 0, "a")]
    history = reference.sql(f"DESCRIBE HISTORY delta.`{table.path}`")
    assert sorted(history.column("version").to_pylist()) == list(range(last + 1))


@pytest.mark.slow
def test_the_reference_keeps_types(reference: ReferenceClient, tmp_path: Path) -> None:
    same_types(reference, tmp_path / "types")


@pytest.mark.slow
def test_the_reference_tends_the_table(reference: ReferenceClient, duckdb: DuckDBClient, tmp_path: Path) -> None:
    """Whoever writes, deletes, optimizes or vacuums with it finds the right rows, and so does everybody after it."""
    table = known(tmp_path / "tended", inline=False)
    name, orphan = f"delta.`{table.path}`", table.path / "rows" / "orphan.parquet"
    shutil.copy(table.path / "rows" / "a.parquet", orphan)
    ours = sorted((table.path / "_weir").iterdir())
    reference.sql(f"DELETE FROM {name} WHERE a = 20")
    reference.sql(f"INSERT INTO {name} VALUES (30, 'new')")
    reference.sql(f"OPTIMIZE {name}")
    reference.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    reference.sql(f"VACUUM {name} RETAIN 0 HOURS")
    assert not orphan.exists()
    assert sorted((table.path / "_weir").iterdir()) == ours  # a hidden folder is nobody else's
    for client in (reference, duckdb):
        assert rows_of(client.rows(table.path)) == [(22, "d"), (30, "new")]
    assert in_order(polars.read_delta(str(table.path)).rows()) == [(22, "d"), (30, "new")]


@pytest.mark.slow
def test_the_reference_cannot_vacuum_inline_vectors(reference: ReferenceClient, table: Known) -> None:
    """Not even those of files that went away lately: why a table that others may tend keeps its vectors in files."""
    with pytest.raises(ForeignError, match=r"MatchError: Some\(DeletionVectorDescriptor\(i,"):
        reference.sql(f"VACUUM delta.`{table.path}`")
