"""Transactions that touch tables of other views, or a view's own without effect: each is over, and nothing waits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runtime.shop import Shop

pytestmark = pytest.mark.spark
STRATEGIES = ("copies", "ring", "star", "multi-ring", "equal-partition", "t-strobe")
TABLES = {
    "t": ("CREATE TABLE t (id bigint PRIMARY KEY NOT NULL, k bigint, x bigint)", "INSERT INTO t VALUES (1, 5, 0)"),
    "other": ("CREATE TABLE other (id bigint PRIMARY KEY NOT NULL, y bigint)", "INSERT INTO other VALUES (1, 0)"),
    "u": ("CREATE TABLE u (id bigint PRIMARY KEY NOT NULL, k bigint)", "INSERT INTO u VALUES (7, 5)"),
}
MINE = "SELECT t.id, t.k, u.id AS uid FROM {t} t JOIN {u} u ON u.k = t.k"


def test_every_one_is_shown(open_shop: Callable[..., Shop]) -> None:
    """Algorithms that keep copies or work at the sources get what concerns their view, and numbers for all of it."""
    shop = open_shop(kinds=("sqlite",), places={"a": ("t", "other"), "b": ("u",)}, tables=TABLES)
    views = {strategy.replace("-", "_"): strategy for strategy in STRATEGIES}
    for name, strategy in views.items():
        shop.view(name, MINE, consistency="strong", strategy=strategy)
    shop.view("others", "SELECT o.id, o.y FROM {other} o")
    shop.catch_up()
    rows, arrival = {(1, 5, 7)}, 0
    for statements, comes, touches in (
        (("UPDATE other SET y = 1", "INSERT INTO t VALUES (2, 5, 0)"), {(2, 5, 7)}, 1),  # both tables
        (("UPDATE other SET y = 2", "UPDATE t SET k = k"), set(), 1),  # mine without effect
        (("UPDATE other SET y = 3", "UPDATE t SET x = x + 1"), set(), 1),  # a column that nobody needs
        (("UPDATE other SET y = 4",), set(), 0),  # another's alone
        (("UPDATE t SET k = k",), set(), 1),
        (("INSERT INTO t VALUES (3, 5, 0)",), {(3, 5, 7)}, 1),
    ):
        shop.write("a", *statements)
        shop.warehouse.run(until_caught_up=True, seconds=120)
        rows, arrival = rows | comes, arrival + touches
        told = {view["name"]: view for view in shop.warehouse.status()["views"]}
        assert {view["state"] for view in told.values()} == {"running"}
        assert {name: view["queue"] for name, view in told.items() if view["queue"]} == {}
        assert {name: shop.state(name).rows() for name in views} == dict.fromkeys(views, sorted(rows))
        assert {told[name]["arrival"] for name in views} == {arrival}
