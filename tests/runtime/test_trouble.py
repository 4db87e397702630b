"""Trouble: one clear message each, nothing lost, and what does not depend on it goes on.

Each test mends the cause in the end, catches up, and the audit finds no difference.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.shop import LINES, Shop, wait_until
from weir import Warehouse, points
from weir.algebra.errors import WeirError
from weir.planning.request import CannotMaintain
from weir.proving.databases import Servers
from weir.rounds.views import DefinitionChanged

pytestmark = pytest.mark.spark

OpenShop = Callable[..., Shop]
KINDS = ("postgres", "sqlite", "sqlite")  # crm can go away, sales and stock stay
SOLD = "SELECT o.id AS oid, p.title FROM {orders} o JOIN {product} p ON p.id = o.product"
PATIENCE = 60.0


def _state(shop: Shop, name: str = "lines") -> dict[str, Any]:
    found: dict[str, Any] = next(view for view in shop.warehouse.status()["views"] if view["name"] == name)
    return found


def _run_until(shop: Shop, reached: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < end, shop.warehouse.status()
        shop.warehouse.run(seconds=0.2)


def _is(shop: Shop, state: str, name: str = "lines") -> Callable[[], bool]:
    return lambda: bool(_state(shop, name)["state"] == state)


def _write_everywhere(shop: Shop, number: int) -> None:
    shop.write("sales", f"INSERT INTO orders VALUES ({number}, 1, 101, 2)")
    shop.write("stock", f"UPDATE product SET title = 't{number}' WHERE id = 101")


def _mended(shop: Shop, *names: str) -> None:
    """Everything is caught up and right."""
    shop.catch_up()
    for name in names:
        found = shop.audit(name)
        assert found.clean, str(found)


# -- sources that are away ---------------------------------------------------------------------------------------------


@contextmanager
def _dead(servers: Servers) -> Iterator[None]:
    """The server crashes, and is started again in the end."""
    servers.postgres.kill()
    try:
        yield
    finally:
        servers.postgres.start()


def test_a_source_that_is_down_at_the_start(open_shop: OpenShop, servers: Servers) -> None:
    """Its views wait and say for what; the others are loaded and go on; when it is back, so are its views."""
    shop = open_shop(kinds=KINDS)
    shop.view("lines", consistency="complete")
    shop.view("sold", SOLD, consistency="complete")
    with _dead(servers):
        with pytest.raises(WeirError, match=r"^view lines: waits for source crm: .*cannot connect to PostgreSQL"):
            shop.catch_up()
        _write_everywhere(shop, 20)
        shop.warehouse.run(seconds=1)
        assert len(shop.state("sold")) == 4
        assert _state(shop)["state"] == "waiting"
    _run_until(shop, _is(shop, "running"))
    _mended(shop, "lines", "sold")


def test_a_source_that_is_lost_between_two_hops(
    open_shop: OpenShop, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its snapshot is gone with it, so the round is made again when it is back; the other view misses nothing."""
    shop = open_shop(kinds=KINDS)
    shop.view("lines", consistency="complete")
    shop.view("sold", SOLD, consistency="complete")
    shop.catch_up()
    lost: list[str] = []

    def lose(point: str) -> None:
        if point == points.AFTER_VISIT and not lost:
            lost.append(point)
            servers.postgres.kill()

    _write_everywhere(shop, 20)
    monkeypatch.setattr(points, "_watchers", [lose])
    _run_until(shop, _is(shop, "waiting"))
    assert _state(shop)["problem"].startswith("waits for source crm: ")
    assert [source["reachable"] for source in shop.warehouse.status()["sources"]] == [False, True, True]
    _write_everywhere(shop, 21)
    _run_until(shop, lambda: len(shop.state("sold")) == 5)
    servers.postgres.start()
    _run_until(shop, _is(shop, "running"))
    shop.catch_up()
    shop.assert_right("strong", "lines")  # SQLite tells what happened twice while crm was away as one transaction
    shop.assert_right("complete", "sold")


