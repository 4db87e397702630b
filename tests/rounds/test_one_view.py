"""One view's trouble is one view's: what concerns a view stops that view, at every kind of source; the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.runtime.shop import Shop, wait_until
from weir.algebra.errors import WeirError
from weir.operation.checks import check
from weir.project.folder import Project, RunKeys, SparkKeys
from weir.proving.databases import Servers
from weir.sources.source import SourceError
from weir.sources.sqlite.snapshot import HeldSqliteSnapshot

pytestmark = pytest.mark.spark

KINDS = {"lite": "sqlite", "log": "postgres", "trig": "postgres-triggers", "maria": "mariadb"}
PLACES = {source: (f"t_{source}", f"u_{source}") for source in KINDS}
COLUMNS = "(id bigint PRIMARY KEY NOT NULL, a bigint, b bigint)"
TABLES = {
    name: (f"CREATE TABLE {name} {COLUMNS}", f"INSERT INTO {name} VALUES (1, 1, 1)")
    for names in PLACES.values()
    for name in names
}


@pytest.fixture
def shop(servers: Servers, spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    """Per source two tables and two views: over a and over b of the one."""
    with servers.mariadb.connect(autocommit=True) as admin, admin.cursor() as cursor:
        cursor.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    made = Shop(servers, spark, tmp_path, tuple(KINDS.values()), PLACES, TABLES)
    for source in KINDS:
        made.view(f"a_{source}", f"SELECT t.id, t.a FROM {source}.t_{source} t")
        made.view(f"b_{source}", f"SELECT t.id, t.b FROM {source}.t_{source} t")
    yield made
    made.close()
    with servers.mariadb.connect(autocommit=True) as admin, admin.cursor() as cursor:
        cursor.execute("SET GLOBAL binlog_row_metadata = 'NO_LOG'")


def insert(shop: Shop, number: int) -> None:
    for source, names in PLACES.items():
        shop.databases[source].transact([f"INSERT INTO {name} (id, a) VALUES ({number}, {number})" for name in names])


def states(shop: Shop) -> dict[str, str]:
    return {view["name"]: view["state"] for view in shop.warehouse.status()["views"]}


def problems(shop: Shop) -> dict[str, str]:
    return {view["name"]: view["problem"] for view in shop.warehouse.status()["views"] if view["problem"]}


def shown(shop: Shop, view: str) -> set[int]:
    return {row[0] for row in shop.state(view).rows()}


def stopped(shop: Shop, *expected: str) -> dict[str, str]:
    """A run stops just these views, with what they say; all others have what is there by now."""
    with pytest.raises(WeirError) as told:
        shop.catch_up()
    found = problems(shop)
    assert sorted(found) == sorted(expected), found
    assert all(f"view {name}: {found[name]}" in str(told.value) for name in expected)
    assert {state for name, state in states(shop).items() if name not in expected} == {"running"}
    return found


def new_binlog(servers: Servers) -> str:
    """The name of the file that changes go to from now on."""
    with servers.mariadb.connect(autocommit=True) as admin, admin.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        return str(cursor.fetchone()[0])


def forget_binlog(servers: Servers, before: str) -> None:
    """The server purges no file that it believes somebody reads, or that it may need itself for a moment."""
    dumps = "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    with servers.mariadb.connect(autocommit=True) as admin, admin.cursor() as cursor:

        def is_forgotten() -> bool:
            cursor.execute(dumps)
            for (number,) in cursor.fetchall():
                cursor.execute(f"KILL {number}")
            cursor.execute("PURGE BINARY LOGS TO %s", (before,))
            cursor.execute("SHOW BINARY LOGS")
            return bool(cursor.fetchone()[0] == before)

        wait_until(is_forgotten)


def project_of(shop: Shop) -> Project:
    warehouse = shop.warehouse
    return Project(shop.folder, warehouse.path, {}, SparkKeys(), RunKeys(), warehouse.sources, warehouse.views)


def test_a_view_that_is_gone_for_a_while_and_an_edited_one(shop: Shop, servers: Servers) -> None:
    """Whose position is older than the log asks for a reload, and whose definition is another one; nobody else."""
    shop.catch_up()
    texts = {name: shop.views.pop(name) for name in list(shop.views) if name.startswith("b_")}
    shop.restart()
    newer = new_binlog(servers)
    insert(shop, 2)
    shop.catch_up()
    shop.restart()
    forget_binlog(servers, newer)
    insert(shop, 3)
    shop.catch_up()
    shop.views |= texts
    shop.restart()
    insert(shop, 4)
    for name, problem in stopped(shop, *texts).items():
        assert problem.endswith(f": weir run --reload {name}"), problem
    assert {frozenset(shown(shop, name)) for name in shop.views if name not in texts} == {frozenset({1, 2, 3, 4})}

    shop.warehouse.run(until_caught_up=True, reload=list(texts))
    assert set(states(shop).values()) == {"running"}
    assert {frozenset(shown(shop, name)) for name in shop.views} == {frozenset({1, 2, 3, 4})}

    shop.views["a_log"] = shop.views["a_log"].replace("t.a FROM", "t.a + 1 AS a FROM")
    shop.restart()
    insert(shop, 5)
    told = "\n".join(text for _, text in check(project_of(shop)).lines())
    assert told.count("another definition") == told.count("  error ") == 1, told
    assert "weir run --reload a_log" in stopped(shop, "a_log")["a_log"]
    assert 5 in shown(shop, "b_log")
    assert shop.audit("b_log").clean


def test_a_column_that_is_dropped_while_running(shop: Shop) -> None:
    """Only the views that use it stop, and say so; where the capture had to be renewed, those over that table."""
    for source in KINDS:
        shop.view(f"u_{source}", f"SELECT u.id, u.b FROM {source}.u_{source} u")
    shop.catch_up()
    for source in ("log", "maria"):
        shop.databases[source].transact([f"ALTER TABLE t_{source} DROP COLUMN b"])
    shop.databases["trig"].transact(["ALTER TABLE t_trig DROP COLUMN b"])
    shop.databases["trig"].capture()
    shop.databases["lite"].transact([
        "ALTER TABLE t_lite RENAME TO before", "CREATE TABLE t_lite (id bigint PRIMARY KEY NOT NULL, a bigint)",
        "INSERT INTO t_lite SELECT id, a FROM before", "DROP TABLE before",
    ])  # fmt: skip
    shop.databases["lite"].capture()
    insert(shop, 2)
    found = stopped(shop, "b_log", "b_maria", "a_trig", "b_trig", "a_lite", "b_lite")
    for source in ("log", "trig", "maria", "lite"):
        problem = found[f"b_{source}"]
        assert f"{source}.t_{source}" in problem or f"t_{source}" in problem
        assert "'b'" in problem or "capture" in problem or "DROP COLUMN b" in problem, problem
        assert "binlog_row_metadata" not in problem
        assert problem.count("weir run --reload") == 1
    for name in ("a_log", "a_maria", "u_log", "u_maria", "u_trig", "u_lite"):
        assert shown(shop, name) == {1, 2}, name

    shop.restart()  # its columns are another matter than those of the views that were not read
    insert(shop, 3)
    stopped(shop, "b_log", "b_maria", "a_trig", "b_trig", "a_lite", "b_lite")
    for source in KINDS:
        shop.views[f"b_{source}"] = shop.views[f"b_{source}"].replace("t.b", "t.a AS b")
    shop.restart()
    shop.warehouse.run(until_caught_up=True, reload=["a_trig", "a_lite", *(f"b_{source}" for source in KINDS)])
    for name in shop.views:
        assert shown(shop, name) == {1, 2, 3}, name
    assert all(found.clean for found in shop.warehouse.verify_all())


def test_a_reload_that_is_interrupted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a reload still when the source is back: rows of the definition before are not gone on with."""
    shop.views = {"a_lite": shop.views["a_lite"]}
    shop.restart()
    shop.catch_up()
    shop.views["a_lite"] = shop.views["a_lite"].replace("t.a FROM", "t.a + 10 AS a FROM")
    shop.restart()
    real = HeldSqliteSnapshot._parts
    failed: list[str] = []

    def parts(self: HeldSqliteSnapshot) -> Any:
        if not failed:
            failed.append(self.source)
            raise SourceError("the connection was lost")
        return real(self)

    monkeypatch.setattr(HeldSqliteSnapshot, "_parts", parts)
    with pytest.raises(WeirError, match="waits for source lite"):
        shop.warehouse.run(until_caught_up=True, reload=["a_lite"])
    assert failed == ["lite"]
    while states(shop)["a_lite"] != "running":
        shop.warehouse.run(seconds=0.5)
    assert shop.state("a_lite").rows() == [(1, 11)]
