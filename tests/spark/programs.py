"""Random algebra expressions: trees of bag operations, from a seed.

Every step takes bags of one schema (BASE) and gives one, so that any tree is an expression: a join, say, keeps some
columns of either side under the old names. A tree is a nested tuple, so that a failure prints what to paste.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from weir.algebra.expression import Expression
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema

BASE = Schema.parse("k int, w bigint, n decimal(10,2), x double, s string")
_VALUES: dict[str, list[Any]] = {
    "k": [None, 0, 1, 2, 3],
    "w": [None, 0, 1, 2, 1 << 40],
    "n": [None, Decimal("0.00"), Decimal("1.00"), Decimal("2.50")],
    "x": [None, 0.0, -0.0, 1.5, float("nan"), float("inf")],
    "s": [None, "", "a", "A", "é"],
}
_PREDICATES = [
    "`k` > 0", "`k` = `w`", "NOT (`w` < `k` OR `s` IS NULL)", "`n` >= 1", "`x` > 1.0", "`s` LIKE 'a%'", "`k` IN (1, 3)",
    "`s` <> 'a' AND `k` >= -1", "`x` = `x`",
]  # fmt: skip
_PROJECTIONS = [
    ["`k`", "`w`", "`n`", "`x`", "'a'"],
    ["1", "`w`", "`n`", "-`x`", "`s`"],
    ["IF(`k` > 1, 1, `k`)", "`w`", "CAST(`k` AS DECIMAL(10,2))", "`x`", "CASE WHEN `s` = 'A' THEN 'a' ELSE `s` END"],
    ["`k`", "CAST(`k` AS BIGINT)", "`n`", "COALESCE(`x`, 0.5D)", "COALESCE(`s`, 'a')"],
]
_TIES = [[("k", "k")], [("k", "k"), ("s", "s")], [("x", "x"), ("k", "k")], [("k", "w")], [("w", "n"), ("k", "k")]]
_WHERES = [None, None, "`l.w` < `r.w`", "`l.x` >= `r.x`", "`l.s` < `r.s`", "`l.k` + `r.k` > 2"]
_KEPT = ["lrlrl", "rrlll", "lllrr"]  # from which side each column of a join's result comes

Tree = tuple[Any, ...]


def leaf(dice: random.Random, most: int = 25) -> MemoryBag:
    """A bag with few different values, so that rows meet."""
    rows = [tuple(dice.choice(_VALUES[name]) for name in BASE.names) for _ in range(dice.randint(0, most))]
    return MemoryBag.weighted(BASE, [(row, dice.choice([-2, -1, 1, 1, 3])) for row in rows])


def tree(dice: random.Random, depth: int, leaves: int) -> Tree:
    """A random expression over ``leaves`` bags, at most ``depth`` steps deep."""
    if not depth:
        return ("leaf", dice.randrange(leaves))
    operation = dice.choice(list(_STEPS))
    count, arguments, _ = _STEPS[operation]
    return (operation, *(choose(dice) for choose in arguments), *(tree(dice, depth - 1, leaves) for _ in range(count)))


def evaluate(expression: Tree, leaves: Sequence[Any]) -> Any:
    """The value of an expression over bags of any kind."""
    operation, *rest = expression
    if operation == "leaf":
        return leaves[rest[0]]
    _, arguments, step = _STEPS[operation]
    chosen = rest[: len(arguments)]
    return step(*(evaluate(each, leaves) for each in rest[len(arguments) :]), *chosen)


def _project(bag: Any, columns: list[str]) -> Any:
    return bag.project([(name, Expression(sql)) for name, sql in zip(BASE.names, columns, strict=True)])


def _join(one: Any, other: Any, ties: Any, where: str | None, kept: str) -> Any:
    left, right = (bag.rename([f"{side}.{name}" for name in BASE.names]) for side, bag in (("l", one), ("r", other)))
    on = [(f"l.{mine}", f"r.{theirs}") for mine, theirs in ties]
    pairs = left.join(right, on, Expression(where) if where else None)
    return pairs.keep([f"{side}.{name}" for side, name in zip(kept, BASE.names, strict=True)]).rename(BASE.names)


def _tagged(bag: Any, value: int) -> Any:
    return bag.tagged("tag.x", value).select(Expression("`tag.x` > `w`")).keep(BASE.names)


Choose = Callable[[random.Random], Any]


def _one_of(choices: Sequence[Any]) -> Choose:
    return lambda dice: dice.choice(choices)


# How many bags a step takes, how its arguments are chosen, and the step itself: bags first, then arguments.
_STEPS: dict[str, tuple[int, list[Choose], Callable[..., Any]]] = {
    "add": (2, [], lambda one, other: one + other),
    "subtract": (2, [], lambda one, other: one - other),
    "negate": (1, [], lambda bag: -bag),
    "scale": (1, [_one_of([-2, 0, 1, 3])], lambda bag, factor: bag.scale(factor)),
    "select": (1, [_one_of(_PREDICATES)], lambda bag, sql: bag.select(Expression(sql))),
    "project": (1, [_one_of(_PROJECTIONS)], _project),
    "join": (2, [_one_of(_TIES), _one_of(_WHERES), _one_of(_KEPT)], _join),
    "tag": (1, [_one_of([-1, 1, 2])], _tagged),
    "distinct": (1, [], lambda bag: bag.distinct()),
    "positive": (1, [], lambda bag: bag.positive()),
    "matching": (2, [_one_of(_TIES)], lambda bag, keys, on: bag.matching(keys, on)),
    "without": (
        2,
        [_one_of(_TIES), _one_of([False, True])],
        lambda bag, keys, on, nulls_match: bag.without(keys, on, nulls_match),
    ),
}
