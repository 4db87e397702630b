"""Planted bugs in the algorithms for one source: recompute, copies, ECA and its kin, LCA."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.mutations.mutation import Case, Mutation
from weir.algebra.query import Query, SubUpdate, incremental, sub_updates
from weir.algorithms.copies import Copies
from weir.algorithms.eca import Eca
from weir.algorithms.eca_key import EcaKey
from weir.algorithms.eca_local import EcaLocal
from weir.algorithms.lca import Labelled, Lca
from weir.algorithms.recompute import Recompute
from weir.messages import Add, Commit, Effect, Update


class AddsInsteadOfReplacing(Recompute):
    def on_finished(self, key: Any, result: Any) -> Iterator[Effect]:
        yield self.commit(Add(result[0]))


class HasNoTimer(Recompute):
    """Never asks for what is left of fewer than ``every`` updates."""

    def on_idle(self) -> Iterator[Effect]:
        return iter(())


class CopiesLate(Copies):
    def on_update(self, update: Update) -> Iterator[Effect]:
        before = dict(self.copies)
        effects = list(super().on_update(update))
        after, self.copies = self.copies, before
        query = incremental(self.definition, sub_updates(self.view, update.deltas))
        value = self._evaluate(query)
        self.copies = after
        for effect in effects:
            assert isinstance(effect, Commit)
            yield Commit((Add(value),), effect.positions, effect.auxiliary)


class ForgetsItsCopies(Copies):
    def on_update(self, update: Update) -> Iterator[Effect]:
        before = dict(self.copies)
        yield from super().on_update(update)
        self.copies = before


class ShowsHalfCollected(Eca):
    def _show_when_all_is_answered(self) -> Iterator[Effect]:
        yield self.commit(*self.collected)
        self.collected = []


def all_but_the_oldest(definition: Query, parts: Iterable[SubUpdate], still_open: Iterable[Query] = ()) -> Query:
    return incremental(definition, parts, list(still_open)[1:])


class ShowsKeysEarly(EcaKey):
    def _show_when_all_is_answered(self) -> Iterator[Effect]:
        yield self.commit(*self.collected)
        self.collected = []


class LabelsEverythingWithTheNewUpdate(Lca):
    def _labelled_query(self, parts: Iterable[SubUpdate]) -> Labelled:
        labelled = super()._labelled_query(parts)
        return ((self.arrival, tuple(term for _, query in labelled for term in query)),)


class ShowsWhatIsKnown(Lca):
    """Does not wait for earlier updates."""

    def _show_in_order(self) -> Iterator[Effect]:
        for label in list(self.effects):
            if self._is_known(label):
                yield self.commit(*self.effects.pop(label), positions=self.vectors.pop(label))


class TiesNothing(EcaLocal):
    def _tie_damaged_updates(self, relations: Any) -> None:
        pass


class TrustsForeignKeysBlindly(EcaLocal):
    def _child_compensation(self, update: Update) -> Labelled:
        return ()


class ModifiesParentsLocally(EcaLocal):
    """Counts a modified parent as one without partners."""

    def _has_no_partner(self, update: Update) -> bool:
        changed = {change.relation for change in update.changes}
        terms = self.view.terms
        return all(self._guarding_children(term, relation, changed) for relation in changed for term in terms)


TWO = Case("eca_example_2")
MUTATIONS = [
    Mutation(
        "recompute-adds",
        "an answer is added to the view instead of replacing it",
        "recompute",
        TWO,
        AddsInsteadOfReplacing,
    ),
    Mutation(
        "recompute-no-timer",
        "the last updates, fewer than s, are never asked for",
        "recompute",
        Case("eca_example_4"),
        HasNoTimer,
        options={"every": 2},
    ),
    Mutation(
        "copies-late",
        "copies are brought forward after the effect was evaluated on them",
        "copies",
        Case("union_source_local"),
        CopiesLate,
    ),
    Mutation("copies-forgotten", "copies stay as they were loaded", "copies", TWO, ForgetsItsCopies),
    Mutation(
        "eca-wrong-sign",
        "compensation is added instead of taken off",
        "eca",
        TWO,
        patches={"weir.algebra.query.negate": lambda query: query},
    ),
    Mutation(
        "eca-shows-early",
        "COLLECT reaches the view while a question is open",
        "eca",
        Case("eca_example_4"),
        ShowsHalfCollected,
    ),
    Mutation(
        "eca-misses-one",
        "the oldest open question is not compensated for",
        "eca",
        TWO,
        patches={"weir.algorithms.eca.incremental": all_but_the_oldest},
    ),
    Mutation(
        "eca-key-no-memory",
        "deletes of the tuple that a question is bound to are forgotten",
        "eca-key",
        Case("eca_key_insert_then_delete"),
        patches={"weir.algorithms.eca_key.without": lambda answer, deleted: answer},
    ),
    Mutation(
        "eca-key-duplicates",
        "a tuple that the view holds is added once more",
        "eca-key",
        Case("eca_example_5"),
        patches={"weir.algorithms.eca_key.AddMissing": Add},
    ),
    Mutation(
        "eca-key-shows-early",
        "actions are applied while a question is open",
        "eca-key",
        Case("eca_example_5"),
        ShowsKeysEarly,
    ),
    Mutation(
        "lca-wrong-label",
        "compensation is labelled with the update that caused it",
        "lca",
        TWO,
        LabelsEverythingWithTheNewUpdate,
    ),
    Mutation(
        "lca-out-of-order",
        "an update is shown before an earlier one",
        "lca",
        Case("union_single_source"),
        ShowsWhatIsKnown,
    ),
    Mutation(
        "lca-wrong-sign",
        "compensation is added instead of taken off",
        "lca",
        TWO,
        patches={"weir.algorithms.lca.negate": lambda query: query},
    ),
    Mutation(
        "eca-local-untied",
        "updates that a key-delete has damaged are shown before it",
        "eca-local",
        Case("eca_example_5"),
        TiesNothing,
    ),
    Mutation(
        "eca-local-bound-child",
        "an open question bound to a child is not compensated for its new parent",
        "eca-local",
        Case("foreign_key_bound_child"),
        TrustsForeignKeysBlindly,
    ),
    Mutation(
        "eca-local-modified-parent",
        "a parent that children refer to is modified without a question",
        "eca-local",
        Case("foreign_key_modified_parent"),
        ModifiesParentsLocally,
    ),
]
