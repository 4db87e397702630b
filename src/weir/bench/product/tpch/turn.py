"""What one turn of a way costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """From the last commit at the sources to a visible version of the way's own Delta table.

    ``rows`` were written; ``sent`` and ``received`` are bytes to and from the sources: the questions, and the rows as
    Arrow, which is the same yardstick for every kind (SQLite has no wire to count on).
    """

    ms: float
    rows: int
    sent: int
    received: int
    version: int = 0
