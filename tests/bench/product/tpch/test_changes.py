"""Batches: as many row changes as asked for, in the promised shares, from a seed; and they arrive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.product.tpch.worlds import open_world
from weir.bench.product.tpch.changes import ChangeBatch
from weir.bench.product.tpch.data import Data
from weir.bench.product.tpch.tables import LEAST_QUANTITY, TABLES


def shares(batch: ChangeBatch) -> dict[str, int]:
    """Row changes by what they belong to."""
    found = {"new": 0, "deleted": 0, "changed": 0}
    for change in batch.changes:
        found["new" if change.old is None else "deleted" if change.new is None else "changed"] += 1
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100, 2000])
def test_a_batch_has_exactly_so_many_changes(size: int, data: Data, tmp_path: Path) -> None:
    """Whatever the size, again and again."""
    with open_world("sqlite", data, tmp_path) as world:
        assert [len(world.change(size).changes) for _ in range(4)] == [size] * 4


def test_shares(data: Data, tmp_path: Path) -> None:
    """60 % new orders with lines, 20 % deleted ones, 20 % changed customers and parts, half of each."""
    with open_world("sqlite", data, tmp_path) as world:
        batch = world.change(1000)
        assert shares(batch) == {"new": 600, "deleted": 200, "changed": 200}
        assert len([c for c in batch.changes if c.table == "customer"]) == 100
        five = [world.change(1) for _ in range(5)]
        assert [shares(b) for b in five].count({"new": 1, "deleted": 0, "changed": 0}) == 3
        assert shares(ChangeBatch(tuple(t for b in five for t in b.transactions))) == {
            "new": 3,
            "deleted": 1,
            "changed": 1,
        }


def test_an_order_is_one_transaction(data: Data, tmp_path: Path) -> None:
    """It comes with its lines and goes with all of them; other changes stand alone; none spans two sources."""
    with open_world("sqlite", data, tmp_path) as world:
        lines = world.table("lineitem").group_by("l_orderkey").aggregate([("l_linenumber", "count")]).to_pylist()
        many = {row["l_orderkey"]: row["l_linenumber_count"] for row in lines}
        for transaction in world.workload.batch(500).transactions:
            assert len({TABLES[change.table].source for change in transaction}) == 1
            orders = [change for change in transaction if change.table == "orders"]
            assert len(orders) == (0 if len(transaction) == 1 else 1)
            for order in orders:
                if order.old is not None:
                    assert len(transaction) - 1 == many[order.old["o_orderkey"]]


def test_single_lines_are_shown(data: Data, tmp_path: Path) -> None:
    """The one change of a small batch can be seen in the view, so that its way there can be timed."""
    with open_world("sqlite", data, tmp_path) as world:
        changes = [change for _ in range(20) for change in world.change(1).changes if change.table == "lineitem"]
        assert len(changes) == 16
        assert all((c.new or c.old or {})["l_quantity"] > LEAST_QUANTITY for c in changes)


def test_a_seed_gives_the_same_batches(data: Data, tmp_path: Path) -> None:
    """At every run and at every kind of source; another seed gives others."""
    made = []
    for number, (kind, seed) in enumerate([("sqlite", 1), ("postgres", 1), ("sqlite", 2)]):
        with open_world(kind, data, tmp_path / str(number), seed) as world:
            made.append([world.change(size) for size in (1, 100, 1, 100)])
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_what_is_applied_is_there(kind: str, data: Data, tmp_path: Path) -> None:
    """After some batches the tables are what the changes make of the first rows."""
    with open_world(kind, data, tmp_path) as world:
        rows = {name: {_key(row, name): row for row in world.table(name).to_pylist()} for name in TABLES}
        for size in (1, 1, 100, 1, 1, 1000):
            for change in world.change(size).changes:
                if change.old is not None:
                    assert rows[change.table].pop(_key(change.old, change.table)) == change.old
                if change.new is not None:
                    rows[change.table][_key(change.new, change.table)] = change.new
        for name in TABLES:
            assert {_key(row, name): row for row in world.table(name).to_pylist()} == rows[name]


def _key(row: dict[str, object], table: str) -> tuple[object, ...]:
    return tuple(row[name] for name in TABLES[table].key)
