"""The storage engine: block reads counted by hand, and the simulator's answers."""

from __future__ import annotations

import pytest

from weir.algebra.memory import MemoryBag
from weir.algebra.query import sub_updates, substitute, whole
from weir.algebra.types import Row, Schema
from weir.bench.papers.eca.data import R1, R2, R3, example_6
from weir.bench.papers.eca.meter import view_tuples
from weir.bench.papers.eca.storage import BlockReads, SignedTerm, Storage
from weir.simulator.source import evaluate_at

PAIR = Schema.parse("a int, b int")


def stored(*relations: list[Row], block_size: int = 2) -> Storage:
    return Storage.of([MemoryBag.of(PAIR, rows) for rows in relations], block_size)


SMALL = (
    [(1, 10), (2, 10), (3, 20)],  # by X: blocks (1, 10) (2, 10) | (3, 20)
    [(10, 5), (20, 5), (20, 6)],  # by X: blocks (10, 5) (20, 5) | (20, 6)
    [(5, 7), (5, 8), (6, 9)],  # by Y: blocks (5, 7) (5, 8) | (6, 9)
)


def one(row: Row, slot: int, weight: int = 1) -> SignedTerm:
    return SignedTerm([[(row, weight)] if at == slot else None for at in range(3)])


def test_a_clustering_index_reads_the_blocks_its_rows_lie_in() -> None:
    """X = 20 lies in two blocks of r2 (2 reads), then Y = 5 and Y = 6 are probed in r3 (1 read each)."""
    joined, reads = stored(*SMALL).with_indexes(one((4, 20), 0))
    assert reads == BlockReads(4)
    assert sorted(joined) == [
        ((4, 20), (20, 5), (5, 7)),
        ((4, 20), (20, 5), (5, 8)),
        ((4, 20), (20, 6), (6, 9)),
    ]


def test_an_index_that_does_not_cluster_reads_a_block_per_row() -> None:
    """Y = 5 has two rows in one block of r2 (2 reads all the same), and each probes r1 (1 read each)."""
    joined, reads = stored(*SMALL).with_indexes(one((5, 1), 2))
    assert reads == BlockReads(4)
    assert len(joined) == 3


def test_a_row_in_the_middle_probes_each_side_once() -> None:
    """(10, 5) in r2: one block of r1 and one of r3, whatever the number of rows that match."""
    joined, reads = stored(*SMALL).with_indexes(one((10, 5), 1))
    assert reads == BlockReads(2)
    assert len(joined) == 4


def test_recomputing_with_ample_memory_reads_every_block_once() -> None:
    """Two blocks each."""
    joined, reads = stored(*SMALL).with_indexes(SignedTerm([None, None, None]))
    assert reads == BlockReads(6)
    assert len(joined) == 2 * 2 + 2 + 1


def test_nested_loops_read_the_inner_relation_once_per_filling_of_the_outer_blocks() -> None:
    """Three relations of 2 blocks: 8 inner reads, 2 + 4 outer loads. Two of them: the outer fits in two blocks."""
    storage = stored(*SMALL)
    joined, reads = storage.without_indexes(SignedTerm([None, None, None]))
    assert reads == BlockReads(inner=8, outer=6)
    assert len(joined) == 7
    assert storage.without_indexes(one((4, 20), 0))[1] == BlockReads(inner=2, outer=2)
    both = SignedTerm([[((4, 20), 1)], None, [((6, 1), 1)]])
    assert storage.without_indexes(both) == ([((4, 20), (20, 6), (6, 1))], BlockReads(inner=2))


def test_a_deleted_row_makes_what_it_joins_with_deleted() -> None:
    """The weight is the product of the signs, the term's own among them."""
    assert one((4, 20), 0, weight=-1).weight(((4, 20), (20, 5), (5, 7))) == -1
    twice = SignedTerm([[((4, 20), -1)], None, [((5, 7), -1)]], sign=-1)
    assert twice.weight(((4, 20), (20, 5), (5, 7))) == -1


@pytest.mark.parametrize("position", [0, 1, 2, 3, 7, 9])
def test_storage_and_simulator_answer_alike(position: int) -> None:
    """Every V<U> and every V<U, U'> of the first nine updates, in several states, with and without indexes."""
    scenario = example_6(20, updates=9)
    tables = scenario.sources["s"].states[position]
    storage = Storage.of([tables[r] for r in (R1, R2, R3)], 20)
    parts = [sub_updates(scenario.view, update.deltas)[0] for update in scenario.updates]
    query = [term for u in parts for term in substitute(whole(scenario.view), u)]
    query += [term for u in parts for v in parts for term in substitute(substitute(whole(scenario.view), u), v)]
    assert len(query) == 9 + 54
    for bound in query:
        value, _ = evaluate_at(tables, (bound,))
        term = SignedTerm([None if bag is None else list(bag.items()) for bag in bound.bindings], bound.sign)
        for joined, _ in (storage.with_indexes(term), storage.without_indexes(term)):
            assert view_tuples(term, joined, value) == value
