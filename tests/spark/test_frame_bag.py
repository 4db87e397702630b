"""The bag on DataFrames obeys the laws of signed bags, and what only it offers."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.laws import BagLaws, Model, Weighted
from weir.algebra.types import Schema
from weir.spark.arrow_bag import ArrowBag
from weir.spark.frame_bag import FrameBag

pytestmark = pytest.mark.spark


class FrameBagFactory:
    examples = 3  # every look into a bag is a Spark job

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
