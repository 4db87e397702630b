"""The position of a PostgreSQL source: a snapshot, and what is needed to notice that it no longer fits the server."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from weir.sources.postgres.labels import merged
from weir.sources.postgres.visibility import PostgresSnapshot
from weir.sources.source import SourceError


@dataclass(frozen=True)
class PostgresPosition:
    """``snapshot`` names the delivered transactions.

    ``bound`` is a place in the log before which everything is delivered: the slot is never told more than that.
    ``server`` is the cluster's identity and timeline, ``tables`` the watched tables' traces (see ``catalogue``).
    """

    snapshot: PostgresSnapshot
    bound: int
    server: str
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        snapshot, log = str(self.snapshot), lsn_text(self.bound)
        parts = {"snapshot": snapshot, "log": log, "server": self.server, "tables": self.tables}
        return json.dumps(parts, separators=(",", ":"), sort_keys=True)

    @classmethod
    def parse(cls, text: str, source: str) -> PostgresPosition:
        try:
            parts = json.loads(text)
            snapshot = PostgresSnapshot.parse(parts["snapshot"])
            return cls(snapshot, lsn_number(parts["log"]), parts["server"], parts["tables"])
        except (ValueError, KeyError, TypeError) as problem:
            raise SourceError(f"{source}: not a position of a PostgreSQL source: {text[:100]!r}") from problem

    def at(self, snapshot: PostgresSnapshot, bound: int) -> PostgresPosition:
        return replace(self, snapshot=snapshot, bound=bound)

    def only(self, watched: Mapping[str, Collection[str]]) -> PostgresPosition:
        """Without the traces of other tables and columns: those of views that are no more may have changed."""
        traces = {name: (self.tables[name], names) for name, names in watched.items() if name in self.tables}
        return replace(self, tables={name: _without_others(trace, names) for name, (trace, names) in traces.items()})

    def tracing(self, traces: Mapping[str, Mapping[str, Any]]) -> PostgresPosition:
        """With the traces of more tables, and of more columns and labels of those it has."""
        tables = dict(self.tables)
        for name, trace in traces.items():
            known, now = tables.get(name, trace), trace["columns"]
            old = {column: merged(facts, now.get(column, ())) for column, facts in known["columns"].items()}
            tables[name] = {**known, "columns": {**now, **old}}
        return replace(self, tables=tables)


def _without_others(trace: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {**trace, "columns": {column: facts for column, facts in trace["columns"].items() if column in names}}


@lru_cache(maxsize=64)
def shown_by(position: str, source: str) -> PostgresSnapshot:
    """What a position's snapshot shows; asked again and again for the same few positions."""
    return PostgresPosition.parse(position, source).snapshot


def lsn_number(text: str) -> int:
    """
    >>> lsn_number("1/A0"), lsn_text(4294967456)
    (4294967456, '1/A0')
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def lsn_text(number: int) -> str:
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"
