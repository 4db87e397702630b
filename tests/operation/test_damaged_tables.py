"""Damaged tables: each stops its own view, with what is wrong and what to do; a reload mends it; the others go on.

All damages are done to the tables of one warehouse, so that one run meets them together.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.runtime.shop import LINES, Shop, wait_until
from weir.algebra.errors import WeirError
from weir.operation.query import query_views
from weir.warehouse.errors import Damaged
from weir.warehouse.record import AsOf

pytestmark = pytest.mark.spark

OpenShop = Callable[..., Shop]
PEOPLE = "SELECT c.id, c.name FROM {customer} c"


def log_of(table: Path) -> list[Path]:
    return sorted((table / "_delta_log").glob("*.json"))


def cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 2 // 3])


def rows_of(table: Path) -> Path:
    """A file of the newest state."""
    return Path(sorted(DeltaTable(table).file_uris())[0])


def of_another_layout(first: Path) -> None:
    first.write_text(first.read_text().replace('"weir.layout":"3"', '"weir.layout":"2"'))


def auxiliary(table: Path) -> Path:
    return sorted((table.parent / "_auxiliary" / table.name).iterdir())[0]


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {  # those that differ here; tests/warehouse has many more
    "cut_commit": (lambda table: cut(log_of(table)[-1]), r"0002.json is cut off or overwritten: line \d is no JSON"),
    "lost_log": (
        lambda table: shutil.rmtree(table / "_delta_log"),
        r"its log, the folder _delta_log, is gone; \d+ files",
    ),
    "lost_rows": (lambda table: rows_of(table).unlink(), r"rows/\S+.parquet is missing"),
    "older": (lambda table: of_another_layout(log_of(table)[0]), r"another version of Weir \(its layout is 2,"),
    "changed": (lambda table: DeltaTable(table).delete("id = 1"), r"not written by Weir \(operation DELETE\)"),
    "parted": (lambda table: cut(log_of(auxiliary(table))[-1]), r"an auxiliary table of it: .* is cut off"),
    "parted_lost": (lambda table: shutil.rmtree(auxiliary(table)), r"an auxiliary table of it: .* is gone"),
    "first": (lambda table: cut(log_of(table)[-1]), r"view first: .*0002.json is cut off"),  # decides for "second"
    "fourth": (lambda table: cut(log_of(table)[-1]), r"view fourth: .*\d.json is cut off"),  # follows "third"
}
PARTED = ("parted", "parted_lost")
GROUPS = {"first": "front", "second": "front", "third": "back", "fourth": "back"}


def define(shop: Shop) -> None:
    shop.view("whole", PEOPLE, consistency="complete")
    for name in [*DAMAGES, "second", "third"]:
        if name in PARTED:
            shop.view(name, LINES, consistency="complete", strategy="copies")
        elif name in GROUPS:
            shop.view(name, PEOPLE, group=GROUPS[name], strategy="pvm-cc")
        else:
            shop.view(name, PEOPLE, consistency="complete")


@pytest.fixture
def shop(open_shop: OpenShop) -> Shop:
    """Every view loaded, with an arrival after that, and at rest."""
    shop = open_shop(kinds=("sqlite",), places={"shop": ("customer", "orders", "product")})
    define(shop)
    shop.catch_up()
    shop.write("shop", "UPDATE customer SET name = 'Anna' WHERE id = 1")
    shop.catch_up()
    shop.warehouse.stop()
    return shop


def told(shop: Shop) -> dict[str, dict[str, Any]]:
    return {view["name"]: view for view in shop.warehouse.status()["views"]}


def test_every_damage_is_its_own_views(shop: Shop) -> None:
    """At rest and in a run the damaged ones say what is wrong and what to do; the others follow their source. A reload
    mends every one, with its arrival numbers going on. Damages under a living runner are told alike.
    """
    for name, (damage, _) in DAMAGES.items():
        damage(Path(shop.warehouse.path, name))
    assert_told_at_rest(shop)
    shop.write("shop", "UPDATE customer SET name = 'Anja' WHERE id = 1")
    with pytest.raises(WeirError, match="weir run --reload cut_commit"):
        shop.catch_up()
    assert_others_run(shop)
    assert_clear_errors(shop)
    shop.warehouse.run(until_caught_up=True, reload=list(DAMAGES))
    assert_mended(shop)
    assert_told_while_running(shop)


def assert_told_at_rest(shop: Shop) -> None:
    rest = told(shop)
    for name, (_, wrong) in DAMAGES.items():
        if name not in PARTED:  # whose own tables are whole
            assert_tells(rest[name], wrong)
    assert {name for name, view in rest.items() if view["state"] == "at rest"} == {"whole", "second", "third", *PARTED}


def assert_tells(view: dict[str, Any], wrong: str) -> None:
    assert view["state"] == "failed", view
    assert re.search(wrong, view["problem"]), view["problem"]
    assert "Restore it from a backup, or load the view again from its sources: weir run --reload " in view["problem"]
    assert "<unknown>" not in view["problem"]
    assert "\n" not in view["problem"]


def assert_others_run(shop: Shop) -> None:
    running = told(shop)
    for name, (_, wrong) in DAMAGES.items():
        assert_tells(running[name], wrong)
    for name in ("second", "third"):
        assert running[name]["state"] == "failed"  # they commit together with one that cannot
    assert (running["whole"]["state"], running["whole"]["arrival"]) == ("running", 2)
    assert sorted(shop.state("whole").rows()) == [(1, "Anja"), (2, "Bob")]


def assert_clear_errors(shop: Shop) -> None:
    for name in ("cut_commit", "parted_lost"):
        with pytest.raises(WeirError, match=DAMAGES[name][1]):
            shop.warehouse.verify(name)
    for name, (_, wrong) in DAMAGES.items():
        if name not in PARTED:
            with pytest.raises(Damaged, match=wrong):
                query_views(shop.warehouse, f"SELECT * FROM {name}", AsOf(), 10)
            with pytest.raises(Damaged, match=wrong):
                shop.warehouse.compact(name)
    for name in ("whole", "second", "third"):
        assert len(shop.state(name)) == 2


def assert_mended(shop: Shop) -> None:
    """The lost commit's number is not given twice: it stands in the commit or in the rows that are left."""
    views = told(shop)
    assert {name: view["problem"] for name, view in views.items() if view["state"] != "running"} == {}
    assert {name: view["arrival"] for name, view in views.items()} == dict.fromkeys(views, 2)
    shop.write("shop", "UPDATE customer SET name = 'Anni' WHERE id = 1")
    shop.catch_up()
    for name in views.keys() - PARTED:
        assert sorted(shop.state(name).rows()) == [(1, "Anni"), (2, "Bob")]
    for audit in shop.warehouse.verify_all(PARTED):
        assert audit.clean, str(audit)
    assert {view["arrival"] for view in told(shop).values()} == {3}
    lost = told(shop)["cut_commit"]["gaps"]
    assert lost == [{"after": 0, "at": 2, "why": "its table was made anew, the one before it is no more"}]
    with pytest.raises(WeirError, match="has no state as of arrival 1: kept are versions 1 to 2, arrivals 2 to 3"):
        shop.state("cut_commit", AsOf(arrival=1))
    assert sorted(shop.state("lost_rows", AsOf(arrival=2)).rows()) == [(1, "Anja"), (2, "Bob")]


