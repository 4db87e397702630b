"""Whole columns of SQLite's values to Arrow at once, for the values that almost every column holds.

Each way either gives what the conversion value by value gives (``values``; a test compares them) or raises, and then
the values are gone through one by one, to convert the odd ones and to name the first that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.arrow_types import arrow_type
from weir.algebra.types import Type

NOT_AT_ONCE = (pa.ArrowException, UnicodeEncodeError, OverflowError)
_NOTHING = type(None)
_EXACT = 2.0**53
_DAY_ONE = -719162  # 0001-01-01, counted from 1970
_FORMS = {  # how long the texts may be, what counts the moments, and the first one that there is
    "date": ({10}, pa.int32(), _DAY_ONE),
    "timestamp_ntz": ({19, 23, 26}, pa.int64(), _DAY_ONE * 86_400 * 10**6),
}


def _plain(values: Sequence[Any], type_: Type) -> pa.Array:
    return pa.array(values, type=arrow_type(type_))


def _boolean(values: Sequence[Any], type_: Type) -> pa.Array:
    numbers = pa.array(values, pa.int64())
    ends = pc.min_max(numbers)
    if (ends["min"].as_py() or 0) < 0 or (ends["max"].as_py() or 0) > 1:
        raise pa.ArrowInvalid("neither 0 nor 1")
    return numbers.cast(pa.bool_())


def _decimal(values: Sequence[Any], type_: Type) -> pa.Array:
    """By the shortest text that reads back as the number; not whole numbers so large that this text is not exact, nor
    texts with an exponent, which Arrow may round to 0 without a word.
    """
    numbers = pa.array(values, pa.float64())
    if (pc.max(pc.abs(numbers)).as_py() or 0) >= _EXACT:
        raise pa.ArrowInvalid("large")
    texts = numbers.cast(pa.string())
    if pc.any(pc.match_substring(texts, "e", ignore_case=True)).as_py():
        raise pa.ArrowInvalid("an exponent")
    return texts.cast(arrow_type(type_))


def _moment(values: Sequence[Any], type_: Type) -> pa.Array:
    """A date or a timestamp_ntz, written in one of the forms that value by value are known."""
    lengths, storage, first = _FORMS[type_.name]
    texts = pa.array(values, pa.string())
    if not set(pc.drop_null(pc.unique(pc.utf8_length(texts))).to_pylist()) <= lengths:
        raise pa.ArrowInvalid("another form")
    moments = texts.cast(arrow_type(type_))
    if (pc.min(moments.cast(storage)).as_py() or 0) < first:
        raise pa.ArrowInvalid("before year 1")
    return moments


_WAYS: dict[str, tuple[frozenset[type], Callable[[Sequence[Any], Type], pa.Array]]] = {
    "bigint": (frozenset((int, _NOTHING)), _plain),
    "double": (frozenset((float, _NOTHING)), _plain),
    "string": (frozenset((str, _NOTHING)), _plain),
    "binary": (frozenset((bytes, _NOTHING)), _plain),
    "boolean": (frozenset((int, _NOTHING)), _boolean),
    "decimal": (frozenset((int, float, _NOTHING)), _decimal),
    "date": (frozenset((str, _NOTHING)), _moment),
    "timestamp_ntz": (frozenset((str, _NOTHING)), _moment),
}


def at_once(values: Sequence[Any], type_: Type) -> pa.Array | None:
    """The column, or None where the values must be gone through one by one."""
    if type_.name not in _WAYS:
        return None
    kinds, way = _WAYS[type_.name]
    if not kinds.issuperset(set(map(type, values))):
        return None
    try:
        return way(values, type_)
    except NOT_AT_ONCE:
        return None
