"""Blocks of delivered transactions, batches packed from them, and what a task makes of its slice of a batch.

No Spark and no database here: tables are Arrow bags, and the oracle is the view evaluated in memory.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from itertools import pairwise

import pyarrow as pa
import pytest

from tests.algorithms.shapes import SCHEMA, VIEWS, scenario
from weir.algebra.bag import WEIGHT
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup, answer
from weir.algebra.memory import MemoryBag
from weir.algebra.view import needed_schemas
from weir.algorithms.sweeping import ARRIVAL, width
from weir.consistency.replay import apply_update, view_at
from weir.messages import Change, GlobalTransaction, Update
from weir.rounds.delivery import Block, Delivered, merged, pack
from weir.simulator.scenario import Scenario
from weir.sources.source import TRANSACTION, Transaction, Visit
from weir.spark.arrow_bag import ArrowBag
from weir.sweeping.packed import NUMBER, PackedUpdates
from weir.sweeping.slices import swept

CHAIN = "a chain over three sources"


def _block(world: Scenario, source: str) -> Block:
    """All of a source's transactions, as one visit would bring them."""
    updates = [update for update in world.updates if update.source == source]
    return Block(source, _visit(updates), needed_schemas([world.view]))


def _visit(updates: list[Update]) -> Visit:
    changes: dict[Relation, list[pa.Table]] = {}
    for number, update in enumerate(updates):
        for relation, delta in update.deltas:
            rows = [(row, weight) for row, weight in delta.items()]
            changes.setdefault(relation, []).append(_rows(rows, number))
    transactions = tuple(Transaction(f"t{number}", update.part_of) for number, update in enumerate(updates))
    tables = {relation: pa.concat_tables(parts) for relation, parts in changes.items()}
    return Visit(transactions, tables, "the end")


def _rows(rows: list[tuple[tuple[int, ...], int]], number: int) -> pa.Table:
    shape = pa.schema([("L", pa.int32()), ("R", pa.int32()), (WEIGHT, pa.int64()), (TRANSACTION, pa.int64())])
    return pa.Table.from_pylist(
        [{"L": row[0], "R": row[1], WEIGHT: weight, TRANSACTION: number} for row, weight in rows], shape
    )


def _delivered(world: Scenario) -> list[tuple[int, Delivered]]:
    """All transactions with their arrival numbers, in the order of the script."""
    waiting = {source: iter(_block(world, source).updates(world.view.relations)) for source in world.sources}
    concerned = [update for update in world.updates if any(r in world.view.relations for r, _ in update.deltas)]
    return [(arrival, next(waiting[update.source])) for arrival, update in enumerate(concerned, start=1)]


def _values(world: Scenario) -> list[MemoryBag]:
    """The view before and after every transaction."""
    tables = [{relation: world.rows[relation] for relation in world.view.relations}]
    for update in world.updates:
        tables.append(dict(apply_update(tables[-1], update)))
    return [view_at(world.view, state) for state in tables]


class Snapshot:
    """The tables after everything has happened, and how they were asked."""

    def __init__(self, world: Scenario) -> None:
        tables: Mapping[Relation, MemoryBag] = world.rows
        for update in world.updates:
            tables = apply_update(tables, update)
        self.tables = {relation: ArrowBag.from_memory(bag) for relation, bag in tables.items()}
        self.lookups: list[Lookup] = []

    def look(self, lookup: Lookup) -> pa.Table:
        self.lookups.append(lookup)
        found = answer(lookup, self.tables[lookup.relation])
        assert isinstance(found, ArrowBag)
        return found.table


def _by_arrival(world: Scenario, bags: list[ArrowBag]) -> dict[int, MemoryBag]:
    columns = world.view.columns
    changes: dict[int, MemoryBag] = {}
    for row, weight in reduce(ArrowBag.__add__, bags).items() if bags else ():
        arrival, values = row[-1] // width(world.view), row[:-1]
        delta = MemoryBag.weighted(MemoryBag.of(bags[0].schema.only(columns)).schema, [(values, weight)])
        changes[arrival] = changes[arrival] + delta if arrival in changes else delta
    return {arrival: change for arrival, change in changes.items() if len(change)}


