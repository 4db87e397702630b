"""The laws of signed bags, stated once against the ``Bag`` protocol. Every implementation of a bag runs this same file.

A test module inherits ``BagLaws`` and says how to make a bag and how to look into one::

    class TestMemoryBag(BagLaws):
        factory = MemoryBagFactory()

The naive model that results are compared with is a dictionary from normalised row to weight, without zeros; its
operations are spelled out at the end of this file in the most obvious way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.values import rows
from weir.algebra.bag import join_and_compare, total
from weir.algebra.errors import TypeMismatch
from weir.algebra.expression import Expression, column
from weir.algebra.types import BIGINT, NAN, Column, Row, Schema, Value, normalise_row

Model = dict[Row, int]
Weighted = Sequence[tuple[Sequence[Value], int]]


class BagFactory(Protocol):
    """What an implementation gives to be tested."""

    examples: int  # how many examples each law gets: few where a bag is slow

    def make(self, schema: Schema, rows: Weighted) -> Any:
        """A bag of weighted rows. Equal rows add up; values come as a source delivers them, not normalised."""

    def contents(self, bag: Any) -> Model:
        """The bag's rows, normalised, with their weights."""


# -- what the laws range over --------------------------------------------------------------------------------

EVERY_TYPE = Schema.parse(
    "y tinyint, h smallint, i int, l bigint, f float, d double, n decimal(10,2), m decimal(38,18), s string, b binary, "
    "o boolean, a date, t timestamp, z timestamp_ntz"
)
LEFT = Schema.parse("k int, w int, x double")
RIGHT = Schema.parse("j int, v int, u double")
_FEW: dict[str, list[Value]] = {"int": [None, 0, 1, 2], "double": [None, 0.0, -0.0, 1.5, float("nan"), float("inf")]}
_WEIGHTS = st.sampled_from([-3, -2, -1, 1, 1, 2, 0])


def _small_rows(schema: Schema) -> st.SearchStrategy[Any]:
    """Few different values, so that rows often meet."""
    return st.tuples(*(st.sampled_from(_FEW[column_.type.name]) for column_ in schema))


def _weighted(row: st.SearchStrategy[Any], most: int = 6) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(row, _WEIGHTS), max_size=most)


def wide_rows() -> st.SearchStrategy[Any]:
    """Rows with a column of every type, some of them twice so that weights meet."""
    distinct = st.lists(rows(EVERY_TYPE), min_size=1, max_size=3)
    return distinct.flatmap(lambda found: _weighted(st.sampled_from(found)))


left_rows, right_rows = _weighted(_small_rows(LEFT)), _weighted(_small_rows(RIGHT))
AT, VALID = Schema((*LEFT, Column("at", BIGINT))), Schema((*RIGHT, Column("valid", BIGINT)))
_TIMES = st.sampled_from([0, 1, 2, 3, 1 << 62])
moments, validities = (
    _weighted(st.tuples(_small_rows(schema), _TIMES).map(lambda both: (*both[0], both[1]))) for schema in (LEFT, RIGHT)
)
factors = st.integers(-3, 3)
predicates = st.sampled_from([
    "`w` > 0", "`w` = `k`", "`x` > 1.0", "`x` = `x`", "`w` <> 1", "`w` IS NULL", "NOT (`w` < `k`)", "`w` <=> NULL",
    "`k` IN (0, NULL)",
]).map(Expression)  # fmt: skip
lists_of_columns = st.sampled_from([
    [("a", "`w`")], [("a", "`k` + `w`"), ("b", "`x`")], [("a", "1")], [("a", "`x` > 1.0")],
    [("a", "COALESCE(`w`, `k`, 7)")],
]).map(lambda columns: [(name, Expression(sql)) for name, sql in columns])  # fmt: skip
join_conditions = st.sampled_from([
    ((("k", "j"),), None),
    ((("k", "j"), ("w", "v")), None),
    ((("x", "u"),), None),
    ((), Expression("`k` < `j`")),
    ((), Expression("`x` >= `u`")),
    ((("k", "j"),), Expression("`w` <> `v`")),
    ((), None),
])  # fmt: skip
keys = st.sampled_from([(("k", "j"),), (("k", "j"), ("w", "v")), (("x", "u"),)])


