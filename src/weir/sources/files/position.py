"""A position: for every table the snapshot that was delivered last, with a mark by which a changed one is noticed."""

from __future__ import annotations

import json
from collections.abc import Mapping

from weir.algebra.catalog import Relation
from weir.sources.files.snapshots import Snapshot
from weir.sources.source import Position, SourceError


def position_of(at: Mapping[Relation, Snapshot]) -> Position:
    facts = {relation.table: [snapshot.name, snapshot.fingerprint] for relation, snapshot in at.items()}
    return json.dumps(facts, sort_keys=True, ensure_ascii=False)


def parts_of(position: Position, source: str) -> dict[str, tuple[str, str]]:
    """Table -> the snapshot's name and mark."""
    try:
        return {table: (str(name), str(mark)) for table, (name, mark) in json.loads(position).items()}
    except (ValueError, AttributeError, TypeError):
        raise SourceError(f"source '{source}': '{position}' is not a position of a source of files") from None
