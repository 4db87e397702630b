"""CSV snapshots: typed once by a declared schema, or refused by file, row and column."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sources.files.producer import put_csv, tear
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.proving.oracle import ReplayedSource, ask
from weir.sources.files import FilesOptions, FilesSource
from weir.sources.source import SchemaChanged, SourceError

pytestmark = pytest.mark.spark
SALE = Relation("lake", "sale")
SCHEMA = (
    "id bigint, note string, price decimal(8,2), day date, seen timestamp, plain timestamp_ntz, good boolean, "
    "x double, small tinyint"
)
HEADER = "note,id,price,day,seen,plain,good,x,small,other"
COLUMNS = {SALE: tuple(part.split()[0] for part in SCHEMA.split(", "))}
WHOLE = "2024-02-29,2024-01-01T10:00:00+02:00,2024-01-01 10:00:00.123456,true,inf,-128,unused"


@pytest.fixture
def options(tmp_path: Path) -> FilesOptions:
    return FilesOptions("lake", str(tmp_path), {"sale": SCHEMA}, {"sale": ("id",)})


@pytest.fixture
def source(options: FilesOptions, spark: SparkSession) -> Iterator[FilesSource]:
    made = FilesSource(options, spark)
    yield made
    made.close()


def test_values_have_their_declared_types(source: FilesSource, tmp_path: Path) -> None:
    """Quoted text with line ends and delimiters; nothing at all is NULL, quoted nothing is empty text."""
    text = f'{HEADER}\n"a ""b"",\nc",1,10.5,{WHOLE}\n"",2,,,,,,,,\n,3,-0.01,,,,,nan,,\n'
    put_csv(tmp_path, "sale", "1", text, rows=3)
    follower = ReplayedSource(source, COLUMNS)
    put_csv(tmp_path, "sale", "2", text.replace(",3,-0.01", ",3,-0.02"))
    assert follower.check().changes[SALE].num_rows == 2
    _, (rows,) = ask(source, [Lookup(SALE, COLUMNS[SALE])])
    first, second, third = sorted(rows.to_pylist(), key=lambda row: int(row["id"]))
    assert first == {
        "id": 1, "note": 'a "b",\nc', "price": Decimal("10.50"), "day": date(2024, 2, 29), "good": True, "small": -128,
        "seen": datetime(2024, 1, 1, 8, tzinfo=UTC), "plain": datetime(2024, 1, 1, 10, 0, 0, 123456), "x": float("inf"),
    }  # fmt: skip
    assert (second["note"], second["price"], second["good"]) == ("", None, None)
    assert third["note"] is None
    assert third["x"] != third["x"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("id", "9223372036854775808"), ("id", "1.0"), ("price", "1.005"), ("price", "1234567.00"), ("price", "x"),
        ("day", "2023-02-29"), ("day", "0000-00-00"), ("seen", "2024-01-01 00:00:00"),
        ("plain", "2024-01-01 00:00:00Z"), ("good", "yes"), ("x", "1,5"), ("small", "128"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused_by_place(
    source: FilesSource, tmp_path: Path, column: str, value: str
) -> None:
    """File, row (the header is row 1) and column; nothing of the snapshot is delivered."""
    put_csv(tmp_path, "sale", "1", f"{','.join(COLUMNS[SALE])}\n")
    ReplayedSource(source, COLUMNS)
    fields = ["5" if name == "id" else "" for name in COLUMNS[SALE]]
    fields[COLUMNS[SALE].index(column)] = f'"{value}"'
    place = put_csv(tmp_path, "sale", "2", f"{','.join(COLUMNS[SALE])}\n4{',' * 8}\n{','.join(fields)}\n")
    with pytest.raises(SourceError, match=rf"{place}/data.csv, row 3, column '{column}'.*mend the file, or remove"):
        source.visit()


def test_rows_of_another_length_and_bytes_that_are_no_text_are_refused(source: FilesSource, tmp_path: Path) -> None:
    """Too few fields: never taken for NULLs. Invalid UTF-8: never replaced."""
    put_csv(tmp_path, "sale", "1", f"{HEADER}\n")
    ReplayedSource(source, COLUMNS)
    place = put_csv(tmp_path, "sale", "2", f"{HEADER}\na,1\n")
    with pytest.raises(SourceError, match=r"data.csv, row 2: CSV parse error: Expected 10 columns, got 2"):
        source.visit()
    body = f"{HEADER}\n".encode() + b"\xff\xfe,1,,,,,,,,\n"
    (place / "data.csv").write_bytes(body)
    (place / "_MANIFEST.json").write_text(json.dumps({"files": [{"name": "data.csv", "bytes": len(body)}]}))
    with pytest.raises(SourceError, match=r"row 2, column 'note': .*invalid UTF8"):
        source.visit()


def test_a_lost_column_stops_the_source(source: FilesSource, tmp_path: Path) -> None:
    """With the columns that the file has."""
    put_csv(tmp_path, "sale", "1", f"{HEADER}\n")
    ReplayedSource(source, COLUMNS)
    put_csv(tmp_path, "sale", "2", f"{HEADER.replace('price', 'prize')}\n")
    with pytest.raises(SchemaChanged, match="has no column 'price'; it has note, id, prize"):
        source.visit()


def test_types_must_be_declared(options: FilesOptions, tmp_path: Path) -> None:
    """CSV has none; the message shows how."""
    put_csv(tmp_path, "sale", "1", f"{HEADER}\n")
    with pytest.raises(SourceError, match="declare the columns of table 'sale', as schemas ="):
        FilesSource(replace(options, schemas={})).watch(COLUMNS)
    with pytest.raises(SourceError, match="CSV cannot hold binary values"):
        FilesSource(replace(options, schemas={"sale": "id binary"})).watch({SALE: ("id",)})
    with pytest.raises(SourceError, match="the schema of table 'sale': unknown column type 'number'"):
        FilesSource(replace(options, schemas={"sale": "id number"})).watch({SALE: ("id",)})


def test_a_torn_file_is_held_back(source: FilesSource, tmp_path: Path) -> None:
    """By the manifest's bytes, and by its rows when it tells only those."""
    put_csv(tmp_path, "sale", "1", f"{HEADER}\n" + "".join(f"a,{n},,,,,,,,\n" for n in range(100)))
    follower = ReplayedSource(source, COLUMNS)
    place = put_csv(tmp_path, "sale", "2", f"{HEADER}\n" + "".join(f"a,{n},,,,,,,,\n" for n in range(100)))
    tear(place / "data.csv")
    assert follower.check().transactions == ()
    assert "bytes, its _MANIFEST.json says" in source.held_back[0].problem
    (place / "data.csv").write_text(f"{HEADER}\na,1,,,,,,,,\n")
    (place / "_MANIFEST.json").write_text(json.dumps({"files": [{"name": "data.csv", "rows": 100}]}))
    assert follower.check().transactions == ()
    assert "has 1 rows, its manifest says 100" in source.held_back[0].problem


