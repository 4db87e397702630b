"""Incremental maintenance without compensation: the anomaly itself.

Paper: Zhuge et al., "View Maintenance in a Warehousing Environment", algorithm 5.1 (after Blakeley, Larson and Tompa 1986).

For every update U send Q = V<U>; add the answer to the view as soon as it is in. Inside one database this is right, because
the query runs in the state the update left. Here the sources go on meanwhile, so an answer may see later updates: tuples are
added twice, or never removed.

Promised level: none; not even convergence. It is here as the control that every checker must catch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from weir.algebra.query import evaluate_locally, incremental, local_part, remote_part, sub_updates
from weir.algorithms.base import Algorithm, Facts
from weir.algorithms.procedure import pose
from weir.messages import Add, Effect, Update


class Basic(Algorithm):
    """Add every answer at once."""

    facts = Facts(1, "basic", "ECA 5.1", {}, "2")

    def on_update(self, update: Update) -> Iterator[Effect]:
        query = incremental(self.definition, sub_updates(self.view, update.deltas))
        local, remote = local_part(query), remote_part(query)
        if local:
            yield self.commit(Add(evaluate_locally(local)))
        if remote:
            yield from self.start(self.updates, pose, remote)

    def on_finished(self, key: Hashable, result: Any) -> Iterable[Effect]:
        (answer,) = result
        yield self.commit(Add(answer))