def test_a_source_that_restarts_under_way(open_shop: OpenShop, servers: Servers) -> None:
    """A server that is restarted in good order is connected to again; no transaction is lost or doubled."""
    shop = open_shop(kinds=("postgres", "postgres-triggers", "sqlite"))
    shop.view(consistency="complete")
    shop.catch_up()
    shop.warehouse.start()
    _write_everywhere(shop, 20)
    servers.postgres.restart()
    shop.write("crm", "UPDATE customer SET name = 'Anna' WHERE id = 1")
    _write_everywhere(shop, 21)
    wait_until(lambda: len(shop.state()) == 5 and _state(shop)["state"] == "running")
    shop.warehouse.stop()
    shop.catch_up()
    shop.assert_right("strong")


# -- tables that change ------------------------------------------------------------------------------------------------


REMADE = {
    "postgres": ["ALTER TABLE customer DROP COLUMN name", "ALTER TABLE customer ADD COLUMN name varchar(40)"],
    "mariadb": ["ALTER TABLE customer MODIFY COLUMN name varchar(40) AFTER city"],
    "sqlite": [  # as its manual has it
        "ALTER TABLE customer RENAME TO customer_before",
        "CREATE TABLE customer (id bigint PRIMARY KEY NOT NULL, city varchar(40), name varchar(40))",
        "INSERT INTO customer SELECT id, city, name FROM customer_before",
        "DROP TABLE customer_before",
    ],
}


@pytest.mark.parametrize("kind", REMADE)
def test_a_schema_change_while_running(open_shop: OpenShop, kind: str) -> None:
    """The views over that table stop and say what has changed; the others go on; a reload brings them back."""
    shop = open_shop(kinds=(kind, "sqlite", "sqlite"))
    shop.view("lines", consistency="complete")
    shop.view("sold", SOLD, consistency="complete")
    shop.catch_up()
    crm = shop.databases["crm"]
    crm.transact(REMADE[kind])
    _write_everywhere(shop, 20)
    with pytest.raises(WeirError, match=r"^view lines: .*customer.*: weir run --reload lines$"):
        shop.catch_up()
    assert _state(shop)["state"] == "failed"
    assert len(shop.state("sold")) == 4
    if kind == "sqlite":
        crm.capture()
    crm.transact(["UPDATE customer SET name = 'again'"])
    shop.warehouse.run(until_caught_up=True, reload=["lines"])
    _mended(shop, "lines", "sold")
    assert {row[3] for row in shop.state().rows()} == {"again"}


def test_a_truncate_whose_rows_are_in_no_log(open_shop: OpenShop) -> None:
    """PostgreSQL's stream does not say what a TRUNCATE took: the view is loaded again, and its history says why."""
    shop = open_shop(kinds=("sqlite", "postgres", "sqlite"))
    shop.view("lines", consistency="complete")
    shop.catch_up()
    shop.databases["sales"].transact(["TRUNCATE orders", "INSERT INTO orders VALUES (20, 1, 101, 2)"])
    shop.write("crm", "UPDATE customer SET name = 'Anna' WHERE id = 1")
    shop.catch_up()
    assert shop.state().rows() == [(20, 1, 101, "Anna", "ink", 2)]
    loads = [record.notes["load"] for record in shop.warehouse.store("lines").history() if "load" in record.notes]
    assert loads == ["first load", "a TRUNCATE whose rows are in no log"]
    _write_everywhere(shop, 21)
    _mended(shop, "lines")


# -- places that cannot be written -------------------------------------------------------------------------------------


def test_a_warehouse_that_cannot_be_written(open_shop: OpenShop, tmp_path: Path) -> None:
    """The folder is named before any source is touched."""
    shop = open_shop(kinds=("sqlite",))
    shop.view()
    (tmp_path / "file").write_text("not a folder")
    elsewhere = Warehouse(tmp_path / "file" / "warehouse", spark=shop.spark)
    for source, database in shop.databases.items():
        elsewhere.source(source, kind=database.kind, **database.options)
    elsewhere.view(shop.views["lines"])
    with pytest.raises(WeirError, match=r"the warehouse at .*file/warehouse cannot be written: Not a directory; give"):
        elsewhere.run(until_caught_up=True)