def law(**ranges: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A law as a test method: ``body(self, **examples)`` holds for all of ``ranges``, as often as the factory says."""

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        def test(self: BagLaws) -> None:
            check = settings(
                max_examples=self.factory.examples, derandomize=True, deadline=None, database=None,
                phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
            )(given(**ranges)(lambda **examples: body(self, **examples)))  # fmt: skip
            check()

        test.__name__, test.__doc__, test.__qualname__ = body.__name__, body.__doc__, body.__qualname__
        return test

    return decorate


class BagLaws:
    """Inherit it as a test class and set ``factory``."""

    factory: BagFactory

    def left(self, weighted: Weighted) -> Any:
        return self.factory.make(LEFT, weighted)

    def right(self, weighted: Weighted) -> Any:
        return self.factory.make(RIGHT, weighted)

    def wide(self, weighted: Weighted) -> Any:
        return self.factory.make(EVERY_TYPE, weighted)

    def same(self, one: Any, other: Any) -> None:
        assert self.factory.contents(one) == self.factory.contents(other)

    def is_model(self, bag: Any, expected: Model) -> None:
        assert self.factory.contents(bag) == expected

    # -- the group of + --------------------------------------------------------------------------------------

    @law(a=wide_rows())
    def test_a_bag_holds_what_it_was_made_of(self, a: Weighted) -> None:
        """A bag maps each normalised row to the sum of its weights and keeps no zero."""
        self.is_model(self.wide(a), model(EVERY_TYPE, a))

    @law(a=wide_rows(), b=wide_rows())
    def test_addition_adds_weights(self, a: Weighted, b: Weighted) -> None:
        """The sum of two bags is the bag of both lists of rows."""
        self.is_model(self.wide(a) + self.wide(b), model(EVERY_TYPE, [*a, *b]))

    @law(a=wide_rows(), b=wide_rows(), c=wide_rows())
    def test_addition_is_associative(self, a: Weighted, b: Weighted, c: Weighted) -> None:
        """(a + b) + c = a + (b + c), and ``total`` is that sum."""
        one, two, three = self.wide(a), self.wide(b), self.wide(c)
        self.same((one + two) + three, one + (two + three))
        self.same(total(one, two, three), (one + two) + three)

    @law(a=wide_rows(), b=wide_rows())
    def test_addition_is_commutative(self, a: Weighted, b: Weighted) -> None:
        """a + b = b + a."""
        self.same(self.wide(a) + self.wide(b), self.wide(b) + self.wide(a))

    @law(a=wide_rows())
    def test_the_empty_bag_is_the_identity(self, a: Weighted) -> None:
        """a + 0 = 0 + a = a."""
        empty = self.wide([])
        self.same(self.wide(a) + empty, self.wide(a))
        self.same(empty + self.wide(a), self.wide(a))

    @law(a=wide_rows(), b=wide_rows())
    def test_every_bag_has_an_inverse(self, a: Weighted, b: Weighted) -> None:
        """a + (-a) = 0, and a - b = a + (-b)."""
        self.is_model(self.wide(a) + (-self.wide(a)), {})
        self.is_model(self.wide(a) - self.wide(a), {})
        self.same(self.wide(a) - self.wide(b), self.wide(a) + (-self.wide(b)))

    @law(a=left_rows, b=right_rows)
    def test_addition_matches_columns_by_position(self, a: Weighted, b: Weighted) -> None:
        """The sum has the left one's column names, whatever the right one calls its columns."""
        result = self.left(a) + self.right(b)
        assert result.schema == LEFT
        self.is_model(result, model(LEFT, [*a, *b]))

    # -- scaling ---------------------------------------------------------------------------------------------

    @law(a=wide_rows(), b=wide_rows(), m=factors, n=factors)
    def test_scaling_is_a_module_action(self, a: Weighted, b: Weighted, m: int, n: int) -> None:
        """m(a + b) = ma + mb, (m + n)a = ma + na, (mn)a = m(na), 1a = a, 0a = 0, (-1)a = -a."""
        one, two = self.wide(a), self.wide(b)
        self.same((one + two).scale(m), one.scale(m) + two.scale(m))
        self.same(one.scale(m + n), one.scale(m) + one.scale(n))
        self.same(one.scale(m * n), one.scale(n).scale(m))
        self.same(one.scale(1), one)
        self.is_model(one.scale(0), {})
        assert one.scale(0).schema == EVERY_TYPE
        self.same(one.scale(-1), -one)

    # -- select and project ----------------------------------------------------------------------------------

    @law(a=left_rows, b=left_rows, n=factors, predicate=predicates)
    def test_selection_is_linear(self, a: Weighted, b: Weighted, n: int, predicate: Expression) -> None:
        """select(a + n b) = select(a) + n select(b): selection commutes with + and with scaling."""
        one, two = self.left(a), self.left(b)
        self.same((one + two.scale(n)).select(predicate), one.select(predicate) + two.select(predicate).scale(n))

    @law(a=left_rows, predicate=predicates)
    def test_selection_keeps_what_is_true(self, a: Weighted, predicate: Expression) -> None:
        """Rows for which the predicate is TRUE stay, with their weight; those for which it is FALSE or NULL go."""
        holds = predicate.predicate(LEFT)
        kept = {row: weight for row, weight in model(LEFT, a).items() if holds(row) is True}
        self.is_model(self.left(a).select(predicate), kept)

    @law(a=left_rows, b=left_rows, n=factors, columns=lists_of_columns)
    def test_projection_is_linear(self, a: Weighted, b: Weighted, n: int, columns: Any) -> None:
        """project(a + n b) = project(a) + n project(b)."""
        one, two = self.left(a), self.left(b)
        self.same((one + two.scale(n)).project(columns), one.project(columns) + two.project(columns).scale(n))

    @law(a=left_rows, columns=lists_of_columns)
    def test_projection_merges_weights(self, a: Weighted, columns: Any) -> None:
        """Rows that become equal add their weights up, and are gone when that gives zero."""
        compiled = [(name, *expression.compile(LEFT)) for name, expression in columns]
        result = self.left(a).project(columns)
        assert [(c.name, c.type) for c in result.schema] == [(name, type_) for name, type_, _ in compiled]
        expected = gather((tuple(f(row) for _, _, f in compiled), weight) for row, weight in model(LEFT, a).items())
        self.is_model(result, expected)

    @law(a=wide_rows())
    def test_keeping_columns_is_projecting_on_them(self, a: Weighted) -> None:
        """keep is the projection onto columns of any type, in the order asked for, also onto none at all."""
        names = ["t", "d", "s"]
        bag = self.wide(a)
        self.same(bag.keep(names), bag.project([(name, column(name)) for name in names]))
        assert bag.keep(names).schema == EVERY_TYPE.only(names)
        self.same(bag.keep(EVERY_TYPE.names), bag)

    @law(a=left_rows)
    def test_renaming_changes_names_only(self, a: Weighted) -> None:
        """rename keeps rows, weights and types, and the new names are the ones that expressions use."""
        bag = self.left(a).rename(["p.k", "p.w", "p.x"])
        self.is_model(bag, model(LEFT, a))
        assert (bag.schema.names, bag.schema.types) == (("p.k", "p.w", "p.x"), LEFT.types)
        self.same(bag.select(Expression("`p.w` > 0")), self.left(a).select(Expression("`w` > 0")))

    # -- join ------------------------------------------------------------------------------------------------

    @law(a=left_rows, b=right_rows, condition=join_conditions)
    def test_join_multiplies_weights(self, a: Weighted, b: Weighted, condition: Any) -> None:
        """Each pair that agrees on the columns and satisfies the condition has the product of the weights."""
        result = self.left(a).join(self.right(b), *condition)
        assert result.schema == Schema((*LEFT, *RIGHT))
        self.is_model(result, joined(model(LEFT, a), model(RIGHT, b), *condition))

    @law(a=left_rows, b=left_rows, c=right_rows, n=factors, condition=join_conditions)
    def test_join_is_linear_on_the_left(self, a: Weighted, b: Weighted, c: Weighted, n: int, condition: Any) -> None:
        """(a + n b) join c = (a join c) + n (b join c)."""
        one, two, other = self.left(a), self.left(b), self.right(c)
        whole = (one + two.scale(n)).join(other, *condition)
        self.same(whole, one.join(other, *condition) + two.join(other, *condition).scale(n))

    @law(a=left_rows, b=right_rows, c=right_rows, n=factors, condition=join_conditions)
    def test_join_is_linear_on_the_right(self, a: Weighted, b: Weighted, c: Weighted, n: int, condition: Any) -> None:
        """a join (b + n c) = (a join b) + n (a join c)."""
        one, two, other = self.left(a), self.right(b), self.right(c)
        whole = one.join(two + other.scale(n), *condition)
        self.same(whole, one.join(two, *condition) + one.join(other, *condition).scale(n))

    @law(a=left_rows, b=right_rows)
    def test_an_equality_is_a_condition_on_the_product(self, a: Weighted, b: Weighted) -> None:
        """Joining on equal columns, with = as a condition, and selecting from the cross product are the same."""
        one, other = self.left(a), self.right(b)
        for mine, theirs in (("k", "j"), ("x", "u")):
            equal = Expression(f"`{mine}` = `{theirs}`")
            self.same(one.join(other, [(mine, theirs)]), one.join(other, where=equal))
            self.same(one.join(other, [(mine, theirs)]), one.join(other).select(equal))

    @law(a=moments, b=validities, condition=join_conditions)
    def test_a_join_as_of_is_a_join_that_compares(self, a: Weighted, b: Weighted, condition: Any) -> None:
        """Each tuple meets those whose validity is beyond its own moment; the validity is not part of the result."""
        one, other = self.factory.make(AT, a), self.factory.make(VALID, b)
        result = one.join_as_of(other, "at", "valid", *condition)
        assert result.schema == Schema((*AT, *RIGHT))
        self.same(result, join_and_compare(one, other, "at", "valid", *condition))

    @law(a=wide_rows(), b=wide_rows())
    def test_join_on_any_type(self, a: Weighted, b: Weighted) -> None:
        """Columns of every type can be joined on, and NULL joins nothing."""
        names = [f"other.{name}" for name in EVERY_TYPE.names]
        one, other = self.wide(a), self.wide(b).rename(names)
        for at, name in enumerate(EVERY_TYPE.names):
            pairs = {
                mine + theirs: weight * their_weight
                for mine, weight in model(EVERY_TYPE, a).items()
                for theirs, their_weight in model(EVERY_TYPE, b).items()
                if mine[at] is not None and identical(mine[at], theirs[at])
            }
            self.is_model(one.join(other, [(name, f"other.{name}")]), pairs)

    def test_join_refuses_columns_of_one_name(self) -> None:
        """The two sides of a join must not share a column name."""
        with pytest.raises(TypeMismatch, match="same name"):
            self.left([]).join(self.left([]))

    # -- NULL, NaN and zero ----------------------------------------------------------------------------------

    def test_null_joins_nothing_but_is_itself(self) -> None:
        """NULL equals no value, not even NULL; yet two rows with NULL in the same place are the same row."""
        one, other = self.left([((None, None, None), 2)]), self.right([((None, None, None), 3)])
        for on in ([("k", "j")], [("w", "v")], [("x", "u")]):
            self.is_model(one.join(other, on), {})
        self.is_model(one.join(other), {(None,) * 6: 6})
        self.is_model(one + one, {(None, None, None): 4})
        self.is_model(one - one, {})

    @pytest.mark.parametrize("comparison", ["=", "<>", "<", "<=", ">", ">="])
    def test_null_fails_every_comparison(self, comparison: str) -> None:
        """A comparison with NULL is never TRUE, and neither is its negation."""
        bag = self.left([((None, 1, None), 1)])
        for predicate in (
            f"`k` {comparison} 1",
            f"`k` {comparison} `w`",
            f"`x` {comparison} `x`",
            f"`k` {comparison} NULL",
        ):
            self.is_model(bag.select(Expression(predicate)), {})
            self.is_model(bag.select(Expression(f"NOT ({predicate})")), {})

    def test_nan_is_itself_and_larger_than_all(self) -> None:
        """NaN from anywhere is one value: it merges, it joins itself, and it is larger than infinity."""
        other_nan = float("inf") - float("inf")
        bag = self.left([((1, 1, float("nan")), 1), ((1, 1, other_nan), 1)])
        self.is_model(bag, {(1, 1, NAN): 2})
        self.is_model(bag.join(self.right([((7, 7, float("nan")), 1)]), [("x", "u")]), {(1, 1, NAN, 7, 7, NAN): 2})
        self.same(bag.select(Expression("`x` = `x`")), bag)
        self.same(bag.select(Expression("`x` > CAST('Infinity' AS DOUBLE)")), bag)

    def test_negative_zero_is_zero(self) -> None:
        """-0.0 and 0.0 are one value: they merge, cancel and join."""
        bag = self.left([((1, 1, 0.0), 1), ((1, 1, -0.0), 1)])
        self.is_model(bag, {(1, 1, 0.0): 2})
        assert [str(row[2]) for row in self.factory.contents(bag)] == ["0.0"]
        self.is_model(bag.join(self.right([((7, 7, -0.0), 1)]), [("x", "u")]), {(1, 1, 0.0, 7, 7, 0.0): 2})
        self.is_model(bag.project([("p", Expression("- `x`"))]) - bag.keep(["x"]), {})

    # -- sets and keys (not linear) --------------------------------------------------------------------------

    @law(a=wide_rows())
    def test_distinct_and_positive(self, a: Weighted) -> None:
        """positive keeps the rows of positive weight as they are, distinct keeps each of them once."""
        shown = {row: weight for row, weight in model(EVERY_TYPE, a).items() if weight > 0}
        self.is_model(self.wide(a).positive(), shown)
        self.is_model(self.wide(a).distinct(), dict.fromkeys(shown, 1))

    @law(a=wide_rows())
    def test_occurring(self, a: Weighted) -> None:
        """Every value of some columns in a tuple of either sign occurs, once; none that no row has."""
        names = EVERY_TYPE.names[:2]
        found = self.factory.contents(self.wide(a).occurring(names))
        assert set(found.values()) <= {1}
        assert {row[:2] for row in model(EVERY_TYPE, a)} <= set(found)
        assert set(found) <= {row[:2] for row in model(EVERY_TYPE, [(row, 1) for row, _ in a])}

    @law(a=left_rows, b=right_rows, on=keys)
    def test_matching_and_without(self, a: Weighted, b: Weighted, on: Any) -> None:
        """matching keeps rows whose key occurs there with positive weight; a NULL in a key matches nothing."""
        present = {row for row, weight in model(RIGHT, b).items() if weight > 0}
        matched = {row for row in model(LEFT, a) if any(agree(row, other, on) for other in present)}
        one, other = self.left(a), self.right(b)
        self.is_model(one.matching(other, on), {row: w for row, w in model(LEFT, a).items() if row in matched})
        self.is_model(one.without(other, on), {row: w for row, w in model(LEFT, a).items() if row not in matched})

    @law(a=left_rows, b=right_rows, on=keys)
    def test_matching_and_without_are_a_partition(self, a: Weighted, b: Weighted, on: Any) -> None:
        """What matches and what does not add up to the whole bag."""
        one, other = self.left(a), self.right(b)
        self.same(one.matching(other, on) + one.without(other, on), one)

    # -- equality and immutability ---------------------------------------------------------------------------

    @law(a=wide_rows(), b=wide_rows())
    def test_the_difference_of_equal_bags_is_empty(self, a: Weighted, b: Weighted) -> None:
        """Two bags hold the same exactly when their difference is empty."""
        one, two = self.wide(a), self.wide(b)
        equal = self.factory.contents(one) == self.factory.contents(two)
        assert (self.factory.contents(one - two) == {}) is equal

    @law(
        a=left_rows,
        b=left_rows,
        c=right_rows,
        condition=join_conditions,
        predicate=predicates,
        columns=lists_of_columns,
    )
    def test_bags_do_not_change(
        self, a: Weighted, b: Weighted, c: Weighted, condition: Any, predicate: Expression, columns: Any
    ) -> None:
        """No operation changes its operands."""
        one, two, other = self.left(a), self.left(b), self.right(c)
        for _ in (
            one + two,
            one - two,
            -one,
            one.scale(2),
            one.select(predicate),
            one.project(columns),
            one.keep(["w"]),
        ):
            pass
        for _ in (one.rename(["p", "q", "r"]), one.join(other, *condition), one.distinct(), one.positive()):
            pass
        for _ in (one.matching(other, [("k", "j")]), one.without(other, [("k", "j")])):
            pass
        self.is_model(one, model(LEFT, a))
        self.is_model(two, model(LEFT, b))
        self.is_model(other, model(RIGHT, c))
        assert (one.schema, two.schema, other.schema) == (LEFT, LEFT, RIGHT)


# -- the naive model -----------------------------------------------------------------------------------------


def model(schema: Schema, weighted: Iterable[tuple[Sequence[Value], int]]) -> Model:
    return gather((normalise_row(row, schema), weight) for row, weight in weighted)


def gather(weighted: Iterable[tuple[Row, int]]) -> Model:
    sums: Model = {}
    for row, weight in weighted:
        sums[row] = sums.get(row, 0) + weight
    return {row: weight for row, weight in sums.items() if weight != 0}


def joined(one: Mapping[Row, int], other: Mapping[Row, int], on: Any, where: Expression | None) -> Model:
    holds = where.predicate(Schema((*LEFT, *RIGHT))) if where else lambda row: True
    return {
        mine + theirs: weight * their_weight
        for mine, weight in one.items()
        for theirs, their_weight in other.items()
        if agree(mine, theirs, on) and holds(mine + theirs) is True
    }


def agree(mine: Row, theirs: Row, on: Iterable[tuple[str, str]]) -> bool:
    """Equal and not NULL in every pair of columns."""
    pairs = [(mine[LEFT.position(one)], theirs[RIGHT.position(other)]) for one, other in on]
    return all(one is not None and identical(one, other) for one, other in pairs)


def identical(one: Value, other: Value) -> bool:
    """The same normalised value; the one NaN object is itself."""
    return one is other or bool(one == other)
