"""PVM: several updates in flight at once.

Paper: Zhang, Ding and Rundensteiner, "Parallel Multisource View Maintenance", section 3.

SWEEP leaves the sources idle while one update is swept. PVM sweeps up to ``parallel`` updates at once, each by its own
process. An update is concurrent with update i, and must be taken out of the answer to a hop of i, if it is of that
hop's table, has a larger arrival number than i, and arrived before the answer. It may be anywhere:
- waiting (UMQ), or in process (PPU);
- already committed, if it overtook i (RPU): an update stays there while an older one is still in process.

Each process commits when it is done, in whatever order. A delete may then be committed before the insert it undoes, so
weights in the view may go below zero for a while; readers see weights above zero only.

Needs: a view store that keeps negative weights. Promised level: convergence. Messages as SWEEP.
``remember_committed=False`` and ``negative_counters=False`` leave out RPU and the negative weights, to show that both
are needed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from weir.algebra.errors import WeirError
from weir.algorithms.base import SINGLE_SOURCE, SINGLE_UPDATE, SOURCE_LOCAL, Algorithm, Facts
from weir.algorithms.procedure import Numbered, Reply
from weir.algorithms.questions import shared_per_hop
from weir.algorithms.sweeping import sweep, together
from weir.messages import Answer, DropNegative, Effect, Position, Update

CONVERGENCE = {SINGLE_SOURCE: "convergence", SINGLE_UPDATE: "convergence", SOURCE_LOCAL: "convergence"}


class Pvm(Algorithm):
    """Sweep up to ``parallel`` batches of up to ``batch`` updates at once; commit as they finish."""

    facts = Facts(
        16, "pvm", "PVM 3", CONVERGENCE, "2(n-1), p updates in flight",
        questions=shared_per_hop, gathers="batch", delegates=(sweep,),
    )  # fmt: skip

    def __init__(
        self,
        *arguments: Any,
        parallel: int = 2,
        batch: int = 1,
        remember_committed: bool = True,
        negative_counters: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        if parallel < 1 or batch < 1:
            raise WeirError(f"parallel = {parallel}, batch = {batch}: both must be at least 1")
        self.parallel, self.batch = parallel, batch
        self.remember_committed, self.negative_counters = remember_committed, negative_counters
        self.waiting_updates: dict[int, Update] = {}  # UMQ
        self.in_process: dict[Hashable, Numbered] = {}  # PPU: process -> its batch
        self.committed: dict[int, Update] = {}  # RPU
        self.shown: dict[str, Position] = {}

    def on_update(self, update: Update) -> Iterator[Effect]:
        self.waiting_updates[self.arrival] = update
        yield from self._start_processes()

    def reply_for(self, key: Hashable, answer: Answer) -> Reply:
        """All that arrived from the process's first update on, wherever it is now; the sweep itself compares the
        numbers.
        """
        first = self.in_process[key][0][0]
        processing = [item for batch in self.in_process.values() for item in batch]
        everything = [*self.committed.items(), *processing, *self.waiting_updates.items()]
        concurrent = sorted((item for item in everything if item[0] >= first), key=lambda item: item[0])
        return Reply(answer.bags, tuple(concurrent))

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        batch = self.in_process.pop(key)
        yield from self._commit(batch, result)
        yield from self._start_processes()

    def _commit(self, batch: Numbered, result: Any) -> Iterator[Effect]:
        if self.remember_committed:
            self.committed.update(batch)
        oldest = min((items[0][0] for items in self.in_process.values()), default=None)
        if oldest is None:
            self.committed.clear()
        self.committed = {at: update for at, update in self.committed.items() if oldest is not None and at > oldest}
        actions = together(self.view, result) + (() if self.negative_counters else (DropNegative(),))
        if oldest is None and not self.waiting_updates:
            self.shown = dict(self.received)  # between the quiet moments no vector describes the view
        yield self.commit(*actions, positions=self.shown)

    def _start_processes(self) -> Iterator[Effect]:
        yield from self.repeat(
            lambda: bool(self.waiting_updates) and len(self.in_process) < self.parallel, self._start_process
        )

    def _start_process(self) -> Iterator[Effect]:
        batch = tuple(self.waiting_updates.items())[: self.batch]
        for arrival, _ in batch:
            del self.waiting_updates[arrival]
        self.in_process[batch[0][0]] = batch
        yield from self.start(batch[0][0], sweep, self.view, batch)