def assert_told_while_running(shop: Shop) -> None:
    """They fail, as soon as something is to be written there; a table that is gone is not taken for a new view's."""
    cut(log_of(Path(shop.warehouse.path, "cut_commit"))[-1])
    shutil.rmtree(Path(shop.warehouse.path, "lost_log"))
    shop.write("shop", "UPDATE customer SET name = 'Änn' WHERE id = 1")
    shop.warehouse.start()
    wait_until(lambda: [told(shop)[name]["state"] for name in ("cut_commit", "lost_log")] == ["failed", "failed"], 120)
    wait_until(lambda: told(shop)["whole"]["arrival"] == 4 and told(shop)["whole"]["queue"] == 0)
    assert_tells(told(shop)["lost_log"], r"is gone")
    shop.warehouse.stop()
    assert_tells(told(shop)["cut_commit"], r"is cut off or overwritten")
    assert sorted(shop.state("whole").rows()) == [(1, "Änn"), (2, "Bob")]


def test_a_table_that_was_deleted_at_rest(open_shop: OpenShop) -> None:
    """Nothing tells it from a new view's: it is loaded by itself and counts from 0; the other view goes on."""
    shop = open_shop(kinds=("postgres",), places={"shop": ("customer", "orders", "product")})
    shop.view("whole", PEOPLE, consistency="complete")
    shop.view("gone", PEOPLE, consistency="complete")
    shop.catch_up()
    shop.write("shop", "UPDATE customer SET name = 'Anna' WHERE id = 1")
    shop.catch_up()
    shop.warehouse.stop()
    shutil.rmtree(Path(shop.warehouse.path, "gone"))
    assert (told(shop)["gone"], told(shop)["whole"]["state"]) == ({"name": "gone", "state": "not loaded"}, "at rest")
    shop.write("shop", "UPDATE customer SET name = 'Anja' WHERE id = 1")
    shop.catch_up()
    assert {name: (view["state"], view["arrival"]) for name, view in told(shop).items()} == {
        "whole": ("running", 2),
        "gone": ("running", 0),
    }
    for name in ("whole", "gone"):
        assert sorted(shop.state(name).rows()) == [(1, "Anja"), (2, "Bob")]
