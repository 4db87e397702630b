"""No log is forgotten that any view of the warehouse needs, also of views that wait for another source."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.runtime.shop import Shop, wait_until
from weir.algebra.errors import WeirError
from weir.project.folder import RunKeys

pytestmark = pytest.mark.spark
PEOPLE = "SELECT c.id, c.name FROM {customer} c"
BOUGHT = "SELECT o.id, c.name FROM {customer} c JOIN {orders} o ON o.customer = c.id"
MANY = 30


@contextmanager
def away(shop: Shop, source: str) -> Iterator[None]:
    """The disk with a SQLite database is away."""
    path = str(shop.databases[source].options["path"])
    names = [path + end for end in ("", "-wal", "-shm") if os.path.exists(path + end)]
    for name in names:
        os.rename(name, name + ".away")
    try:
        yield
    finally:
        for name in names:
            os.rename(name + ".away", name)


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "postgres-triggers", "mariadb"])
def test_a_view_that_waits_for_another_source_keeps_its_log(open_shop: Callable[..., Shop], kind: str) -> None:
    """The runner is started while ``sales`` is away: ``people`` goes on, commit after commit, and ``bought``, which
    reads ``crm`` too, has not got any of it. When ``sales`` is back it gets everything, without a reload.
    """
    places = {"crm": ("customer",), "sales": ("orders",)}
    shop = open_shop(kinds=(kind, "sqlite"), places=places, run=RunKeys(poll=0.02))
    shop.view("people", PEOPLE, consistency="complete")
    shop.view("bought", BOUGHT, consistency="complete")
    shop.catch_up()
    shop.restart()
    with away(shop, "sales"):
        shop.warehouse.start()
        wait_until(lambda: _source(shop, "crm")["last_heard"] is not None)  # SQLite tells an absence as one
        for number in range(MANY):
            shop.write("crm", f"UPDATE customer SET name = 'name {number}' WHERE id = 1")
            if number % 10 == 9:  # committed, and acknowledged at the next contact
                wait_until(lambda n=number: _of(shop, "people")["transactions"] == n + 1)  # type: ignore[misc]
        assert _of(shop, "bought")["state"] == "waiting"
        assert {entry["view"] for entry in _source(shop, "crm")["retained"]} == {"people", "bought"}
        shop.warehouse.stop()
    shop.restart()
    shop.catch_up()
    shop.assert_right("complete", "people")
    shop.assert_right("strong" if kind == "sqlite" else "complete", "bought")  # which tells what it missed as one


def _source(shop: Shop, name: str) -> dict[str, Any]:
    return next(source for source in shop.warehouse.status()["sources"] if source["name"] == name)


def _of(shop: Shop, name: str) -> dict[str, object]:
    return next(view for view in shop.warehouse.status()["views"] if view["name"] == name)


def test_who_can_never_catch_up_says_so(open_shop: Callable[..., Shop]) -> None:
    """A transaction whose other part never comes: ``run --until-caught-up`` ends, and tells what is waited for."""
    shop = open_shop(kinds=("sqlite",))
    shop.view(consistency="strong", strategy="g-strobe", transactions="global")
    shop.catch_up()
    shop.write_global_part("g1", ["crm", "sales"], "crm", "UPDATE customer SET name = 'Anna' WHERE id = 1")
    with pytest.raises(WeirError, match="view lines: waits for the other parts of a transaction"):
        shop.catch_up()
    shop.write_global_part("g1", ["crm", "sales"], "sales", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    shop.catch_up()
    assert shop.audit().clean
