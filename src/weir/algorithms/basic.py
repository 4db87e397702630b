"""Incremental maintenance without compensation: the anomaly itself.

Paper: Zhuge et al., "View Maintenance in a Warehousing Environment", algorithm 5.1 (after Blakeley, Larson and Tompa
1986).

For every update U send Q = V<U>; add the answer to the view as soon as it is in. Inside one database this is right,
because the query runs in the state the update left. Here the sources go on meanwhile, so an answer may see later
updates: tuples are added twice, or never removed.

With ``keys`` deletes are done at once on the view, by key, as the Strobe paper's example 1 has the conventional
algorithm do it.

Promised level: none; not even convergence. It is here as the control that every checker must catch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from weir.algebra.query import evaluate_locally, incremental, local_part, remote_part, sub_updates
from weir.algorithms.base import KEYS, Algorithm, Facts
from weir.algorithms.keys import key_deletes
from weir.algorithms.procedure import pose
from weir.messages import Add, Effect, Update


class Basic(Algorithm):
    """Add every answer at once."""

    facts = Facts(1, "basic", "ECA 5.1", {}, "2")

    def __init__(self, *arguments: Any, keys: bool = False, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.keys = keys
        if keys:
            KEYS.require(self.view, "basic with keys")

    def on_update(self, update: Update) -> Iterator[Effect]:
        deltas = update.deltas
        if self.keys:
            yield self.commit(*key_deletes(self.view, update.changes))
            deltas = tuple((c.relation, c.inserted) for c in update.changes if c.inserted is not None)
        query = incremental(self.definition, sub_updates(self.view, deltas))
        local, remote = local_part(query), remote_part(query)
        if local:
            yield self.commit(Add(evaluate_locally(local)))
        if remote:
            yield from self.start(self.arrival, pose, remote)

    def on_finished(self, key: Hashable, result: Any) -> Iterable[Effect]:
        (answer,) = result
        yield self.commit(Add(answer))
