"""The 64-bit hash of a row's columns, computed column by column on Arrow, without a loop over rows.

The columns are chained: each column's hash is the next one's seed, and NULL passes the seed on. Numbers go in as xxHash
takes eight or four bytes (so a row of numbers has Spark's ``xxhash64``), a text or binary value as its own hash, which
is made of eight bytes at a time, of all rows at once. The hash only finds candidates: who looks for a row compares the
columns too (``taking.py``).

Index runs in files hold these hashes: whoever changes what a row's hash is, changes ``HASHING``, and runs of another
one are made again.
"""

from __future__ import annotations

from decimal import localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from weir.algebra.types import MAX_PRECISION

HASHING = "2"  # which hash this is
SEED = 42
BLOCK = 16_384  # rows at a time: what is computed on the way stays in the processor's cache
LONG = 256  # bytes; a longer text is hashed by itself
P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
    )
)  # fmt: skip
Words = Any  # a numpy array of 64-bit words


def row_hashes(table: pa.Table, bits: int = 64) -> pa.Array:
    """One signed 64-bit hash per row. Fewer ``bits`` make rows collide, which tests want."""
    parts = [_of_batch(batch) for batch in table.to_batches(BLOCK)]
    hashes = np.concatenate(parts) if parts else np.full(table.num_rows, SEED, dtype=np.uint64)
    return pa.array(hashes.view(np.int64) & np.int64((1 << bits) - 1 if bits < 64 else -1))


def _of_batch(batch: pa.RecordBatch) -> Words:
    hashes = np.full(batch.num_rows, SEED, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in batch.columns:
            hashes = _chain(column, hashes)
    return hashes


def _chain(values: Any, seeds: Words) -> Words:
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return _hash_words(_digests(values), seeds)
    hashed = _hash(values, seeds)
    return hashed if not values.null_count else np.where(values.is_null().to_numpy(zero_copy_only=False), seeds, hashed)


def _hash(values: Any, seeds: Words) -> Words:
    type_ = values.type
    if pa.types.is_decimal(type_):
        return _hash_words(_unscaled(values), seeds) if type_.precision <= 18 else _hash_bytes(_big(values), seeds)
    if pa.types.is_float64(type_):
        return _hash_words(values.fill_null(0).to_numpy().view(np.uint64), seeds)
    if pa.types.is_float32(type_):
        return _hash_halves(values.fill_null(0).to_numpy().view(np.uint32).astype(np.uint64), seeds)
    if pa.types.is_timestamp(type_) or pa.types.is_int64(type_):
        return _hash_words(values.cast(pa.int64()).fill_null(0).to_numpy().view(np.uint64), seeds)
    return _hash_halves(_small_integers(values), seeds)


def _digests(values: Any) -> Words:
    """Each text's or binary value's own hash; NULL's is the seed."""
    content = values.cast(pa.binary())
    ends = np.frombuffer(content.buffers()[1], np.int32)[content.offset : content.offset + len(content) + 1]
    starts, lengths = ends[:-1].astype(np.int64), np.diff(ends)
    hashes = _hash_words(lengths.astype(np.uint64), np.uint64(SEED))
    words = _words_anywhere(content, int(ends[0]), int(ends[-1]))
    going = np.flatnonzero((lengths > 0) & (lengths <= LONG))
    at = 0
    while len(going):
        left = lengths[going] - at
        word = words[starts[going] - ends[0] + at] & _FIRST_BYTES[np.minimum(left, 8)]
        hashes[going] = _hash_words(word, hashes[going])
        going, at = going[left > 8], at + 8
    for row in np.flatnonzero(lengths > LONG):
        hashes[row] = xxhash.xxh64_intdigest(content[int(row)].as_buffer(), SEED)
    if content.null_count:
        hashes[content.is_null().to_numpy(zero_copy_only=False)] = SEED
    return hashes


_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)  # masks of so many bytes


def _words_anywhere(content: Any, begin: int, end: int) -> Words:
    """The eight bytes that begin at each byte of a range of the values' bytes; behind its end there are zeros."""
    padded = np.zeros(end - begin + 8, np.uint8)
    if end > begin:
        padded[: end - begin] = np.frombuffer(content.buffers()[2], np.uint8)[begin:end]
    return np.ndarray((end - begin + 1,), "<u8", padded.data, strides=(1,))


def _small_integers(values: Any) -> Words:
    whole = values.cast(pa.int32()).fill_null(0).to_numpy()
    return whole.view(np.uint32).astype(np.uint64)


def _unscaled(values: Any) -> Words:
    """The low words of 128-bit decimals that fit 64 bits."""
    words = np.frombuffer(values.buffers()[1], dtype=np.uint64)
    return words[2 * values.offset : 2 * (values.offset + len(values)) : 2]


def _big(values: Any) -> list[bytes | None]:
    """Unscaled decimals in the fewest big-endian bytes, as Java's BigInteger writes them."""
    scale = values.type.scale
    with localcontext(prec=2 * MAX_PRECISION):
        numbers = [None if value is None else int(value.scaleb(scale)) for value in values.to_pylist()]
    return [None if number is None else _shortest_bytes(number) for number in numbers]


def _shortest_bytes(number: int) -> bytes:
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _hash_bytes(values: list[bytes | None], seeds: Words) -> Words:
    digest = xxhash.xxh64_intdigest
    pairs = zip(values, seeds.tolist(), strict=True)
    return np.fromiter((0 if v is None else digest(v, s) for v, s in pairs), dtype=np.uint64, count=len(values))


def _hash_words(words: Words, seeds: Words) -> Words:
    mixed = (seeds + P5 + np.uint64(8)) ^ (_rotate(words * P2, 31) * P1)
    return _finish(_rotate(mixed, 27) * P1 + P4)


def _hash_halves(words: Words, seeds: Words) -> Words:
    mixed = (seeds + P5 + np.uint64(4)) ^ (words * P1)
    return _finish(_rotate(mixed, 23) * P2 + P3)


def _rotate(words: Words, by: int) -> Words:
    return (words << np.uint64(by)) | (words >> np.uint64(64 - by))


def _finish(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(33))) * P2
    words = (words ^ (words >> np.uint64(29))) * P3
    return words ^ (words >> np.uint64(32))
