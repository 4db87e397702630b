"""Dates and timestamps as text, the way Spark reads and writes them, in a session whose time zone is UTC.

Spark knows years far beyond 1 to 9999 and words such as 'now' or a bare time of day, which mean today's. Python's
dates end at 9999 and the algebra has no clock, so those are left to Spark. Only constants are read here: of any other
text nobody knows beforehand what it will be (``weir.algebra.scalar.compiled``).
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from weir.algebra.errors import UnsupportedExpression
from weir.algebra.scalar.text_numbers import BLANKS, Unreadable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CLOCK_WORDS = frozenset(("epoch", "now", "today", "tomorrow", "yesterday"))

_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIME_OF_DAY = re.compile(r"T?[0-9]{1,2}:")
_TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{1,2})(?::?([0-9]{2}))?)?")
_SHORT_ZONES = {"EST": "-05:00", "MST": "-07:00", "HST": "-10:00"}  # fixed in Java whatever the zone database says


def read_date(text: str) -> date:
    match = _DATE.fullmatch(text.strip(BLANKS))
    if not match:
        raise Unreadable
    sign, year, month, day = match.groups()
    return _moment(sign, year, month, day).date()


def read_timestamp(text: str) -> datetime:
    """An instant; text without a zone is in UTC."""
    naive, zone = _read(text)
    return as_instant(naive.replace(tzinfo=_zone(zone) if zone else UTC), text)


def read_timestamp_ntz(text: str) -> datetime:
    """A wall clock reading; a zone is read and forgotten."""
    naive, zone = _read(text, bare_time_fails=True)
    if zone:
        _zone(zone)
    return naive


def _read(text: str, bare_time_fails: bool = False) -> tuple[datetime, str | None]:
    trimmed = text.strip(BLANKS)
    match = _TIMESTAMP.fullmatch(trimmed)
    if not match:
        if _TIME_OF_DAY.match(trimmed) and not bare_time_fails:
            raise UnsupportedExpression(
                f"'{text}' as a timestamp means today's date in Spark; the in-memory evaluator has no clock"
            )
        raise Unreadable
    sign, year, month, day, hour, minute, second, fraction, zone = match.groups()
    micros = int(((fraction or "") + "000000")[:6])
    return _moment(sign, year, month, day, hour, minute, second, micros), zone


def _moment(
    sign: str, year: str, month: str | None, day: str | None, hour: str | None = None, minute: str | None = None,
    second: str | None = None, micros: int = 0,
) -> datetime:  # fmt: skip
    number = int(year) * (-1 if sign == "-" else 1)
    clock = int(hour or 0), int(minute or 0), int(second or 0), micros
    try:  # the calendar repeats after 400 years, so that a wrong day is told from a year out of reach
        moment = datetime(2000 + number % 400, int(month or 1), int(day or 1), *clock)
    except ValueError:
        raise Unreadable from None
    if not 1 <= number <= 9999:
        raise out_of_reach(f"year {number}")
    return moment.replace(year=number)


def _zone(text: str) -> tzinfo:
    name = text.strip()
    name = _SHORT_ZONES.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes, seconds = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        if offset > timedelta(hours=18) or int(minutes or 0) > 59 or int(seconds or 0) > 59:
            raise Unreadable
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise Unreadable from None


def as_instant(moment: datetime, what: object) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise out_of_reach(what) from None


def out_of_reach(what: object) -> UnsupportedExpression:
    return UnsupportedExpression(f"{what}: outside the years 1 to 9999 Spark goes on, the in-memory evaluator does not")


def write_date(value: date) -> str:
    return value.isoformat()


def write_timestamp(value: datetime) -> str:
    """Without zone and without trailing zeros in the fraction.

    >>> write_timestamp(datetime(2020, 1, 1, 1, 2, 3, 100000))
    '2020-01-01 01:02:03.1'
    """
    text = value.replace(tzinfo=None, microsecond=0).isoformat(" ")
    return f"{text}.{value.microsecond:06d}".rstrip("0") if value.microsecond else text


def to_micros(value: datetime) -> int:
    """Microseconds since 1970 of an instant."""
    return (value - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise out_of_reach(f"{micros} microseconds since 1970") from None
