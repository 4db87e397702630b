"""Matching the keys of two Arrow tables: which rows of one meet which rows of the other.

Keys are brought to a form in which Arrow's hash join means what SQL's ``=`` means:

- both sides are cast to one type that holds either exactly (bigint, double, a decimal wide enough for both);
- fractions are compared by their bits. Bags hold one NaN and no -0.0, so equal bits are equal values;
- NULL meets nothing. Where it shall meet itself, it becomes a pair: "is NULL" and a stand-in value.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.arrow_types import arrow_type
from weir.algebra.errors import TypeMismatch
from weir.algebra.types import MAX_PRECISION, Type

Keys = Sequence[tuple[pa.ChunkedArray, Type]]  # the key columns of one side
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def row_numbers(count: int) -> pa.Array:
    """0, 1, 2, ..., count - 1."""
    return pc.indices_nonzero(pa.repeat(True, count))


def meeting(left: Keys, right: Keys, counts: tuple[int, int]) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Every pair of rows whose keys are equal: the row numbers on the left, and beside them those on the right.

    ``counts`` are the numbers of rows of the two sides. Without keys, every row meets every row.
    """
    mine, theirs, names = _key_tables(left, right, counts, nulls_match=False)
    pairs = mine.join(theirs, names, right_keys=names, join_type="inner")
    return pairs.column("left"), pairs.column("right")


def found(left: Keys, right: Keys, counts: tuple[int, int], wanted: bool, nulls_match: bool) -> pa.ChunkedArray:
    """The numbers of the left rows whose key is (``wanted``) or is not among the right keys."""
    mine, theirs, names = _key_tables(left, right, counts, nulls_match)
    kept = mine.join(theirs, names, right_keys=names, join_type="left semi" if wanted else "left anti")
    return kept.column("left")


def _key_tables(
    left: Keys, right: Keys, counts: tuple[int, int], nulls_match: bool
) -> tuple[pa.Table, pa.Table, list[str]]:
    """Both sides as tables of comparable key columns and the row's number, and the key columns' names."""
    # One constant column is always there, so that no keys at all is the ordinary case of a cross product.
    mine, theirs = [pa.repeat(True, counts[0])], [pa.repeat(True, counts[1])]
    for (one, one_type), (other, other_type) in zip(left, right, strict=True):
        meeting_type = _meeting_type(one_type, other_type)
        mine += _comparable(one.cast(meeting_type), nulls_match)
        theirs += _comparable(other.cast(meeting_type), nulls_match)
    names = [f"key {at}" for at in range(len(mine))]
    return (
        pa.table([*mine, row_numbers(counts[0])], [*names, "left"]),
        pa.table([*theirs, row_numbers(counts[1])], [*names, "right"]),
        names,
    )


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
