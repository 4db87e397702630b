"""What a stored position means for the log that is read again: what was delivered, and which tables begin later.

The views of one source may be at different positions. The log is read from the oldest, and whoever is ahead skips
what it has. A table that only a later position covers (its first view was loaded there) is followed from there on:
before, it may have had another shape, or not have been there. A table that none covers begins with the next visit.
"""

from __future__ import annotations

from collections.abc import Sequence

from weir.sources.mysql.groups import Includes
from weir.sources.mysql.position import LogPosition, has_gtid, parse_gtids


def includes(position: LogPosition, by_gtid: bool) -> Includes:
    if by_gtid:
        reached = parse_gtids(position.gtid)
        return lambda end, gtid: gtid is not None and has_gtid(reached, gtid.domain, gtid.number)
    return lambda end, gtid: end <= position.place


def late_tables(
    tables: Sequence[str], position: LogPosition, later: Sequence[LogPosition], by_gtid: bool
) -> dict[str, Includes | None]:
    """Table -> what lies before its beginning, None: all up to now; ``later`` positions in order."""
    missing = [table for table in tables if table not in position.tables]
    first = {table: next((one for one in later if table in one.tables), None) for table in missing}
    return {table: includes(one, by_gtid) if one else None for table, one in first.items()}