@pytest.mark.parametrize("shape", VIEWS)
@pytest.mark.parametrize(("most_rows", "most_pairs"), [(1, 1000), (2, 1000), (1000, 3), (1000, 1000)])
def test_every_transaction_gets_its_own_exact_change(shape: str, most_rows: int, most_pairs: int) -> None:
    """Swept together or piece by piece, in one slice or in three: each arrival's change is the difference of the view
    before and after it.
    """
    for seed in range(4):
        world = scenario(shape, seed, updates=6)
        updates = _delivered(world)
        values = _values(world)
        expected = {n: after - before for n, (before, after) in enumerate(pairwise(values), 1)}
        expected = {arrival: change for arrival, change in expected.items() if len(change)}
        everything = pack(updates)
        for count in (1, 3):
            slices = pickle.loads(pickle.dumps(everything.slices(count)))
            look = Snapshot(world).look
            bags = [bag for part in slices for bag in swept(world.view, part, everything, look, most_rows, most_pairs)]
            assert _by_arrival(world, bags) == expected, f"{shape}, seed {seed}, {count} slices"


def test_together_needs_fewer_lookups_than_apart() -> None:
    """A batch in which every table of a chain changes asks at most twice per table, not once per update and hop."""
    world = scenario(CHAIN, 1, updates=12)
    updates = pack(_delivered(world))
    together = Snapshot(world)
    list(swept(world.view, updates, updates, together.look))
    assert 0 < len(together.lookups) <= 4


def test_slices_add_up() -> None:
    """However many slices a batch is cut into, no row is lost or doubled."""
    packed = pack(_delivered(scenario("two tables at one source", 2, updates=9)))
    for count in (1, 2, 3, 100):
        slices = packed.slices(count)
        assert sum(part.rows for part in slices) == packed.rows
        assert len(slices) <= count
        for relation, (schema, table) in packed.tables.items():
            names = (*schema.names, NUMBER)
            parts = [part.changes(relation, schema.names, "tag", 1, 0) for part in slices]
            whole = packed.changes(relation, schema.names, "tag", 1, 0)
            assert reduce(ArrowBag.__add__, [part for part in parts if part is not None]) == whole
            assert set(names) <= set(table.column_names)


def test_equal_rows_are_in_one_slice() -> None:
    """A row that comes and goes again in a batch is swept by one task, which finds that nothing is left of it."""
    packed = pack(_delivered(scenario("two tables at one source", 2, updates=40)))
    for count in (2, 3):
        for relation, (schema, _) in packed.tables.items():
            homes: dict[object, set[int]] = {}
            for number, part in enumerate(packed.slices(count)):
                if relation not in part.tables:
                    continue
                for row in part.tables[relation][1].select(list(schema.names)).to_pylist():
                    homes.setdefault(tuple(row.values()), set()).add(number)
            assert len(homes) > 1
            assert all(len(numbers) == 1 for numbers in homes.values())
    assert len(packed.slices(2)) == 2


def test_many_changes_of_one_key_do_not_meet_each_other() -> None:
    """Every table's rows of one join key change again and again: a change meets what was there at its time, and not
    every later change of every table. So no join makes more pairs than a few per change.
    """
    world = _one_hot_key(changes=600)
    updates, snapshot = pack(_delivered(world)), Snapshot(world)
    found = list(swept(world.view, updates, updates, snapshot.look, most_pairs=10 * 600))
    assert len(snapshot.lookups) <= 4  # one sweep, never taken apart
    values = _values(world)
    expected = {n: after - before for n, (before, after) in enumerate(pairwise(values), 1)}
    assert _by_arrival(world, found) == {arrival: change for arrival, change in expected.items() if len(change)}


def test_a_result_that_is_truly_large_comes_in_parts() -> None:
    """One row that is replaced 60 times in a batch and has 100 partners: 12,000 rows, never many of them at once."""
    world = scenario(CHAIN, 0)
    first, between, last = (slot.relation for slot in world.view.terms[0].slots)
    partners = range(100)
    rows = {
        first: MemoryBag.of(SCHEMA, [(0, 1)]),
        between: MemoryBag.of(SCHEMA, [(1, n) for n in partners]),
        last: MemoryBag.of(SCHEMA, [(n, n) for n in partners]),
    }
    versions = [MemoryBag.of(SCHEMA, [(n, 1)]) for n in range(61)]
    updates = [Update(first.source, n, (Change(first, new, old),)) for n, (old, new) in enumerate(pairwise(versions))]
    world = replace(world, rows=rows, updates=tuple(updates))
    packed, snapshot = pack(_delivered(world)), Snapshot(world)
    sizes = [bag.rows.num_rows for bag in swept(world.view, packed, packed, snapshot.look, most_pairs=500)]
    assert sum(sizes) == 60 * 2 * 100
    assert max(sizes) <= 500


