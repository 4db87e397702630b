"""Hypothesis strategies for values of every column type, with NULL and with what tends to break things."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from weir.algebra.types import INTEGER_BITS, Schema, Type

TEXTS = (
    "", " ", "a", "ab", "b%", "a_b", "%", "_", "\\", "a\\%", "\\_", "é", "😀", "a\nb", "it's", '"', "A",
    "0", "1", "-1", " 7 ", "007", "+5", "2147483648", "99999999999999999999", "1.5", "-0.0", ".5", "5.", "1e3", "1E-3",
    "1e400", "NaN", "-Infinity", "inf", "0x1p3", "1.5f", "1_0", "true", "F", "no", "YES",
    "2020-01-01", "2020-2-9", "2020", "0002-01-01", "9999-12-31", "2020-02-30", "2020-01-01T", "2020-01-01 10:00:00",
    "2020-01-01 10:00:00.123456789", "2020-01-01T10:00:00+01:30", "2020-01-01 10:00:00 Europe/Paris",
    "2020-01-01 25:00:00",
)  # fmt: skip


FIRST = datetime(2, 1, 1)  # PySpark cannot bring an instant of the year 1 back to Python


def values(type_: Type, nullable: bool = True) -> st.SearchStrategy[Any]:
    """Values of a type as a source might deliver them: not normalised, so NaN is any NaN and -0.0 is -0.0."""
    plain = _plain(type_)
    return st.one_of(plain, plain, plain, st.none()) if nullable else plain


def rows(schema: Schema) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*(values(column.type) for column in schema))


def _plain(type_: Type) -> st.SearchStrategy[Any]:
    if type_.is_integer:
        bound = 1 << (INTEGER_BITS[type_.name] - 1)
        return st.sampled_from([0, 1, -1, 2, 7, bound - 1, -bound]) | st.integers(-bound, bound - 1)
    if type_.name == "decimal":
        bound = 10**type_.precision
        unscaled = st.integers(1 - bound, bound - 1) | st.integers(-999, 999) | st.sampled_from([0, bound - 1])
        return unscaled.map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -type_.scale)))
    return _PLAIN[type_.name]


_SPECIAL_FLOATS = st.sampled_from(
    [0.0, -0.0, 1.0, -1.5, 0.5, 2.0**31, 2.0**63, float("nan"), float("inf"), float("-inf")]
)
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "float": _SPECIAL_FLOATS | st.floats(width=32),
    "double": _SPECIAL_FLOATS | st.floats() | st.integers(-1000, 1000).map(float),
    "string": st.sampled_from(TEXTS) | st.text("ab%_\\ é😀'", max_size=4),
    "binary": st.sampled_from([b"", b"a", b"ab", b"\x00"]) | st.text("abé", max_size=3).map(str.encode),
    "boolean": st.booleans(),
    "date": st.sampled_from([FIRST.date(), date(1970, 1, 1), date(2020, 1, 1), date(9999, 12, 31)])
    | st.dates(FIRST.date()),
    "timestamp": st.sampled_from([datetime(1970, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)])
    | st.datetimes(FIRST, timezones=st.just(UTC)),
    "timestamp_ntz": st.sampled_from([datetime(1970, 1, 1), datetime(2020, 1, 1)]) | st.datetimes(FIRST),
}
