"""Strobe: strong consistency over many sources for views that carry all keys.

Paper: Zhuge, Garcia-Molina and Wiener, "The Strobe Algorithms for Multi-Source Warehouse Consistency", section 5.2,
algorithm 1.

Over several sources a query runs hop by hop, and a delete may land between two hops: one source's answer still holds a
row that is gone when the next one answers. ECA-Key misses that. Strobe keeps, per open query, the set ``pending`` of
all deletes that arrived while it ran, from whatever table, and takes those keys out of the answer. Inserts that an
answer has seen too early are duplicates of what their own query will bring, and are not added twice. Everything goes
to an action list (AL) in order of arrival, which is applied as one transaction when no query is open.

**The list at once.** A long list must not be gone through once for every answer or delete in it. What it comes to can
be said in one sentence: all its deletes take their keys out of the view, and a tuple of an answer is added unless a
delete of one of its keys *arrived after its query was asked*. (If it arrived before the answer, it is in ``pending``;
if later, it stands behind the answer in AL; and what came before the query does it no harm.) So deletes are kept in
their order; ``pending`` of a query is the rest of them from the place where it was asked; an answer keeps that place;
and when the list is applied, one join of places and keys finds the tuples that are left (``keys.outliving``). The
work is proportional to the deletes and the answers' tuples, whatever waits for what.

Strobe knows no transactions: it takes a transaction's changes one by one and may show the middle of it (a
modification, the delete and insert of one key, is handled at once).

Needs: keys. Promised level: strong for single updates, convergence for source-local transactions. Messages: O(n) per
insert, none per delete. It shows nothing while queries keep overlapping.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from weir.algebra.bag import Bag
from weir.algebra.query import evaluate_locally, local_part, remote_part, sub_updates, substitute
from weir.algorithms.base import KEYS, SINGLE_UPDATE, SOURCE_LOCAL, Algorithm, Facts
from weir.algorithms.keys import key_deletes, outliving, single_changes, together
from weir.algorithms.procedure import pose
from weir.messages import Action, AddMissing, DeleteKeys, Effect, Update


class Strobe(Algorithm):
    """Remember deletes per open query; apply the action list when none is open."""

    facts = Facts(8, "strobe", "Strobe 5.2", {SINGLE_UPDATE: "strong", SOURCE_LOCAL: "convergence"}, "O(n)", (KEYS,))

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.deletes: list[DeleteKeys] = []  # of the action list (AL), in order of arrival
        self.answers: list[tuple[int, Bag]] = []  # of AL, each with the number of deletes before its query
        self.pending: dict[Hashable, int] = {}  # open query (UQS) -> the number of deletes before it
        self.queries = 0

    def on_update(self, update: Update) -> Iterator[Effect]:
        for single in single_changes(self.view, update):
            yield from self._process(single)

    def _process(self, update: Update) -> Iterator[Effect]:
        self.deletes += key_deletes(self.view, update.changes)
        inserted = [(change.relation, change.inserted) for change in update.changes if change.inserted is not None]
        query = tuple(term for part in sub_updates(self.view, inserted) for term in substitute(self.definition, part))
        if local := local_part(query):
            self.answers.append((len(self.deletes), evaluate_locally(local)))
        if remote := remote_part(query):
            self.queries += 1
            self.pending[self.queries] = len(self.deletes)
            yield from self.start(self.queries, pose, remote)
        yield from self._apply_when_none_is_open()

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        (answer,) = result
        self.answers.append((self.pending.pop(key), answer))
        yield from self._apply_when_none_is_open()

    def _may_apply(self) -> bool:
        return not self.pending

    def _apply_when_none_is_open(self) -> Iterator[Effect]:
        if self._may_apply():
            yield self.commit(*self._actions())
            self.deletes, self.answers = [], []

    def _actions(self) -> Iterator[Action]:
        """What the action list comes to."""
        yield from together(self.deletes)
        if self.answers:
            yield AddMissing(outliving(self.answers, enumerate(self.deletes, start=1)))
