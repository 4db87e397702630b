"""Every column type: the same value from the load, from the binlog and from a lookup; what cannot be exact is refused
by name.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.sources.mariadb.conftest import Place, changes, whole
from weir.algebra import types as t
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.proving.oracle import ask, rows_of
from weir.sources.source import SourceError

D = Decimal
CASES: list[tuple[str, t.Type, list[tuple[str, Any]]]] = [
    ("TINYINT", t.TINYINT, [("-128", -128), ("127", 127), ("0", 0)]),
    ("TINYINT(1)", t.TINYINT, [("TRUE", 1), ("FALSE", 0), ("7", 7)]),
    ("TINYINT UNSIGNED", t.SMALLINT, [("255", 255)]),
    ("SMALLINT", t.SMALLINT, [("-32768", -32768), ("32767", 32767)]),
    ("SMALLINT UNSIGNED", t.INT, [("65535", 65535)]),
    ("MEDIUMINT", t.INT, [("-8388608", -8388608), ("8388607", 8388607)]),
    ("MEDIUMINT UNSIGNED", t.INT, [("16777215", 16777215)]),
    ("INT", t.INT, [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)]),
    ("INT UNSIGNED ZEROFILL", t.BIGINT, [("4294967295", 2**32 - 1)]),
    ("BIGINT", t.BIGINT, [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    ("BIGINT UNSIGNED", t.decimal(20, 0), [("18446744073709551615", D(2**64 - 1)), ("0", D(0))]),
    ("DECIMAL(38,0)", t.decimal(38, 0), [("9" * 38, D("9" * 38)), ("-" + "9" * 38, D("-" + "9" * 38))]),
    (
        "DECIMAL(38,30)",
        t.decimal(38, 30),
        [("-12345678.000000000000000000000000000001", D("-12345678.000000000000000000000000000001"))],
    ),
    ("DECIMAL(10,2)", t.decimal(10, 2), [("-0.01", D("-0.01")), ("12345678.90", D("12345678.90")), ("0", D("0.00"))]),
    ("DECIMAL(5,5)", t.decimal(5, 5), [("-0.99999", D("-0.99999"))]),
    ("FLOAT", t.FLOAT, [("1.1", 1.100000023841858), ("3.4028234663852886e38", 3.4028234663852886e38), ("-0.0", 0.0)]),
    ("DOUBLE", t.DOUBLE, [("1.7976931348623157e308", 1.7976931348623157e308), ("5e-324", 5e-324), ("0.1", 0.1)]),
    ("DOUBLE(10,2)", t.DOUBLE, [("0.1", 0.1), ("-12345678.91", -12345678.91)]),
    ("BIT(1)", t.BOOLEAN, [("b'1'", True), ("b'0'", False)]),
    ("BIT(10)", t.BIGINT, [("1023", 1023), ("1", 1)]),
    ("BIT(63)", t.BIGINT, [("9223372036854775807", 2**63 - 1)]),
    ("BIT(64)", t.decimal(20, 0), [("18446744073709551615", D(2**64 - 1))]),
    ("YEAR", t.SMALLINT, [("1901", 1901), ("2155", 2155), ("0", 0)]),
    (
        "DATE",
        t.DATE,
        [("'0001-01-01'", date(1, 1, 1)), ("'9999-12-31'", date(9999, 12, 31)), ("'1969-12-31'", date(1969, 12, 31))],
    ),
    (
        "DATETIME",
        t.TIMESTAMP_NTZ,
        [("'1000-01-01 00:00:00'", datetime(1000, 1, 1)), ("'2024-02-29 12:00:00'", datetime(2024, 2, 29, 12))],
    ),
    ("DATETIME(6)", t.TIMESTAMP_NTZ, [("'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999))]),
    ("DATETIME(3)", t.TIMESTAMP_NTZ, [("'1960-05-06 07:08:09.123'", datetime(1960, 5, 6, 7, 8, 9, 123000))]),
    ("DATETIME(1)", t.TIMESTAMP_NTZ, [("'2001-01-01 00:00:00.5'", datetime(2001, 1, 1, 0, 0, 0, 500000))]),
    ("TIMESTAMP NULL", t.TIMESTAMP, [("'2038-01-19 03:14:07'", datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC))]),
    (
        "TIMESTAMP(6) NULL",
        t.TIMESTAMP,
        [("'1970-01-01 00:00:01.000001'", datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC))],
    ),
    (
        "VARCHAR(50)",
        t.STRING,
        [("'naïve ☃ 𝄞'", "naïve ☃ 𝄞"), ("''", ""), ("'trailing  '", "trailing  "), ("'a\\0b'", "a\0b")],
    ),
    ("VARCHAR(300) CHARACTER SET latin1", t.STRING, [("'é€'", "é€"), ("CHAR(0x81 USING latin1)", "\x81")]),
    ("CHAR(10)", t.STRING, [("'ab  '", "ab"), ("''", "")]),
    ("CHAR(255) CHARACTER SET utf8mb4", t.STRING, [("REPEAT('☃', 255)", "☃" * 255)]),
    ("CHAR(5) CHARACTER SET cp1251", t.STRING, [("'Жук'", "Жук")]),
    ("VARCHAR(20) CHARACTER SET utf16", t.STRING, [("'a𝄞☃'", "a𝄞☃")]),
    ("VARCHAR(20) CHARACTER SET ucs2", t.STRING, [("'a☃'", "a☃")]),
    ("VARCHAR(20) CHARACTER SET utf32", t.STRING, [("'a𝄞☃'", "a𝄞☃")]),
    ("VARCHAR(20) CHARACTER SET utf8mb3", t.STRING, [("'a☃'", "a☃")]),
    ("TINYTEXT", t.STRING, [("'x'", "x")]),
    ("LONGTEXT", t.STRING, [("REPEAT('é', 100000)", "é" * 100000)]),
    ("TEXT CHARACTER SET latin1", t.STRING, [("'é'", "é")]),
    ("JSON", t.STRING, [("'{\"a\":  1}'", '{"a":  1}')]),
    ("BINARY(5)", t.BINARY, [("'a'", b"a\0\0\0\0"), ("X'0000000000'", b"\0" * 5), ("'ab  '", b"ab  \0")]),
    ("VARBINARY(300)", t.BINARY, [("X'FF00FE'", b"\xff\0\xfe"), ("''", b"")]),
    ("BLOB", t.BINARY, [("X'00FF'", b"\0\xff")]),
    ("MEDIUMBLOB", t.BINARY, [("REPEAT('a', 70000)", b"a" * 70000)]),
    (
        "ENUM('a','b''c','d\\\\e','f,g','☃')",
        t.STRING,
        [("'b''c'", "b'c"), ("'d\\\\e'", "d\\e"), ("'f,g'", "f,g"), ("'☃'", "☃"), ("0", "")],
    ),
    ("SET('x','y','z')", t.STRING, [("'z,x'", "x,z"), ("''", ""), ("'y'", "y")]),
    ("ENUM('compressed','unsigned','/* mariadb-5.3 */')", t.STRING, [("'unsigned'", "unsigned")]),
    ("SET('é','☃') CHARACTER SET utf8mb4", t.STRING, [("'☃,é'", "é,☃")]),
]


@pytest.mark.parametrize(("declared", "type_", "values"), CASES, ids=[case[0] for case in CASES])
def test_a_value_is_the_same_from_load_binlog_and_lookup(
    place: Place, declared: str, type_: t.Type, values: list[tuple[str, Any]]
) -> None:
    """Load, change and lookup agree on every value, and on what the application wrote, whatever the session's time
    zone.
    """
    place.run(
        "SET SESSION sql_mode = '', time_zone = '+00:00'",
        f"CREATE TABLE t (pad VARCHAR(9), k INT PRIMARY KEY, v {declared})",
    )
    written = [*values, ("NULL", None)]
    inserts = [f"INSERT INTO t VALUES (NULL, {number}, {text})" for number, (text, _) in enumerate(written)]
    expected = [(number, value) for number, (_, value) in enumerate(written)]
    place.run(*inserts)
    source = place.source({"t": ("k", "v")}, load=False)
    assert _type_of(source) == type_
    load = source.load().held
    assert [row for batch in load.read(load.parts()[0]) for row in rows_of(batch_table(batch), ("k", "v"))] == expected
    load.release()
    place.run("DELETE FROM t", *inserts)
    visit, (answer,) = ask(source, [whole("t", "k", "v")])
    assert [(k, v) for _, weight, k, v in changes(visit, "t", "k", "v") if weight > 0] == expected
    assert sorted((k, v) for _, weight, k, v in changes(visit, "t", "k", "v") if weight < 0) == sorted(
        expected, key=lambda row: row[0]
    )
    assert list(rows_of(answer, ("k", "v"))) == expected


@pytest.mark.parametrize(("declared", "type_", "values"), CASES, ids=[case[0] for case in CASES])
def test_every_type_can_be_a_key_of_a_lookup(
    place: Place, declared: str, type_: t.Type, values: list[tuple[str, Any]]
) -> None:
    """A row is found by the value that was delivered for it (ZEROFILL, BIT, floats and all), or with another."""
    place.run("SET SESSION sql_mode = ''", f"CREATE TABLE t (k INT PRIMARY KEY, v {declared})")
    place.run(*(f"INSERT INTO t VALUES ({number}, {text})" for number, (text, _) in enumerate(values)))
    source = place.source({"t": ("k", "v")})
    for number, (_, value) in enumerate(values):
        lookup = Lookup(
            Relation("shop", "t"), ("k",), ("v",), MemoryBag.of(t.Schema([t.Column("v", type_)]), [(value,)])
        )
        _, (answer,) = ask(source, [lookup])
        assert (number,) in list(rows_of(answer, ("k",)))
    pairs = MemoryBag.of(
        t.Schema([t.Column("k", t.INT), t.Column("v", type_)]), [*_delivered(values), (-1, values[0][1])]
    )
    _, (answer,) = ask(source, [Lookup(Relation("shop", "t"), ("k",), ("k", "v"), pairs)])
    assert sorted(rows_of(answer, ("k",))) == [(number,) for number in range(len(values))]


def _delivered(values: list[tuple[str, Any]]) -> list[tuple[int, Any]]:
    return [(number, value) for number, (_, value) in enumerate(values)]


@pytest.mark.parametrize(
    ("declared", "text", "shown"),
    [
        ("DATE", "'0000-00-00'", "0000-00-00"),
        ("DATE", "'2024-00-10'", "2024-00-10"),
        ("DATETIME", "'0000-00-00 00:00:00'", "0000-00-00"),
        ("DATETIME(6)", "'2024-05-00 01:02:03'", "2024-05-00"),
        ("TIMESTAMP NULL", "0", "0000-00-00"),
        ("DATE", "'0000-05-05'", "0000-05-05"),
    ],
)
def test_dates_that_do_not_exist_are_refused(place: Place, declared: str, text: str, shown: str) -> None:
    """Zero dates stop load, visit and lookup with table, column and value; the source does not go past them."""
    place.run("SET SESSION sql_mode = ''", f"CREATE TABLE t (k INT PRIMARY KEY, v {declared})")
    source = place.source({"t": ("k", "v")})
    place.run(f"INSERT INTO t VALUES (1, {text})")
    for _ in range(2):
        with pytest.raises(SourceError, match=rf"shop\.t\.v holds {shown}"):
            source.visit()
    load = place.source({"t": ("k", "v")}, load=False).load().held
    with pytest.raises(SourceError, match=rf"shop\.t\.v holds {shown}"):
        [batch for part in load.parts() for batch in load.read(part)]
    load.release()


def test_unknown_types_are_refused_only_when_used(place: Place) -> None:
    """A column that no type of ours can hold is refused by name when a view needs it, and skipped when none does."""
    odd = (
        "a TIME(3), b GEOMETRY, c DECIMAL(65,2), d INET6, e UUID, f VARCHAR(5) CHARACTER SET sjis, "
        "g INT AS (k + 1) VIRTUAL, h TEXT COMPRESSED"
    )
    place.run(f"CREATE TABLE t (k INT PRIMARY KEY, {odd}, last INT AS (k * 2) STORED)")
    source = place.source({"t": ("k", "last")})
    described = source.describe()
    assert set(described.unmapped[Relation("shop", "t")]) == set("abcdefgh")
    place.run(
        "INSERT INTO t (k, a, b, c, d, e, f, h) VALUES (1, '1:2:3.5', POINT(1, 2), 1.5, '::1', UUID(), 'a', "
        "REPEAT('x', 1000))"
    )
    place.run("UPDATE t SET k = 2, a = NULL")
    assert changes(source.visit(), "t", "k", "last") == [(0, 1, 1, 2), (1, -1, 1, 2), (1, 1, 2, 4)]
    for name in "abcdefgh":
        with pytest.raises(SourceError, match=rf"column shop\.t\.{name} cannot be used"):
            place.source({"t": (name,)})


def test_invalid_text_is_refused(place: Place) -> None:
    """Bytes that are not UTF-8 in a utf8mb3 column (a surrogate) are delivered exactly or refused by name, never
    changed.
    """
    place.run("SET SESSION sql_mode = ''", "CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET utf8mb3)")
    source = place.source({"t": ("k", "v")})
    place.run("INSERT INTO t VALUES (1, CONVERT(X'EDA080' USING utf8mb3))")
    stored = place.run("SELECT HEX(v) FROM t")[0][0]
    if stored is None or stored != "EDA080":
        ((_, _, text),) = changes(source.visit(), "t", "v")
        assert (text or "").encode().hex().upper() == (stored or "")
    else:
        with pytest.raises(SourceError, match=r"shop\.t\.v"):
            source.visit()


def _type_of(source: Any) -> t.Type:
    table = next(table for table in source.describe().tables if table.relation.table == "t")
    found: t.Type = table.schema.type_of("v")
    return found


def batch_table(batch: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([batch])
