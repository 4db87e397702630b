"""Recompute the view every s updates (RV).

Paper: Zhuge et al., "View Maintenance in a Warehousing Environment", section 1.2 and algorithm D.1.

After every s-th update ask the source for the whole view and put the answer in its place. One question is evaluated in
one state of the source, so every answer is a state the source was in; answers arrive in order, so the view never goes
back. What is left of fewer than s updates is asked for once nothing more is under way (in a running system: by a
timer), which gives 2 * ceil(k / s) messages for k updates.

Needs: one source. Promised level: strong. Not complete: an answer may already hold later updates.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from weir.algebra.errors import WeirError
from weir.algorithms.base import ONE_SOURCE, SINGLE_SOURCE, Algorithm, Facts
from weir.algorithms.procedure import pose
from weir.algorithms.questions import once
from weir.messages import Effect, Replace, Update


class Recompute(Algorithm):
    """Ask for everything, every ``every`` updates."""

    facts = Facts(
        2, "recompute", "ECA D.1", {SINGLE_SOURCE: "strong"}, "2/s", (ONE_SOURCE,),
        questions=once, gathers="every", recomputes=True,
    )  # fmt: skip

    def __init__(self, *arguments: Any, every: int = 1, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if every < 1:
            raise WeirError(f"recompute every {every} updates makes no sense; give a number of at least 1")
        self.every = every
        self.count = 0  # updates since the last question

    def on_update(self, update: Update) -> Iterator[Effect]:
        self.count += 1
        if self.count >= self.every:
            yield from self._ask_for_everything()

    def on_idle(self) -> Iterator[Effect]:
        if self.count:
            yield from self._ask_for_everything()

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        (answer,) = result
        yield self.commit(Replace(answer))

    def _ask_for_everything(self) -> Iterator[Effect]:
        self.count = 0
        yield from self.start(self.arrival, pose, self.definition)
