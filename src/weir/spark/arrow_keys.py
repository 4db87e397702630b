"""Matching the keys of two Arrow tables: which rows of one meet which rows of the other.

Every key becomes a number (``Codes``), the same one on both sides when SQL's ``=`` holds between them:

- both sides are cast to one type that holds either exactly (bigint, double, a decimal wide enough for both);
- fractions are compared by their bits. Bags hold one NaN and no -0.0, so equal bits are equal values;
- NULL meets nothing, so it has no number. Where it shall meet itself, it becomes a pair: "is NULL" and a stand-in.

From the numbers it is plain how many pairs there will be before any is made; a task whose memory is bounded sets a
limit (``at_most_pairs``) and is told when a join would go beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.arrow_types import arrow_type
from weir.algebra.errors import TypeMismatch
from weir.algebra.types import MAX_PRECISION, Type

Keys = Sequence[tuple[pa.ChunkedArray, Type]]  # the key columns of one side
Numbers = npt.NDArray[np.int64]
Codes = tuple[Numbers, Numbers]  # every row's key as a number, on the left and on the right; -1 meets nothing
RowPairs = tuple[Numbers, Numbers]  # row numbers on the left, and beside them those on the right
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
_most_pairs: ContextVar[int | None] = ContextVar("most_pairs", default=None)


class TooManyPairs(Exception):
    """A join would make more pairs than the limit that was set."""


@contextmanager
def at_most_pairs(count: int | None) -> Iterator[None]:
    """Joins inside raise ``TooManyPairs`` rather than make more pairs than this at once."""
    token = _most_pairs.set(count)
    try:
        yield
    finally:
        _most_pairs.reset(token)


def meeting(left: Keys, right: Keys, counts: tuple[int, int]) -> RowPairs:
    """Every pair of rows whose keys are equal. ``counts`` are the numbers of rows of the two sides.

    Without keys, every row meets every row.
    """
    return pairs(codes(left, right, counts))


def found(left: Keys, right: Keys, counts: tuple[int, int], wanted: bool, nulls_match: bool) -> Numbers:
    """The numbers of the left rows whose key is (``wanted``) or is not among the right keys."""
    mine, theirs = codes(left, right, counts, nulls_match)
    return np.flatnonzero(present(mine, theirs) == wanted)


def present(mine: Numbers, theirs: Numbers) -> npt.NDArray[np.bool_]:
    """Which of my codes occur among theirs."""
    flags = np.zeros(_beyond(mine, theirs) + 1, np.bool_)  # one more at the end: that is where -1 points to
    flags[theirs] = True
    flags[-1] = False
    return flags[mine]


def codes(left: Keys, right: Keys, counts: tuple[int, int], nulls_match: bool = False) -> Codes:
    """Both sides' keys as numbers from 0 on, as few as there are different keys."""
    both, different = np.zeros(sum(counts), np.int64), 1
    for column in _columns(left, right, nulls_match):
        encoded = column.combine_chunks().dictionary_encode()
        own = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        both = np.where((both < 0) | (own < 0), -1, both * len(encoded.dictionary) + own)
        different *= len(encoded.dictionary)
        if different > 2 * len(both) + 2:
            both, different = _dense(both)
    return both[: counts[0]], both[counts[0] :]


def pairs(keys: Codes) -> RowPairs:
    """Every pair of rows that have the same code."""
    mine, theirs = keys
    many = np.bincount(theirs[theirs >= 0], minlength=_beyond(mine, theirs) + 1)  # the last is -1's own: none
    partners = many[mine]
    count = int(partners.sum())
    most = _most_pairs.get()
    if most is not None and count > most:
        raise TooManyPairs(count)
    by_code = np.argsort(theirs, kind="stable")[np.count_nonzero(theirs < 0) :]
    first = (np.cumsum(many) - many)[mine]  # where the partners of a row begin in ``by_code``
    within = np.arange(count) - np.repeat(np.cumsum(partners) - partners, partners)
    return np.repeat(np.arange(len(mine)), partners), by_code[np.repeat(first, partners) + within]


def _beyond(mine: Numbers, theirs: Numbers) -> int:
    """More than every code."""
    return 1 + max(int(mine.max(initial=-1)), int(theirs.max(initial=-1)))


def _dense(numbers: Numbers) -> tuple[Numbers, int]:
    """The same numbers counted anew, without gaps; -1 stays."""
    values, renumbered = np.unique(numbers, return_inverse=True)
    missing = int(values[0] == -1) if len(values) else 0
    return renumbered.astype(np.int64) - missing, len(values) - missing


def _columns(left: Keys, right: Keys, nulls_match: bool) -> Iterator[pa.ChunkedArray]:
    """Each key column of the left side and below it that of the right side, comparable."""
    for (one, one_type), (other, other_type) in zip(left, right, strict=True):
        meeting_type = _meeting_type(one_type, other_type)
        chunks = [chunk for side in (one, other) for chunk in side.cast(meeting_type).chunks]
        yield from _comparable(pa.chunked_array(chunks, meeting_type), nulls_match)


def _comparable(key: pa.ChunkedArray, nulls_match: bool) -> list[pa.ChunkedArray]:
    bits = _BITS.get(key.type)
    if bits is not None:
        key = pa.chunked_array([chunk.view(bits) for chunk in key.chunks], bits)
    return [pc.is_null(key), pc.fill_null(key, _stand_in(key.type))] if nulls_match else [key]


def _stand_in(type_: pa.DataType) -> pa.Scalar:
    """Some value of the type."""
    if pa.types.is_decimal(type_):
        return pa.scalar(Decimal(0), type_)
    empty = {pa.string(): "", pa.binary(): b"", pa.bool_(): False}
    return pa.scalar(empty.get(type_, 0), type_)


def _meeting_type(left: Type, right: Type) -> pa.DataType:
    """The type in which values of both can be compared without loss."""
    if left == right:
        return arrow_type(left) if left.name != "void" else pa.bool_()
    if "void" in (left.name, right.name):
        return arrow_type(left if right.name == "void" else right)
    families = {left.family, right.family}
    if families <= {"integer", "fraction"} and len(families) == 1:
        return pa.int64() if left.is_integer else pa.float64()
    if families <= {"integer", "decimal"}:
        return _decimal_for(left, right)
    raise TypeMismatch(f"a join cannot compare {left} with {right}: cast one of them in the view")


def _decimal_for(left: Type, right: Type) -> pa.DataType:
    scale = max(left.scale, right.scale)
    digits = max(left.whole_digits, right.whole_digits) + scale
    return pa.decimal128(digits, scale) if digits <= MAX_PRECISION else pa.decimal256(digits, scale)
