"""Every Parquet type that we map has one value, whether it comes by load, by difference or by lookup."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import normalise_row
from weir.proving.oracle import ReplayedSource
from weir.sources.files import FilesOptions, FilesSource
from weir.sources.source import SourceError

pytestmark = pytest.mark.spark
T = Relation("lake", "t")
MOMENT, DAY = datetime(1500, 3, 1, 12, 30, 0, 123000), date(1, 1, 1)
CASES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tinyint": (pa.int8(), [-128, 127]),
    "u8": (pa.uint8(), [0, 255]),
    "u16": (pa.uint16(), [0, 65535]),
    "u32": (pa.uint32(), [0, 2**32 - 1]),
    "u64": (pa.uint64(), [0, 2**64 - 1]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1]),
    "float": (pa.float32(), [1.5, float("inf")]),
    "double": (pa.float64(), [float("nan"), -0.0]),
    "text": (pa.string(), ["", "é\x00 ☃"]),
    "large": (pa.large_string(), ["a", "b" * 1000]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
    "bytes": (pa.binary(), [b"", b"\xff\x00"]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [DAY, date(9999, 12, 31)]),
    "zoned": (pa.timestamp("us", "Europe/Paris"), [MOMENT.replace(tzinfo=UTC), datetime(2024, 3, 31, 1, tzinfo=UTC)]),
    "plain": (pa.timestamp("ms"), [MOMENT, datetime(9999, 12, 31, 23, 59, 59)]),
    "digits": (pa.decimal128(38, 10), [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001")]),
}
INT96 = {"old": (pa.timestamp("us", "UTC"), [datetime(2024, 1, 1, 0, 0, 0, 5, UTC), datetime(1969, 7, 20, tzinfo=UTC)])}


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Iterator[FilesSource]:
    made = FilesSource(FilesOptions("lake", str(tmp_path)), spark)
    yield made
    made.close()


def write(folder: Path, name: str, cases: dict[str, tuple[pa.DataType, list[Any]]], **options: Any) -> None:
    (folder / "t").mkdir(exist_ok=True)
    columns = {column: pa.array([*values, None], type_) for column, (type_, values) in cases.items()}
    pq.write_table(pa.table(columns), folder / "t" / f"{name}.parquet", **options)


@pytest.mark.parametrize(("cases", "old"), [(CASES, False), (INT96, True)], ids=["types", "96-bit timestamps"])
def test_values_are_the_same_by_every_way(
    source: FilesSource, tmp_path: Path, cases: dict[str, tuple[pa.DataType, list[Any]]], old: bool
) -> None:
    """As Python values they are what was written; a lookup by each of them finds its row; removing them is exact."""
    write(tmp_path, "1", cases, use_deprecated_int96_timestamps=old)
    follower = ReplayedSource(source, {T: tuple(cases)})
    schema = source.describe().tables[0].schema
    written = zip(*([*values, None] for _, values in cases.values()), strict=True)
    loaded = {normalise_row(row, schema) for row in follower.replay.tables[T]}
    assert loaded == {normalise_row(row, schema) for row in written}
    lookups = [
        Lookup(T, tuple(cases), (name,), MemoryBag.of(schema.only([name]), [(value,)]))
        for name, (_, values) in cases.items()
        for value in values
    ]
    follower.check(lookups)
    assert [answer.num_rows for answer in follower.answers[:-1]] == [1] * len(lookups)
    write(tmp_path, "2", {name: (type_, []) for name, (type_, _) in cases.items()}, use_deprecated_int96_timestamps=old)
    assert follower.check().changes[T].num_rows == 2


@pytest.mark.parametrize(
    ("type_", "stored", "message"),
    [
        (pa.string(), pa.array([b"\xff\xfe"], pa.binary()), "invalid UTF8|Invalid UTF8"),
        (pa.date32(), pa.array([3_000_000], pa.int32()), "a date outside the years 1 to 9999"),
        (pa.timestamp("us"), pa.array([-(10**17)], pa.int64()), "a date outside the years 1 to 9999"),
    ],
)
def test_poison_is_refused_by_name(
    source: FilesSource, tmp_path: Path, type_: pa.DataType, stored: pa.Array, message: str
) -> None:
    """What no value of ours can be stops the source, by load, by difference and by lookup, with file and column."""
    bad = pa.Array.from_buffers(type_, 1, stored.buffers())
    write(tmp_path, "1", {"v": (type_, [])})
    ReplayedSource(source, {T: ("v",)})
    pq.write_table(pa.table({"v": bad}), tmp_path / "t" / "2.parquet")
    with pytest.raises(SourceError, match=rf"2.parquet, column 'v': .*({message})"):
        source.visit()
    load = source.load().held
    with pytest.raises(SourceError, match=rf"column 'v': .*({message})"):
        list(load.read(load.parts()[0]))
