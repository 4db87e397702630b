"""Care for the tables: compaction changes no row, orphans go, old states go when that is wanted and only then."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from weir import Warehouse, points
from weir.operation import upkeep as care
from weir.operation.upkeep import Care
from weir.project.folder import RunKeys
from weir.proving.soak.databases import open_databases
from weir.proving.soak.replay import SELECT
from weir.proving.soak.traffic import SoakWriter, first_rows
from weir.warehouse.care import Limits
from weir.warehouse.record import APPEND, REWRITE, AsOf
from weir.warehouse.retention import GRACE
from weir.warehouse.store import ViewStore

pytestmark = pytest.mark.spark
VIEW = f"CREATE MATERIALIZED VIEW lines WITH (consistency = 'complete', strategy = 'pvm-cc') AS {SELECT}"
PATIENCE = 60.0  # seconds until who waits for the other side gives up


@dataclass
class Kept:
    """A warehouse with a view over three SQLite files, and who writes to one of them."""

    warehouse: Warehouse
    write: Callable[[], None]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Kept]:
    """Loaded, with a few commits in its log."""
    folder = tmp_path_factory.mktemp("care")
    kinds = dict.fromkeys(("crm", "sales", "shop"), "sqlite")
    with open_databases(kinds, first_rows(1), folder) as databases, Warehouse(folder / "warehouse", spark) as made:
        for name, database in databases.items():
            made.source(name, database.kind, **database.options)
        made.view(VIEW).run(until_caught_up=True)
        writer = SoakWriter("shop", databases["shop"].login, 1, iter(range(10_000, 20_000)))

        def write() -> None:
            for _ in range(5):
                writer.transaction()

        for _ in range(3):
            write()
            made.run(until_caught_up=True)
        yield Kept(made, write)
        writer.close()


@pytest.fixture
def warehouse(kept: Kept) -> Warehouse:
    return kept.warehouse


def looked_after(warehouse: Warehouse, keys: RunKeys, grace: timedelta = GRACE) -> Care:
    assert warehouse.engine is not None
    made = Care(warehouse.spark, warehouse.engine.units, keys, grace)
    made.look()
    return made


def rows(store: ViewStore, as_of: AsOf) -> list[tuple[object, ...]]:
    table: pa.Table = store.read_arrow(as_of)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def gone_share(store: ViewStore) -> float:
    """Rows that are gone, per row in the files."""
    state = store.log.state()
    return 1 - state.live / state.rows


def test_a_few_rows_that_are_gone_are_left_alone(warehouse: Warehouse) -> None:
    """However small the view is beside them."""
    limit = 0.0001
    assert gone_share(warehouse.store("lines")) > limit
    assert looked_after(warehouse, RunKeys(compact_after=limit)).compactions == 0


def test_files_of_which_rows_are_gone_are_written_again(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every state reads as before, and there is nothing left to do."""
    monkeypatch.setattr(care, "LIMITS", Limits(few=0, files=1))
    store = warehouse.store("lines")
    before = {arrival: rows(store, AsOf(arrival=arrival)) for arrival in range(1, store.head.last_arrival + 1)}
    assert len(before) > 5
    assert before[1] != before[store.head.last_arrival]
    compacted = 0
    while (caring := looked_after(warehouse, RunKeys(compact_after=0.0001))).compactions:
        compacted += caring.compactions
    assert (compacted > 0, store.head.kind, gone_share(store)) == (True, "rewrite", 0.0)
    assert {arrival: rows(store, AsOf(arrival=arrival)) for arrival in before} == before
    assert warehouse.verify("lines").clean


def test_only_old_orphans_go(warehouse: Warehouse) -> None:
    """A file that nobody names may be one that is being written."""
    store = warehouse.store("lines")
    store.clean_orphans(timedelta(0))
    named = set(store.place.listing())
    store.stage(store.read_arrow().slice(0, 1), store.head.last_arrival + 1)
    with_orphan = set(store.place.listing())
    assert len(with_orphan - named) == 1
    looked_after(warehouse, RunKeys())
    assert set(store.place.listing()) == with_orphan
    looked_after(warehouse, RunKeys(), timedelta(0))
    assert set(store.place.listing()) == named
    assert store.clean_orphans(timedelta(0)) == []


