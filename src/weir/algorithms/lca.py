"""LCA, the lazy compensating algorithm: ECA's queries, one update shown at a time.

Paper: Zhuge et al., "View Maintenance in a Warehousing Environment", section 5.3 (sketched there in a paragraph).

ECA mixes in one answer the effect of its own update and the compensation of earlier ones. LCA keeps them apart: every
term is labelled with the update whose effect it belongs to. V<U_i> belongs to U_i; the compensation -Q_j<U_i> belongs
to whatever the terms of Q_j belong to. One question still carries all of them (one part per label, evaluated in one
state), and its answer comes back in the same parts. When every part labelled j is in, update j's exact delta is known,
as of the state right after j; it is shown when all earlier updates have been.

Needs: one source. Promised level: complete. Same messages as ECA; what is paid for is delay and the warehouse's
bookkeeping.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from weir.algebra.query import (
    Query,
    SubUpdate,
    evaluate_locally,
    local_part,
    negate,
    remote_part,
    sub_updates,
    substitute,
)
from weir.algorithms.base import ONE_SOURCE, SINGLE_SOURCE, Algorithm, Facts
from weir.algorithms.procedure import pose
from weir.messages import Action, Add, Effect, Position, Update

Label = int  # an update's arrival number
Labelled = tuple[tuple[Label, Query], ...]


class Lca(Algorithm):
    """Split every answer by the update it belongs to; show updates one by one, in order."""

    facts = Facts(7, "lca", "ECA 5.3", {SINGLE_SOURCE: "complete"}, "2", (ONE_SOURCE,))

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.unanswered: dict[Hashable, Labelled] = {}  # UQS, every query split by label
        self.effects: dict[Label, tuple[Action, ...]] = {}  # known so far of updates not yet shown, in order of arrival
        self.vectors: dict[Label, Mapping[str, Position]] = {}

    def on_update(self, update: Update) -> Iterator[Effect]:
        self._admit()
        yield from self._ask(self._labelled_query(sub_updates(self.view, update.deltas)))
        yield from self._show_in_order()

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        for (label, _), answer in zip(self.unanswered.pop(key), result, strict=True):
            self.effects[label] = (*self.effects[label], Add(answer))
        yield from self._show_in_order()

    def _admit(self) -> None:
        """Gives the update that has just arrived its place in the order."""
        self.effects[self.arrival] = ()
        self.vectors[self.arrival] = dict(self.received)

    def _labelled_query(self, parts: Iterable[SubUpdate]) -> Labelled:
        """``incremental`` of weir.algebra.query, kept apart by label."""
        still_open = [item for labelled in self.unanswered.values() for item in labelled]
        queries: dict[Label, Query] = {self.arrival: ()}
        for part in parts:
            seen = [(label, substitute(query, part)) for label, query in (*still_open, *queries.items())]
            queries[self.arrival] = queries[self.arrival] + substitute(self.definition, part)
            for label, extra in seen:
                queries[label] = queries.get(label, ()) + negate(extra)
        return tuple(queries.items())

    def _ask(self, labelled: Labelled) -> Iterator[Effect]:
        """Evaluates what is local and sends the rest as one question."""
        for label, query in labelled:
            if local := local_part(query):
                self.effects[label] = (*self.effects[label], Add(evaluate_locally(local)))
        remote = tuple((label, rest) for label, query in labelled if (rest := remote_part(query)))
        if remote:
            self.unanswered[self.arrival] = remote
            yield from self.start(self.arrival, pose, *(query for _, query in remote))

    def _is_known(self, label: Label) -> bool:
        """No part of the update's effect is still on its way."""
        return all(label != other for labelled in self.unanswered.values() for other, _ in labelled)

    def _show_in_order(self) -> Iterator[Effect]:
        for label in list(self.effects):
            if not self._is_known(label):
                return
            yield self.commit(*self.effects.pop(label), positions=self.vectors.pop(label))
