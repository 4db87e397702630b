"""Snapshots: which transactions one moment of PostgreSQL shows.

A snapshot ``xmin:xmax:xip`` names a *set* of transactions: every id below xmax except those in xip, which were still
running. It is not a point of the log: a transaction's commit record may lie before another's and still become visible
after it. So the position of this source is a snapshot, and whether a transaction is delivered is decided here and
nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_TEXT = re.compile(r"(\d+):(\d+):((?:\d+(?:,\d+)*)?)")
_EPOCH = 1 << 32


@dataclass(frozen=True)
class PostgresSnapshot:
    """What ``pg_current_snapshot()`` told.

    >>> s = PostgresSnapshot.parse("10:15:10,12")
    >>> [x for x in range(9, 17) if s.shows(x)]
    [9, 11, 13, 14]
    """

    xmin: int
    xmax: int
    xip: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> PostgresSnapshot:
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a snapshot: {text!r}")
        running = tuple(int(part) for part in match[3].split(",") if part)
        return cls(int(match[1]), int(match[2]), running)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.xip))}"

    @cached_property
    def _running(self) -> frozenset[int]:
        return frozenset(self.xip)

    def shows(self, xid: int) -> bool:
        """Whether a (committed) transaction is visible."""
        return xid < self.xmax and (xid < self.xmin or xid not in self._running)

    def widen(self, xid: int) -> int:
        """The full id of a 32-bit one, as the log has it. Ids in use lie within 2^31 of xmax, on either side."""
        full = self.xmax - self.xmax % _EPOCH + xid
        if full - self.xmax > _EPOCH // 2:
            return full - _EPOCH
        if self.xmax - full > _EPOCH // 2:
            return full + _EPOCH
        return full

    def shows_all_of(self, other: PostgresSnapshot) -> bool:
        """Whether everything that ``other`` shows is visible here too.

        >>> early, late = PostgresSnapshot.parse("10:15:10,12"), PostgresSnapshot.parse("12:16:12")
        >>> late.shows_all_of(early), early.shows_all_of(late)
        (True, False)
        """
        if any(other.shows(xid) for xid in self.xip):
            return False
        hidden_there = sum(self.xmax <= xid < other.xmax for xid in other.xip)
        return other.xmax - self.xmax <= hidden_there

    def news(self, before: PostgresSnapshot, most: int = 100) -> set[int] | None:
        """The ids visible now and not ``before``; None when there are more than ``most`` to look at."""
        if self.xmax - before.xmax > most:
            return None
        candidates = {*before.xip, *range(before.xmax, self.xmax)}
        return {xid for xid in candidates if self.shows(xid)}
