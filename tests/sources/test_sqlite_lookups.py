"""Lookups in SQLite compare as Spark does, whatever the column holds and whatever type the keys have."""

from __future__ import annotations

import contextlib
import math
import sqlite3
import struct
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.sources.rounds import held_by
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Column, Schema, Type, parse_type
from weir.sources.source import HeldSnapshot
from weir.sources.sqlite import SqliteOptions, SqliteSource, install, lookup
from weir.sources.sqlite.catalog import mapped_type
from weir.sources.sqlite.values import Misfit, to_arrow

T = Relation("shop", "t")


@contextlib.contextmanager
def held(declared: str, stored: Sequence[Any]) -> Iterator[HeldSnapshot]:
    """A held snapshot of a table ``t`` (n, v) with these values in v."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute(f"CREATE TABLE t (n INTEGER PRIMARY KEY, v {declared})")
            install(path, ["t"])
            writer.executemany("INSERT INTO t (v) VALUES (?)", [(value,) for value in stored])
        with contextlib.closing(SqliteSource(SqliteOptions("shop", str(path)))) as source:
            source.watch({T: ("n", "v")})
            source.load().held.release()
            snapshot = held_by(source.visit(hold=True))
            yield snapshot
            snapshot.release()


def found(snapshot: HeldSnapshot, type_: str, values: Sequence[Any], columns: Sequence[str] = ("v",)) -> list[Any]:
    """The values of v in the rows that are found by these keys."""
    types = [parse_type(type_ if name == "v" else "bigint") for name in columns]
    schema = Schema(Column(name, each) for name, each in zip(columns, types, strict=True))
    numbers = range(1, 1 + snapshot.look([Lookup(T, ("n",))])[0].num_rows)
    rows = [(v, n) for v in values for n in numbers] if len(columns) > 1 else [(v,) for v in values]
    answer = snapshot.look([Lookup(T, ("v",), tuple(columns), MemoryBag.of(schema, rows))])[0]
    values_found: list[Any] = answer.column("v").to_pylist()
    return values_found


def test_decimal_keys_find_the_integers_that_they_equal() -> None:
    """2.00 is 2, 1.50 is none of them, and a number beyond 64 bits is no reason to fail."""
    keys = [Decimal("2.00"), Decimal("1.50"), Decimal("-3.00"), Decimal(10) ** 29, Decimal(-(2**63)), Decimal(2**63)]
    with held("INTEGER", [1, 2, -3, 2**63 - 1, -(2**63)]) as snapshot:
        assert sorted(found(snapshot, "decimal(38,2)", keys)) == [-(2**63), -3, 2]


def test_integer_keys_find_the_decimals_that_they_equal() -> None:
    with held("DECIMAL(30,2)", [1, 1.5, 1e18, 2**63 - 1, 1e25]) as snapshot:
        keys = [1, 10**18, 2**63 - 1, -(2**63)]
        assert found(snapshot, "bigint", keys) == [Decimal(1), Decimal(10**18), Decimal(2**63 - 1)]


@pytest.mark.parametrize(
    ("declared", "stored", "type_", "key"),
    [
        ("INTEGER", 2**53 + 1, "double", 2.0**53),  # equal as doubles, in which Spark compares
        ("REAL", 2.0**53, "bigint", 2**53 + 1),
        ("DECIMAL(10,1)", 0.1, "double", 0.1),
        ("DATE", "2024-02-29", "string", "2024-02-29"),
        ("DATE", "2024-02-29", "timestamp_ntz", datetime(2024, 2, 29)),
        ("TEXT", "1", "bigint", 1),
        ("BLOB", b"a", "string", "a"),
        ("TEXT", "a", "binary", b"a"),
        ("BOOLEAN", 1, "bigint", 1),
    ],
)
def test_keys_of_another_family_find_more_never_less(declared: str, stored: Any, type_: str, key: Any) -> None:
    """What SQLite would compare unlike Spark is left to the view's own condition: all rows come."""
    with held(declared, [stored, None]) as snapshot:
        assert len(found(snapshot, type_, [key])) == 2


# -- every column against every key ----------------------------------------------------------------------------------

