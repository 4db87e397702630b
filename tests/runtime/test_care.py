"""Care for the tables: compaction changes no row, orphans go, old states go when that is wanted and only then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from weir import Warehouse
from weir.operation import upkeep as care
from weir.operation.upkeep import Care
from weir.project.folder import RunKeys
from weir.proving.soak.databases import open_databases
from weir.proving.soak.replay import SELECT
from weir.proving.soak.traffic import Writer, first_rows
from weir.warehouse.record import AsOf
from weir.warehouse.retention import GRACE
from weir.warehouse.store import ViewStore

pytestmark = pytest.mark.spark
VIEW = f"CREATE MATERIALIZED VIEW lines WITH (consistency = 'complete', strategy = 'pvm-cc') AS {SELECT}"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Warehouse]:
    """A view over three SQLite files, loaded, with a few commits in its log."""
    folder = tmp_path_factory.mktemp("care")
    kinds = dict.fromkeys(("crm", "sales", "shop"), "sqlite")
    with open_databases(kinds, first_rows(1), folder) as databases, Warehouse(folder / "warehouse", spark) as made:
        for name, database in databases.items():
            made.source(name, database.kind, **database.options)
        made.view(VIEW).run(until_caught_up=True)
        writer = Writer("shop", databases["shop"].login, 1, iter(range(10_000, 20_000)))
        for _ in range(3):
            for _ in range(5):
                writer.transaction()
            made.run(until_caught_up=True)
        writer.close()
        yield made


def looked_after(warehouse: Warehouse, keys: RunKeys, grace: timedelta = GRACE) -> Care:
    assert warehouse.engine is not None
    made = Care(warehouse.spark, warehouse.engine.units, keys, grace)
    made.look()
    return made


def rows(store: ViewStore, as_of: AsOf) -> list[tuple[object, ...]]:
    table: pa.Table = store.read_arrow(as_of)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def test_a_short_log_is_left_alone(warehouse: Warehouse) -> None:
    """However small the view is beside it."""
    assert looked_after(warehouse, RunKeys(compact_after=0.0001)).compactions == 0


def test_a_log_that_has_grown_is_folded(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every state reads as before, and there is nothing left to do."""
    monkeypatch.setattr(care, "LIMITS", {"few": 0})
    store = warehouse.store("lines")
    before = {arrival: rows(store, AsOf(arrival=arrival)) for arrival in range(1, store.head.last_arrival + 1)}
    caring = looked_after(warehouse, RunKeys(compact_after=0.0001))
    assert (caring.compactions, store.head.kind, store.log_share()) == (1, "fold", 0.0)
    assert {arrival: rows(store, AsOf(arrival=arrival)) for arrival in before} == before
    assert looked_after(warehouse, RunKeys(compact_after=0.0001)).compactions == 0
    assert warehouse.verify("lines").clean


def test_only_old_orphans_go(warehouse: Warehouse) -> None:
    """A file that nobody names may be one that is being written."""
    store = warehouse.store("lines")
    store.stage(store.read_arrow().slice(0, 1), store.head.last_arrival + 1)
    count = len(store.place.listing())
    looked_after(warehouse, RunKeys())
    assert len(store.place.listing()) == count
    looked_after(warehouse, RunKeys(), timedelta(0))
    assert len(store.place.listing()) < count
    assert store.clean_orphans(timedelta(0)) == []


def test_old_states_are_forgotten_when_asked_for(warehouse: Warehouse) -> None:
    """Everything is kept by default; with a limit the newest state older than it is the oldest one kept."""
    store = warehouse.store("lines")
    kept = store.log.versions()
    looked_after(warehouse, RunKeys())
    looked_after(warehouse, RunKeys(keep_days=1))
    assert store.log.versions() == kept
    newest = rows(store, AsOf())
    looked_after(warehouse, RunKeys(keep_days=1e-9))
    assert store.log.versions() == kept[-1:]
    assert rows(store, AsOf()) == newest


def test_work_goes_on_beside_the_rounds(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends waits for the compaction under way, and a trouble there is no trouble of the run."""

    def fail(self: Care) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(care, "LOOK", 0.001)
    monkeypatch.setattr(Care, "look", fail)
    warehouse.run(until_caught_up=True)
    assert warehouse.verify("lines").clean