def test_single_files_count_when_renames_are_trusted(
    options: FilesOptions, spark: SparkSession, tmp_path: Path
) -> None:
    """Only then: a CSV file by itself does not tell where it ends."""
    (tmp_path / "sale").mkdir()
    (tmp_path / "sale" / "1.csv").write_text(f"{HEADER}\na,1,,,,,,,,\n")
    source = FilesSource(replace(options, trust_renames=True), spark)
    follower = ReplayedSource(source, COLUMNS)
    (tmp_path / "sale" / "_2.csv").write_text(f"{HEADER}\na,2,,,,,,,,\n")
    assert follower.check().transactions == ()
    (tmp_path / "sale" / "_2.csv").rename(tmp_path / "sale" / "2.csv")
    assert follower.check().changes[SALE].num_rows == 2
    source.close()


def test_copies_are_kept_where_the_options_say(options: FilesOptions, spark: SparkSession, tmp_path: Path) -> None:
    """In a work folder that outlives the source; older ones go when the newer is acknowledged."""
    work = tmp_path / "work"
    put_csv(tmp_path / "in", "sale", "1", f"{HEADER}\n")
    source = FilesSource(replace(options, folder=str(tmp_path / "in"), work=str(work)), spark)
    follower = ReplayedSource(source, COLUMNS)
    put_csv(tmp_path / "in", "sale", "2", f"{HEADER}\na,1,,,,,,,,\n")
    position = follower.check().position
    assert sorted(p.name for p in (work / "sale").iterdir()) == ["1", "2"]
    source.acknowledge(position)
    assert [p.name for p in (work / "sale").iterdir()] == ["2"]
    source.close()
    assert work.exists()
