"""A table without any log becomes a source of snapshots: each state of it is written into the folder, whole or not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame

from weir.sources.source import SourceError


def take_snapshot(frame: DataFrame, folder: str, table: str, name: str = "") -> str:
    """Writes the rows of ``frame`` as the newest snapshot of ``table``; returns its name, by default the time.

    Spark writes beside, and a rename shows it: readers see all of it or nothing.
    """
    name = name or datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S.%fZ")
    target, unfinished = Path(folder, table, name), Path(folder, table, f"_{name}")
    if target.exists():
        raise SourceError(f"there is a snapshot {target} already: give another name")
    frame.write.mode("overwrite").parquet(str(unfinished))
    unfinished.rename(target)
    return name