def _one_hot_key(changes: int) -> Scenario:
    """A chain of three tables with one row each, of the same join key. The outer rows are replaced again and again, in
    the column that is shown; the row between them comes and goes.
    """
    world = scenario(CHAIN, 0)
    first, between, last = (slot.relation for slot in world.view.terms[0].slots)
    one = MemoryBag.of(SCHEMA, [(1, 1)])
    shown = {first: one, between: one, last: one}
    rows, updates = dict(shown), []
    for number in range(changes):
        relation = (first, between, last)[number % 3]
        new = {first: [(number, 1)], last: [(1, number)], between: [] if number % 2 else [(1, 1)]}[relation]
        before, shown[relation] = shown[relation], MemoryBag.of(SCHEMA, new)
        updates.append(Update(relation.source, number, (Change(relation, shown[relation], before),)))
    return replace(world, rows=rows, updates=tuple(updates))


# -- blocks ------------------------------------------------------------------------------------------------------------


def _updates(*groups: int, part_of: GlobalTransaction | None = None) -> list[Update]:
    """One transaction per number; each inserts so many rows into a table of source x."""
    relation = Relation("x", "a")
    return [
        Update("x", at, (Change(relation, MemoryBag.of(SCHEMA, [(at, row) for row in range(count)])),), part_of=part_of)
        for at, count in enumerate(groups)
    ]


def _simple(*groups: int, part_of: GlobalTransaction | None = None) -> Block:
    view = scenario(CHAIN, 1).view
    return Block("x", _visit(_updates(*groups, part_of=part_of)), needed_schemas([view]))


def _size(update: Update) -> int:
    return sum(weight for _, weight in update.changes[0].delta.items())


def test_a_blocks_last_update_carries_its_position() -> None:
    """The others carry their own: a view that has taken the last one is where the visit ended."""
    updates = list(_simple(1, 2, 3).updates([Relation("x", "a")]))
    assert [update.position for update in updates] == ["t0", "t1", "the end"]
    assert [_size(update) for update in updates] == [1, 2, 3]


def test_updates_of_other_tables_are_left_out_unless_others_wait_for_them() -> None:
    """A transaction that touches none of a view's tables is nothing to it, a part of a global one is."""
    elsewhere = [Relation("x", "other")]
    assert list(_simple(1, 1).updates(elsewhere)) == []
    parts = list(_simple(1, part_of=GlobalTransaction("g", frozenset("xy"))).updates(elsewhere))
    assert [update.part_of and update.part_of.identifier for update in parts] == ["g"]


def test_a_block_without_some_transactions() -> None:
    """What is left is numbered anew and keeps its rows; the position stays the visit's."""
    left = _simple(1, 2, 3).without([1])
    updates = list(left.updates([Relation("x", "a")]))
    assert [transaction.identifier for transaction in left.transactions] == ["t0", "t2"]
    assert [_size(update) for update in updates] == [1, 3]
    assert updates[-1].position == "the end"


def test_a_block_without_any_transaction() -> None:
    """A view that has all of them already gets nothing, and the position."""
    left = _simple(1, 2).without([0, 1])
    assert (left.transactions, left.tables, left.position) == ((), {}, "the end")


def test_two_blocks_as_one() -> None:
    """The second's transactions come after the first's, each with its own rows."""
    both = _simple(1, 2).followed_by(_simple(3))
    updates = list(both.updates([Relation("x", "a")]))
    assert [_size(update) for update in updates] == [1, 2, 3]


def test_merged_updates_are_their_sum() -> None:
    """For batch ends only: what cancels inside the batch is gone."""
    relation = Relation("x", "a")
    inserted, deleted = _updates(2)[0], _updates(2)[0]
    gone = replace(deleted.changes[0], inserted=None, deleted=deleted.changes[0].inserted)
    block = Block("x", _visit([inserted, replace(deleted, changes=(gone,)), *_updates(1)]), _simple().schemas)
    found = merged(list(block.updates([relation])))
    assert found.position == "the end"
    assert [str(change) for change in found.changes] == ["+a(0, 0)"]


def test_only_what_was_delivered_can_be_packed() -> None:
    """An update that an algorithm has changed is a plain one, with bags of its own."""
    delivered = next(_simple(1).updates([Relation("x", "a")]))
    assert pack([(1, delivered)]).rows == 1
    changed = replace(delivered, changes=())
    assert type(changed) is Update
    with pytest.raises(AssertionError):
        pack([(1, changed)])
    assert pack([]) == PackedUpdates({})
    assert ARRIVAL not in delivered.changes[0].delta.schema.names
