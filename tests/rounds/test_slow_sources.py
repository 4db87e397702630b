"""Sources that take longer to answer than a round waits, each in a rhythm of its own: their views keep up all the same.

What a source has shown is kept for a view until its other sources have answered too.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from tests.runtime.shop import Shop, wait_until
from weir.rounds.contacts import Contact
from weir.rounds.engine import Settings

pytestmark = pytest.mark.spark
PATIENCE = Settings().patience


def delay(monkeypatch: pytest.MonkeyPatch, first: Mapping[str, float], each: float) -> None:
    """Every contact takes a while; the first one of a source takes so much longer."""
    asked: dict[str, int] = defaultdict(int)
    real = Contact.__call__

    def slow(self: Contact, source: Any) -> Any:
        asked[source.name] += 1
        time.sleep(each + (first.get(source.name, 0.0) if asked[source.name] == 1 else 0.0))
        return real(self, source)

    monkeypatch.setattr(Contact, "__call__", slow)


def has_come(shop: Shop, arrival: int) -> bool:
    return shop.warehouse.store("lines").head.last_arrival == arrival


@pytest.mark.parametrize("kinds", [("sqlite",), ("mariadb-locks", "sqlite", "postgres")], ids="-".join)
def test_out_of_step(open_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...]) -> None:
    """All take equally long and begin at different times: no two ever answer in the same round."""
    shop = open_shop(kinds=kinds)
    shop.view(consistency="complete")
    shop.catch_up()
    delay(monkeypatch, {"sales": PATIENCE, "stock": 2 * PATIENCE}, 3 * PATIENCE)
    shop.warehouse.start()
    for number in range(4):
        arrival = shop.warehouse.store("lines").head.last_arrival + 1
        shop.write("sales", f"INSERT INTO orders VALUES ({900 + number}, 1, 100, {number})")
        wait_until(partial(has_come, shop, arrival))
    shop.warehouse.stop()
    shop.assert_right("complete")
