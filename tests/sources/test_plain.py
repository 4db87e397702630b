"""Plain rows in Arrow: nothing is bent, and what cannot be held is named."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from weir.algebra.catalog import Relation
from weir.algebra.types import Column, Schema, parse_type
from weir.sources.files import plain as files
from weir.sources.mysql import plain as mysql
from weir.sources.plain import Conversions, plain_batches, plain_table
from weir.sources.source import SourceError
from weir.sources.sqlite import plain as sqlite

T = Relation("shop", "t")


def column(type_: str) -> Schema:
    return Schema([Column("v", parse_type(type_))])


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("bigint", 1.5), ("bigint", True), ("int", 2**31), ("string", b"a"), ("binary", "a"), ("boolean", 1),
        ("date", datetime(2020, 1, 1)), ("double", 1), ("decimal(5,2)", 1.5), ("decimal(5,2)", Decimal("0.125")),
        ("decimal(5,2)", Decimal("NaN")), ("timestamp", "0000-00-00 00:00:00"), ("string", "\ud800"),
    ],
)  # fmt: skip
def test_a_value_of_another_class_is_refused(type_: str, value: Any) -> None:
    """Arrow alone would make 1 of 1.5, text of bytes, a date of a moment."""
    with pytest.raises(SourceError, match=r"shop\.t\.v: its driver gives what the type .* cannot hold"):
        plain_table([(None,), (value,)], column(type_), T)


@pytest.mark.parametrize(
    ("conversions", "type_", "value"),
    [
        (sqlite.CONVERSIONS, "boolean", 2), (sqlite.CONVERSIONS, "boolean", "true"),
        (sqlite.CONVERSIONS, "decimal(5,2)", "cheap"), (sqlite.CONVERSIONS, "date", 2460000.5),
        (sqlite.CONVERSIONS, "date", "2024-02-30"), (sqlite.CONVERSIONS, "decimal(38,2)", float("inf")),
        (mysql.CONVERSIONS, "boolean", b"\2"), (mysql.CONVERSIONS, "bigint", "7"),
        (files._FROM_TEXT, "boolean", "yes"), (files._FROM_TEXT, "int", "1.0"), (files._FROM_TEXT, "decimal(5,2)", "x"),
    ],
)  # fmt: skip
def test_what_stands_for_no_value_is_refused(conversions: Conversions, type_: str, value: Any) -> None:
    """A kind's conversions let nothing through that means something else, or nothing."""
    with pytest.raises(SourceError, match=r"shop\.t\.v"):
        plain_table([(value,)], column(type_), T, conversions)


def test_rows_without_columns_are_counted() -> None:
    """A view may need to know only that there are rows."""
    assert plain_table([(1,), (1,)], Schema(), T).num_rows == 2
    assert plain_table([], column("int"), T).num_rows == 0


def test_a_row_that_the_driver_cannot_read_names_the_table() -> None:
    """Text in bytes that are none, say."""

    class Cursor:
        def fetchmany(self, size: int, /) -> list[Any]:
            b"\xff".decode()
            return []

    with pytest.raises(SourceError, match=r"table shop\.t: its driver cannot read a row: .*utf-8"):
        list(plain_batches(Cursor(), column("string"), T))
