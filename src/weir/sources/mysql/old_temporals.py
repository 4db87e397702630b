"""Dates and times in the format of MariaDB 5.3, which tables from before 10.1 keep until they are rebuilt.

The binlog shows a DATETIME, TIMESTAMP or TIME of this format by a type number of its own but not its digits of a
second, on which the width of the value depends. So they must be known from the catalogue, for columns that nobody
needs too: these must be skipped.
"""

from __future__ import annotations

from weir.sources.mysql.values import Convert, datetime_of, moment_of

NUMBERS = {"timestamp": 7, "time": 11, "datetime": 12}  # the binlog's type numbers
MARK = "mariadb-5.3"  # in the type as the catalogue shows it
_BYTES = {"timestamp": (4, 5, 5, 6, 6, 7, 7), "time": (3, 4, 4, 5, 5, 5, 6), "datetime": (8, 6, 6, 7, 7, 7, 8)}


def width(kind: str, digits: int) -> int:
    """The bytes of a value with so many digits of a second."""
    return _BYTES[kind][digits]


def in_log(kind: str, digits: int) -> Convert:
    """From the bytes to microseconds since 1970."""
    if kind == "timestamp":
        return _fine_timestamp(digits) if digits else _timestamp
    return _fine_datetime(digits) if digits else _datetime


def _datetime(raw: bytes) -> int:
    """The decimal number YYYYMMDDhhmmss."""
    day, time = divmod(int.from_bytes(raw, "little"), 1_000_000)
    return datetime_of((day // 10_000, day // 100 % 100, day % 100), (time // 10_000, time // 100 % 100, time % 100), 0)


def _fine_datetime(digits: int) -> Convert:
    """One number, big-endian: each part is worth as many of the next as there can be of that."""
    unit = 10**digits

    def read(raw: bytes) -> int:
        rest, fraction = divmod(int.from_bytes(raw, "big"), unit)
        rest, second = divmod(rest, 60)
        rest, minute = divmod(rest, 60)
        rest, hour = divmod(rest, 24)
        rest, day = divmod(rest, 32)
        return datetime_of((*divmod(rest, 13), day), (hour, minute, second), fraction * (1_000_000 // unit))

    return read


def _timestamp(raw: bytes) -> int:
    return moment_of(int.from_bytes(raw, "little"), 0)


def _fine_timestamp(digits: int) -> Convert:
    unit = 1_000_000 // 10**digits
    return lambda raw: moment_of(int.from_bytes(raw[:4], "big"), int.from_bytes(raw[4:], "big") * unit)
