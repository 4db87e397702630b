"""Where snapshots lie and what they hold. Picklable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weir.algebra.errors import TypeMismatch
from weir.algebra.types import Schema
from weir.sources.source import SourceError


@dataclass(frozen=True)
class FilesOptions:
    """One folder of snapshots.

    ``schemas``: table -> its columns as ``"id bigint, name string"``; needed for CSV, and for Parquet a way to offer
    some columns only. ``keys``: table -> the columns that identify a row, checked in every snapshot. ``together``:
    snapshots of one name belong together and are delivered when every watched table has one; without it every table
    goes its own way. ``trust_renames``: a CSV file by itself counts as complete, because its producer renames finished
    files into place. ``work``: where CSV is kept as Parquet (a folder that Spark's workers see; a temporary one when
    empty). ``delete_acknowledged``: snapshots older than the committed one are deleted.
    """

    name: str
    folder: str
    schemas: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    together: bool = True
    trust_renames: bool = False
    delimiter: str = ","
    null_text: str = ""  # without quotes around it, this stands for NULL
    work: str = ""
    delete_acknowledged: bool = False

    def declared(self, table: str) -> Schema | None:
        """The columns the options declare for a table."""
        text = self.schemas.get(table)
        if text is None:
            return None
        try:
            return Schema.parse(text)
        except TypeMismatch as problem:
            raise SourceError(f"source '{self.name}': the schema of table '{table}': {problem}") from None
