"""A view that is computed anew has its arrival number; what it could not keep is told, and never made up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from tests.runtime.shop import LINES, Shop
from weir import points
from weir.algebra.catalog import Relation
from weir.algebra.types import Schema
from weir.rounds.delivery import Block
from weir.sources.source import TRANSACTION, WEIGHT, Transaction, Visit
from weir.warehouse.errors import NoSuchState
from weir.warehouse.record import AsOf

OpenShop = Callable[..., Shop]
R, S = Relation("s", "r"), Relation("s", "other")
SCHEMAS = {R: Schema.parse("a bigint"), S: Schema.parse("a bigint")}
PEOPLE = "SELECT c.id, c.name FROM {customer} c"
SOLD = "SELECT o.id AS oid, o.amount FROM {orders} o"


class Killed(BaseException):
    """The end of a process, as far as the warehouse can tell: nothing of what comes after it happens."""


def shop_with(open_shop: OpenShop, kind: str, **views: str) -> Shop:
    shop = open_shop(kinds=(kind,), places={"shop": ("customer", "orders", "product")})
    for name, strategy in views.items():
        shop.view(name, SOLD if strategy == "lca" else LINES, consistency="complete", strategy=strategy)
    shop.catch_up()
    return shop


def orders_at(shop: Shop, name: str, arrival: int) -> list[int]:
    return sorted(row[0] for row in shop.state(name, AsOf(arrival=arrival)).rows())


def loads(shop: Shop, name: str) -> list[tuple[str, Any]]:
    history = shop.warehouse.store(name).history()
    return [(record.notes["load"], record.arrivals) for record in history if record.kind == "load"]


def told(shop: Shop, name: str) -> dict[str, Any]:
    return next(view for view in shop.warehouse.status()["views"] if view["name"] == name)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "views"),
    [("postgres", {"swept": "pvm-cc", "parted": "equal-partition"}), ("mariadb", {"copied": "copies", "one": "lca"})],
    ids=["postgres", "mariadb"],
)
def test_a_truncate_takes_the_numbers_of_its_round(open_shop: OpenShop, kind: str, views: dict[str, str]) -> None:
    """Complete views of several strategies: the states before it stay, its own is the round's last, those between are
    refused with the nearest ones, and the numbers go on after it, across a restart too.
    """
    shop = shop_with(open_shop, kind, **views)
    shop.write("shop", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    shop.catch_up()  # arrival 1
    shop.write("shop", "INSERT INTO orders VALUES (21, 2, 101, 2)")
    shop.databases["shop"].transact(["TRUNCATE TABLE orders"])
    shop.write("shop", "INSERT INTO orders VALUES (22, 1, 100, 5)")
    shop.write("shop", "INSERT INTO orders VALUES (23, 2, 100, 5)")
    shop.catch_up()  # arrivals 2 to 5
    gap = {"after": 1, "at": 5, "why": "a TRUNCATE whose rows are in no log"}
    for name in views:
        assert loads(shop, name) == [("first load", (0, 0)), (gap["why"], (2, 5))]
        assert (told(shop, name)["arrival"], told(shop, name)["gaps"]) == (5, [gap])
    shop.restart()
    for name in views:
        assert (told(shop, name)["arrival"], told(shop, name)["gaps"]) == (5, [gap])
    shop.write("shop", "DELETE FROM orders WHERE id = 22")
    shop.write("shop", "INSERT INTO orders VALUES (24, 1, 101, 1)")
    shop.catch_up()  # arrivals 6 and 7
    for name in views:
        kept = {0: [10, 11, 12], 1: [10, 11, 12, 20], 5: [22, 23], 6: [23], 7: [23, 24]}
        assert {number: orders_at(shop, name, number) for number in kept} == kept
        for number in (2, 3, 4):
            with pytest.raises(NoSuchState, match=r"arrivals 2 to 5 came together.*arrival 1 and arrival 5"):
                shop.state(name, AsOf(arrival=number))
        assert shop.audit(name).clean
        assert told(shop, name)["gaps"] == [gap]


@pytest.mark.spark
def test_a_load_that_was_ordered_is_the_next_arrival(open_shop: OpenShop) -> None:
    """Nobody has counted what came in between; the state before it keeps its number."""
    shop = shop_with(open_shop, "postgres", one="lca", other="lca")
    shop.write("shop", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    shop.catch_up()
    shop.write("shop", "DELETE FROM orders WHERE id = 10")
    shop.write("shop", "DELETE FROM orders WHERE id = 11")
    shop.warehouse.run(until_caught_up=True, reload=["one"])
    assert loads(shop, "one") == [("first load", (0, 0)), ("loaded again from its sources", (2, 2))]
    assert told(shop, "one")["gaps"] == [{"after": 1, "at": 2, "why": "loaded again from its sources"}]
    assert [orders_at(shop, "one", number) for number in (1, 2)] == [[10, 11, 12, 20], [12, 20]]
    assert (told(shop, "other")["arrival"], told(shop, "other")["gaps"]) == (3, [])
    shop.write("shop", "DELETE FROM orders WHERE id = 12")
    shop.catch_up()
    assert [told(shop, name)["arrival"] for name in ("one", "other")] == [3, 4]
    assert orders_at(shop, "one", 3) == [20]


@pytest.mark.spark
@pytest.mark.parametrize("point", [points.AFTER_FILES, points.AFTER_COMMIT])
def test_a_runner_that_dies_at_a_load_goes_on_with_its_numbers(
    open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Before the commit: the load is made again, with the same numbers and what has come since. After it: not again,
    though the source is resumed before the TRUNCATE for another view.
    """
    shop = shop_with(open_shop, "postgres", first="lca", second="lca")
    shop.write("shop", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    shop.databases["shop"].transact(["TRUNCATE orders", "INSERT INTO orders VALUES (21, 2, 101, 2)"])

    def die(reached: str) -> None:
        """The second view's thread gets nowhere: the process is dead by then."""
        if reached == point or threading.current_thread().name == "weir-second":
            raise Killed

    with monkeypatch.context() as watched:
        watched.setattr(points, "_watchers", [die])
        with pytest.raises(Killed):
            shop.catch_up()
        with suppress(Killed):  # nor is anybody else alive
            shop.warehouse.close()
    shop.restart()
    shop.write("shop", "INSERT INTO orders VALUES (22, 1, 100, 5)")
    shop.catch_up()
    first, second = ("first load", (0, 0)), ("a TRUNCATE whose rows are in no log", (1, 3))
    committed = point == points.AFTER_COMMIT
    assert loads(shop, "first") == [first, (second[0], (1, 2)) if committed else second]
    assert loads(shop, "second") == [first, second]
    for name in ("first", "second"):
        assert told(shop, name)["arrival"] == 3
        assert orders_at(shop, name, 3) == [21, 22]
        assert shop.audit(name).clean
    if committed:
        assert orders_at(shop, "first", 2) == [21]


# -- blocks ------------------------------------------------------------------------------------------------------------


def block(changed: list[int], truncated: tuple[int, ...], count: int) -> Block:
    """A visit of so many transactions that change a table, and truncate it."""
    rows = pa.table({"a": changed, WEIGHT: [1] * len(changed), TRANSACTION: changed})
    transactions = tuple(Transaction(str(number)) for number in range(count))
    return Block("s", Visit(transactions, {R: rows}, f"{count}", {R: truncated}), SCHEMAS)


def numbers(found: Block, relation: Relation = R) -> list[int]:
    return [update.number for update in found.updates([relation])]


def test_a_truncating_transaction_counts() -> None:
    """Also without a row of its own; not for tables that it leaves alone."""
    assert numbers(block([0, 2], (1,), 3)) == [0, 1, 2]
    assert numbers(block([0, 2], (1,), 3), S) == []


def test_two_visits_as_one_keep_their_truncations_apart() -> None:
    """The second visit's transactions come after the first's."""
    both = block([0], (1,), 2).followed_by(block([0], (1,), 3))
    assert both.truncations == {R: {1, 3}}
    assert numbers(both) == [0, 1, 2, 3]


def test_a_truncation_goes_with_its_transaction() -> None:
    """What a view has already is no reason to load it again; what is left is numbered anew."""
    found = block([0, 3], (1, 2), 4)
    assert found.without([0, 1]).truncations == {R: {0}}
    assert found.without([0, 1, 2]).truncated == frozenset()
    assert numbers(found.without([0, 1])) == [0, 1]
