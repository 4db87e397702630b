"""PVM-CC: several updates in flight at once, shown one by one in order of arrival.

Paper: Zhang, Ding and Rundensteiner, "Parallel Multisource View Maintenance", section 4.2.

The processes of PVM, but a result waits until every older update has been shown. Then nothing that is still in process
has been overtaken by a commit: no update needs to be remembered after its commit (RPU is what is swept and not yet
shown), no weight goes below zero, and every state that a reader sees is the state after one more update.

Over batches (``batch``) it pipelines them: the next batch is swept while the last one waits for its turn or is being
written. This is what the runtime uses for views over several sources.

Needs: nothing. Promised level: complete. Messages as SWEEP.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from weir.algorithms.base import Facts
from weir.algorithms.procedure import Numbered
from weir.algorithms.pvm import Pvm
from weir.algorithms.questions import shared_per_hop
from weir.algorithms.sweep import COMPLETE
from weir.algorithms.sweeping import split, sweep
from weir.messages import Effect, Position, Update


class PvmCc(Pvm):
    """PVM that commits in order of arrival."""

    facts = Facts(
        17, "pvm-cc", "PVM 4.2", COMPLETE, "2(n-1), p updates in flight",
        questions=shared_per_hop, gathers="batch", delegates=(sweep,),
    )  # fmt: skip

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.results: dict[int, tuple[Numbered, Any]] = {}  # finished, waiting for their turn, by first arrival number
        self.vectors: dict[int, Mapping[str, Position]] = {}

    def on_update(self, update: Update) -> Iterator[Effect]:
        self.vectors[self.arrival] = dict(self.received)
        yield from super().on_update(update)

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        batch = self.in_process.pop(key)
        self.committed.update(batch)
        self.results[batch[0][0]] = (batch, result)
        yield from self._show_in_order()
        yield from self._start_processes()

    def _show_in_order(self) -> Iterator[Effect]:
        """Shows finished batches from the oldest on, up to the first one that is still in process."""
        oldest = min((batch[0][0] for batch in self.in_process.values()), default=None)
        for first in sorted(self.results):
            if oldest is not None and first > oldest:
                return
            yield from self._show(*self.results.pop(first))

    def _show(self, batch: Numbered, result: Any) -> Iterator[Effect]:
        for arrival, actions in split(self.view, result, batch):
            del self.committed[arrival]
            yield self.commit(*actions, positions=self.vectors.pop(arrival))
