"""An audit is its views' affair: others keep their pace, and one that cannot be audited keeps none from it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.operation.test_damaged_tables import cut, log_of
from tests.runtime.shop import Shop, wait_until
from weir.algebra.errors import WeirError
from weir.cli.main import app
from weir.operation import audit as audit_module
from weir.operation.audit import NotAudited
from weir.operation.control import ask_runner
from weir.operation.warehouse import Warehouse
from weir.rounds.threads import spawn

pytestmark = pytest.mark.spark
OpenShop = Callable[..., Shop]
CUSTOMERS = "SELECT c.id AS cid, c.name FROM {customer} c"
PRODUCTS = "SELECT p.id AS pid, p.title FROM {product} p"


def two_views(open_shop: OpenShop) -> Shop:
    shop = open_shop(kinds=("sqlite",))
    shop.view("customers", CUSTOMERS)
    shop.view("products", PRODUCTS)
    shop.catch_up()
    return shop


def seen(shop: Shop, name: str) -> int:
    return sum(1 for _ in shop.state(name).items())


def shows(shop: Shop, name: str, rows: int) -> bool:
    return seen(shop, name) == rows


def slow_audits(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """They tell that they have begun, and end when they are told to."""
    began, ending = threading.Event(), threading.Event()
    real = audit_module.value_by_definition

    def slow(*arguments: Any) -> Any:
        began.set()
        assert ending.wait(60)
        return real(*arguments)

    monkeypatch.setattr(audit_module, "value_by_definition", slow)
    return began, ending


def test_others_go_on_during_an_audit(open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One view is being audited, for long; the other one follows its source, the audited one afterwards."""
    shop = two_views(open_shop)
    began, ending = slow_audits(monkeypatch)
    shop.warehouse.start()
    try:
        auditing = spawn("auditing", lambda: shop.audit("customers"))
        assert began.wait(60)
        customers, products = seen(shop, "customers"), seen(shop, "products")
        for number in range(3):
            shop.write("stock", f"INSERT INTO product VALUES ({1000 + number}, 't', 1)")
            shop.write("crm", f"INSERT INTO customer VALUES ({1000 + number}, 'n', NULL)")
            wait_until(partial(shows, shop, "products", products + number + 1))
        assert not auditing.done()
        assert seen(shop, "customers") == customers  # it stands still, to be compared
        ending.set()
        assert auditing.result(60).clean
        wait_until(partial(shows, shop, "customers", customers + 3))
    finally:
        ending.set()
        shop.warehouse.stop()
    assert all(audit.clean for audit in shop.warehouse.verify_all())


def test_an_audit_that_fails_is_no_trouble_of_the_view(open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = two_views(open_shop)

    def failing(*arguments: Any) -> Any:
        raise RuntimeError("the disk for it is full")

    with monkeypatch.context() as patched:
        patched.setattr(audit_module, "value_by_definition", failing)
        with pytest.raises(NotAudited, match=r"view customers cannot be audited now: .*disk for it is full"):
            shop.audit("customers")
    assert {view["state"] for view in shop.warehouse.status()["views"]} == {"running"}
    assert shop.audit("customers").clean


def test_two_audits_of_one_view(open_shop: OpenShop) -> None:
    """Asked for at the same time, they are made one after the other; both are exact under writes."""
    shop = two_views(open_shop)
    shop.warehouse.start()
    try:
        asked = [spawn(f"audit-{n}", shop.warehouse.verify_all) for n in range(3)]
        for number in range(20):
            shop.write("stock", f"INSERT INTO product VALUES ({1000 + number}, 't', 1)")
        for each in asked:
            assert [str(audit) for audit in each.result(120) if not audit.clean] == []
    finally:
        shop.warehouse.stop()


def test_the_run_ends_during_an_audit(open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked is told; nobody makes a round of what has ended."""
    shop = two_views(open_shop)
    began, ending = slow_audits(monkeypatch)
    shop.warehouse.start()
    engine = shop.warehouse.engine
    assert engine is not None
    auditing = spawn("auditing", lambda: shop.audit("customers"))
    assert began.wait(60)
    stopping = spawn("stopping", shop.warehouse.stop)
    wait_until(lambda: engine.ended)
    ending.set()
    with pytest.raises(WeirError, match="the warehouse's run has ended during the audit; ask again"):
        auditing.result(60)
    stopping.result(60)
    assert shop.audit("customers").clean


def test_what_can_be_audited_is(open_shop: OpenShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One view's table is damaged: it is named, and the other one's audit is told all the same."""
    shop = two_views(open_shop)
    shop.warehouse.stop()
    cut(log_of(shop.folder / "warehouse" / "customers")[-1])
    with pytest.raises(NotAudited, match="view customers cannot be audited now: ") as missed:
        shop.warehouse.verify_all()
    assert [(audit.view, audit.clean) for audit in missed.value.found] == [("products", True)]
    asked = ask_runner(shop.warehouse.path, "verify", names=["customers", "products"])
    assert [audit["view"] for audit in asked["audits"]] == ["products"]
    assert list(asked["problems"]) == ["customers"]
    monkeypatch.setattr(Warehouse, "open", lambda folder: shop.warehouse)
    done = CliRunner().invoke(app, ["verify", "--json"])
    told, problem = done.output.splitlines()
    assert json.loads(told)["view"] == "products"
    assert "view customers cannot be audited now: " in problem
    assert done.exit_code == 2