def test_old_states_are_forgotten_when_asked_for(warehouse: Warehouse) -> None:
    """Everything is kept by default; with a limit the newest state older than it is the oldest one kept."""
    store = warehouse.store("lines")
    versions = store.log.versions()
    assert len(versions) > 1
    looked_after(warehouse, RunKeys())
    looked_after(warehouse, RunKeys(keep_days=1))
    assert store.log.versions() == versions
    newest = rows(store, AsOf())
    looked_after(warehouse, RunKeys(keep_days=1e-9))
    assert store.log.versions() == versions[-1:]
    assert rows(store, AsOf()) == newest


@dataclass
class Meeting:
    """Has a compaction begin before a round commits, and end only when the run wants to end."""

    ending: threading.Event
    compacting: threading.Event = field(default_factory=threading.Event)
    committed: threading.Event = field(default_factory=threading.Event)
    met: list[bool] = field(default_factory=list)  # whether whom one waited for has come

    def watch(self, point: str) -> None:
        if point == points.COMPACTING and not self.compacting.is_set():
            self.compacting.set()
            self.met += [self.committed.wait(PATIENCE), self.ending.wait(PATIENCE)]
        elif point == points.BEFORE_COMMIT:
            self.met.append(self.compacting.wait(PATIENCE))
        elif point == points.AFTER_COMMIT:
            self.committed.set()


def test_a_compaction_lets_the_rounds_pass_and_the_run_waits_for_it(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends come on top while it works, its own commit comes on top of these, and no state reads otherwise."""
    warehouse, store = kept.warehouse, kept.warehouse.store("lines")
    for _ in range(3):  # files of about one size
        kept.write()
        warehouse.run(until_caught_up=True)
    before = {at: rows(store, AsOf(arrival=at)) for at in range(store.head.last_arrival - 3, store.head.last_arrival)}
    version = store.head.version
    assert warehouse._care is not None
    meeting = Meeting(warehouse._care._ending)
    monkeypatch.setattr(care, "LIMITS", Limits(files=1))
    monkeypatch.setattr(care, "REST", 0.0)
    monkeypatch.setattr(care, "LOOK", 0.001)
    monkeypatch.setattr(points, "_watchers", [meeting.watch])
    kept.write()
    warehouse.run(until_caught_up=True)
    assert len(meeting.met) >= 3
    assert all(meeting.met)
    kinds = [record.kind for record in store.history() if record.version > version]
    assert APPEND in kinds
    assert kinds[-1] == REWRITE  # the run has not ended before it
    assert {at: rows(store, AsOf(arrival=at)) for at in before} == before
    assert warehouse.verify("lines").clean


def test_trouble_there_is_no_trouble_of_the_run(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, once, since it is put off; and the round that is under way meanwhile commits."""
    failed = threading.Event()

    def fail(self: Care, store: ViewStore) -> bool:
        failed.set()
        raise RuntimeError("no room")

    def wait_for_failure(point: str) -> None:
        if point == points.BEFORE_COMMIT:
            assert failed.wait(PATIENCE)

    monkeypatch.setattr(care, "LOOK", 0.001)
    monkeypatch.setattr(Care, "_compact", fail)
    monkeypatch.setattr(points, "_watchers", [wait_for_failure])
    store = kept.warehouse.store("lines")
    transaction = store.head.transaction
    kept.write()
    with caplog.at_level(logging.WARNING, "weir"):
        kept.warehouse.run(until_caught_up=True)
    assert [record.getMessage() for record in caplog.records if record.name == "weir"] == [
        "a table's compaction or cleaning is put off: RuntimeError: no room"
    ]
    assert store.head.transaction > transaction
    assert kept.warehouse.verify("lines").clean
