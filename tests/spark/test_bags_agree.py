"""Differential: a random expression of the algebra has one value, whichever bag computes it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.programs import BASE, Tree, evaluate, leaf, tree
from weir.algebra.memory import MemoryBag
from weir.spark.arrow_bag import ArrowBag
from weir.spark.frame_bag import FrameBag

ARROW_CASES, SPARK_CASES = 400, 16
LEAVES = 3


def _case(seed: int) -> tuple[Tree, list[MemoryBag]]:
    dice = random.Random(seed)
    return tree(dice, dice.randint(1, 4), LEAVES), [leaf(dice) for _ in range(LEAVES)]


def _operations(expression: Tree) -> Iterator[str]:
    yield expression[0]
    for part in expression[1:]:
        if isinstance(part, tuple):
            yield from _operations(part)


def test_arrow_bags_agree_with_bags_in_memory() -> None:
    """Expressions up to four steps deep give the same bag, schema included, and most of them are not empty."""
    full = 0
    for seed in range(ARROW_CASES):
        expression, leaves = _case(seed)
        expected = evaluate(expression, leaves)
        result = evaluate(expression, [ArrowBag.from_memory(bag) for bag in leaves])
        assert result.schema == expected.schema, f"seed {seed}: {expression}"
        assert result.to_memory() == expected, f"seed {seed}: {expression}"
        full += len(expected) > 0
    assert full > ARROW_CASES / 2


@pytest.mark.spark
def test_data_frame_bags_agree_with_bags_in_memory(spark: SparkSession) -> None:
    """The same on Spark: every expression's value in one job, told apart by its number."""
    for first in range(0, SPARK_CASES, 4):
        cases = {seed: _case(1000 + seed) for seed in range(first, first + 4)}
        parts = {
            seed: evaluate(expression, [FrameBag.from_memory(spark, bag) for bag in leaves])
            for seed, (expression, leaves) in cases.items()
        }
        assert all(part.schema == BASE for part in parts.values())
        together = sum((part.tagged("case", seed) for seed, part in parts.items()), _nothing(spark))
        results = together.to_memory()
        for seed, (expression, leaves) in cases.items():
            mine = MemoryBag(BASE, {row[:-1]: weight for row, weight in results.items() if row[-1] == seed})
            assert mine == evaluate(expression, leaves), f"seed {seed}: {expression}"


def _nothing(spark: SparkSession) -> FrameBag:
    return FrameBag.from_memory(spark, MemoryBag.of(BASE)).tagged("case", 0)


def test_the_cases_use_every_operation() -> None:
    """No operation is missing from what is compared, not even from the few cases that run on Spark."""
    operations = Counter(name for seed in range(SPARK_CASES) for name in _operations(_case(1000 + seed)[0]))
    assert set(operations) == {
        "leaf", "add", "subtract", "negate", "scale", "select", "project", "join", "tag", "distinct", "positive",
        "matching", "without",
    }  # fmt: skip
