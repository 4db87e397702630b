"""The columns of Parquet files as our types, and values that Arrow lets through but nobody could use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weir.algebra import types as t
from weir.sources.source import SourceError

_SIMPLE = {
    pa.int8(): t.TINYINT, pa.int16(): t.SMALLINT, pa.int32(): t.INT, pa.int64(): t.BIGINT, pa.uint8(): t.SMALLINT,
    pa.uint16(): t.INT, pa.uint32(): t.BIGINT, pa.uint64(): t.decimal(20, 0), pa.float32(): t.FLOAT,
    pa.float64(): t.DOUBLE, pa.string(): t.STRING, pa.large_string(): t.STRING, pa.string_view(): t.STRING,
    pa.binary(): t.BINARY, pa.large_binary(): t.BINARY, pa.binary_view(): t.BINARY, pa.bool_(): t.BOOLEAN,
    pa.date32(): t.DATE,
}  # fmt: skip
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31, counted from 1970
_MICROSECONDS_A_DAY = 86_400 * 10**6


def read_columns(path: Path) -> tuple[dict[str, t.Type], dict[str, str]]:
    """The columns of one Parquet file that we can map, and the types of those that we cannot."""
    metadata = pq.read_metadata(path)
    old_times = _old_times(metadata.schema)
    mapped: dict[str, t.Type] = {}
    unmapped: dict[str, str] = {}
    for field in metadata.schema.to_arrow_schema():
        type_ = t.TIMESTAMP if field.name in old_times else mapped_type(field.type)
        if type_ is None:
            unmapped[field.name] = str(field.type)
        else:
            mapped[field.name] = type_
    return mapped, unmapped


def read_rows(path: Path) -> int:
    """How many rows a Parquet file has, as its footer says."""
    return int(pq.read_metadata(path).num_rows)


def _old_times(schema: Any) -> set[str]:
    """Columns of the old 96-bit timestamps that Spark writes by default: moments, whatever Arrow makes of them."""
    columns = (schema.column(at) for at in range(len(schema)))
    return {column.path for column in columns if column.physical_type == "INT96"}


def mapped_type(type_: pa.DataType) -> t.Type | None:
    """Our type for one of Arrow's; None when there is none."""
    if pa.types.is_dictionary(type_):
        return mapped_type(type_.value_type)
    if pa.types.is_decimal(type_) and 0 <= type_.scale <= type_.precision <= 38:
        return t.decimal(type_.precision, type_.scale)
    if pa.types.is_timestamp(type_) and type_.unit in ("ms", "us"):  # Parquet has no seconds; nanoseconds do not fit
        return t.TIMESTAMP if type_.tz else t.TIMESTAMP_NTZ
    return _SIMPLE.get(type_)


def differences(columns: Mapping[str, object], wanted: Mapping[str, t.Type]) -> list[str]:
    """What of the wanted columns a file has not, or otherwise."""
    gone = [f"column '{name}' is gone" for name in wanted if name not in columns]
    other = [
        f"column '{name}' was {type_} and is now {columns[name]}"
        for name, type_ in wanted.items()
        if name in columns and columns[name] != type_
    ]
    return gone + other


def checked(table: pa.Table, place: str) -> pa.Table:
    """The same table; refuses by column what no text, date or moment can be."""
    for name in table.column_names:
        column = table.column(name)
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as problem:
            raise SourceError(f"{place}, column '{name}': {str(problem).splitlines()[0]}") from None
        _check_days(column, f"{place}, column '{name}'")
    return table


def _check_days(column: pa.ChunkedArray, place: str) -> None:
    if pa.types.is_date(column.type):
        count, low, high = column.cast(pa.int32()), _FIRST_DAY, _LAST_DAY
    elif pa.types.is_timestamp(column.type):
        count, low, high = (
            column.cast(pa.int64()),
            _FIRST_DAY * _MICROSECONDS_A_DAY,
            (_LAST_DAY + 1) * _MICROSECONDS_A_DAY - 1,
        )
    else:
        return
    ends = pc.min_max(count).as_py()
    if ends["min"] is not None and not low <= ends["min"] <= ends["max"] <= high:
        raise SourceError(f"{place}: a date outside the years 1 to 9999")
