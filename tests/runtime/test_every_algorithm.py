"""Every algorithm of the registry, named as a strategy, on Spark against real databases of several kinds.

Each run has rounds of interfering transactions. In the end the audit finds no difference, and the states that readers
could see hold the level that the algorithm promises, as the checker finds it without the algorithm's help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.runtime.shop import MIX, Shop
from weir.algorithms.base import GLOBAL, SINGLE_SOURCE, SINGLE_UPDATE, SOURCE_LOCAL
from weir.algorithms.registry import ALGORITHMS
from weir.consistency.levels import implies
from weir.planning.request import promised

pytestmark = pytest.mark.spark

OpenShop = Callable[..., Shop]
Write = tuple[str, ...]  # a table of the source that is written to, and the transaction's statements
ONE_SOURCE = ("recompute", "eca", "eca-key", "eca-local", "lca")
SINGLE_CHANGES = ("strobe", "c-strobe")  # promise most where every transaction is one change
RESTARTED = ("pvm-cc", "copies", "keyed-partition", "ring", "t-strobe", "lca")

LOCAL: Sequence[Sequence[Write]] = (
    (
        ("orders", "INSERT INTO orders VALUES (20, 1, 101, 2)"),
        ("customer", "UPDATE customer SET name = 'Anna' WHERE id = 1"),
        ("orders", "INSERT INTO orders VALUES (21, 2, 100, 5), (22, 1, 102, 2)", "DELETE FROM orders WHERE id = 10"),
        ("product", "INSERT INTO product VALUES (102, 'nib', 1)", "UPDATE product SET title = 'INK' WHERE id = 101"),
    ),
    (
        ("customer", "INSERT INTO customer VALUES (3, 'Cid', 'Bonn')", "UPDATE customer SET id = 4 WHERE id = 2"),
        ("orders", "UPDATE orders SET id = 112, customer = 3 WHERE id = 12", "INSERT INTO orders VALUES (23, 4, 1, 1)"),
        ("product", "DELETE FROM product WHERE id = 100"),
        ("orders", "UPDATE orders SET amount = 0 WHERE id = 20"),
    ),
    (
        ("orders", "DELETE FROM orders WHERE customer = 1"),
        ("customer", "DELETE FROM customer WHERE id = 3"),
        ("product", "INSERT INTO product VALUES (100, 'pen', 3)"),
        ("orders", "INSERT INTO orders VALUES (24, 2, 100, -1), (25, 1, 100, 8)"),
    ),
)  # fmt: skip
SINGLE: Sequence[Sequence[Write]] = (
    (
        ("orders", "INSERT INTO orders VALUES (20, 1, 102, 2)"),
        ("product", "INSERT INTO product VALUES (102, 'nib', 1)"),
        ("orders", "DELETE FROM orders WHERE id = 10"),
        ("customer", "INSERT INTO customer VALUES (3, 'Cid', 'Bonn')"),
    ),
    (
        ("orders", "INSERT INTO orders VALUES (21, 3, 101, 2)"),
        ("customer", "DELETE FROM customer WHERE id = 1"),
        ("product", "DELETE FROM product WHERE id = 101"),
        ("customer", "INSERT INTO customer VALUES (1, 'Ann', 'Ulm')"),
    ),
)
GLOBALS: Sequence[Mapping[str, Sequence[str]]] = (
    {
        "crm": ["INSERT INTO customer VALUES (5, 'Eve', 'Ulm')"],
        "sales": ["INSERT INTO orders VALUES (30, 5, 103, 4)"],
        "stock": ["INSERT INTO product VALUES (103, 'cap', 4)"],
    },
    {"sales": ["DELETE FROM orders WHERE id = 30"], "stock": ["DELETE FROM product WHERE id = 103"]},
)


def _shop(open_shop: OpenShop, name: str) -> Shop:
    """Three sources whose kinds take turns from algorithm to algorithm, or all tables in one."""
    turn = ALGORITHMS[name].facts.number % len(MIX)
    kinds = MIX[turn:] + MIX[:turn]
    if name in ONE_SOURCE:
        return open_shop(kinds=kinds, places={"shop": ("customer", "orders", "product")})
    return open_shop(kinds=kinds)


def _write(shop: Shop, round_: Sequence[Write]) -> None:
    place = {table: source for source, tables in shop.places.items() for table in tables}
    for table, *statements in round_:
        shop.write(place[table], *statements)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "basic"])
def test_holds_its_level_over_real_sources(open_shop: OpenShop, name: str) -> None:
    """The audit is clean and the visible states hold what the algorithm promises where it is used."""
    shop = _shop(open_shop, name)
    single = name in SINGLE_CHANGES
    scenario = SINGLE_SOURCE if name in ONE_SOURCE else SINGLE_UPDATE if single else SOURCE_LOCAL
    level = promised(name, scenario)
    shop.view(consistency=level, strategy=name, **({"transactions": "single"} if single else {}))
    shop.catch_up()
    for number, round_ in enumerate(SINGLE if single else LOCAL):
        if number == 1 and name in RESTARTED:
            shop.restart()
            shop.catch_up()
        _write(shop, round_)
        shop.catch_up()
    assert shop.assert_right(level).rows > 0
    (view,) = shop.warehouse.status()["views"]
    assert (view["strategy"], view["level"]) == (name, level)


@pytest.mark.parametrize("name", ["g-strobe", "c-t-strobe"])
def test_global_transactions(open_shop: OpenShop, name: str) -> None:
    """Parts that are marked at every source are shown together where that is promised, and never lost."""
    shop = open_shop()
    level = promised(name, GLOBAL)
    shop.view(consistency=level, strategy=name, transactions="global")
    shop.catch_up()
    for number, parts in enumerate(GLOBALS):
        shop.write_global(f"g{number}", parts)
        _write(shop, LOCAL[number])
        shop.catch_up()
    shop.assert_right(level)


def test_a_global_transaction_is_shown_when_its_last_part_is_in(open_shop: OpenShop) -> None:
    """A part that came alone waits in the queue, across a restart too; with the last part all is shown at once."""
    shop = open_shop()
    shop.view(consistency="strong", strategy="g-strobe", transactions="global")
    shop.catch_up()
    before = shop.state()
    whole = ("crm", "sales")
    shop.write_global_part("g1", whole, "sales", "INSERT INTO orders VALUES (30, 5, 100, 4)")
    shop.warehouse.run(seconds=1)
    shop.restart()
    shop.warehouse.run(seconds=1)
    assert shop.state() == before
    assert _queue(shop) == 1
    shop.write_global_part("g1", whole, "crm", "INSERT INTO customer VALUES (5, 'Eve', 'Ulm')")
    shop.catch_up()
    assert _queue(shop) == 0
    assert shop.assert_right("strong").rows == 4


def _queue(shop: Shop) -> int:
    (view,) = shop.warehouse.status()["views"]
    return int(view["queue"])


def test_the_basic_algorithm_is_wrong(open_shop: OpenShop) -> None:
    """Two inserts that join, each asked about after both: their row is there twice, and the audit says so."""
    shop = open_shop()
    shop.view(consistency="none", strategy="basic")
    shop.catch_up()
    _write(shop, SINGLE[0][:2])
    shop.catch_up()
    found = shop.audit()
    assert (found.missing, found.extra) == (0, 1)
    assert found.samples[0]["row"]["oid"] == 20
    assert not shop.verdict().holds("convergence")


def test_every_level_is_promised_by_something_here() -> None:
    """So the runs above check all of them."""
    levels = {promised(name, SOURCE_LOCAL) for name in ALGORITHMS}
    assert all(any(implies(found, level) for found in levels) for level in ("convergence", "strong", "complete"))
