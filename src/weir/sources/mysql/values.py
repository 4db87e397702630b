"""Raw values to Arrow columns: one function per way in which MariaDB and MySQL write a type.

Every function takes the raw values of one column (None for NULL) and gives an Arrow array. A value that our types
cannot hold exactly raises ``BadValue`` with the value as text; the caller adds table and column.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

import pyarrow as pa

Values = Sequence[Any]
Finish = Callable[[Values], Any]  # raw values -> pa.Array
Convert = Callable[[Any], Any]  # one raw value -> a Python value

_EPOCH = date(1970, 1, 1).toordinal()
_DAY, _SECOND = 86_400_000_000, 1_000_000
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # bytes for so many digits of a packed decimal


class BadValue(Exception):
    """A stored value that has no exact counterpart; the text is the value."""


def plain(arrow: pa.DataType) -> Finish:
    """Numbers that came out of ``struct`` as they are."""
    return lambda values: pa.array(values, arrow)


def mapped(convert: Callable[[Any], Any], arrow: pa.DataType) -> Finish:
    return lambda values: pa.array([None if value is None else convert(value) for value in values], arrow)


def three_bytes(signed: bool) -> Callable[[bytes], int]:
    return lambda raw: int.from_bytes(raw, "little", signed=signed)


def year(raw: int) -> int:
    """The binlog counts years from 1900; 0 is the year 0000."""
    return raw + 1900 if raw else 0


# -- decimals ---------------------------------------------------------------------------------------------------------


def decimal_text(arrow: pa.DataType) -> Finish:
    return lambda values: pa.array(values, pa.binary()).cast(pa.string()).cast(arrow)


def decimal_integers(arrow: pa.DataType, convert: Callable[[Any], int] = int) -> Finish:
    """From the unscaled integers; written straight into Arrow's 16 bytes, as Decimal objects would cost ten times
    that.
    """

    def finish(values: Values) -> pa.Array:
        empty = bytes(16)
        data = b"".join(empty if v is None else convert(v).to_bytes(16, "little", signed=True) for v in values)
        present = None
        if any(value is None for value in values):
            present = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
        return pa.Array.from_buffers(arrow, len(values), [present, pa.py_buffer(data)])

    return finish


def packed_decimal_size(precision: int, scale: int) -> int:
    whole = precision - scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + scale // 9 * 4 + _DIGIT_BYTES[scale % 9]


def packed_decimal(precision: int, scale: int) -> Callable[[bytes], int]:
    """The unscaled integer of a packed decimal: groups of nine digits in four bytes, big-endian, the first bit the
    sign turned round and a negative number's bits all turned round.
    """
    size = packed_decimal_size(precision, scale)
    top, full = 1 << (8 * size - 1), (1 << 8 * size) - 1
    groups = _groups(precision - scale, scale)

    def unpack(raw: bytes) -> int:
        bits = int.from_bytes(raw, "big")
        negative = not bits & top
        bits = (bits ^ full if negative else bits) ^ top
        number = 0
        for mask, shift, power in groups:
            number += (bits & mask) * power
            bits >>= shift
        return -number if negative else number

    return unpack


def _groups(whole: int, scale: int) -> list[tuple[int, int, int]]:
    """(mask, bits, power of ten) of every group, from the last."""
    digits = [whole % 9] + [9] * (whole // 9) + [9] * (scale // 9) + [scale % 9]
    groups, power = [], 1
    for many in reversed(digits):
        if many:
            bits = 8 * _DIGIT_BYTES[many]
            groups.append(((1 << bits) - 1, bits, power))
            power *= 10**many
    return groups


# -- text -------------------------------------------------------------------------------------------------------------


def utf8(values: Values) -> pa.Array:
    """Bytes that are UTF-8; Arrow checks them all at once."""
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        raise BadValue(_first_bad(values, "utf-8")) from None


def encoded(codec: str) -> Finish:
    def finish(values: Values) -> pa.Array:
        try:
            return pa.array([None if value is None else str(value, codec) for value in values], pa.string())
        except UnicodeError:
            raise BadValue(_first_bad(values, codec)) from None

    return finish


def ucs2(values: Values) -> pa.Array:
    """Two bytes a character: a pair of surrogates, one character of UTF-16, is none here."""
    for value in values:
        if value is not None and len(str(value, "utf-16-be", "replace")) != len(value) // 2:
            raise BadValue(repr(bytes(value)[:60]))
    return encoded("utf-16-be")(values)


def by_table(table: str) -> Finish:
    """One byte, one character: ``table`` has the 256 characters, as the server itself converts them."""
    decode = codecs.charmap_decode
    return mapped(lambda raw: decode(raw, "strict", table)[0], pa.string())


def _first_bad(values: Values, codec: str) -> str:
    for value in values:
        try:
            str(value or b"", codec)
        except UnicodeError:
            return repr(bytes(value)[:60])
    return "a text that Arrow refuses"


def padded(size: int) -> Callable[[bytes], bytes]:
    """BINARY(n): the binlog leaves out the zeros at the end."""
    return lambda raw: raw.ljust(size, b"\0")


def choice(names: Sequence[str]) -> Callable[[int], str]:
    """ENUM: a number from 1; 0 is the empty string that stands for a wrong value."""
    known = ("", *names)
    return known.__getitem__


def choices(names: Sequence[str]) -> Callable[[bytes], str]:
    """SET: one bit per member."""

    @lru_cache(1024)
    def text(raw: bytes) -> str:
        bits = int.from_bytes(raw, "little")
        return ",".join(name for at, name in enumerate(names) if bits >> at & 1)

    return text


def bits(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


# -- dates and times --------------------------------------------------------------------------------------------------


@lru_cache(65_536)
def _days(year: int, month: int, day: int) -> int:
    try:
        return date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        raise BadValue(f"{year:04}-{month:02}-{day:02}") from None


def date_in_log(raw: bytes) -> int:
    bits = int.from_bytes(raw, "little")
    return _days(bits >> 9, bits >> 5 & 15, bits & 31)


def datetime_of(day: tuple[int, int, int], time: tuple[int, int, int], microseconds: int) -> int:
    """Microseconds since 1970, of (year, month, day) and (hour, minute, second)."""
    return _days(*day) * _DAY + (time[0] * 3600 + time[1] * 60 + time[2]) * _SECOND + microseconds


def moment_of(seconds: int, microseconds: int) -> int:
    if not seconds and not microseconds:
        raise BadValue("0000-00-00 00:00:00")
    return seconds * _SECOND + microseconds


def datetime_in_log(raw: bytes) -> int:
    """Microseconds since 1970: five bytes big-endian hold months, day, hour, minute, second; then the fraction."""
    bits = int.from_bytes(raw[:5], "big") - (1 << 39)
    year, month = divmod(bits >> 22, 13)
    time = bits >> 12 & 31, bits >> 6 & 63, bits & 63
    return datetime_of((year, month, bits >> 17 & 31), time, _fraction(raw[5:]))


def timestamp_in_log(raw: bytes) -> int:
    return moment_of(int.from_bytes(raw[:4], "big"), _fraction(raw[4:]))


def _fraction(raw: bytes) -> int:
    return int.from_bytes(raw, "big") * int(10 ** (6 - 2 * len(raw)))


def date_in_answer(raw: bytes) -> int:
    if len(raw) < 4:
        raise BadValue("0000-00-00")
    return _days(raw[0] | raw[1] << 8, raw[2], raw[3])


def datetime_in_answer(raw: bytes) -> int:
    """Year (two bytes), month, day; then hour, minute, second; then microseconds; zeros at the end are left out."""
    days = date_in_answer(raw)
    seconds = raw[4] * 3600 + raw[5] * 60 + raw[6] if len(raw) > 4 else 0
    return days * _DAY + seconds * _SECOND + int.from_bytes(raw[7:11], "little")
