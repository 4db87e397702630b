"""What a stored position means for the log that is read again: what was delivered, and which tables begin later.

The views of one source may be at different positions. The log is read from the oldest, and whoever is ahead skips
what it has. A table that only a later position covers (its first view was loaded there) is followed from there on:
before, it may have had another shape, or not have been there.
"""

from __future__ import annotations

from collections.abc import Sequence

from weir.sources.mysql.groups import Includes
from weir.sources.mysql.position import LogPosition, has_gtid, parse_gtids
from weir.sources.source import LOAD_AGAIN, LoadAgain


def includes(position: LogPosition, by_gtid: bool) -> Includes:
    if by_gtid:
        reached = parse_gtids(position.gtid)
        return lambda end, gtid: gtid is not None and has_gtid(reached, gtid.domain, gtid.number)
    return lambda end, gtid: end <= position.place


def late_tables(
    source: str, tables: Sequence[str], position: LogPosition, later: Sequence[LogPosition], by_gtid: bool
) -> dict[str, Includes]:
    """Table, in lower case -> what lies before its beginning; ``later`` positions in order."""
    missing = [table for table in tables if table not in position.tables]
    return {table.lower(): includes(_first_to_cover(source, table, later), by_gtid) for table in missing}


def _first_to_cover(source: str, table: str, later: Sequence[LogPosition]) -> LogPosition:
    for position in later:
        if table in position.tables:
            return position
    raise LoadAgain(f"source {source}: the position does not cover table {table}: not watched then; {LOAD_AGAIN}")
