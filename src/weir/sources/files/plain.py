"""Snapshots as pyarrow's plain readers give them: Parquet's values, and CSV as text that Python itself converts.

CSV is read from the snapshot's own files, not from their copies. Only pyarrow's reader tells a quoted NULL text from an
unquoted one; so the division into fields is its part here too, and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from weir.algebra.types import INTEGER_BITS, Schema
from weir.sources import plain
from weir.sources.files.options import FilesOptions
from weir.sources.files.snapshots import TableSnapshot
from weir.sources.source import SourceError

_TRUTHS = {"1": True, "true": True, "0": False, "false": False}


def _boolean(text: str) -> bool | str:
    return _TRUTHS.get(text.lower(), text)


_FROM_TEXT: plain.Conversions = {
    **dict.fromkeys(INTEGER_BITS, int), "decimal": Decimal, "float": float, "double": float, "boolean": _boolean,
    "date": date.fromisoformat, "timestamp": datetime.fromisoformat, "timestamp_ntz": datetime.fromisoformat,
}  # fmt: skip


def read_table(options: FilesOptions, snapshot: TableSnapshot, schema: Schema) -> Iterator[pa.RecordBatch]:
    """All rows of a snapshot, in any process that sees its files."""
    is_csv = snapshot.format == "csv"
    for file in snapshot.files:
        for batch in _texts(file.path, options, schema) if is_csv else _values(file.path, schema):
            columns = [batch.column(name).to_pylist() for name in schema.names]
            rows = list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows
            yield from plain.plain_table(rows, schema, file.path, _FROM_TEXT if is_csv else None).to_batches()
    if not snapshot.is_unchanged():
        raise SourceError(f"snapshot {snapshot.place} was changed or removed while it was read")


def _values(path: Path, schema: Schema) -> Iterator[Any]:
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        yield from file.iter_batches(plain.ROWS_IN_BATCH, columns=list(schema.names))


def _texts(path: Path, options: FilesOptions, schema: Schema) -> Iterator[Any]:
    as_text = csv.ConvertOptions(
        column_types=dict.fromkeys(schema.names, pa.string()), include_columns=list(schema.names),
        null_values=[options.null_text], strings_can_be_null=True, quoted_strings_can_be_null=False,
    )  # fmt: skip
    parse = csv.ParseOptions(delimiter=options.delimiter, newlines_in_values=True)
    with csv.open_csv(path, parse_options=parse, convert_options=as_text) as reader:
        yield from reader
