"""The bag on Arrow tables obeys the laws of signed bags, and what only it offers."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws import EVERY_TYPE, BagLaws, Model, Weighted, model, wide_rows
from weir.algebra.arrow_types import arrow_schema
from weir.algebra.bag import WEIGHT, join_and_compare
from weir.algebra.errors import EvaluationError, TypeMismatch, UnsupportedExpression
from weir.algebra.expression import Expression
from weir.algebra.memory import MemoryBag
from weir.algebra.types import NAN, Column, Schema, Type, decimal
from weir.sources import source
from weir.spark.arrow_bag import ArrowBag
from weir.spark.arrow_keys import TooManyPairs, at_most_pairs


class ArrowBagFactory:
    examples = 60

    def make(self, schema: Schema, rows: Weighted) -> ArrowBag:
        """Through a table as a source delivers it, so that the gate for columns is tested too."""
        values = [[row[at] for row, _ in rows] for at in range(len(schema))]
        columns = [pa.array(found, type_) for found, type_ in zip(values, arrow_schema(schema).types, strict=True)]
        weights = pa.array([weight for _, weight in rows], pa.int64())
        return ArrowBag.from_table(schema, pa.table([*columns, weights], [*schema.names, WEIGHT]))

    def contents(self, bag: ArrowBag) -> Model:
        return dict(bag.items())


class TestArrowBag(BagLaws):
    factory = ArrowBagFactory()


def bag(schema: str, *rows: tuple[object, ...]) -> ArrowBag:
    return ArrowBag.weighted(Schema.parse(schema), [(row, 1) for row in rows])


@settings(derandomize=True, deadline=None, database=None, max_examples=30)
@given(a=wide_rows(), b=wide_rows())
def test_equality_is_equality_of_contents(a: Weighted, b: Weighted) -> None:
    """Bags are equal exactly when rows and weights are, whatever the columns' names; equal bags hash alike."""
    one, two = ArrowBag.weighted(EVERY_TYPE, a), ArrowBag.weighted(EVERY_TYPE, b)
    assert (one == two) is (model(EVERY_TYPE, a) == model(EVERY_TYPE, b))
    again = ArrowBag.weighted(Schema(Column(f"{c.name}_2", c.type) for c in EVERY_TYPE), reversed(a))
    assert one == again
    assert hash(one) == hash(again)


@settings(derandomize=True, deadline=None, database=None, max_examples=30)
@given(a=wide_rows())
def test_a_pickled_bag_is_equal(a: Weighted) -> None:
    """A bag survives pickling with its schema, whatever its types."""
    one = ArrowBag.weighted(EVERY_TYPE, a)
    copy = pickle.loads(pickle.dumps(one))
    assert copy == one
    assert copy.schema == one.schema


def test_a_pickled_part_leaves_the_rest_behind() -> None:
    """Pickling ships the rows that are in the bag, consolidated, and not the table they were cut from."""
    large = bag("k int", *((at,) for at in range(100_000)))
    assert len(pickle.dumps(large.select(Expression("`k` < 10")))) < 2000
    assert len(pickle.dumps(large - large)) < 2000


@settings(derandomize=True, deadline=None, database=None, max_examples=30)
@given(a=wide_rows())
def test_to_memory_and_back(a: Weighted) -> None:
    """The bag in memory and the bag in Arrow hold the same."""
    in_memory = MemoryBag.weighted(EVERY_TYPE, a)
    assert ArrowBag.from_memory(in_memory).to_memory() == in_memory


def test_columns_are_normalised_at_the_gate() -> None:
    """A table that enters may hold any NaN, -0.0 and narrower types; without weights every row counts once."""
    other_nan = pa.array([0x7FF8000000000001], pa.int64()).view(pa.float64())
    fractions = pa.concat_arrays([other_nan, pa.array([float("nan"), -0.0, 0.0])])
    table = pa.table({"x": fractions, "k": pa.array([1] * 4, pa.int8())})
    entered = ArrowBag.from_table(Schema.parse("k bigint, x double"), table)
    assert dict(entered.items()) == {(1, NAN): 2, (1, 0.0): 2}


