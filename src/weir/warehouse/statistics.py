"""File statistics for the Delta log, read from the Parquet footer, whoever wrote the file.

Only bounds that every client reads alike are stated: integers, dates and short texts. A bound that is left out costs a
client a file it could have skipped; a bound that is wrong would cost it rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow.parquet as pq

from weir.warehouse.place import Place
from weir.warehouse.vectors import DeletionVector

LONGEST_TEXT = 32


@dataclass(frozen=True)
class DataFile:
    """A Parquet file that is written and not yet committed, or that a version holds."""

    name: str
    size: int
    rows: int  # with those that the vector takes away
    statistics: str = ""
    vector: DeletionVector | None = None

    @property
    def live(self) -> int:
        return self.rows - self.gone

    @property
    def gone(self) -> int:
        return self.vector.cardinality if self.vector else 0


def describe_file(place: Place, name: str) -> DataFile:
    size = place.files.get_file_info(name).size
    with place.files.open_input_file(name) as source:
        footer = pq.ParquetFile(source).metadata
        return DataFile(name, size, footer.num_rows, json.dumps(_statistics(footer)))


def _statistics(footer: Any) -> dict[str, Any]:
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for at in range(footer.num_columns):
        chunks = [footer.row_group(group).column(at) for group in range(footer.num_row_groups)]
        stats = [chunk.statistics for chunk in chunks]
        name = chunks[0].path_in_schema if chunks else ""
        if not stats or any(s is None for s in stats):
            continue
        if all(s.has_null_count for s in stats):
            nulls[name] = sum(s.null_count for s in stats)
        bounds = [_bounds(s) for s in stats if s.has_min_max]
        if bounds and len(bounds) == len(stats) and all(_plain(value) for pair in bounds for value in pair):
            lows[name], highs[name] = _json(min(b[0] for b in bounds)), _json(max(b[1] for b in bounds))
    return {"numRecords": footer.num_rows, "minValues": lows, "maxValues": highs, "nullCount": nulls}


def with_vector(statistics: str) -> str:
    """The bounds of a file of which rows are gone: they still hold, and need not be met."""
    known = json.loads(statistics) if statistics else {}
    return json.dumps(known | {"tightBounds": False})


def _bounds(statistics: Any) -> tuple[Any, Any]:
    """Of one row group; None where Python has no such date, beyond the years 1 to 9999."""
    try:
        return statistics.min, statistics.max
    except (OverflowError, ValueError):
        return None, None


def _plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST_TEXT
    return isinstance(value, int | date) and not isinstance(value, bool) and not hasattr(value, "hour")


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