@contextmanager
def _full_disk(bytes_left: int) -> Iterator[None]:
    """The kernel lets this process write no file beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("bytes_left", [100, 3000], ids=["data file", "commit"])
def test_a_disk_that_is_full_when_a_round_is_written(open_shop: OpenShop, bytes_left: int) -> None:
    """The view waits and says why, with its last state unharmed; the round is written when there is room again."""
    shop = open_shop(kinds=("postgres",))
    shop.view(consistency="complete")
    shop.catch_up()
    before = shop.state()
    shop.write("crm", "UPDATE customer SET name = 'Anna' WHERE id = 1")
    _write_everywhere(shop, 20)
    with _full_disk(bytes_left):
        _run_until(shop, _is(shop, "waiting"))
        assert "cannot write to the table at" in _state(shop)["problem"]
        assert "File too large" in _state(shop)["problem"]
        assert shop.state() == before
    _run_until(shop, _is(shop, "running"))
    shop.catch_up()
    shop.assert_right("complete")


# -- views -------------------------------------------------------------------------------------------------------------


def test_a_view_that_cannot_be_kept_as_asked(open_shop: OpenShop) -> None:
    """It is refused before anything runs, with what would be possible."""
    shop = open_shop(kinds=("sqlite",))
    shop.view(consistency="complete", strategy="lca")
    with pytest.raises(CannotMaintain, match=r"view lines cannot be kept by lca .*spans the sources(.|\n)*Either use"):
        shop.catch_up()
    assert not shop.warehouse.is_loaded("lines")
    shop.view(consistency="complete")
    _mended(shop, "lines")


@pytest.mark.parametrize("columns", ["c.name", "c.name, p.title AS other, CAST(o.amount AS double) AS share"])
def test_a_changed_definition(open_shop: OpenShop, columns: str) -> None:
    """Rows of another definition are never mixed in: refused with the way out, which works with other columns too."""
    shop = open_shop(kinds=("sqlite", "postgres", "sqlite"))
    shop.view(consistency="complete")
    shop.catch_up()
    shop.warehouse.stop()
    shop.view(select=LINES.replace("c.name", columns).replace("o.amount > 0", "o.amount > 1"), consistency="complete")
    with pytest.raises(DefinitionChanged, match=r"view lines at .* another definition.*weir run --reload lines"):
        shop.catch_up()
    shop.warehouse.run(until_caught_up=True, reload=["lines"])
    shop.write("crm", "UPDATE customer SET name = 'Anna' WHERE id = 1")
    _write_everywhere(shop, 20)
    _mended(shop, "lines")
    assert len(shop.state()) == 3


def test_a_second_runner(open_shop: OpenShop) -> None:
    """One process maintains a warehouse; the second is told which one does."""
    shop = open_shop(kinds=("sqlite",))
    shop.view()
    shop.catch_up()
    with pytest.raises(WeirError, match=r"is being run by process \d+; ask that one \(weir status\), or stop it first"):
        shop.open().run(until_caught_up=True)
    _write_everywhere(shop, 20)
    _mended(shop, "lines")


@pytest.mark.parametrize("spark_only", [False, True])
def test_a_row_on_which_a_view_cannot_be_evaluated(open_shop: OpenShop, spark_only: bool) -> None:
    """A division by zero stops that view alone, by name; a reload brings it back when the row is gone."""
    shop = open_shop(kinds=("postgres", "sqlite", "sqlite"))
    share = "c.id / o.amount AS share" + (", regexp_replace(c.name, 'n', 'm') AS m" if spark_only else "")
    select = f"SELECT o.id, {share} FROM {{customer}} c JOIN {{orders}} o ON o.customer = c.id"
    shop.view("shares", select, consistency="complete")
    shop.view("sold", SOLD, consistency="complete")
    shop.catch_up()
    shop.write("sales", "INSERT INTO orders VALUES (20, 1, 101, 0)")
    with pytest.raises(WeirError, match=r"^view shares: .*([Dd]ivision by zero|DIVIDE_BY_ZERO)"):
        shop.catch_up()
    assert (_state(shop, "shares")["state"], _state(shop, "sold")["state"]) == ("failed", "running")
    assert len(shop.state("sold")) == 4
    assert len(shop.state("shares")) == 3
    shop.write("sales", "DELETE FROM orders WHERE id = 20")
    shop.warehouse.run(until_caught_up=True, reload=["shares"])
    _mended(shop, "shares", "sold")
