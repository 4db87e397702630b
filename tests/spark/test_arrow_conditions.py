"""Conditions on whole Arrow columns mean what the evaluator means, and only what is surely alike runs that way."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws import EVERY_TYPE
from tests.values import rows
from weir.algebra.expression import Expression
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.spark.arrow_bag import ArrowBag
from weir.spark.arrow_conditions import condition

SIDES = ["`i` ? `l`", "`y` ? `h`", "`l` ? 2147483648", "`h` ? -1", *(f"`{name}` ? `{name}`" for name in "sbatzm")]
COMPARISONS = [sides.replace("?", sign) for sides in SIDES for sign in ("=", "<>", "<", "<=", ">", ">=")]
CONNECTED = ["`i` IS NULL", "`s` IS NOT NULL", "NOT (`i` < `l`)", "`i` > 0 OR `l` > 0", "(`i` > 0) AND `h` < 3"]
WHOLE = [*COMPARISONS, *CONNECTED]
BY_ROWS = [
    "`d` > 0.5D", "`f` = `d`", "`o`", "`i` < 1.5", "`s` = 'a'", "`i` <=> `l`", "`n` < `m`", "`i` IN (1, 2)",
    "`i` + 1 > 2L", "`d` IS NULL OR `i` > `n`", "TRUE", "1 < 2",
]  # fmt: skip


@pytest.mark.parametrize("sql", WHOLE)
def test_plain_comparisons_run_on_columns(sql: str) -> None:
    """Integers of any width, one exact type of plain order, NULL tests and connectives need no Python per row."""
    assert condition(Expression(sql), EVERY_TYPE).on_columns is not None


@pytest.mark.parametrize("sql", BY_ROWS)
def test_everything_else_runs_row_by_row(sql: str) -> None:
    """Where NaN, casts or functions come in, the evaluator decides."""
    assert condition(Expression(sql), EVERY_TYPE).on_columns is None


@settings(derandomize=True, deadline=None, database=None, max_examples=300)
@given(found=st.lists(rows(EVERY_TYPE), min_size=1, max_size=6), sql=st.sampled_from([*WHOLE, *BY_ROWS]))
def test_both_ways_mean_the_same(found: list[tuple[object, ...]], sql: str) -> None:
    """A selection keeps the rows that the bag in memory keeps, on values of every type."""
    expected = MemoryBag.of(EVERY_TYPE, found)
    assert ArrowBag.from_memory(expected).select(Expression(sql)).to_memory() == expected.select(Expression(sql))


def test_text_is_compared_by_its_bytes() -> None:
    """As Spark's default collation does: upper case before lower case, and é behind z."""
    table = pa.table({"s": ["Z", "z", "z"], "r": ["a", "é", "z"]})
    filter_ = condition(Expression("`s` < `r`"), Schema.parse("s string, r string"))
    assert filter_.on_columns is not None
    assert filter_.mask(table).to_pylist() == [True, True, False]
