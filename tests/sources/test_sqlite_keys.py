"""What counts as a key of a SQLite table: only what tells its rows apart by our values."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weir.algebra.catalog import Table
from weir.sources.sqlite import SqliteOptions, SqliteSource
from weir.sources.sqlite.catalog import mapped_type, read_shape
from weir.sources.sqlite.values import Misfit, to_arrow


def described(folder: Path, *statements: str) -> dict[str, Table]:
    with contextlib.closing(sqlite3.connect(folder / "shop.db", isolation_level=None)) as made:
        for statement in statements:
            made.execute(statement)
    with contextlib.closing(SqliteSource(SqliteOptions("shop", str(folder / "shop.db")))) as source:
        return {table.relation.table: table for table in source.describe().tables}


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("(a INTEGER PRIMARY KEY)", ("a",)),
        ("(a INTEGER PRIMARY KEY DESC)", ()),  # not the rowid: SQLite lets NULLs in
        ("(a INT PRIMARY KEY)", ()),
        ("(a INT NOT NULL PRIMARY KEY)", ("a",)),
        ("(a TEXT PRIMARY KEY)", ()),
        ("(a TEXT NOT NULL PRIMARY KEY)", ("a",)),
        ("(a TEXT COLLATE NOCASE NOT NULL PRIMARY KEY)", ("a",)),  # what we tell apart may be one to SQLite
        ("(a TEXT PRIMARY KEY) WITHOUT ROWID", ("a",)),
        ("(a TEXT PRIMARY KEY) STRICT", ("a",)),
        ("(a INT, b INT, PRIMARY KEY (b, a))", ()),
        ("(a INT NOT NULL, b INT, PRIMARY KEY (b, a))", ()),
        ("(a INT NOT NULL, b INT NOT NULL, PRIMARY KEY (b, a))", ("b", "a")),
        ("(a INT, b INT, PRIMARY KEY (b, a)) WITHOUT ROWID", ("b", "a")),
        ("(a DATE NOT NULL PRIMARY KEY)", ("a",)),
        ("(a DECIMAL(5,2) NOT NULL PRIMARY KEY)", ("a",)),
        ("(a REAL NOT NULL PRIMARY KEY)", ("a",)),
        ("(a DATETIME NOT NULL PRIMARY KEY)", ()),  # one moment has several spellings
        ("(a TIMESTAMP PRIMARY KEY) WITHOUT ROWID", ()),
        ("(a TIMESTAMPTZ NOT NULL PRIMARY KEY)", ()),
        ("(a NUMERIC NOT NULL PRIMARY KEY, b INT)", ()),  # of a type that we do not know
        ("(a INT UNIQUE)", ()),
    ],
)
def test_a_key_counts_if_it_tells_rows_apart(tmp_path: Path, table: str, key: tuple[str, ...]) -> None:
    """A PRIMARY KEY that may hold NULLs, or one value in two spellings, is none to the strategies that delete by key;
    its index serves lookups all the same.
    """
    found = described(tmp_path, f"CREATE TABLE t {table}")["t"]
    assert found.key == key
    assert found.indexes


def test_foreign_keys_are_not_believed(tmp_path: Path) -> None:
    """SQLite enforces them for those connections only that ask for it: a child may be there before its parent."""
    tables = described(
        tmp_path, "CREATE TABLE p (id INTEGER PRIMARY KEY)", "CREATE TABLE c (p INT REFERENCES p)",
        "INSERT INTO c VALUES (1)", "INSERT INTO p VALUES (1)",
    )  # fmt: skip
    assert tables["c"].foreign_keys == ()


SPELLINGS = st.one_of(
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, 0.5, 1e18, 2.0**53, 2**53 + 1, 10**18, 2**63 - 1, 9.2e18]),
    st.sampled_from(["1", "1.0", "01", " 1", "+1", "0.50", "1e0", ".5", "a", "A", "a ", "é", "e\u0301", "a\0b", ""]),
    st.sampled_from(["2020-01-01", "2020-01-01 00:00:00", "2020-01-01T00:00:00", "2020-01-01 00:00:00.000"]),
    st.sampled_from(["2020-01-01 00:00:00Z", "2020-01-01 00:00:00+00:00"]),
    st.sampled_from([b"", b"a", b"1", b"2020-01-01"]),
)
DECLARED = [
    "INTEGER", "INT", "REAL", "TEXT", "TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM", "BLOB", "VARBINARY(9)", "BOOLEAN",
    "DATE", "DATETIME", "TIMESTAMPTZ", "DECIMAL(20,2)", "DECIMAL(38,0)",
]  # fmt: skip


def stored(declared: str, suffix: str, values: list[Any]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """The key of a table with this column as its primary key, and what SQLite let in, as far as it is ours."""
    type_ = mapped_type(declared.split(" COLLATE")[0])
    assert type_ is not None
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.execute(f"CREATE TABLE t (v {declared} PRIMARY KEY) {suffix}")
        for value in values:
            with contextlib.suppress(sqlite3.IntegrityError):
                database.execute("INSERT INTO t VALUES (?)", (value,))
        shape = read_shape(database, "t")
        assert shape is not None
        ours = []
        for (each,) in database.execute("SELECT v FROM t").fetchall():
            with contextlib.suppress(Misfit):
                ours += to_arrow([each], type_).to_pylist()
        yield shape.described("shop").key, ours


@pytest.mark.parametrize("suffix", ["", "WITHOUT ROWID"])
@given(declared=st.sampled_from(DECLARED), values=st.lists(st.none() | SPELLINGS, min_size=2, max_size=6))
@example(declared="DATETIME", values=["2020-01-01 00:00:00", "2020-01-01T00:00:00"])
@example(declared="TEXT", values=[None, None])
@settings(max_examples=150, deadline=None)
def test_no_two_rows_share_a_key(suffix: str, declared: str, values: list[Any]) -> None:
    """Whatever an application writes into a key that counts, our values of it are all different, and none is NULL."""
    for key, ours in stored(declared, suffix, values):
        if key:
            assert None not in ours
            assert len(set(ours)) == len(ours)
