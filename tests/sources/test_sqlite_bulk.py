"""Columns converted at once are what the conversion value by value makes of them."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from weir.algebra.types import Type, parse_type
from weir.sources.sqlite.bulk import at_once
from weir.sources.sqlite.values import Misfit, one_by_one

DIGITS = st.text("0123456789-:. TZ+", max_size=27)
DAYS = st.dates().map(str) | st.sampled_from(["0000-01-01", "2023-02-29", "9999-12-31", "+2024-1-1", "2024-01-0١"])
MOMENTS = st.builds(
    lambda moment, separator, precision: moment.isoformat(separator, precision),
    st.datetimes(), st.sampled_from(" T"), st.sampled_from(["minutes", "seconds", "milliseconds", "microseconds"]),
) | st.sampled_from(["2024-01-01 24:00:00", "2024-01-01 10:00:60", "0000-01-01 00:00:00"])  # fmt: skip
VALUES = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(),
    "boolean": st.integers(-1, 2),
    "decimal(12,2)": st.integers() | st.floats() | st.integers(-(10**12), 10**12).map(lambda n: n / 100),
    "decimal(38,9)": st.integers() | st.floats() | st.integers(-(10**18), 10**18).map(lambda n: n / 10**6),
    "decimal(20,0)": st.integers(-(10**21), 10**21) | st.floats(),
    "string": st.text() | st.just("stray \udcff"),
    "date": DAYS | DIGITS,
    "timestamp_ntz": MOMENTS | DIGITS,
    "timestamp": MOMENTS.map(lambda text: f"{text}Z") | DIGITS,
}


def columns() -> st.SearchStrategy[tuple[Type, list[Any]]]:
    return st.sampled_from(sorted(VALUES)).flatmap(
        lambda name: st.tuples(st.just(parse_type(name)), st.lists(st.none() | VALUES[name], max_size=4))
    )


@settings(max_examples=600, deadline=None)
@given(columns())
@example((parse_type("decimal(38,9)"), [5e-324, 1e22, 0.1]))
@example((parse_type("decimal(20,0)"), [6.271787272269147e16]))
@example((parse_type("decimal(12,2)"), [-0.0, 2**53 + 1, 0.1 + 0.2]))
def test_at_once_is_one_by_one(column: tuple[Type, list[Any]]) -> None:
    """Or it leaves the column to the way that names the misfit."""
    type_, values = column
    whole = at_once(values, type_)
    try:
        expected = one_by_one(values, type_)
    except Misfit:
        assert whole is None
    else:
        assert whole is None or repr(whole.to_pylist()) == repr(expected.to_pylist())


def test_usual_columns_are_converted_at_once() -> None:
    """Otherwise nothing would be gained."""
    usual: dict[str, list[Any]] = {
        "decimal(12,2)": [1.25, 5, None], "date": ["2024-01-31", None], "boolean": [0, 1, None], "string": ["a"],
        "timestamp_ntz": ["2024-01-31 10:00:00", "2024-01-31T10:00:00.123", None],
    }  # fmt: skip
    assert [name for name, values in usual.items() if at_once(values, parse_type(name)) is None] == []
