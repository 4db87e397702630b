"""A position: for every table the snapshot that was delivered last, with a mark by which a changed one is noticed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from weir.algebra.catalog import Relation
from weir.sources.files.snapshots import TableSnapshot
from weir.sources.source import SourceError, SourcePosition


def position_of(at: Mapping[Relation, TableSnapshot]) -> SourcePosition:
    facts = {relation.table: [snapshot.name, snapshot.fingerprint] for relation, snapshot in at.items()}
    return json.dumps(facts, sort_keys=True, ensure_ascii=False)


def order_of(position: SourcePosition, source: str) -> list[str]:
    """A sort key: tables only move on to greater names, so the names from the greatest on grow, and with a table more
    they grow too.
    """
    return sorted((name for name, _ in parts_of(position, source).values()), reverse=True)


def identifier_of(name: str, tables: Iterable[str]) -> str:
    """A transaction by its snapshot's name and the tables that it changed: neither can hold a slash."""
    return "/".join([name, *sorted(tables)])


def holds(position: SourcePosition, identifier: str, source: str) -> bool:
    """Whether the tables that the transaction changed are at its snapshot or a later one."""
    parts = parts_of(position, source)
    name, *tables = identifier.split("/")
    return all(table in parts and parts[table][0] >= name for table in tables)


def parts_of(position: SourcePosition, source: str) -> dict[str, tuple[str, str]]:
    """Table -> the snapshot's name and mark."""
    try:
        return {table: (str(name), str(mark)) for table, (name, mark) in json.loads(position).items()}
    except (ValueError, AttributeError, TypeError):
        raise SourceError(f"source '{source}': '{position}' is not a position of a source of files") from None