def test_a_column_that_does_not_fit_is_refused() -> None:
    """Values outside the type, and types that do not belong together, name both."""
    with pytest.raises(TypeMismatch, match="int64 does not fit the type int"):
        ArrowBag.from_table(Schema.parse("k int"), pa.table({"k": [1 << 40]}))
    with pytest.raises(TypeMismatch, match="cannot add"):
        bag("k int") + bag("k int, l int")
    with pytest.raises(TypeMismatch, match="compare int with string"):
        bag("k int", (1,)).join(bag("s string", ("1",)), [("k", "s")])


UNLIKE = [
    (Type("tinyint"), 1, Type("bigint"), 1, 2),
    (Type("bigint"), 1 << 62, decimal(38, 0), 1 << 62, 7),
    (Type("int"), 3, decimal(10, 2), Decimal("3.00"), Decimal("3.01")),
    (decimal(38, 0), 10**37, decimal(38, 18), Decimal("5"), Decimal("10")),
    (decimal(38, 0), 5, decimal(38, 18), Decimal("5"), Decimal("5.000000000000000001")),
    (Type("float"), 0.5, Type("double"), 0.5, 0.1),
]


@pytest.mark.parametrize(("left", "mine", "right", "equal", "unequal"), UNLIKE)
def test_unlike_types_of_one_family_meet(left: Type, mine: object, right: Type, equal: object, unequal: object) -> None:
    """Integers of any width, decimals of any scale, either with the other, float with double: compared without loss."""
    one = [((mine,), 1), ((None,), 1)]
    other = [((equal,), 1), ((unequal,), 1), ((None,), 1)]
    results = []
    for kind in (MemoryBag, ArrowBag):
        a: Any = kind.weighted(Schema.of(a=left), one)
        b: Any = kind.weighted(Schema.of(b=right), other)
        joined, reversed_ = a.join(b, [("a", "b")]), b.join(a, [("b", "a")])
        found, rest = a.matching(b, [("a", "b")]), a.without(b, [("a", "b")], nulls_match=True)
        results.append([dict(each.items()) for each in (joined, reversed_, found, rest)])
    assert results[0] == results[1]


def test_keys_that_are_null_can_match() -> None:
    """With nulls_match a key compares as a column value does in a bag, for columns of every type."""
    for column in EVERY_TYPE:
        schema = Schema([column])
        nulls = ArrowBag.weighted(schema, [((None,), 2)])
        assert len(nulls.without(nulls, [(column.name, column.name)])) == 1
        assert len(nulls.without(nulls, [(column.name, column.name)], nulls_match=True)) == 0
        assert len(nulls.matching(nulls, [(column.name, column.name)])) == 0


def test_no_columns_and_no_keys() -> None:
    """A bag without columns is a number; without keys every row matches when there is any key row at all."""
    three, none = bag("k int", (1,), (2,), (3,)), bag("k int")
    assert dict(three.keep([]).items()) == {(): 3}
    assert dict(none.keep([]).items()) == {}
    assert dict(three.keep([]).join(three.keep([])).items()) == {(): 9}
    assert (three.matching(three, ()), three.matching(none, ())) == (three, none)
    assert (three.without(three, ()), three.without(none, ())) == (none, three)
    assert dict(three.join(bag("l int", (7,)), where=Expression("FALSE")).items()) == {}


def test_the_type_of_null() -> None:
    """A column of bare NULLs is a column like others."""
    nulls = bag("k int", (1,), (2,)).project([("n", Expression("NULL")), ("k", Expression("`k`"))])
    assert dict(nulls.keep(["n"]).items()) == {(None,): 2}
    assert dict(nulls.join(nulls.rename(["m", "l"]), [("n", "m")]).items()) == {}
    assert dict(nulls.join(nulls.rename(["m", "l"]), [("n", "l")]).items()) == {}


