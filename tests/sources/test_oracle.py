"""The oracle itself must be able to say no: each kind of wrong delivery is recognised."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.proving.oracle import Ledger, Replay
from weir.sources.source import TRANSACTION, WEIGHT, Transaction, Visit

ITEM, LEDGER = Relation("shop", "item"), Relation("shop", "ledger")
COLUMNS = {ITEM: ("id", "tx"), LEDGER: ("id", "growth")}
Signed = tuple[int, int, tuple[Any, ...]]  # (transaction, weight, row)


def table(columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    return pa.table({name: list(column) for name, column in zip(columns, values, strict=True)})


def visit(item: Iterable[Signed] = (), ledger: Iterable[Signed] = (), many: int = 1) -> Visit:
    changes = {
        relation: table((*COLUMNS[relation], WEIGHT, TRANSACTION), [(*row, w, t) for t, w, row in signed])
        for relation, signed in ((ITEM, list(item)), (LEDGER, list(ledger)))
        if signed
    }
    names = tuple(Transaction(str(number)) for number in range(many))
    return Visit(names, changes, "p")


def replay(one_each: bool = True, ledger: bool = False) -> Replay:
    return Replay(COLUMNS, Ledger(LEDGER, one_each) if ledger else None)


def keys(*values: int) -> MemoryBag:
    return MemoryBag.of(Schema.parse("id bigint"), [(value,) for value in values])


def test_replay_follows_transactions() -> None:
    """Inserted rows are there, deleted ones gone, duplicates counted."""
    it = replay()
    assert it.apply(visit([(0, 1, (1, 7)), (0, 1, (1, 7)), (1, -1, (1, 7)), (1, 1, (2, 8))], many=2)) == []
    assert it.tables[ITEM] == {(1, 7): 1, (2, 8): 1}


def test_missing_before_image_is_a_failure() -> None:
    """A delete of a row that is not there is wrong by itself, whatever the answers say."""
    assert "not there" in replay().apply(visit([(0, -1, (1, 7))]))[0]


def test_a_row_added_and_removed_in_one_transaction_is_nothing() -> None:
    """Within a transaction only the net counts, in whichever order its changes come."""
    it = replay()
    assert it.apply(visit([(0, -1, (1, 7)), (0, 1, (1, 7))])) == []
    assert it.tables[ITEM] == {}


def test_order_between_transactions_matters() -> None:
    """A later insert does not excuse an earlier delete."""
    assert replay().apply(visit([(0, -1, (1, 7)), (1, 1, (1, 7))], many=2))


@pytest.mark.parametrize(
    ("rows", "right"),
    [
        ([(1, 7), (2, 8)], True),
        ([(1, 7)], False),  # one is missing
        ([(1, 7), (2, 8), (2, 8)], False),  # one twice
        ([(1, 7), (2, 9)], False),  # an older state
    ],
)
def test_whole_table_answers(rows: list[tuple[int, int]], right: bool) -> None:
    """A whole-table answer is right exactly when it is the replayed bag."""
    it = replay()
    it.apply(visit([(0, 1, (1, 7)), (0, 1, (2, 8))]))
    problems = it.compare((table(("id", "tx"), rows),), [Lookup(ITEM, ("id", "tx"))])
    assert (problems == []) is right


def test_key_answers_are_restricted_and_projected() -> None:
    """An answer to keys holds those rows only, in the columns asked for, with duplicates."""
    it = replay()
    it.apply(visit([(0, 1, (1, 7)), (0, 1, (1, 8)), (0, 1, (2, 8))]))
    lookup = Lookup(ITEM, ("id",), ("id",), keys(1, 5))
    assert it.compare((table(("id",), [(1,), (1,)]),), [lookup]) == []
    assert it.compare((table(("id",), [(1,)]),), [lookup])
    assert it.compare((table(("id",), [(1,), (1,), (2,)]),), [lookup])


def test_inexact_lookups_may_answer_more_but_not_anything() -> None:
    """A source that compares loosely may add rows of the table, but no rows that are not there."""
    it = replay()
    it.apply(visit([(0, 1, (1, 7)), (0, 1, (2, 8))]))
    lookup = Lookup(ITEM, ("id", "tx"), ("id",), keys(1))
    more, invented = [(1, 7), (2, 8)], [(1, 7), (3, 8)]
    assert it.compare((table(("id", "tx"), more),), [lookup], exact=False) == []
    assert it.compare((table(("id", "tx"), invented),), [lookup], exact=False)
    assert it.compare((table(("id", "tx"), []),), [lookup], exact=False)


def test_a_missing_answer_is_wrong() -> None:
    """As many answers as lookups, or it is wrong."""
    assert replay().compare((), [Lookup(ITEM, ("id",))])


def test_ledger_accepts_whole_transactions() -> None:
    """One ledger row each, all rows carrying its id, growth as promised."""
    it = replay(ledger=True)
    changes = [(0, 1, (1, 100)), (1, -1, (1, 100)), (1, 1, (2, 101))]
    assert it.apply(visit(changes, [(0, 1, (100, 1)), (1, 1, (101, 0))], many=2)) == []


@pytest.mark.parametrize(
    ("item", "ledger", "many", "words"),
    [
        ([(0, 1, (1, 100)), (1, 1, (2, 100))], [(0, 1, (100, 2))], 2, "split"),  # cut in the middle
        ([(0, 1, (1, 100))], [(0, 1, (100, 1)), (0, 1, (101, 0))], 1, "holds 2"),  # merged
        ([(0, 1, (1, 100))], [], 1, "holds 0"),  # its ledger row is lost
        ([], [(0, 1, (100, 3))], 1, "more rows"),  # its changes are lost
        ([], [(0, 1, (100, 0)), (1, 1, (100, 0))], 2, "again"),  # delivered twice
    ],
)
def test_ledger_recognises(item: list[Signed], ledger: list[Signed], many: int, words: str) -> None:
    """A split, merged, lost or doubled transaction is named."""
    problems = replay(ledger=True).apply(visit(item, ledger, many=many))
    assert any(words in problem for problem in problems), problems


def test_ledger_allows_merged_neighbours_where_a_kind_cannot_tell() -> None:
    """With ``one_each`` off, two transactions may come as one; a split is still a failure."""
    merged = visit([(0, 1, (1, 100)), (0, 1, (2, 101))], [(0, 1, (100, 1)), (0, 1, (101, 1))])
    assert replay(one_each=False, ledger=True).apply(merged) == []
    split = visit([(0, 1, (1, 100)), (0, 1, (2, 101))], [(0, 1, (100, 2))])
    assert replay(one_each=False, ledger=True).apply(split)
