"""The bag on Arrow tables obeys the laws of signed bags, and what only it offers."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given, settings

from tests.laws import EVERY_TYPE, BagLaws, Model, Weighted, model, wide_rows
from weir.algebra.errors import EvaluationError, TypeMismatch, UnsupportedExpression
from weir.algebra.expression import Expression
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Column, Schema
from weir.spark.arrow_bag import WEIGHT, ArrowBag


class ArrowBagFactory:
    examples = 60

    def make(self, schema: Schema, rows: Weighted) -> ArrowBag:
        """Through Arrow's own values, as a source delivers them, so that the gate for columns is what is tested."""
        columns = [
            pa.array([row[at] for row, _ in rows], type_) for at, type_ in enumerate(arrow_schema(schema).types)
        ]
        weights = pa.array([weight for _, weight in rows], pa.int64())
        return ArrowBag.from_table(schema, pa.table([*columns, weights], [*schema.names, WEIGHT]))

    def contents(self, bag: ArrowBag) -> Model:
        return dict(bag.items())


from weir.algebra.arrow_types import arrow_schema  # noqa: E402


class TestArrowBag(BagLaws):
    factory = ArrowBagFactory()
