"""The bag in memory obeys the laws of signed bags, and what only it offers."""

from __future__ import annotations

import pickle

from hypothesis import given, settings

from tests.laws import EVERY_TYPE, BagLaws, Model, Weighted, model, wide_rows
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Column, Schema


class MemoryBagFactory:
    examples = 60

    def make(self, schema: Schema, rows: Weighted) -> MemoryBag:
        return MemoryBag.weighted(schema, rows)

    def contents(self, bag: MemoryBag) -> Model:
        return dict(bag.items())


class TestMemoryBag(BagLaws):
    factory = MemoryBagFactory()


@settings(derandomize=True, deadline=None, database=None)
@given(a=wide_rows(), b=wide_rows())
def test_equality_is_equality_of_contents(a: Weighted, b: Weighted) -> None:
    """Bags are equal exactly when rows and weights are, whatever the columns' names; equal bags hash alike."""
    one, two = MemoryBag.weighted(EVERY_TYPE, a), MemoryBag.weighted(EVERY_TYPE, b)
    assert (one == two) is (model(EVERY_TYPE, a) == model(EVERY_TYPE, b))
    renamed = Schema(Column(f"{column.name}_2", column.type) for column in EVERY_TYPE)
    again = MemoryBag.weighted(renamed, reversed(a))
    assert one == again
    assert hash(one) == hash(again)


@settings(derandomize=True, deadline=None, database=None)
@given(a=wide_rows())
def test_a_pickled_bag_is_equal(a: Weighted) -> None:
    """A bag survives pickling, NaN included."""
    bag = MemoryBag.weighted(EVERY_TYPE, a)
    copy = pickle.loads(pickle.dumps(bag))
    assert copy == bag
    assert copy.schema == bag.schema
    assert hash(copy) == hash(bag)


@settings(derandomize=True, deadline=None, database=None)
@given(a=wide_rows())
def test_length_and_cardinality_count_tuples(a: Weighted) -> None:
    """len counts different tuples, cardinality counts each as often as its weight says, whatever the sign."""
    bag, expected = MemoryBag.weighted(EVERY_TYPE, a), model(EVERY_TYPE, a)
    assert len(bag) == len(expected)
    assert bag.cardinality == sum(map(abs, expected.values()))
    assert len(bag.positive().rows()) == bag.positive().cardinality
