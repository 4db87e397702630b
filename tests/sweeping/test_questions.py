"""What a task asks arrives as it was asked, whatever types its keys have."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from weir.algebra.arrow_types import arrow_type
from weir.algebra.catalog import Relation
from weir.algebra.expression import Expression, Written
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import SIMPLE_TYPES, Column, Schema, Type, decimal
from weir.sources.source import LoadAgain, SchemaChanged, SourceError
from weir.spark.arrow_bag import ArrowBag
from weir.sweeping.parcel import NotUnderstood, packed, unpacked
from weir.sweeping.questions import LookupRequest, packed_answers, packed_problem, unpacked_answers

RELATION = Relation("crm", "odd `name`.\u00e9\U0001f600")
LONG_AGO_AND_LATER = (-25_567_00, 2_932_897, 5_000_000)  # days: the year 1270, 10000-01-01, the year 15659
DAY = 86_400_000_000  # microseconds
VALUES: dict[str, list[Any]] = {
    "tinyint": [-128, 127],
    "smallint": [-32768, 32767],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "float": [0.0, 1.5, float("nan"), float("inf")],
    "double": [0.0, -1e308, float("nan"), float("-inf")],
    "string": ["", " ", "\0", "\u00df", "\U0001f600"],
    "binary": [b"", b"\0\xff", bytes(range(256))],
    "boolean": [True, False],
    "date": [date(1, 1, 1), date(9999, 12, 31)],
    "timestamp": [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)],
    "timestamp_ntz": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "void": [],
}


def _message(pieces: list[Any]) -> bytearray:
    return bytearray(b"".join(bytes(memoryview(piece)) for piece in pieces))


def _arrived(*lookups: Lookup) -> tuple[Lookup, ...]:
    arrived = LookupRequest.unpacked(_message(LookupRequest("crm", 3, lookups).packed()))
    assert (arrived.source, arrived.round) == ("crm", 3)
    return arrived.lookups


def _keys(type_: Type, values: list[Any]) -> ArrowBag:
    schema = Schema([Column("k", type_)])
    return ArrowBag.from_table(schema, pa.table({"k": pa.array([*values, None], arrow_type(type_))}))


@pytest.mark.parametrize("name", SIMPLE_TYPES)
def test_keys_of_every_type_arrive_as_they_are(name: str) -> None:
    """NULL too; the bag is the same, row by row and type by type."""
    keys = _keys(SIMPLE_TYPES[name], VALUES[name])
    (arrived,) = _arrived(Lookup(RELATION, ("k", "v"), ("k",), keys))
    assert isinstance(arrived.keys, ArrowBag)
    assert arrived.keys.schema == keys.schema
    assert arrived.keys.table.equals(keys.table) or "nan" in str(VALUES[name])
    assert arrived.keys == keys
    assert len(arrived.keys) == len(VALUES[name]) + 1


@pytest.mark.parametrize("type_", [decimal(38, 38), decimal(38, 0), decimal(5, 2)], ids=str)
def test_decimals_keep_every_digit(type_: Type) -> None:
    values = [Decimal((sign, (9,) * type_.precision, -type_.scale)) for sign in (0, 1)]
    (arrived,) = _arrived(Lookup(RELATION, ("k",), ("k",), _keys(type_, values)))
    assert isinstance(arrived.keys, ArrowBag)
    assert arrived.keys.schema.types == (type_,)
    assert set(arrived.keys.table.column("k").to_pylist()) == {*values, None}


@pytest.mark.parametrize(("name", "unit"), [("date", 1), ("timestamp", DAY), ("timestamp_ntz", DAY)])
def test_days_that_python_does_not_know_arrive(name: str, unit: int) -> None:
    """Beyond the year 9999, and before the year 1: they are numbers on the way, never Python's dates."""
    type_ = arrow_type(SIMPLE_TYPES[name])
    days = [*LONG_AGO_AND_LATER, -800_000]
    stored = pa.array([day * unit for day in days], pa.int32() if unit == 1 else pa.int64()).cast(type_)
    keys = ArrowBag.from_table(Schema([Column("k", SIMPLE_TYPES[name])]), pa.table({"k": stored}))
    (arrived,) = _arrived(Lookup(RELATION, ("k",), ("k",), keys))
    assert isinstance(arrived.keys, ArrowBag)
    assert arrived.keys.table.equals(keys.table)
    answer = pa.table({"k": stored})
    assert unpacked_answers(_message(packed_answers((answer,))))[0].equals(answer)


def test_whole_lookups_arrive() -> None:
    """Several in one question: keys of several columns, none at all, an empty bag, conditions, odd names."""
    pairs = MemoryBag.weighted(Schema.parse("a int, b string"), [((1, "x"), 1), ((None, None), 1)])
    written = Written("o.`x` > 1", (("o.x", "o", "x"),))
    asked = (
        Lookup(RELATION, ("a", "b", "c \u20ac"), ("a", "b"), pairs),
        Lookup(RELATION, ("a",), selection=Expression("`x` > 1", written)),
        Lookup(RELATION, (), ("a",), ArrowBag.weighted(Schema.parse("a bigint"), []), Expression("TRUE")),
    )
    arrived = _arrived(*asked)
    assert [(one.relation, one.columns, one.key_columns, one.selection) for one in arrived] == [
        (one.relation, one.columns, one.key_columns, one.selection) for one in asked
    ]
    assert arrived[1].selection is not None
    assert arrived[1].selection.written == written
    given = [None if one.keys is None else dict(one.keys.items()) for one in arrived]
    assert given == [{(1, "x"): 1, (None, None): 1}, None, {}]


def test_only_the_rows_of_a_slice_travel() -> None:
    """Not the table from which they were cut."""
    table = pa.table({"id": range(1_000_000)})
    message = _message(packed_answers((table.slice(10, 3),)))
    assert len(message) < 2000
    assert unpacked_answers(message)[0].column("id").to_pylist() == [10, 11, 12]


@pytest.mark.parametrize("kind", [LoadAgain, SchemaChanged, SourceError])
def test_a_problem_keeps_its_kind_and_its_words(kind: type[SourceError]) -> None:
    with pytest.raises(kind, match=r"^crm: so it is \u20ac$"):
        unpacked_answers(_message(packed_problem(kind("crm: so it is \u20ac"))))


def test_keys_of_other_types_than_announced_are_refused() -> None:
    """And whatever else is missing or cut off."""
    question = LookupRequest("crm", 1, (Lookup(RELATION, ("k",), ("k",), _keys(SIMPLE_TYPES["int"], [1])),))
    document, tables = unpacked(_message(question.packed()))
    text = pa.table({"k": ["1"]})
    for wrong in (packed(document, [text]), packed(document), packed({**document, "round": None}, tables), packed({})):
        with pytest.raises(NotUnderstood, match="install the same Weir on both sides"):
            LookupRequest.unpacked(_message(wrong))
    whole = _message(question.packed())
    for length in range(0, len(whole) - 64, 7):
        with pytest.raises(NotUnderstood):
            LookupRequest.unpacked(whole[:length])