DECLARED = {  # and what is stored in such columns, fitting or not
    "INTEGER": st.integers(-3, 3) | st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)]),
    "BOOLEAN": st.integers(0, 1),
    "DECIMAL(9,2)": st.integers(-3, 3) | st.sampled_from([0.5, -0.25, 1.1, 12345.67]),
    "DECIMAL(38,3)": st.integers(-3, 3) | st.sampled_from([2**63 - 1, 1e18, 1e30, 0.125, 1.1]),
    "REAL": st.sampled_from([0.0, -0.0, 0.5, 1.0, -3.0, 1.1, 2.0**53, 1e300, math.inf, -math.inf]),
    "TEXT": st.sampled_from(["", "a", "A", "a ", "1", "2024-02-29", "é", "a\0b"]),
    "TEXT COLLATE NOCASE": st.sampled_from(["", "a", "A", "a ", "É", "a\0b"]),
    "VARCHAR(3) COLLATE RTRIM": st.sampled_from(["", " ", "a", "a  ", "A"]),
    "BLOB": st.sampled_from([b"", b"a", b"1", b"\0", b"\xff"]),
    "VARBINARY(8)": st.sampled_from([b"", b"a", b"1", b"\0"]),  # SQLite gives it the affinity of numbers
    "DATE": st.sampled_from(["2024-02-29", "0001-01-01", "9999-12-31"]),
    "DATETIME": st.sampled_from(["2024-02-29 01:02:03", "2024-02-29T01:02:03.000", "2024-02-29 01:02:03.000001"]),
    "TIMESTAMPTZ": st.sampled_from(["2024-02-29 01:02:03Z", "2024-02-29T01:02:03.000+00:00"]),
}
STRAY = st.none() | st.sampled_from([1, 1.0, 0.5, "1", "a", b"a", "1.0", " 1", "2024-02-29"])
DECIMALS = [Decimal(text) for text in ("0", "1", "-3", "1.5", "0.5", "1.1", "12345.67", "0.125")]
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "tinyint": st.integers(-3, 3),
    "bigint": st.integers(-3, 3) | st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)]),
    "decimal(38,3)": st.sampled_from([*DECIMALS, Decimal(2**63), Decimal(2**63 - 1), Decimal(10) ** 18]),
    "decimal(38,0)": st.sampled_from([Decimal(1), Decimal(2**63), Decimal(10) ** 30, Decimal(int(1e30))]),
    "float": st.sampled_from([0.0, 0.5, 1.1, 1.0, -3.0, math.inf, math.nan]),
    "double": st.sampled_from([0.0, -0.0, 0.5, 1.0, 1.1, 2.0**53, 1e300, 1e18, math.inf, -math.inf, math.nan]),
    "boolean": st.booleans(),
    "string": st.sampled_from(["", "a", "A", "a ", "a  ", "é", "1", "a\0b", "a\0c", "2024-02-29", "\ud800"]),
    "binary": st.sampled_from([b"", b"a", b"1", b"\0", b"\xff"]),
    "date": st.sampled_from([date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)]),
    "timestamp": st.just(datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
    "timestamp_ntz": st.sampled_from([datetime(2024, 2, 29, 1, 2, 3), datetime(2024, 2, 29, 1, 2, 3, 1)]),
}


def fits(declared: str, value: Any) -> bool:
    """Whether the value, as SQLite stores it in such a column, is one of ours."""
    type_ = mapped_type(declared.split(" COLLATE")[0])
    assert type_ is not None
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE t (v {declared})")
        database.execute("INSERT INTO t VALUES (?)", (value,))
        try:
            to_arrow([stored for (stored,) in database.execute("SELECT v FROM t")], type_)
        except Misfit:
            return False
    return True


def single(value: Any) -> float:
    return float(struct.unpack("<f", struct.pack("<f", min(float(value), 3e38)))[0])


def equal(mine: Any, key: Any, column: Type, keys: Type) -> bool:
    """What Spark says: within a family by value, numbers beside a fraction as that fraction, text by its cast."""
    if column.is_numeric and keys.is_numeric:
        if not (column.is_fraction or keys.is_fraction):
            return bool(mine == key)
        if keys.name == "float" and not column.is_fraction:
            return bool(single(mine) == key)
        return bool(float(mine) == float(key) or (math.isnan(mine) and math.isnan(key)))
    if column.family == keys.family:
        return bool(mine == key)
    return _as_text(mine) == _as_text(key)


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(int(value)) if isinstance(value, bool) else str(value).strip()


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[Any], str, list[Any]]:
    declared, type_ = draw(st.sampled_from(sorted(DECLARED))), draw(st.sampled_from(sorted(KEYS)))
    stored = draw(st.lists(DECLARED[declared] | STRAY, min_size=1, max_size=6))
    return declared, stored, type_, draw(st.lists(KEYS[type_], max_size=5))


@given(case=cases(), columns=st.sampled_from([("v",), ("v", "n")]), by_table=st.booleans())
@example(case=("INTEGER", [1, 2], "decimal(38,3)", [Decimal("1.5"), Decimal(2)]), columns=("v",), by_table=False)
@example(case=("DECIMAL(38,3)", [1e30], "decimal(38,0)", [Decimal(int(1e30))]), columns=("v", "n"), by_table=True)
@settings(max_examples=120, deadline=None)
def test_every_row_that_spark_would_join_is_found(
    case: tuple[str, list[Any], str, list[Any]], columns: tuple[str, ...], by_table: bool
) -> None:
    """Over affinities, collations and types of keys, by one column and by two, with bound keys and by a table of them:
    each row once, and never less than Spark would join.
    """
    declared, stored, type_, keys = case
    column = mapped_type(declared.split(" COLLATE")[0])
    assert column is not None
    with pytest.MonkeyPatch.context() as patch, held(declared, [v for v in stored if fits(declared, v)]) as snapshot:
        if by_table:
            patch.setattr(lookup, "MOST_BOUND", 0)
        whole = snapshot.look([Lookup(T, ("v",))])[0].column("v").to_pylist()
        got = found(snapshot, type_, keys, columns)
        expected = [v for v in whole if v is not None and any(equal(v, k, column, parse_type(type_)) for k in keys)]
        assert [v for v in expected if got.count(v) < expected.count(v)] == []
        assert [v for v in got if got.count(v) > whole.count(v)] == []
