"""A view that is being maintained, read by clients that are not ours, beside the writer and afterwards.

The recorded arrivals are checked against a replay of what was written, one by one; and what the others have seen of
each version is what that version is.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from tests.runtime.lives import writers
from weir import Warehouse
from weir.bench.product.soak.run import VIEW
from weir.operation import upkeep
from weir.project.folder import RunKeys
from weir.proving.soak.databases import open_databases
from weir.proving.soak.journal import read_journal
from weir.proving.soak.recorded import Recorded
from weir.proving.soak.traffic import first_rows
from weir.warehouse.care import Limits
from weir.warehouse.record import REWRITE, AsOf
from weir.warehouse.store import ViewStore

SOURCES = dict.fromkeys(("crm", "sales", "shop"), "sqlite")
ENOUGH = 25  # versions
PATIENCE = 120.0  # seconds
Rows = Counter[tuple[Any, ...]]


def rows(table: pa.Table) -> Rows:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


@dataclass
class Onlookers:
    """Two clients that read the newest version again and again, whatever happens to it."""

    path: str
    seen: dict[tuple[str, int], Rows] = field(default_factory=dict)
    problems: list[BaseException] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        try:
            while not self.ending.is_set():
                table = DeltaTable(self.path)
                version = table.version()
                found = QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()
                self.seen["deltalake", version] = rows(pa.table(found))
                self.seen["polars", version] = rows(polars.scan_delta(self.path, version=version).collect().to_arrow())
        except BaseException as problem:
            self.problems.append(problem)


@pytest.mark.spark
def test_every_version_under_traffic(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "LIMITS", Limits(files=2, few=5))
    monkeypatch.setattr(upkeep, "LOOK", 0.2)
    first, journal = first_rows(3), tmp_path / "journal"
    keys = RunKeys(poll=0.02, max_age=0.0)
    with open_databases(SOURCES, first, tmp_path) as databases, Warehouse(tmp_path / "w", spark, run=keys) as warehouse:
        for name, database in databases.items():
            warehouse.source(name, database.kind, **database.options)
        warehouse.view(VIEW).run(until_caught_up=True)
        store = warehouse.store("lines")
        onlookers = Onlookers(store.place.uri)
        thread = threading.Thread(target=onlookers.look)
        thread.start()
        try:
            with writers(databases, journal, seed=3, rate=20):
                warehouse.start()
                wait_for_versions(store)
                warehouse.stop()
            warehouse.run(until_caught_up=True)
        finally:
            onlookers.ending.set()
            thread.join()
        assert onlookers.problems == []
        opened = {name: spec.open() for name, spec in warehouse.sources.items()}
        found = Recorded(store, opened, first, read_journal(journal), merging=list(SOURCES)).check()
        for source in opened.values():
            source.close()
        assert found.wrong == []
        assert found.transactions > 0
        assert_all_saw_the_view(store, onlookers)
        assert any(record.kind == REWRITE for record in store.history())


def wait_for_versions(store: ViewStore) -> None:
    waited = threading.Event()
    for _ in range(int(PATIENCE / 0.1)):
        if store.log.latest() >= ENOUGH:
            return
        waited.wait(0.1)
    raise AssertionError(f"only {store.log.latest()} versions within {PATIENCE} s")


def assert_all_saw_the_view(store: ViewStore, onlookers: Onlookers) -> None:
    states = {record.version: rows(store.read_arrow(AsOf(version=record.version))) for record in store.history()}
    assert len(onlookers.seen) > 4
    for (client, version), found in onlookers.seen.items():
        assert found == states[version], f"{client} at version {version}"
    feed = pa.table(DeltaTable(store.place.uri).load_cdf(starting_version=0).read_all())
    kinds, numbers = (feed.column(name).to_pylist() for name in ("_change_type", "_commit_version"))
    columns = [feed.column(name).to_pylist() for name in store.schema.names]
    changes: dict[int, Rows] = {version: Counter() for version in states}
    for row, kind, version in zip(zip(*columns, strict=True), kinds, numbers, strict=True):
        changes[version][row] += 1 if kind == "insert" else -1
    shown: Rows = Counter()
    for version, state in states.items():
        shown.update(changes[version])
        shown = Counter({row: count for row, count in shown.items() if count})
        assert shown == state, f"the feed at version {version}"
