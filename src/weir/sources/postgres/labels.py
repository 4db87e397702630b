"""Enumerations: their labels are the text of rows, and ALTER TYPE ... RENAME VALUE changes it without a change of rows.

A label keeps its oid when it is renamed, so a position remembers label by oid. A new one is harmless. What was renamed
and renamed back between two visits, or came between them and was renamed at once, shows only in the replication stream:
its rows have a text that is no label any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

LABELS_AT = 4  # their place in a column's trace
Labels = Mapping[str, str]  # the label's oid, as text for JSON -> the label


def renamed(place: str, shown_type: str, before: Labels, now: Labels) -> Iterator[str]:
    for oid, label in before.items():
        if now.get(oid) != label:
            yield (
                f"the label '{label}' of {shown_type}, the type of {place}, "
                + (f"is '{now[oid]}' now" if oid in now else "is gone")
            )


def merged(known: Sequence[Any], now: Sequence[Any]) -> list[Any]:
    """A column's trace with the labels that have come since; one of an earlier version of Weir has none."""
    if len(now) <= LABELS_AT:
        return list(known)
    return [*known[:LABELS_AT], {**now[LABELS_AT], **(known[LABELS_AT] if len(known) > LABELS_AT else {})}]


def strangers(texts: pa.ChunkedArray, labels: Iterable[str]) -> list[str]:
    """Texts that are no label."""
    unknown = pc.invert(pc.is_in(texts, value_set=pa.array([*labels, None], texts.type)))
    return sorted(set(texts.filter(unknown).to_pylist()))
