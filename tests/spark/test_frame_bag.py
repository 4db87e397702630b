"""The bag on DataFrames obeys the laws of signed bags, and what only it offers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.laws import BagLaws, Model, Weighted
from weir.algebra.bag import WEIGHT
from weir.algebra.errors import TypeMismatch
from weir.algebra.expression import Expression
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.spark.arrow_bag import ArrowBag
from weir.spark.frame_bag import FrameBag
from weir.spark.frames import frame_of

pytestmark = pytest.mark.spark


class FrameBagFactory:
    examples = 4  # every look into a bag is a Spark job

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def make(self, schema: Schema, rows: Weighted) -> FrameBag:
        return FrameBag.from_arrow(self.session, ArrowBag.weighted(schema, rows))

    def contents(self, bag: FrameBag) -> Model:
        return dict(bag.items())


class TestFrameBag(BagLaws):
    @pytest.fixture(autouse=True)
    def _on_spark(self, spark: SparkSession) -> None:
        self.factory = FrameBagFactory(spark)


def _bag(spark: SparkSession, schema: str, *rows: tuple[Any, ...]) -> FrameBag:
    return FrameBag.from_memory(spark, MemoryBag.of(Schema.parse(schema), rows))


def test_from_a_data_frame_and_back(spark: SparkSession) -> None:
    """Any DataFrame enters, each row once or with its weight, and leaves with every tuple once and its weight."""
    frame = spark.createDataFrame([(1, "a"), (1, "a"), (2, None)], "`t.k` int, s string")
    bag = FrameBag.from_frame(frame)
    assert bag.schema == Schema.parse("t.k int, s string")
    assert bag.frame.columns == ["t.k", "s", WEIGHT]
    assert sorted(map(tuple, bag.frame.collect()), key=str) == [(1, "a", 2), (2, None, 1)]
    weighted = FrameBag.from_frame(frame.withColumn(WEIGHT, F.lit(-1)))
    assert dict((bag + weighted).items()) == {}


def test_names_may_differ_in_case_only(spark: SparkSession) -> None:
    """Columns K and k, or names with points and quotes in them, are never mixed up."""
    bag = _bag(spark, "K int, k int", (1, 2)).rename(["K", "k"])
    assert dict(bag.select(Expression("`k` > `K`")).keep(["k"]).items()) == {(2,): 1}
    odd = bag.rename(["a.`b`", "a.b"]).project([("sum.", Expression("`a.``b``` + `a.b`"))])
    assert (dict(odd.items()), odd.schema.names) == ({(3,): 1}, ("sum.",))
    with pytest.raises(TypeMismatch, match="no column 'z'"):
        bag.select(Expression("`z` = 1"))


def test_a_bag_joined_with_itself(spark: SparkSession) -> None:
    """The two sides of a self-join, and keys taken from the bag itself, stay apart."""
    bag = _bag(spark, "k int, l int", (1, 2), (2, 1), (2, 3))
    pairs = bag.rename(["a", "b"]).join(bag.rename(["c", "d"]), [("b", "c")])
    assert dict(pairs.items()) == {(1, 2, 2, 1): 1, (1, 2, 2, 3): 1, (2, 1, 1, 2): 1}
    assert dict(bag.matching(bag, [("l", "k")]).items()) == {(1, 2): 1, (2, 1): 1}


def test_functions_that_only_spark_has(spark: SparkSession) -> None:
    """Conditions and computed columns are Spark's own SQL; the type of a column is what Spark says."""
    bag = _bag(spark, "r.s string", ("Robert",), ("Rupert",), ("Rubin",))
    codes = bag.select(Expression("soundex(`r.s`) = 'R163'")).project([("code", Expression("sha2(`r.s`, 256) <> ''"))])
    assert (codes.schema, dict(codes.items())) == (Schema.parse("code boolean"), {(True,): 2})


def test_negative_zero_does_not_enter(spark: SparkSession) -> None:
    """-0.0 from a DataFrame or from an expression is 0.0 for every expression after it, not only when grouped."""
    frame = spark.createDataFrame([(-0.0, -0.0)], "x double, y float")
    entered = FrameBag.from_frame(frame)
    text = [("x", Expression("CAST(`x` AS STRING)")), ("y", Expression("CAST(`y` AS STRING)"))]
    assert dict(entered.project(text).items()) == {("0.0", "0.0"): 1}
    negated = entered.project([("x", Expression("-`x`")), ("y", Expression("-`y`"))])
    assert negated.schema == entered.schema
    assert dict(negated.project(text).items()) == {("0.0", "0.0"): 1}


def test_unlike_types_of_one_family_meet(spark: SparkSession) -> None:
    """An int finds its decimal and its bigint; a sum has Spark's common types."""
    ints = _bag(spark, "k int", (1,), (2,))
    decimals = _bag(spark, "n decimal(10,2)", (Decimal("1.00"),), (Decimal("2.50"),))
    assert dict(ints.join(decimals, [("k", "n")]).items()) == {(1, Decimal("1.00")): 1}
    longs = _bag(spark, "l bigint", (2,), (3,))
    total = ints + longs
    assert (total.schema, dict(total.items())) == (Schema.parse("k bigint"), {(1,): 1, (2,): 2, (3,): 1})
    mixed = decimals + ints
    assert mixed.schema == Schema.parse("n decimal(12,2)")
    assert dict(mixed.items()) == {(Decimal("1.00"),): 2, (Decimal("2.50"),): 1, (Decimal("2.00"),): 1}


def test_an_empty_chunk_is_not_the_end(spark: SparkSession) -> None:
    """A filter leaves chunks without rows; what comes after them is handed to Spark as well."""
    rows = pa.table({"a": pa.array([1, 2], pa.int64())})
    table = pa.concat_tables([rows, rows.slice(0, 0), rows])
    assert table.column("a").num_chunks == 3
    assert sorted(row["a"] for row in frame_of(spark, table, "a bigint").collect()) == [1, 1, 2, 2]


def test_no_columns_and_no_keys(spark: SparkSession) -> None:
    """A bag without columns is a number; without keys every row matches when there is any key row at all."""
    three, none = _bag(spark, "k int", (1,), (2,), (3,)), _bag(spark, "k int")
    assert dict(three.keep([]).items()) == {(): 3}
    assert dict(none.keep([]).items()) == {}
    assert dict(three.matching(none, ()).items()) == {}
    assert len(dict(three.without(none, ()).items())) == 3


def test_keys_that_are_null_can_match(spark: SparkSession) -> None:
    """With nulls_match a key compares as a column value does in a bag."""
    bag = _bag(spark, "k int, x double", (None, None), (1, None), (None, float("nan")))
    keys = _bag(spark, "k int, x double", (None, None), (None, float("nan")))
    on = [("k", "k"), ("x", "x")]
    assert len(dict(bag.without(keys, on).items())) == 3
    assert dict(bag.without(keys, on, nulls_match=True).items()) == {(1, None): 1}
    assert dict(bag.matching(keys, on).items()) == {}
