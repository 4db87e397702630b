"""The row hash on Arrow, against Spark's own and against one value after the other."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests import values
from tests.warehouse.batches import EVERY_TYPE
from weir.algebra.arrow_types import arrow_schema
from weir.algebra.types import Row, Schema, normalise_row
from weir.warehouse.row_hash import LONG, SEED, row_hashes

NUMBERS = Schema(column for column in EVERY_TYPE if column.type.name not in ("string", "binary"))


@pytest.mark.spark
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(values.rows(NUMBERS), min_size=20, max_size=60))
def test_arrow_and_spark_give_numbers_the_same_hash(spark: SparkSession, rows: list[Row]) -> None:
    """Every column type but texts, NULL, NaN and the longest decimals hash as Spark's xxhash64 does."""
    table = _table(NUMBERS, rows)
    frame = spark.createDataFrame(table)
    expected = frame.selectExpr(f"xxhash64({', '.join(NUMBERS.names)}) AS h").toArrow().column("h").to_pylist()
    assert row_hashes(table).to_pylist() == expected


@settings(max_examples=30, deadline=None)
@given(st.lists(values.rows(EVERY_TYPE), min_size=1, max_size=40))
def test_equal_rows_have_equal_hashes_wherever_they_lie(rows: list[Row]) -> None:
    """Alone, among others, and in chunks of any size."""
    table = _table(EVERY_TYPE, rows)
    alone = [row_hashes(table.slice(at, 1))[0].as_py() for at in range(table.num_rows)]
    chunks = pa.Table.from_batches(table.to_batches(max_chunksize=3))
    assert row_hashes(table).to_pylist() == row_hashes(chunks).to_pylist() == alone
    again = table.take(pa.array([*range(table.num_rows)][::-1]))
    assert row_hashes(again).to_pylist() == alone[::-1]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=250, max_size=270)), max_size=40))
def test_a_text_is_hashed_by_all_of_its_bytes(texts: list[bytes | None]) -> None:
    """As one by one, eight bytes at a time: zeros behind a text, its length, and NULL make a difference."""
    column = pa.array(texts, pa.binary())
    found = row_hashes(pa.table({"t": pa.concat_arrays([pa.array([b"before"]), column]).slice(1)})).to_pylist()
    assert found == [_signed(_word(_digest(text), SEED)) for text in texts]


def _digest(text: bytes | None) -> int:
    if text is None:
        return SEED
    if len(text) > LONG:
        return xxhash.xxh64_intdigest(text, SEED)
    found = _word(len(text), SEED)
    for at in range(0, len(text), 8):
        found = _word(int.from_bytes(text[at : at + 8], "little"), found)
    return found


def _word(word: int, seed: int) -> int:
    """xxHash of eight bytes."""
    return xxhash.xxh64_intdigest(word.to_bytes(8, "little"), seed)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _table(schema: Schema, rows: list[Row]) -> pa.Table:
    named = [dict(zip(schema.names, normalise_row(row, schema), strict=True)) for row in rows]
    return pa.Table.from_pylist(named, arrow_schema(schema))


def test_a_slice_hashes_as_its_rows_do() -> None:
    """The hash of a row does not depend on where in a buffer it lies."""
    numbers = pa.array([Decimal(1), None, Decimal(3)], pa.decimal128(10, 2))
    table = pa.table({"a": pa.array([1, 2, 3]), "d": numbers})
    assert row_hashes(table.slice(1)).to_pylist() == row_hashes(table).to_pylist()[1:]


def test_no_rows_have_no_hashes() -> None:
    """An empty batch is hashed without complaint."""
    assert row_hashes(arrow_schema(EVERY_TYPE).empty_table()).to_pylist() == []
