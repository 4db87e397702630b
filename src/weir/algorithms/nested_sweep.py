"""Nested SWEEP: updates that interfere join the sweep instead of being taken out of it.

Papers: described by Zhang, Ding and Rundensteiner, "Parallel Multisource View Maintenance", section 8, after Agrawal,
El Abbadi, Singh and Yurek.

When an answer comes from a source that has updates waiting in the queue, SWEEP compensates for them now and sweeps
them later. Nested SWEEP admits them: they start partial results of their own where the sweep is, and share the hops
that are left. One commit shows all of them. That saves questions when updates are dense, and costs the states in
between.

All waiting updates of the answering source are admitted, oldest first, so what is shown is a prefix of every source's
order. Updates that are not admitted are taken out of every row, whatever their arrival number: they will be shown
later.

If updates keep interfering the sweep would never end, so it admits at most ``limit`` updates and then closes: this
bounds it to (limit + 1) * 2(n - 1) questions.

Needs: nothing. Promised level: strong.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from weir.algorithms.base import SINGLE_SOURCE, SINGLE_UPDATE, SOURCE_LOCAL, Algorithm, Facts
from weir.algorithms.procedure import Numbered, Reply
from weir.algorithms.sweeping import sweep, together
from weir.messages import Answer, Effect, Position, Update

LATER = 1 << 40  # the number of everything that this sweep does not show: larger than any of its own


class NestedSweep(Algorithm):
    """One sweep at a time; what interferes joins it."""

    facts = Facts(
        14, "nested-sweep", "PVM 8", {SINGLE_SOURCE: "strong", SINGLE_UPDATE: "strong", SOURCE_LOCAL: "strong"},
        "O(n), amortised",
    )  # fmt: skip

    def __init__(self, *arguments: Any, limit: int = 8, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.limit = limit
        self.queue: dict[int, Update] = {}  # UMQ: received, not yet part of a sweep
        self.members: list[tuple[int, Update]] = []  # part of the sweep that is running, by number
        self.shown: dict[str, Position] = {}

    def on_update(self, update: Update) -> Iterator[Effect]:
        self.queue[self.arrival] = update
        yield from self._sweep_next()

    def reply_for(self, key: Hashable, answer: Answer) -> Reply:
        admitted = self._admit(answer.source)
        outside = tuple((LATER, update) for update in self.queue.values())
        return Reply(answer.bags, (*self.members, *outside), admitted)

    def _admit(self, source: str) -> Numbered:
        """Takes waiting updates of the source into the sweep, oldest first, as many as the bound allows."""
        room = self.limit + 1 - len(self.members)
        arrivals = [at for at, update in self.queue.items() if update.source == source][: max(room, 0)]
        first = len(self.members)
        admitted = tuple((first + place, self.queue.pop(at)) for place, at in enumerate(arrivals))
        self.members += admitted
        return admitted

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        members, self.members = self.members, []
        for _, update in members:
            self.shown[update.source] = update.position
        yield self.commit(*together(self.view, result), positions=self.shown)
        yield from self._sweep_next()

    def _sweep_next(self) -> Iterator[Effect]:
        yield from self.repeat(lambda: bool(self.queue) and not self.members, self._sweep_one)

    def _sweep_one(self) -> Iterator[Effect]:
        arrival = next(iter(self.queue))
        self.members = [(0, self.queue.pop(arrival))]
        yield from self.start(arrival, sweep, self.view, tuple(self.members))
