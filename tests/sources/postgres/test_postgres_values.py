"""Values of every type: exact on all three ways (load, change, answer), or refused by table, column and value."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.sources.postgres.conftest import Lab, changes
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, TIMESTAMP_NTZ, Type, decimal
from weir.proving.oracle import ask, rows_of
from weir.sources.postgres.values import from_fields
from weir.sources.source import SourceError

T = Relation("pg", "t")

COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "i2": ("smallint", [-32768, 32767, 0]),
    "i4": ("int", [-2147483648, 2147483647, 0]),
    "i8": ("bigint", [-9223372036854775808, 9223372036854775807, 0]),
    "dec": ("numeric(38,10)", [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001"), Decimal("1.5")]),
    "money": ("numeric(12,2)", [Decimal("9999999999.99"), Decimal("-0.01"), Decimal("100.00")]),
    "f4": ("real", [0.10000000149011612, 3.4028234663852886e38, -1.401298464324817e-45]),
    "f8": ("double precision", [0.1, 1.7976931348623157e308, 5e-324]),
    "odd": ("double precision", [float("inf"), float("-inf"), -1.0]),
    "s": ("text", ["", "naïve ☃ \U0001f600", "a\"b'c\\d\te\nf\rg,h;\\N"]),
    "v": ("varchar(30)", ["x", "\\.", "NULL"]),
    "c": ("char(5)", ["ab   ", "     ", "abcde"]),
    "b": ("boolean", [True, False, True]),
    "d": ("date", [date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10)]),
    "ts": ("timestamp", [
        datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 1, 2, 3, 40),
    ]),
    "tz": ("timestamptz", [
        datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC), datetime(1900, 1, 1, 0, 0, 1, tzinfo=UTC),
    ]),
    "bin": ("bytea", [b"", bytes(range(256)), b"\\x00"]),
    "u": ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"] * 3),
    "j": ("json", ['{"a":  1}', "null", "[1, 2]"]),
    "jb": ("jsonb", ['{"a": 1}', "null", "[1, 2]"]),
    "e": ("mood", ["happy", "it's \"so\", so", "happy"]),
    "dom": ("positive", [1, 2, 3]),
    "pick": ("price", [Decimal("1.25"), Decimal("2.00"), Decimal("3.50")]),
}  # fmt: skip


def everything(lab: Lab) -> None:
    lab.execute(
        "CREATE TYPE mood AS ENUM ('happy', 'it''s \"so\", so')", "CREATE DOMAIN positive AS int CHECK (value > 0)"
    )
    lab.execute("CREATE DOMAIN amount AS numeric(7,2)", "CREATE DOMAIN price AS amount")
    lab.execute(f"CREATE TABLE t (id int, {', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())})")
    lab.capture("t")


def insert(lab: Lab) -> list[tuple[Any, ...]]:
    rows = [*list(zip(*(values for _, values in COLUMNS.values()), strict=True)), (None,) * len(COLUMNS)]
    marks = ", ".join(f"%s::{kind}" for kind, _ in COLUMNS.values())
    for number, row in enumerate(rows):
        lab.admin.execute(f"INSERT INTO t VALUES ({number}, {marks})", row)
    return rows


def test_every_type_is_exact_on_every_way(lab: Lab) -> None:
    """Extremes, NULL and the empty string come out of load, stream and lookup as they went in."""
    everything(lab)
    names = tuple(COLUMNS)
    watch = lab.watch(t=names)
    expected = Counter(insert(lab))
    visit = watch.visit(Lookup(T, names))
    assert Counter(row[:-2] for row in changes(visit, "t")) == expected
    assert Counter(rows_of(watch.answers[0], names)) == expected
    assert watch.answers[0].schema == visit.changes[T].schema.remove(len(names)).remove(len(names))
    again = lab.watch(t=names) if lab.kind == "postgres-triggers" else reload(lab, watch)
    assert again.replay.tables[T] == expected
    lab.execute("UPDATE t SET id = id + 100", "DELETE FROM t WHERE id = 101")
    again.visit(Lookup(T, names))


def reload(lab: Lab, watch: Any) -> Any:
    watch.source.close()
    return lab.watch(t=tuple(COLUMNS))


def test_nan_is_delivered(lab: Lab) -> None:
    """NaN is a value of both float types."""
    lab.execute("CREATE TABLE t (f real, d double precision)")
    lab.capture("t")
    watch = lab.watch(t=("f", "d"))
    lab.execute("INSERT INTO t VALUES ('NaN', 'NaN')")
    visit = watch.visit(Lookup(T, ("f", "d")))
    assert all(value != value for value in changes(visit, "t")[0][:2])
    lab.execute("DELETE FROM t")
    watch.visit(Lookup(T, ("f", "d")))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "infinity"),
        ("date", "-infinity"),
        ("date", "0044-03-15 BC"),
        ("date", "10000-01-01"),
        ("timestamp", "infinity"),
        ("timestamp", "0044-03-15 12:00:00 BC"),
        ("timestamp", "294276-12-31 00:00:00"),
        ("timestamptz", "-infinity"),
        ("timestamptz", "10000-01-01 00:00:00+00"),
        ("numeric(10,2)", "NaN"),
    ],
)
def test_a_value_that_no_type_of_ours_holds_is_refused_by_name(lab: Lab, kind: str, value: str) -> None:
    """Table, column and value are named, in the stream, in a lookup and in a load; nothing is altered."""
    lab.execute(f"CREATE TABLE t (id int, odd {kind})")
    lab.capture("t")
    watch = lab.watch(t=("id", "odd"))
    lab.admin.execute(f"INSERT INTO t VALUES (1, NULL), (2, %s::{kind})", (value,))
    shown = rf"pg\.t\.odd holds the value '{value.split(' ')[0].replace('+', '.')}"
    for _ in range(2):
        with pytest.raises(SourceError, match=shown):
            watch.source.visit()
    watch.source.close()
    source = lab.open()
    source.watch({T: ("id", "odd")})
    load = source.load()
    with pytest.raises(SourceError, match=shown):
        [list(load.held.read(part)) for part in load.held.parts()]
    load.held.release()
    with pytest.raises(SourceError, match=shown):
        ask(source, [Lookup(T, ("odd",))])


def test_a_database_without_an_encoding_is_refused(lab: Lab) -> None:
    """Its bytes may be no text at all; nothing is replaced, the database is refused by name."""
    with lab.server.connect() as admin:
        encoding = "ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        admin.execute(f"CREATE DATABASE {lab.database}_bytes {encoding}")
    options = replace(lab.options(), database=f"{lab.database}_bytes")
    source = type(lab.open())(options)
    with pytest.raises(SourceError, match="no encoding"):
        source.watch({T: ("id", "name")})
    assert any("no encoding" in finding.problem for finding in source.describe().findings)
    source.close()


def test_text_that_is_not_utf8_is_refused_by_name() -> None:
    """Should such bytes ever come, they are named, not replaced."""
    with pytest.raises(SourceError, match=r"pg\.t\.name holds the value 'bad\\xff'"):
        from_fields([b"fine", b"bad\xff"], STRING, "pg.t.name")


def test_columns_convert_as_a_whole() -> None:
    """The converter itself, without a server: NULLs stay NULL in every type."""
    cases: list[tuple[Type, list[bytes | None], list[Any]]] = [
        (BIGINT, [b"1", None], [1, None]),
        (decimal(5, 2), [b"1.5", None], [Decimal("1.50"), None]),
        (DOUBLE, [b"-Infinity", None], [float("-inf"), None]),
        (STRING, [b"", None], ["", None]),
        (BOOLEAN, [b"t", b"f", None], [True, False, None]),
        (BINARY, [b"\\x", b"\\x00ff", None], [b"", b"\x00\xff", None]),
        (DATE, [b"2024-02-29", None], [date(2024, 2, 29), None]),
        (TIMESTAMP, [b"2024-01-01 00:00:00.5+00", None], [datetime(2024, 1, 1, 0, 0, 0, 500000, tzinfo=UTC), None]),
        (TIMESTAMP_NTZ, [b"2024-01-01 00:00:00", None], [datetime(2024, 1, 1), None]),
    ]
    for type_, texts, values in cases:
        assert from_fields(texts, type_, "t.c").to_pylist() == values


def test_an_unfit_value_is_shortened_in_the_message() -> None:
    """A megabyte of garbage does not fill the screen."""
    with pytest.raises(SourceError) as caught:
        from_fields([b"1", b"9" * 10_000], BIGINT, "pg.t.c")
    assert len(str(caught.value)) < 400
    assert "pg.t.c" in str(caught.value)


def test_arrow_reads_what_postgres_writes_and_nothing_else() -> None:
    """The parsers below ours do not accept what PostgreSQL would never write as a number."""
    for text in (b" 1", b"+1", b"1.0", b"", b"one"):
        with pytest.raises(SourceError):
            from_fields([text], BIGINT, "t.c")
    assert pa.types.is_int64(from_fields([b"1"], BIGINT, "t.c").type)
