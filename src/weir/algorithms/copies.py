"""Store copies of all base tables at the warehouse (SC).

Paper: Zhuge et al., "View Maintenance in a Warehousing Environment", section 1.2.

With an up-to-date copy of every base table the warehouse needs no question at all: it brings the copies forward by one
transaction, evaluates that transaction's effect on them, and commits. This is what streaming databases do. The price is
the space: every needed column of every base table is stored once more.

Needs: space for the copies. Promised level: complete, from any number of sources, since every transaction is processed
alone and in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weir.algebra.bag import Bag
from weir.algebra.expression import column
from weir.algebra.hops import answer
from weir.algebra.query import BoundTerm, Query, evaluate_with, incremental, sub_updates
from weir.algebra.view import Slot, Term, View
from weir.algorithms.base import COPIES, SINGLE_SOURCE, SINGLE_UPDATE, SOURCE_LOCAL, Algorithm, Facts
from weir.algorithms.questions import never
from weir.messages import Add, Commit, Effect, Update


def _copy(view: View, slot: Slot) -> Query:
    needed = view.needed[slot.relation]
    whole_slot = Slot(slot.alias, slot.relation, needed, slot.key)
    output = tuple((name, column(whole_slot.qualify(name))) for name in needed.names)
    return (BoundTerm(0, Term((whole_slot,), (), (None,), (), output), (None,)),)


class Copies(Algorithm):
    """Answer every question from copies kept at the warehouse."""

    facts = Facts(
        3,
        "copies",
        "ECA 1.2",
        {SINGLE_SOURCE: "complete", SINGLE_UPDATE: "complete", SOURCE_LOCAL: "complete"},
        "0",
        questions=never,
        stores=COPIES,
        space="the needed columns of every base table",
    )

    def __init__(self, view: View, auxiliary: Mapping[str, Bag] | None = None, **options: Any) -> None:
        super().__init__(view, auxiliary, **options)
        self.copies: dict[str, Bag] = dict(auxiliary or {})

    @classmethod
    def auxiliary_for(cls, view: View, **options: Any) -> Mapping[str, Query]:
        """The needed columns of every base table, by table name."""
        slots = {slot.relation: slot for term in view.terms for slot in term.slots}
        return {str(relation): _copy(view, slot) for relation, slot in slots.items()}

    def on_update(self, update: Update) -> Iterator[Effect]:
        changed = {}
        for relation, delta in update.deltas:
            name = str(relation)
            changed[name] = delta.keep(self.copies[name].schema.names)
            self.copies[name] = self.copies[name] + changed[name]
        query = incremental(self.definition, sub_updates(self.view, update.deltas))
        actions = (Add(self._evaluate(query)),) if query else ()
        yield Commit(actions, dict(self.received), changed)

    def _evaluate(self, query: Query) -> Bag:
        return evaluate_with(query, lambda asked: answer(asked, self.copies[str(asked.relation)]))
