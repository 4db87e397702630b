"""ECA-Local: updates that need no question are handled at the warehouse, in their turn.

Paper: Zhuge et al., "View Maintenance in a Warehousing Environment", section 5.5, which names the difficulty (the
order among local and other updates, and the splitting of answers) and leaves the algorithm open. This is our version,
on top of LCA's labelled terms.

An update is **local** when the view, the update and what is declared suffice:
- it is irrelevant: every changed row fails the selection on its own columns (the driver drops such rows,
  ``facts.prefilter``, and the update arrives empty);
- the view has one table: every term is bound;
- it only deletes, and the view carries the key of every slot of that table: a key-delete on the view, in its turn;
- a foreign key shows that it has no partner: an insert of a parent that no child can refer to yet, or a delete of a
  parent that no child may refer to any more, by a transaction that leaves the children alone.

What a local update does to queries that are open:
- an irrelevant one nothing;
- a key-delete: open answers will lack tuples that carry the deleted key, and only those. No compensation is sent.
  Instead the damaged updates are shown together with the delete, which would have removed those tuples anyway. This
  costs completeness and saves the message;
- a parent by foreign key: its substitution into an open term is empty unless the child's slot is bound there (the
  bound child may have referred to an earlier parent of the same key), so only those terms are compensated.

Needs: one source. Promised level: strong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weir.algebra.catalog import Relation
from weir.algebra.query import BoundTerm, Query, negate, sub_updates, substitute
from weir.algebra.view import Term
from weir.algorithms.base import ONE_SOURCE, SINGLE_SOURCE, Facts
from weir.algorithms.keys import key_deletes
from weir.algorithms.lca import Label, Labelled, Lca
from weir.messages import Effect, Update


class EcaLocal(Lca):
    """LCA that asks nothing for local updates."""

    facts = Facts(
        6, "eca-local", "ECA 5.5", {SINGLE_SOURCE: "strong"}, "0 for local updates", (ONE_SOURCE,), prefilter=True
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.shown_with: dict[Label, Label] = {}  # a damaged update -> the key-delete that mends it

    def on_update(self, update: Update) -> Iterator[Effect]:
        if self._is_key_delete(update):
            self._admit()
            self.effects[self.arrival] = tuple(key_deletes(self.view, update.changes))
            self._tie_damaged_updates({change.relation for change in update.changes})
            yield from self._show_in_order()
        elif self._has_no_partner(update):
            self._admit()
            yield from self._ask(self._child_compensation(update))
            yield from self._show_in_order()
        else:
            yield from super().on_update(update)

    # -- deletes by key -----------------------------------------------------------------------------------------------

    def _is_key_delete(self, update: Update) -> bool:
        if len(self.view.terms) > 1 or not update.changes:
            return False
        term = self.view.terms[0]
        return all(
            change.inserted is None
            and all(term.carried_keys[at] is not None for at in term.occurrences(change.relation))
            for change in update.changes
        )

    def _tie_damaged_updates(self, relations: set[Relation]) -> None:
        for labelled in self.unanswered.values():
            for label, query in labelled:
                if any(term.term.slots[at].relation in relations for term in query for at in term.free):
                    self.shown_with[label] = self.arrival

    def _show_in_order(self) -> Iterator[Effect]:
        """As LCA, but damaged updates wait for the delete that mends them and are shown together with it."""
        while self.effects:
            group = self._first_group()
            if not all(self._is_known(label) for label in group):
                return
            actions = [action for label in group for action in self.effects.pop(label)]
            vectors = [self.vectors.pop(label) for label in group]
            for label in group:
                self.shown_with.pop(label, None)
            yield self.commit(*actions, positions=vectors[-1])

    def _first_group(self) -> list[Label]:
        """The shortest run of updates from the first one not yet shown that no tie leads out of."""
        order = list(self.effects)
        group, end = [], order[0]
        for label in order:
            if label > end:
                break
            group.append(label)
            end = max(end, self.shown_with.get(label, label))
        return group

    # -- parents by foreign key ---------------------------------------------------------------------------------------

    def _has_no_partner(self, update: Update) -> bool:
        changed = {change.relation for change in update.changes}
        return bool(changed) and all(
            (change.inserted is None) != (change.deleted is None)
            and all(self._guarding_children(term, change.relation, changed) for term in self.view.terms)
            for change in update.changes
        )

    def _guarding_children(self, term: Term, parent: Relation, changed: set[Relation]) -> bool:
        """Whether every slot of ``parent`` is tied by a declared foreign key to a child that the transaction left
        alone.
        """
        return all(
            any(child.relation not in changed and _refers(term, at, c) for c, child in enumerate(term.slots))
            for at in term.occurrences(parent)
        )

    def _child_compensation(self, update: Update) -> Labelled:
        """Open terms in which a child of the parent is bound see the parent; take that out of them."""
        still_open = [item for labelled in self.unanswered.values() for item in labelled]
        queries: dict[Label, Query] = {}
        for part in sub_updates(self.view, update.deltas):
            seen = [(label, substitute(_child_bound(query, part.slot), part)) for label, query in still_open]
            seen += [(label, substitute(query, part)) for label, query in queries.items()]
            for label, extra in seen:
                queries[label] = queries.get(label, ()) + negate(extra)
        return tuple(queries.items())


def _child_bound(query: Query, parent: int) -> Query:
    def has_bound_child(bound: BoundTerm) -> bool:
        slots = enumerate(bound.bindings)
        return any(bag is not None and _refers(bound.term, parent, at) for at, bag in slots)

    return tuple(term for term in query if has_bound_child(term))


def _refers(term: Term, parent: int, child: int) -> bool:
    """Whether the join ties the slots by a declared foreign key from child to the parent's key."""
    above, below = term.slots[parent], term.slots[child]
    if above.relation.source != below.relation.source or parent == child:
        return False
    ties = {frozenset((equality.left, equality.right)) for equality in term.equalities}
    return any(
        foreign.table == above.relation.table
        and set(foreign.references) == set(above.key)
        and all(
            frozenset((below.qualify(mine), above.qualify(theirs))) in ties
            for mine, theirs in zip(foreign.columns, foreign.references, strict=True)
        )
        for foreign in below.foreign_keys
    )
