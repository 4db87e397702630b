"""What a user sees of a running warehouse: audits, status, metrics, and requests from another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.runtime.shop import Shop, wait_until
from weir.algebra.errors import WeirError
from weir.operation.locking import FOLDER
from weir.operation.status import STATUS
from weir.project.folder import RunKeys
from weir.warehouse.columns import WEIGHT

pytestmark = pytest.mark.spark

OpenShop = Callable[..., Shop]


@contextmanager
def _writers(shop: Shop) -> Iterator[list[int]]:
    """One thread per source that writes without a pause worth mentioning; how much each has written."""
    ending, counts = threading.Event(), [0, 0, 0]
    statements = {
        "crm": ["UPDATE customer SET name = 'n{n}' WHERE id = 1", "INSERT INTO customer VALUES (1{n}, 'x', NULL)"],
        "sales": ["INSERT INTO orders VALUES (9{n}, 1, 100, {n})", "DELETE FROM orders WHERE amount = {n} - 4"],
        "stock": ["UPDATE product SET title = 't{n}' WHERE id = 100", "UPDATE product SET price = {n}"],
    }

    def write(at: int, source: str) -> None:
        while not ending.is_set():
            counts[at] += 1
            shop.databases[source].transact([text.format(n=counts[at]) for text in statements[source]])
            time.sleep(0.005)

    threads = [threading.Thread(target=write, args=(at, source)) for at, source in enumerate(statements)]
    for thread in threads:
        thread.start()
    try:
        yield counts
    finally:
        ending.set()
        for thread in threads:
            thread.join()


# -- verify ------------------------------------------------------------------------------------------------------------


def test_the_audit_is_exact_while_writers_write(open_shop: OpenShop) -> None:
    """Every audit in the middle of it compares both sides at one vector: no difference, though nothing stands still."""
    shop = open_shop()
    shop.view(consistency="complete")
    shop.catch_up()
    with _writers(shop) as counts:
        seen = []
        for _ in range(3):
            before = list(counts)
            found = shop.audit()
            assert found.clean, str(found)
            assert all(later > earlier for earlier, later in zip(before, counts, strict=True))
            seen.append(found.positions)
    assert seen[0] != seen[1] != seen[2]
    shop.catch_up()
    assert shop.audit().clean


def test_a_damaged_view_is_found_out(open_shop: OpenShop) -> None:
    """Rows that are missing, doubled or made up are counted and shown, whatever happens at the sources meanwhile."""
    shop = open_shop()
    shop.view(consistency="complete")
    shop.catch_up()
    shop.warehouse.stop()
    store = shop.warehouse.store("lines")
    kept = store.read_arrow().sort_by("oid").to_pylist()
    made_up = {**kept[0], "title": "never sold"}
    wrong = [{**kept[1], WEIGHT: -1}, {**kept[2], WEIGHT: 1}, {**made_up, WEIGHT: 1}]
    head = store.head
    store.append(pa.Table.from_pylist(wrong), dict(head.positions), None, head.transaction + 1, notes=head.notes)
    shop.write("crm", "UPDATE customer SET city = 'Köln' WHERE id = 2")
    found = shop.audit()
    assert (found.rows, found.missing, found.extra) == (4, 1, 2)
    assert not found.clean
    assert {(row["too many"], row["row"]["oid"]) for row in found.samples} == {(-1, 11), (1, 12), (1, 10)}
    assert "1 missing, 2 extra" in str(found)
    assert "never sold" in str(found)
    shop.warehouse.run(until_caught_up=True, reload=["lines"])
    assert shop.audit().clean


def test_an_audit_of_what_is_not_there(open_shop: OpenShop) -> None:
    """A view that nobody has defined is named, with the one that was meant."""
    shop = open_shop(kinds=("sqlite",))
    shop.view()
    with pytest.raises(WeirError, match=r"there is no view 'linse'; did you mean 'lines'\?"):
        shop.warehouse.verify("linse")
    with pytest.raises(WeirError, match="view lines has not been loaded yet"):
        shop.warehouse.read("lines")


# -- status and metrics ------------------------------------------------------------------------------------------------


def test_the_status_is_truthful(open_shop: OpenShop) -> None:
    """Before, during and after a run it says what there is: states, positions, counts, and no lag that is none."""
    shop = open_shop()
    shop.view(consistency="complete")
    before = shop.warehouse.status()
    assert (before["running"], before["views"]) == (False, [{"name": "lines", "state": "not loaded"}])
    shop.catch_up()
    shop.write("sales", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    shop.write("sales", "DELETE FROM orders WHERE id = 10")
    asked = time.time()
    shop.catch_up()
    status = shop.warehouse.status()
    (view,) = status["views"]
    assert (status["running"], status["process"]) == (True, os.getpid())
    assert (view["state"], view["problem"], view["level"], view["strategy"]) == ("running", "", "complete", "pvm-cc")
    assert (view["transactions"], view["queue"], view["arrival"], view["commits"]) == (2, 0, 2, 2)
    assert view["positions"] == shop.warehouse.store("lines").positions()
    assert 0 <= view["lag"] <= status["time"] - asked
    sources = {source["name"]: source for source in status["sources"]}
    assert {name: sources[name]["kind"] for name in sources} == {n: d.kind for n, d in shop.databases.items()}
    assert [sources[name]["transactions"] for name in ("crm", "sales", "stock")] == [0, 2, 0]
    assert all(source["reachable"] and not source["problem"] for source in status["sources"])
    written = json.loads(Path(shop.warehouse.path, FOLDER, STATUS).read_text())
    assert written["process"] == os.getpid()
    shop.warehouse.stop()
    (rests,) = shop.warehouse.status()["views"]
    assert (rests["state"], rests["arrival"], rests["positions"]) == ("at rest", 2, view["positions"])


def _get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return str(answer.read().decode())


def test_metrics_in_prometheus_format(open_shop: OpenShop) -> None:
    """Every line is a comment or a sample, every sample has its type, and the numbers are those of the status."""
    from tests.spark.servers import _free_port

    port = _free_port()
    shop = open_shop(run=RunKeys(metrics_port=port))
    shop.view(consistency="complete")
    shop.catch_up()
    shop.write("sales", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    shop.catch_up()
    lines = _get(port, "/metrics").splitlines()
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert {name.partition("{")[0] for name in samples} == typed
    assert len(typed) > 10
    status = shop.warehouse.status()
    (view,) = status["views"]
    for field in ("transactions", "commits"):
        assert samples[f'weir_view_{field}_total{{view="lines"}}'] == str(view[field])
    assert samples['weir_view_arrival{view="lines"}'] == str(view["arrival"])
    for field, count in status["asked"].items():
        assert samples[f"weir_asked_{field}_total"] == str(count)
    assert samples['weir_view_transactions_total{view="lines"}'] == "1"
    assert samples['weir_view_queue{view="lines"}'] == "0"
    assert samples['weir_source_up{source="crm"}'] == samples["weir_up"] == "1"
    assert int(samples["weir_asked_lookups_total"]) == shop.warehouse.status()["asked"]["lookups"] == 2
    assert json.loads(_get(port, "/status"))["views"][0]["name"] == "lines"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        _get(port, "/elsewhere")
    with pytest.raises(WeirError, match=rf"metrics_port = {port} cannot be opened: .*; choose another port, or 0"):
        _second(shop, tmp="another", port=port).run(until_caught_up=True)


def _second(shop: Shop, tmp: str, port: int) -> Any:
    """A warehouse of its own over the same sources, with the same port."""
    from weir import Warehouse

    made = Warehouse(shop.folder / tmp, spark=shop.spark, run=RunKeys(metrics_port=port))
    for source, database in shop.databases.items():
        made.source(source, kind=database.kind, **database.options)
    return made.view(shop.views["lines"])


# -- another process ---------------------------------------------------------------------------------------------------

ASK = """
import json, sys
from weir.operation.control import ask_runner
print(json.dumps([ask_runner(sys.argv[1], "verify", names=["lines"]), ask_runner(sys.argv[1], "status")]))
"""


def test_a_second_process_asks_the_runner(open_shop: OpenShop) -> None:
    """While one process maintains the views and writers write, another has it audit, and is told its status."""
    shop = open_shop()
    shop.view(consistency="complete")
    shop.warehouse.start()
    wait_until(lambda: shop.warehouse.is_loaded("lines"))
    with _writers(shop):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", ASK, shop.warehouse.path]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    verified, status = json.loads(done.stdout)
    (audit,) = verified["audits"]
    assert verified["problems"] == {}
    assert (audit["view"], audit["missing"], audit["extra"]) == ("lines", 0, 0)
    assert audit["rows"] > 0
    assert (status["process"], status["running"]) == (os.getpid(), True)
    shop.warehouse.stop()


def test_stop_finishes_the_round_under_way(open_shop: OpenShop) -> None:
    """Whatever was written when it came: the tables are at one vector from which the next run goes on."""
    shop = open_shop()
    shop.view(consistency="complete")
    shop.catch_up()
    with _writers(shop):
        shop.warehouse.start()
        version = shop.warehouse.store("lines").head.version
        wait_until(lambda: shop.warehouse.store("lines").head.version > version)
        shop.warehouse.stop()
        shop.warehouse.start()
        shop.warehouse.stop()
    shop.catch_up()
    assert shop.audit().clean
    with pytest.raises(WeirError, match="a view cannot be added while the warehouse runs"):
        shop.view("another")


def test_no_thread_is_left_when_a_warehouse_is_closed(open_shop: OpenShop) -> None:
    """Not of sources, writers or audits, nor of those who wait for tasks and for other processes."""
    shop = open_shop(kinds=("sqlite",))
    shop.view(strategy="pvm-cc")
    before = set(threading.enumerate())
    shop.catch_up()
    shop.write("sales", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    shop.catch_up()
    assert {"weir-lookups", "weir-control"} <= {thread.name for thread in threading.enumerate()}
    shop.warehouse.close()
    left = {thread for thread in set(threading.enumerate()) - before if thread.name.startswith("weir")}
    for thread in left:
        thread.join(20)
    assert [thread.name for thread in left if thread.is_alive()] == []


def test_a_view_added_after_an_explanation_may_need_another_source(open_shop: OpenShop) -> None:
    """What the sources of the views before it say of themselves is not all that is asked for it."""
    shop = open_shop(kinds=("sqlite",))
    shop.view("people", "SELECT c.name FROM {customer} c")
    assert shop.warehouse.explain("people").view.sources == ("crm",)
    shop.view("sold", "SELECT o.id, p.title FROM {orders} o JOIN {product} p ON p.id = o.product")
    assert shop.warehouse.explain("sold").view.sources == ("sales", "stock")
