"""ECA-Key: no compensation where the view carries the key of every table.

Paper: Zhuge et al., "View Maintenance in a Warehousing Environment", section 5.4.

With all keys in the view it holds no duplicates, so:
- a delete is done here, without a question: remove every tuple that carries the deleted key (key-delete);
- an insert asks V<U> without compensation; what an answer sees too much of are tuples that another insert's answer
  brings as well, and a duplicate is not added;
- what an answer sees too little of would have been deleted anyway. COLLECT, a working copy of the view, takes all this
  in the order of arrival and replaces the view when UQS is empty. Here COLLECT is the list of actions since the last
  commit.

A gap in the paper, found by exploration (scenarios/eca_key_insert_then_delete.toml): its proof says that a query
evaluated after a delete cannot bring back the deleted key. It can, when the delete is of the very tuple the query is
bound to: insert t, ask V<t>, delete t, and the answer holds t. So every open query remembers the keys that were
deleted, while it ran, from the tables it is bound to, and its answer loses them first. A tuple inserted again under
such a key is brought by its own insert's answer. (Strobe remembers deletes from all tables, which it needs over
several sources and one source does not.)

Needs: one source, keys. Promised level: strong. Not complete, as ECA.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from weir.algebra.catalog import Relation
from weir.algebra.query import evaluate_locally, local_part, remote_part, sub_updates, substitute
from weir.algorithms.base import KEYS, ONE_SOURCE, SINGLE_SOURCE, Algorithm, Facts
from weir.algorithms.keys import key_deletes, without
from weir.algorithms.procedure import pose
from weir.messages import Action, AddMissing, DeleteKeys, Effect, Update


class EcaKey(Algorithm):
    """Delete by key at once, add what is missing when it is answered."""

    facts = Facts(
        5, "eca-key", "ECA 5.4", {SINGLE_SOURCE: "strong"}, "2 per insert, 0 per delete", (ONE_SOURCE, KEYS)
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.unanswered: dict[Hashable, frozenset[Relation]] = {}  # UQS: open query -> the tables it is bound to
        self.pending: dict[Hashable, tuple[DeleteKeys, ...]] = {}  # open query -> keys to take out of its answer
        self.collected: list[Action] = []  # COLLECT, as what leads there from the view

    def on_update(self, update: Update) -> Iterator[Effect]:
        self._delete(update)
        inserted = {change.relation: change.inserted for change in update.changes if change.inserted is not None}
        parts = sub_updates(self.view, inserted.items())
        query = tuple(term for part in parts for term in substitute(self.definition, part))
        local, remote = local_part(query), remote_part(query)
        if local:
            self.collected.append(AddMissing(evaluate_locally(local)))
        if remote:
            self.unanswered[self.arrival], self.pending[self.arrival] = frozenset(inserted), ()
            yield from self.start(self.arrival, pose, remote)
        yield from self._show_when_all_is_answered()

    def _delete(self, update: Update) -> None:
        self.collected += key_deletes(self.view, update.changes)
        for query, bound in self.unanswered.items():
            own = key_deletes(self.view, (change for change in update.changes if change.relation in bound))
            self.pending[query] = (*self.pending[query], *own)

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        (answer,) = result
        del self.unanswered[key]
        self.collected.append(AddMissing(without(answer, self.pending.pop(key))))
        yield from self._show_when_all_is_answered()

    def _show_when_all_is_answered(self) -> Iterator[Effect]:
        if not self.unanswered:
            yield self.commit(*self.collected)
            self.collected = []
