"""What other Delta tools do to a view's table: files may be rewritten and cleaned away; rows may not be changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.warehouse.batches import AB, ab, batch, rows_of
from weir.warehouse import vectors
from weir.warehouse.errors import Damaged
from weir.warehouse.feed import changes_of
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ViewStore:
    """Rows that are gone by vectors in files, a batch of two arrivals, and a debt."""
    monkeypatch.setattr(vectors, "TINY", 0)
    store = ViewStore.create(tmp_path / "view", AB)
    store.append(ab(*((number, "x", 1) for number in range(2000))), {"s": 1}, (1, 1), 1)
    store.append(ab(*((number, "x", -1) for number in range(5, 2000)), (9999, "owed", -1), arrival=2), {}, (2, 2), 2)
    store.append(batch(AB, [((1, "x"), -1, 3), ((7, "y"), 1, 3), ((8, "y"), 2, 4)]), {"s": 4}, (3, 4), 3)
    return store


ROWS = [(0, "x"), (2, "x"), (3, "x"), (4, "x"), (7, "y"), (8, "y"), (8, "y")]


def other_tool(store: ViewStore) -> DeltaTable:
    return DeltaTable(store.place.uri)


def vacuum(table: DeltaTable) -> None:
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def vacuum_all(table: DeltaTable) -> None:
    """Also files that no version has ever named: what only Weir needs must not be among them."""
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)


def optimize(table: DeltaTable) -> None:
    assert table.optimize.compact()["numFilesAdded"] == 1


def optimize_and_vacuum(table: DeltaTable) -> None:
    optimize(table)
    vacuum(table)


def order(table: DeltaTable) -> None:
    """Written by an engine whose texts have another type in memory."""
    table.optimize.z_order(["a"])


def describe(table: DeltaTable) -> None:
    table.alter.set_table_description("sales per city")


def set_property(table: DeltaTable) -> None:
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})


HARMLESS: list[Callable[[DeltaTable], None]] = [
    optimize, vacuum, vacuum_all, optimize_and_vacuum, order, describe, set_property,
]  # fmt: skip


@pytest.mark.parametrize("act", HARMLESS)
@pytest.mark.parametrize("reopened", [False, True])
def test_the_store_goes_on(store: ViewStore, act: Callable[[DeltaTable], None], reopened: bool) -> None:
    """Rows, positions, arrivals and debts are kept; rows are taken and brought, compacted and cleaned as ever."""
    before = store.head
    act(other_tool(store))
    again = ViewStore.open(store.place.uri) if reopened else store
    again.check()
    head = again.head
    assert (head.positions, head.last_arrival, head.transaction) == ({"s": 4}, 4, 3)
    assert (head.owed, head.live) == (before.owed, before.live)
    assert rows_of(again.read_arrow()) == ROWS
    again.append(ab((0, "x", -1), (8, "y", -1), (9999, "owed", 2), arrival=5), {"s": 5}, (5, 5), 4)
    assert rows_of(again.read_arrow()) == [(2, "x"), (3, "x"), (4, "x"), (7, "y"), (8, "y"), (9999, "owed")]
    assert rows_of(changes_of(again.log, again.head.version)) == [(0, "x", -1), (8, "y", -1), (9999, "owed", 1)]
    again.compact()
    again.clean_orphans(timedelta(0))
    assert rows_of(ViewStore.open(store.place.uri).read_arrow(AsOf(arrival=5)))[-1] == (9999, "owed")
    again.check()


def test_a_vacuum_leaves_what_only_weir_needs(store: ViewStore) -> None:
    """Vectors, steps, debts and the index; the states of before are gone with their files, the newest is whole."""
    ours = {name for name in store.place.listing() if name.startswith("_weir/")}
    assert {name.split("/")[1][:6] for name in ours} == {"deleti", "owed", "steps"}
    vacuum_all(other_tool(store))
    assert {name for name in store.place.listing() if name.startswith("_weir/")} == ours
    assert any(file.vector and file.vector.file for file in store.log.state().files.values())
    assert rows_of(ViewStore.open(store.place.uri).read_arrow()) == ROWS


def test_a_commit_of_another_tool_is_no_batch(store: ViewStore) -> None:
    """In the history it is a rewriting: no arrival came with it, and it has changed nothing."""
    optimize_and_vacuum(other_tool(store))
    kinds = [(record.version, record.kind, record.arrivals) for record in store.history()]
    assert kinds[3:] == [(3, "append", (3, 4)), *((version, "rewrite", None) for version in (4, 5, 6))]
    assert [store.read_steps(version).num_rows for version in (4, 5, 6)] == [0, 0, 0]


def test_states_before_an_optimization_stay(store: ViewStore) -> None:
    """As long as nobody has cleaned away their files: by version, by arrival, also inside a batch."""
    optimize(other_tool(store))
    store.append(ab((0, "x", -1), arrival=5), {"s": 5}, (5, 5), 4)
    states = {number: rows_of(store.read_arrow(AsOf(arrival=number))) for number in (2, 3, 4, 5)}
    assert states[2] == [(number, "x") for number in range(5)]
    assert states[3] == [(0, "x"), (2, "x"), (3, "x"), (4, "x"), (7, "y")]
    assert (states[4], states[5]) == (ROWS, ROWS[1:])
    assert rows_of(store.read_arrow(AsOf(version=4))) == ROWS


@pytest.mark.parametrize("version", [4, 5, 6])
def test_forgetting_up_to_a_commit_of_another_tool(store: ViewStore, version: int) -> None:
    """What is known of the view at that version stays, although its own commit does not say it."""
    optimize_and_vacuum(other_tool(store))
    store.forget(AsOf(version=version))
    again = ViewStore.open(store.place.uri)
    assert (again.positions(), again.head.last_arrival) == ({"s": 4}, 4)
    assert rows_of(again.read_arrow(AsOf(version=version))) == ROWS
    again.append(ab((0, "x", -1), (9999, "owed", 1), arrival=5), {"s": 5}, (5, 5), 4)
    again.clean_orphans(timedelta(0))
    assert rows_of(again.read_arrow()) == ROWS[1:]
    again.check()


@pytest.mark.parametrize("complete", [True, False])
def test_a_checkpoint_in_several_parts(store: ViewStore, complete: bool) -> None:
    """As some engines write it: all parts are read, and half of it is not taken for the whole."""
    other_tool(store).create_checkpoint()
    log = Path(store.place.uri, "_delta_log")
    whole = pq.read_table(log / f"{3:020}.checkpoint.parquet")
    (log / f"{3:020}.checkpoint.parquet").unlink()
    for part, rows in enumerate((whole.slice(0, 3), whole.slice(3)), start=1):
        pq.write_table(rows, log / f"{3:020}.checkpoint.{part:010}.{2:010}.parquet")
    (log / "_last_checkpoint").write_text('{"version": 3, "size": 5, "parts": 2}')
    lost = log / f"{3:020}.checkpoint.{2:010}.{2:010}.parquet" if not complete else log / f"{2:020}.json"
    lost.unlink()
    again = ViewStore.open(store.place.uri)
    again.check()
    assert rows_of(again.read_arrow()) == ROWS == rows_of(again.read_arrow(AsOf(version=3)))
    if not complete:
        again.forget(AsOf(version=3))
    assert rows_of(ViewStore.open(store.place.uri).read_arrow()) == ROWS


def delete(table: DeltaTable) -> None:
    table.delete("a = 8")


def restore(table: DeltaTable) -> None:
    table.restore(2)


def add_a_column(table: DeltaTable) -> None:
    from deltalake.schema import Field, PrimitiveType

    table.alter.add_columns([Field("c", PrimitiveType("integer"))])


REFUSED: dict[str, Callable[[DeltaTable], None]] = {"DELETE": delete, "RESTORE": restore, "ADD COLUMN": add_a_column}


@pytest.mark.parametrize("operation", REFUSED)
@pytest.mark.parametrize("followed", [False, True])
def test_rows_that_another_tool_has_changed(store: ViewStore, operation: str, followed: bool) -> None:
    """Whoever looks next is told which operation it was; nothing is written on top, and no file is left or deleted."""
    REFUSED[operation](other_tool(store))
    if followed:
        vacuum(other_tool(store))
    files = store.place.listing().keys()
    told = rf"version 4 of the table at '{store.place.uri}' was not written by Weir \(operation {operation}\)"
    for act in (
        lambda: store.head,
        lambda: store.append(ab((0, "x", -1), (5, "n", 1), arrival=5), {"s": 5}, (5, 5), 4),
        lambda: store.load(ab((5, "n", 1), arrival=5), {"s": 5}, (5, 5), 4),
        lambda: ViewStore.open(store.place.uri),
        store.compact,
        store.check,
        store.settle,
        lambda: store.clean_orphans(timedelta(0)),
    ):
        with pytest.raises(Damaged, match=told):
            act()
    assert store.place.listing().keys() == files
    if not followed:
        assert rows_of(store.read_arrow(AsOf(version=3))) == ROWS
