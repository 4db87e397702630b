"""Values of SQLite: delivered exactly or refused by name, and found again by the same value."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Column, Schema, parse_type
from weir.proving.oracle import ReplayedSource, ask
from weir.sources.source import SourceError
from weir.sources.sqlite import SqliteOptions, SqliteSource
from weir.sources.sqlite.capture import install
from weir.sources.sqlite.catalog import mapped_type
from weir.sources.sqlite.lookup import MOST_BOUND, bound_keys, rows_for
from weir.sources.sqlite.values import Misfit, stored_forms, to_arrow

T = Relation("shop", "t")


@contextlib.contextmanager
def table(path: Path, columns: str) -> Iterator[tuple[sqlite3.Connection, SqliteSource]]:
    """A captured table ``t`` (n INTEGER PRIMARY KEY and these columns), its writer and its source."""
    with contextlib.closing(sqlite3.connect(path / "shop.db", isolation_level=None)) as writer:
        writer.execute(f"CREATE TABLE t (n INTEGER PRIMARY KEY, {columns})")
        install(path / "shop.db", ["t"])
        with contextlib.closing(SqliteSource(SqliteOptions("shop", str(path / "shop.db")))) as source:
            yield writer, source


def keys(type_: str, *values: Any, name: str = "v") -> MemoryBag:
    return MemoryBag.of(Schema([Column(name, parse_type(type_))]), [(value,) for value in values])


EXACT = [  # declared type, stored value, what comes out
    ("INTEGER", 2**63 - 1, 2**63 - 1),
    ("BIGINT", -(2**63), -(2**63)),
    ("INT", "12", 12),  # SQLite itself makes a number of it
    ("TINYINT", 70000, 70000),
    ("REAL", float("inf"), float("inf")),
    ("REAL", float("-inf"), float("-inf")),
    ("DOUBLE PRECISION", 5e-324, 5e-324),
    ("REAL", 0.1 + 0.2, 0.1 + 0.2),
    ("REAL", 3, 3.0),
    ("REAL", float("nan"), None),  # SQLite stores NaN as NULL
    ("TEXT", "", ""),
    ("TEXT", "a\0b", "a\0b"),
    ("VARCHAR(3)", "longer \U0001f40b é", "longer \U0001f40b é"),
    ("TEXT", 12, "12"),
    ("TEXT", "x" * 3_000_000, "x" * 3_000_000),
    ("BLOB", b"", b""),
    ("BLOB", bytes(range(256)) * 20_000, bytes(range(256)) * 20_000),
    ("BOOLEAN", 1, True),
    ("BOOL", 0, False),
    ("DATE", "2024-02-29", date(2024, 2, 29)),
    ("DATE", "0001-01-01", date(1, 1, 1)),
    ("DATE", "9999-12-31", date(9999, 12, 31)),
    ("DATETIME", "2024-02-29 23:59:59", datetime(2024, 2, 29, 23, 59, 59)),
    ("TIMESTAMP", "2024-02-29T23:59:59.125", datetime(2024, 2, 29, 23, 59, 59, 125000)),
    ("DATETIME", "2024-02-29 23:59:59.000001", datetime(2024, 2, 29, 23, 59, 59, 1)),
    ("TIMESTAMPTZ", "2024-02-29 23:59:59Z", datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)),
    ("TIMESTAMP WITH TIME ZONE", "0001-01-01T00:00:00.500000+00:00", datetime(1, 1, 1, microsecond=500000, tzinfo=UTC)),
    ("DECIMAL(10,2)", "12.30", Decimal("12.30")),
    ("DECIMAL(10,2)", -0.01, Decimal("-0.01")),
    ("NUMERIC(38,0)", 2**63 - 1, Decimal(2**63 - 1)),
    ("DECIMAL(20,1)", 1e15, Decimal("1000000000000000.0")),
    ("INTEGER", None, None),
]


@pytest.mark.parametrize(("declared", "stored", "expected"), EXACT, ids=lambda value: str(value)[:25])
def test_every_way_out_gives_the_same_value(tmp_path: Path, declared: str, stored: Any, expected: Any) -> None:
    """First load, change log, whole table and lookup by that value:

    all give exactly the value, old and new image alike.
    """
    type_ = mapped_type(declared)
    assert type_ is not None
    with table(tmp_path, f"v {declared}") as (writer, source):
        writer.execute("INSERT INTO t VALUES (1, ?)", (stored,))
        follower = ReplayedSource(source, {T: ("n", "v")})
        assert follower.replay.tables[T] == {(1, expected): 1}
        writer.execute("INSERT INTO t VALUES (2, ?)", (stored,))
        writer.execute("UPDATE t SET n = 3 WHERE n = 1")
        asked = [Lookup(T, ("n", "v"), ("v",), keys(str(type_), expected))] if expected is not None else []
        follower.check(asked)
        assert follower.replay.tables[T] == {(2, expected): 1, (3, expected): 1}
        assert [answer.num_rows for answer in follower.answers] == [2] * (len(asked) + 1)


MISFITS = [
    ("INTEGER", 1.5, "real 1.5"),
    ("INTEGER", "many", "text 'many'"),
    ("INTEGER", b"\1", "blob"),
    ("REAL", "much", "text 'much'"),
    ("TEXT", b"raw", "blob"),
    ("BLOB", "text", "text 'text'"),
    ("BLOB", 7, "integer 7"),
    ("BOOLEAN", 2, "integer 2"),
    ("BOOLEAN", "true", "text 'true'"),
    ("DATE", "2024-02-30", "text '2024-02-30'"),
    ("DATE", "0000-01-01", "text '0000-01-01'"),
    ("DATE", 2460000.5, "real"),
    ("DATE", "2024-1-1", "text"),
    ("DATETIME", "2024-01-01", "text"),
    ("DATETIME", "2024-01-01 24:00:00", "text"),
    ("DATETIME", "2024-01-01 10:00:00Z", "text"),
    ("DATETIME", 1700000000, "integer"),
    ("TIMESTAMPTZ", "2024-01-01 10:00:00", "text"),
    ("TIMESTAMPTZ", "2024-01-01 10:00:00+02:00", "text"),
    ("DATETIME", "2024-01-01 10:00:00.1234567", "text"),
    ("DECIMAL(5,2)", 1000, "integer 1000"),
    ("DECIMAL(5,2)", 0.125, "real 0.125"),
    ("DECIMAL(5,2)", 0.1 + 0.2, "real"),
    ("DECIMAL(38,2)", float("inf"), "real inf"),
    ("DECIMAL(5,2)", "cheap", "text 'cheap'"),
]


@pytest.mark.parametrize(("declared", "stored", "words"), MISFITS, ids=str)
def test_a_value_that_does_not_fit_is_refused_by_name(tmp_path: Path, declared: str, stored: Any, words: str) -> None:
    """Table, column and row are named by load, change and answer alike; other columns are not disturbed."""
    with table(tmp_path, f"v {declared}, w TEXT") as (writer, source):
        follower = ReplayedSource(source, {T: ("n", "v")})
        beside = ReplayedSource(SqliteSource(SqliteOptions("shop", str(tmp_path / "shop.db"))), {T: ("n", "w")})
        writer.execute("INSERT INTO t VALUES (42, ?, 'fine')", (stored,))
        named = f"table shop.t, column 'v', row .*n=42.*{words}"
        with pytest.raises(SourceError, match=named):
            source.visit()  # the change
        writer.execute("UPDATE weir_log SET v1 = NULL")  # so that the change passes, and the answer must refuse
        with pytest.raises(SourceError, match=named):
            follower.check()
        with pytest.raises(SourceError, match=named):
            ReplayedSource(SqliteSource(SqliteOptions("shop", str(tmp_path / "shop.db"))), {T: ("n", "v")})
        beside.check()
        beside.source.close()


def test_text_that_is_not_utf_8_is_refused_by_name(tmp_path: Path) -> None:
    """A string cannot hold stray bytes; the row is named, and a view that does not use the column goes on."""
    with table(tmp_path, "v TEXT, w TEXT") as (writer, source):
        follower = ReplayedSource(source, {T: ("n", "v")})
        beside = ReplayedSource(SqliteSource(SqliteOptions("shop", str(tmp_path / "shop.db"))), {T: ("n", "w")})
        writer.execute("INSERT INTO t VALUES (42, CAST(x'61ff62' AS TEXT), 'fine')")
        for attempt in (source.visit, follower.check):
            with pytest.raises(SourceError, match=r"column 'v', row \(n=42"):
                attempt()
        with pytest.raises(SourceError, match=r"column 'v', row \(n=42"):
            ReplayedSource(SqliteSource(SqliteOptions("shop", str(tmp_path / "shop.db"))), {T: ("n", "v")})
        beside.check()
        writer.execute("INSERT INTO t VALUES (43, 'later', 'fine')")
        beside.check()
        beside.source.close()


def test_generated_columns_are_delivered(tmp_path: Path) -> None:
    """Stored and virtual ones, as they are when the row changes."""
    with table(tmp_path, "v INT, twice INT AS (v * 2) VIRTUAL, thrice INT AS (v * 3) STORED") as (writer, source):
        follower = ReplayedSource(source, {T: ("n", "v", "twice", "thrice")})
        writer.execute("INSERT INTO t (n, v) VALUES (1, 5)")
        writer.execute("UPDATE t SET v = 6")
        follower.check()
        assert follower.replay.tables[T] == {(1, 6, 12, 18): 1}


STORABLE = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, max_value=10**6, min_value=-(10**6)).map(str),
    st.datetimes().map(str),
    st.dates().map(str),
)
DECLARED = (
    "INTEGER",
    "REAL",
    "TEXT",
    "BLOB",
    "BOOLEAN",
    "DATE",
    "DATETIME",
    "TIMESTAMPTZ",
    "DECIMAL(9,2)",
    "VARCHAR(3)",
)


@example(declared="DECIMAL(9,2)", value=2.678648195034997e-307)  # Arrow reads its text as 0.00
@given(declared=st.sampled_from(DECLARED), value=STORABLE)
@settings(max_examples=300, deadline=None)
def test_a_value_fits_or_is_refused_and_is_found_again(declared: str, value: Any) -> None:
    """What SQLite stored either comes out as a value that finds the row again, or is refused."""
    type_ = mapped_type(declared)
    assert type_ is not None
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE t (v {declared})")
        database.execute("INSERT INTO t VALUES (?)", (value,))
        (stored,) = database.execute("SELECT v FROM t").fetchone()
        try:
            (ours,) = to_arrow([stored], type_).to_pylist()
        except Misfit:
            return
        if ours is None:
            assert stored is None
            return
        forms = stored_forms(ours, type_)
        marks = ", ".join("?" * len(forms))
        assert database.execute(f"SELECT count(*) FROM t WHERE v IN ({marks})", forms).fetchone() == (1,)


# -- lookups ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [1, 100, 10_000, MOST_BOUND + 1])
def test_lookups_of_any_size(tmp_path: Path, many: int) -> None:
    """From one key to more than SQLite can bind at once, by one column and by two."""
    with table(tmp_path, "a INT, b TEXT, UNIQUE (a, b)") as (writer, source):
        writer.executemany("INSERT INTO t VALUES (?, ?, ?)", ((i, i % 7, f"k{i}") for i in range(1000)))
        follower = ReplayedSource(source, {T: ("n", "a", "b")})
        pairs = MemoryBag.of(Schema.parse("a bigint, b string"), [(i % 7, f"k{i}") for i in range(many)])
        single = Lookup(T, ("n",), ("n",), keys("bigint", *range(many), name="n"))
        lookups = [single, Lookup(T, ("n", "a"), ("a", "b"), pairs)]
        follower.check(lookups)
        assert [answer.num_rows for answer in follower.answers] == [min(many, 1000)] * 2 + [1000]
        assert ["SEARCH t USING" in plan(writer, lookup) for lookup in lookups] == [True, True]


def plan(database: sqlite3.Connection, lookup: Lookup) -> str:
    """How SQLite finds the rows of a lookup, in its own words."""

    def explain(database: sqlite3.Connection, statement: str, values: Sequence[Any]) -> list[Any]:
        return database.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()

    assert lookup.keys is not None
    return "; ".join(step for *_, step in rows_for(database, lookup, bound_keys(lookup, lookup.keys.schema), explain))


def test_an_index_serves_as_soon_as_it_is_there(tmp_path: Path) -> None:
    """A column without index is scanned; with one its rows are found by it, and ``describe`` tells."""
    with table(tmp_path, "v TEXT") as (writer, source):
        follower = ReplayedSource(source, {T: ("n", "v")})
        by_value = Lookup(T, ("n",), ("v",), keys("string", "x", "y"))
        assert plan(writer, by_value) == "SCAN t"
        writer.execute("CREATE INDEX by_v ON t (v)")
        assert plan(writer, by_value).startswith("SEARCH t USING COVERING INDEX by_v")
        assert source.describe().tables[0].indexes == (("n",), ("v",))
        follower.check([by_value])


def test_null_keys_are_never_sent(tmp_path: Path) -> None:
    """NULL equals nothing: a key with NULL finds no row, not even one with NULL."""
    with table(tmp_path, "a INT, b INT") as (writer, source):
        writer.execute("INSERT INTO t VALUES (1, NULL, 1), (2, 2, NULL), (3, 3, 3)")
        follower = ReplayedSource(source, {T: ("n", "a", "b")})
        pairs = MemoryBag.of(Schema.parse("a bigint, b bigint"), [(None, 1), (2, None), (3, 3), (None, None)])
        nothing = Lookup(T, ("n",), ("a",), keys("bigint", None, name="a"))
        follower.check([Lookup(T, ("n",), ("a", "b"), pairs), nothing])
        assert [answer.to_pylist() for answer in follower.answers[:2]] == [[{"n": 3}], []]


def test_loose_collations_give_each_row_once(tmp_path: Path) -> None:
    """Two keys that are equal to SQLite find the row once:

    more rows than asked for are allowed, the same twice is not.
    """
    with table(tmp_path, "v TEXT COLLATE NOCASE, w TEXT COLLATE NOCASE") as (writer, source):
        writer.execute("INSERT INTO t VALUES (1, 'x', 'y')")
        follower = ReplayedSource(source, {T: ("n", "v", "w")})
        both = MemoryBag.of(Schema.parse("v string, w string"), [("x", "y"), ("X", "Y"), ("x", "Y")])
        lookups = [Lookup(T, ("n",), ("v",), keys("string", "x", "X")), Lookup(T, ("n",), ("v", "w"), both)]
        assert [answer.num_rows for answer in ask(source, lookups)[1]] == [1, 1]
        follower.check()


def test_keys_that_sqlite_cannot_hold_find_nothing(tmp_path: Path) -> None:
    """A number beyond 64 bits or half a surrogate pair is in no row, and no reason to fail."""
    with table(tmp_path, "v TEXT, d DECIMAL(30,0)") as (writer, source):
        writer.execute("INSERT INTO t VALUES (1, 'x', 5)")
        follower = ReplayedSource(source, {T: ("n", "v", "d")})
        strange = Lookup(T, ("n",), ("v",), keys("string", "x", "\ud800"))
        large = Lookup(T, ("n",), ("d",), keys("decimal(30,0)", Decimal(5), Decimal(10) ** 29, name="d"))
        follower.check([strange, large])
        assert [answer.num_rows for answer in follower.answers] == [1, 1, 1]
