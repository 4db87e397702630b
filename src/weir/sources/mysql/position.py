"""Places in the binlog, and the position that the warehouse stores.

A file name and an offset alone can lie: after RESET MASTER, on another server or on a restored one the same name
holds another log. So a position also says which server wrote the file and when the file was begun, and both are
compared on ``resume``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import total_ordering

from weir.sources.source import LOAD_AGAIN, SourceError


@total_ordering
@dataclass(frozen=True)
class BinlogPlace:
    """The end of an event in a binlog file. Files are ordered by their number: 999999 comes before 1000000."""

    file: str
    offset: int

    @property
    def order(self) -> tuple[int, int]:
        return int(self.file.rpartition(".")[2]), self.offset

    def __lt__(self, other: BinlogPlace) -> bool:
        return self.order < other.order

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> BinlogPlace:
        file, _, offset = text.rpartition(":")
        return cls(file, int(offset))


@dataclass(frozen=True)
class LogPosition:
    """Everything that ended at or before ``place`` is delivered; the last transaction there, of whatever table, ended
    at ``last``.

    Reading starts again at ``start``: earlier than ``place`` while a prepared XA transaction waits, whose rows were
    logged before it. ``made`` is the time stamp that begins the file of ``start``; the GTIDs (MariaDB) say the same
    as the places, on any server of a replication group. ``unsettled``: XA transactions that were delivered and that a
    snapshot may not show yet. ``tables``: those whose changes it covers.
    """

    place: BinlogPlace
    start: BinlogPlace
    made: int
    server: str
    gtid: str = ""
    start_gtid: str = ""
    unsettled: tuple[str, ...] = ()
    last: BinlogPlace | None = None
    tables: tuple[str, ...] = ()

    def order(self, by_gtid: bool) -> tuple[int, ...]:
        """A sort key. File names are those of one server; GTIDs only grow, each domain for itself."""
        if by_gtid:
            return (sum(number for _, number in parse_gtids(self.gtid).values()),)
        return self.place.order

    def holds(self, identifier: str) -> bool:
        """Whether it includes the transaction that ended at a place or has a GTID."""
        if ":" in identifier:
            return BinlogPlace.parse(identifier) <= self.place
        domain, _, number = map(int, identifier.split("-"))
        return has_gtid(parse_gtids(self.gtid), domain, number)

    def __str__(self) -> str:
        fields = {"log": str(self.place), "start": str(self.start), "made": self.made, "server": self.server}
        fields |= {"gtid": self.gtid, "start_gtid": self.start_gtid, "unsettled": list(self.unsettled)}
        return json.dumps({**fields, "last": str(self.last or ""), "tables": list(self.tables)})

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        try:
            fields = json.loads(text)
            places = BinlogPlace.parse(fields["log"]), BinlogPlace.parse(fields["start"])
            last = BinlogPlace.parse(fields["last"]) if fields["last"] else None
            gtids = str(fields["gtid"]), str(fields["start_gtid"])
            unsettled, tables = (tuple(map(str, fields[name])) for name in ("unsettled", "tables"))
            return cls(*places, int(fields["made"]), str(fields["server"]), *gtids, unsettled, last, tables)
        except (ValueError, KeyError, TypeError):
            raise SourceError(f"not a position of a MariaDB or MySQL source: {text[:200]!r}; {LOAD_AGAIN}") from None


Gtids = dict[int, tuple[int, int]]  # domain -> (server, number): all of that domain up to this number


def parse_gtids(text: str) -> Gtids:
    """
    >>> parse_gtids("0-1-100,7-2-5")
    {0: (1, 100), 7: (2, 5)}
    """
    triples = [tuple(map(int, part.split("-"))) for part in text.split(",") if part.strip()]
    return {domain: (server, number) for domain, server, number in triples}


def has_gtid(gtids: Gtids, domain: int, number: int) -> bool:
    return domain in gtids and number <= gtids[domain][1]


def format_gtids(gtids: Gtids) -> str:
    return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in sorted(gtids.items()))
