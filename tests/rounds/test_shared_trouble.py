"""A source that fails while several views of it are swept or loaded: all of them wait, none is lost, all go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime.shop import Shop
from weir.algebra.errors import WeirError
from weir.sources.source import SourceError
from weir.sources.sqlite.snapshot import HeldSqliteSnapshot

pytestmark = pytest.mark.spark
OTHER = "SELECT o.id AS oid, c.city FROM {customer} c JOIN {orders} o ON o.customer = c.id"


def fail_first(monkeypatch: pytest.MonkeyPatch, method: str, times: int) -> list[str]:
    """The method of every held snapshot fails so many times; the list tells that it did."""
    failed: list[str] = []
    real = getattr(HeldSqliteSnapshot, method)

    def failing(self: HeldSqliteSnapshot, *arguments: Any) -> Any:
        if len(failed) < times:
            failed.append(self.source)
            raise SourceError(f"source {self.source}: the connection was lost")
        return real(self, *arguments)

    monkeypatch.setattr(HeldSqliteSnapshot, method, failing)
    return failed


def two_views(open_shop: Callable[..., Shop]) -> Shop:
    shop = open_shop(kinds=("sqlite",))
    shop.view("lines", strategy="pvm-cc")
    shop.view("cities", OTHER, strategy="sweep")
    return shop


def goes_on(shop: Shop) -> None:
    """After the pause of a source that was down both views catch up by themselves, and are right."""
    end = time.monotonic() + 60
    while True:
        try:
            shop.catch_up()
            break
        except WeirError as problem:
            if "waits for source" not in str(problem) or time.monotonic() > end:
                raise
            time.sleep(0.2)
    for name in ("lines", "cities"):
        audit = shop.audit(name)
        assert (audit.missing, audit.extra) == (0, 0)
    assert {view["state"] for view in shop.warehouse.status()["views"]} == {"running"}


def test_while_both_are_swept(open_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch) -> None:
    """The job of both fails: both have nothing to go on with."""
    shop = two_views(open_shop)
    shop.catch_up()
    shop.write("sales", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    failed = fail_first(monkeypatch, "_look", 4)
    goes_on(shop)
    assert len(failed) == 4


def test_while_one_is_loaded(open_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first view's load fails; the other one, which was to be loaded in the same round, waits with it."""
    shop = two_views(open_shop)
    failed = fail_first(monkeypatch, "_parts", 1)
    goes_on(shop)
    assert len(failed) == 1
