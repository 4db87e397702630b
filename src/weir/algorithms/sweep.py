"""SWEEP: complete consistency over many sources, without keys, with local compensation only.

Papers: Wang, Orlowska and Liang, "Efficient Refreshment of Materialized Views With Multiple Sources", section 3.2, and
Zhang, Ding and Rundensteiner, "Parallel Multisource View Maintenance", section 2.1, both after Agrawal, El Abbadi,
Singh and Yurek.

Updates wait in a queue (UMQ) and are swept one at a time, in order of arrival. A sweep asks every other table once.
Because a source's updates and answers arrive in one order, the updates an answer has seen too much of are exactly
those of that table that are in the queue when it arrives; their part is computed here, from data at hand, and taken
out. No question is ever asked again.

With ``batch`` up to so many waiting updates are swept together (see weir.algorithms.sweeping), still each with its own
delta and its own commit, at the price of at most two questions per table for all of them.

Needs: nothing. Promised level: complete. Messages: n - 1 questions per update over n tables.
Invariant: the view always equals its definition over the vector of everything taken off the queue.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from weir.algebra.errors import WeirError
from weir.algorithms.base import SINGLE_SOURCE, SINGLE_UPDATE, SOURCE_LOCAL, Algorithm, Facts
from weir.algorithms.procedure import Numbered, Reply
from weir.algorithms.questions import shared_per_hop
from weir.algorithms.sweeping import split, sweep
from weir.messages import Answer, Effect, Position, Update

COMPLETE = {SINGLE_SOURCE: "complete", SINGLE_UPDATE: "complete", SOURCE_LOCAL: "complete"}


class Sweep(Algorithm):
    """One sweep at a time, over one update or over a batch."""

    facts = Facts(
        13, "sweep", "Partition 3.2, PVM 2.1", COMPLETE, "2(n-1)",
        questions=shared_per_hop, gathers="batch", delegates=(sweep,),
    )  # fmt: skip

    def __init__(self, *arguments: Any, batch: int = 1, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if batch < 1:
            raise WeirError(f"a batch of {batch} updates makes no sense; give a number of at least 1")
        self.batch = batch
        self.queue: dict[int, Update] = {}  # UMQ and the batch being swept: received, not yet shown
        self.swept: Numbered = ()  # the batch being swept
        self.vectors: dict[int, Mapping[str, Position]] = {}

    def on_update(self, update: Update) -> Iterator[Effect]:
        self.queue[self.arrival] = update
        self.vectors[self.arrival] = dict(self.received)
        yield from self._sweep_next()

    def reply_for(self, key: Hashable, answer: Answer) -> Reply:
        return Reply(answer.bags, tuple(self.queue.items()))

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        batch, self.swept = self.swept, ()
        for arrival, actions in split(self.view, result, batch):
            del self.queue[arrival]
            yield self.commit(*actions, positions=self.vectors.pop(arrival))
        yield from self._sweep_next()

    def _sweep_next(self) -> Iterator[Effect]:
        yield from self.repeat(lambda: bool(self.queue) and not self.swept, self._sweep_one)

    def _sweep_one(self) -> Iterator[Effect]:
        self.swept = tuple(self.queue.items())[: self.batch]
        yield from self.start(self.swept[0][0], *self._procedure())

    def _procedure(self) -> tuple[Any, ...]:
        """How the batch's effect is found: a function and its arguments."""
        return sweep, self.view, self.swept
