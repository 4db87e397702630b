"""A source whose snapshots need a lock is held only when there is something to ask."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runtime.shop import Shop
from weir.sources.mysql.source import MysqlSource
from weir.sources.source import Visit

pytestmark = pytest.mark.spark


def test_writers_do_not_wait_for_idle_rounds(open_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle rounds look at the log alone; a round with work looks first and holds then, and both are one delivery."""
    held: list[bool] = []
    visit = MysqlSource.visit

    def watched(self: MysqlSource, hold: bool = False) -> Visit:
        held.append(hold)
        return visit(self, hold)

    monkeypatch.setattr(MysqlSource, "visit", watched)
    shop = open_shop(kinds=("mariadb-locks",), places={"shop": ("customer", "orders", "product")})
    shop.view(consistency="complete")
    shop.catch_up()
    held.clear()
    shop.catch_up()
    assert held
    assert not any(held), "nothing had happened"
    shop.write("shop", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    shop.write("shop", "UPDATE customer SET name = 'Bea' WHERE id = 2")
    shop.catch_up()
    assert held.index(True)
    assert not held[held.index(True) - 1]
    shop.assert_right("complete")