def test_an_expression_meets_only_tuples_that_are_there() -> None:
    """A tuple whose weights cancel cannot make an expression fail; one that is there does."""
    gone = bag("k int", (0,), (1,)) - bag("k int", (0,))
    inverse = Expression("1 / `k`")
    assert dict(gone.project([("i", inverse)]).items()) == {(1.0,): 1}
    assert len(gone.select(Expression("1 / `k` > 0"))) == 1
    assert len(gone.join(bag("l int", (1,)), where=Expression("1 / `k` = `l`"))) == 1
    with pytest.raises(EvaluationError, match="zero"):
        bag("k int", (0,)).project([("i", inverse)])


def test_what_only_spark_can_evaluate_names_itself() -> None:
    """There is no silent difference: the function is named."""
    with pytest.raises(UnsupportedExpression, match="SOUNDEX"):
        bag("s string").select(Expression("soundex(`s`) = 'A'"))
    with pytest.raises(TypeMismatch, match="no column 'z'"):
        bag("s string").select(Expression("`z` = 'A'"))


def test_weights_that_do_not_fit_are_refused() -> None:
    """A product of weights beyond 64 bits raises instead of wrapping round."""
    heavy = ArrowBag.weighted(Schema.parse("k int"), [((1,), 1 << 62)])
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        heavy.scale(2)


def test_weights_are_called_as_the_sources_call_them() -> None:
    """A source's table of changes enters as it is."""
    assert WEIGHT == source.WEIGHT


@pytest.mark.spark
def test_pandas_is_not_needed() -> None:
    """Both bags, there and back through Spark, run where pandas cannot be imported."""
    program = """
import sys
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPandas())
from weir.algebra.expression import Expression
from weir.algebra.types import Schema
from weir.spark.arrow_bag import ArrowBag
from weir.spark.frame_bag import FrameBag
from weir.spark.session import open_session
session = open_session("local[1]", settings={"spark.log.level": "OFF"})
bag = ArrowBag.weighted(Schema.parse("k int, t timestamp_ntz"), [((1, None), 2), ((2, None), 1)])
print(FrameBag.from_arrow(session, bag).select(Expression("`k` > 1")).to_arrow())
session.stop()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.strip() == "(2, NULL)", done.stderr


@settings(derandomize=True, deadline=None, database=None, max_examples=30)
@given(seed=st.integers(0, 1 << 30), keys=st.sampled_from([1, 2, 40]), rows=st.sampled_from([30, 300]))
def test_many_moments_of_few_keys(seed: int, keys: int, rows: int) -> None:
    """The join as of moments finds the same where a key has hundreds of moments and of versions, some of them alike."""
    dice = random.Random(seed)
    moments = [((dice.randrange(keys), at), dice.choice([-1, 1, 2])) for at in dice.sample(range(2 * rows), rows)]
    validities = [dice.choice([dice.randrange(2 * rows), 1 << 62]) for _ in range(rows)]
    versions = [((dice.randrange(keys), dice.randrange(5), end), dice.choice([-1, 1])) for end in validities]
    one = ArrowBag.weighted(Schema.parse("k int, at bigint"), moments)
    other = ArrowBag.weighted(Schema.parse("j int, v int, valid bigint"), versions)
    for where in (None, Expression("`v` > 1"), Expression("concat('v', `v`) > 'v1'")):
        found = one.join_as_of(other, "at", "valid", [("k", "j")], where)
        assert found == join_and_compare(one, other, "at", "valid", [("k", "j")], where)


def test_a_limit_on_pairs() -> None:
    """Inside the limit a join that would make more pairs is refused before it makes them; outside it is not."""
    one, other = bag("k int", (0,), (1,), (None,)), bag("j int", (0,), (1,), (2,))
    with at_most_pairs(2):
        assert len(one.join(other, [("k", "j")])) == 2
        with pytest.raises(TooManyPairs):
            one.join(other)
        with at_most_pairs(None):
            assert len(one.join(other)) == 9
    assert len(one.join(other)) == 9
