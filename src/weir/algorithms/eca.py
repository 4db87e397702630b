"""ECA, the eager compensating algorithm.

Paper: Zhuge et al., "View Maintenance in a Warehousing Environment", section 5.2 and algorithm 5.2.

When update U arrives while queries are unanswered, every one of them will be evaluated in a state that already holds
U, though it was meant for the state before. So the query for U also asks for what they will see too much of:

    Q_i = V<U_i> - sum over Q_j in UQS of Q_j<U_i>

Answers gather in COLLECT and reach the view only when UQS is empty: in between, COLLECT holds the overcount of one
answer whose compensation is still on its way. Terms with every slot bound are evaluated here and never sent.

Needs: one source, whose updates and answers arrive in one order (then the queries an update can disturb are exactly
those in UQS). Promised level: strong. Not complete: states that pass while UQS is not empty are never shown.
Invariant: whenever UQS is empty, COLLECT = V[now] - MV.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from weir.algebra.query import Query, evaluate_locally, incremental, local_part, remote_part, sub_updates
from weir.algorithms.base import ONE_SOURCE, SINGLE_SOURCE, Algorithm, Facts
from weir.algorithms.procedure import pose
from weir.messages import Add, Effect, Update


class Eca(Algorithm):
    """Compensate in the next query, show when all is answered."""

    facts = Facts(4, "eca", "ECA 5.2", {SINGLE_SOURCE: "strong"}, "2", (ONE_SOURCE,), merges=True)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.unanswered: dict[Hashable, Query] = {}  # UQS
        self.collected: list[Add] = []  # COLLECT

    def on_update(self, update: Update) -> Iterator[Effect]:
        query = incremental(self.definition, sub_updates(self.view, update.deltas), self.unanswered.values())
        local, remote = local_part(query), remote_part(query)
        if local:
            self.collected.append(Add(evaluate_locally(local)))
        if remote:
            self.unanswered[self.arrival] = remote
            yield from self.start(self.arrival, pose, remote)
        yield from self._show_when_all_is_answered()

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        (answer,) = result
        del self.unanswered[key]
        self.collected.append(Add(answer))
        yield from self._show_when_all_is_answered()

    def _show_when_all_is_answered(self) -> Iterator[Effect]:
        if not self.unanswered:
            yield self.commit(*self.collected)
            self.collected = []
