"""How batches are formed: by age, what gathers between two rounds, and by size, what is swept together."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.runtime.shop import Shop, wait_until
from weir.project.folder import RunKeys

pytestmark = pytest.mark.spark

OpenShop = Callable[..., Shop]


def _five_orders(shop: Shop) -> None:
    for number in range(20, 25):
        shop.write("sales", f"INSERT INTO orders VALUES ({number}, 1, 101, 2)")


def test_changes_gather_until_they_are_old_enough(open_shop: OpenShop) -> None:
    """With a long max_age nothing is committed between two rounds, and all of it at the next, as one version; who asks
    to be caught up does not wait for more.
    """
    shop = open_shop(kinds=("postgres",), run=RunKeys(max_age=3600))
    shop.view(consistency="complete")
    shop.warehouse.start()
    wait_until(lambda: shop.warehouse.is_loaded("lines"))
    version = shop.warehouse.store("lines").head.version
    _five_orders(shop)
    time.sleep(1)
    assert shop.warehouse.store("lines").head.version == version
    shop.warehouse.stop()
    shop.catch_up()
    assert shop.warehouse.store("lines").log.record(version + 1).arrivals == (1, 5)
    shop.assert_right("complete")


def test_a_batch_has_a_largest_size(open_shop: OpenShop) -> None:
    """Five transactions by two at a time are three sweeps, each with its own lookups; the states are the same."""
    asked = []
    for size in (2, 5):
        shop = open_shop(kinds=("postgres",), run=RunKeys(max_batch=size))
        shop.view(consistency="complete", strategy="sweep")
        shop.catch_up()
        _five_orders(shop)
        shop.catch_up()
        asked.append(shop.warehouse.status()["asked"]["lookups"])
        shop.assert_right("complete")
    assert asked == [6, 2]
