"""A table or a disk that cannot be written: the views concerned wait, and say so until a write has succeeded; others
go on; and every transaction is counted once, however often it is delivered again.

As root the disk is a small one of its own, and a table is mounted read-only. Elsewhere the kernel limits the size of
files, and the folder's rights are taken away.
"""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.shop import Shop, wait_until
from weir.operation.control import ask_runner
from weir.operation.metrics import exposition

pytestmark = pytest.mark.spark

OpenShop = Callable[..., Shop]
PEOPLE = "SELECT c.id, c.name FROM {customer} c"
SOLD = "SELECT o.id, p.title FROM {orders} o JOIN {product} p ON p.id = o.product"
REFUSED = "could not be written"


def mounted(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A disk of its own below the folder, if this account may mount one."""
    folder.mkdir()
    own = mounted("-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder))
    try:
        yield own
    finally:
        if own:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def full(disk: Path, own: bool) -> Iterator[None]:
    """No byte more, or, on a disk that is not our own, no file longer than a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    filler = disk / "_weir" / "filler"
    if own:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        filler.unlink(missing_ok=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def read_only(table: Path) -> Iterator[None]:
    bound = mounted("--bind", str(table), str(table)) and mounted("-o", "remount,ro,bind", str(table))
    folders = [table, *(path for path in table.rglob("*") if path.is_dir())]
    for path in [] if bound else folders:
        path.chmod(0o555)
    try:
        yield
    finally:
        if bound:
            subprocess.run(["umount", str(table)], check=True)
        for path in [] if bound else folders:
            path.chmod(0o755)


def asked(shop: Shop) -> dict[str, dict[str, Any]]:
    """The views, as another process is told of them."""
    return {view["name"]: view for view in ask_runner(shop.warehouse.path, "status")["views"]}


def refused(log: pytest.LogCaptureFixture, view: str) -> int:
    return sum(f"view {view} {REFUSED}" in message for message in log.messages)


def seen_while(shop: Shop, over: Callable[[], bool]) -> list[dict[str, dict[str, Any]]]:
    """What is told again and again until something is over, from the first time that a view waits."""
    seen: list[dict[str, dict[str, Any]]] = []

    def look() -> bool:
        views = asked(shop)
        if seen or any(view["state"] == "waiting" for view in views.values()):
            seen.append(views)
        return bool(seen) and over()

    wait_until(look, 120)
    return seen


def counted(shop: Shop) -> dict[str, tuple[int, int]]:
    return {name: (view["transactions"], view["queue"]) for name, view in asked(shop).items()}


@pytest.fixture
def shop(open_shop: OpenShop) -> Shop:
    shop = open_shop(kinds=("sqlite",))
    shop.view("people", PEOPLE, consistency="complete")
    shop.view("sold", SOLD, consistency="complete")
    return shop


def test_it_waits_and_says_so_until_it_is_written(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """First one table is read-only, then the disk is full."""
    disk = Path(shop.warehouse.path)
    with small_disk(disk) as own:
        shop.catch_up()
        shop.warehouse.start()
        with read_only(disk / "sold"):
            one_waits_and_the_other_goes_on(shop, caplog)
        wait_until(lambda: asked(shop)["sold"]["state"] == "running")
        assert counted(shop) == {"people": (1, 0), "sold": (1, 0)}
        caplog.clear()
        with full(disk, own):
            shop.write("crm", "UPDATE customer SET name = 'Anne' WHERE id = 1")
            seen = seen_while(shop, lambda: refused(caplog, "people") > 1)
            assert {views["people"]["state"] for views in seen} == {"waiting"}
        wait_until(lambda: asked(shop)["people"]["state"] == "running")
        assert counted(shop) == {"people": (2, 0), "sold": (1, 0)}
        sources = ask_runner(shop.warehouse.path, "status")["sources"]
        assert {source["name"]: source["transactions"] for source in sources} == {"crm": 2, "sales": 1, "stock": 0}
        assert 'weir_view_transactions_total{view="people"} 2' in exposition(shop.warehouse.status()).splitlines()
        shop.warehouse.stop()
        shop.catch_up()
        shop.assert_right("complete", "people")
        shop.assert_right("complete", "sold")
        shop.warehouse.close()


def one_waits_and_the_other_goes_on(shop: Shop, log: pytest.LogCaptureFixture) -> None:
    shop.write("sales", "INSERT INTO orders VALUES (20, 1, 101, 2)")
    shop.write("crm", "UPDATE customer SET name = 'Anna' WHERE id = 1")
    seen = seen_while(shop, lambda: refused(log, "sold") > 2 and counted(shop)["people"] == (1, 0))
    assert {views["sold"]["state"] for views in seen} == {"waiting"}
    assert all("cannot write to the table at" in views["sold"]["problem"] for views in seen)
    assert {views["people"]["state"] for views in seen} == {"running"}
    assert max(views["sold"]["transactions"] + views["sold"]["queue"] for views in seen) == 1
