"""A load as an arrival: which numbers it takes, which states it could not keep, and what it puts into a unit's tables.

A view's first load is the state before its arrival 1. Every later load jumps. A TRUNCATE whose rows are in no log makes
a view be computed anew from the round's snapshots, which show all of the round's transactions at once: the load's state
has the number of the last of them, and the numbers before that have no state. Where somebody orders a load
(``--reload``) nobody has counted what came in between: the load is one arrival, the next.

A table that was damaged is made anew by an ordered load: the numbers go on, and all states before it are lost.

A view that was to keep every state says in its table which it has not, for ``weir status`` to tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weir.rounds.delivery import Block
from weir.rounds.units import NEW, Unit
from weir.rounds.views import Gap, MaintainedView
from weir.spark.frame_bag import FrameBag
from weir.warehouse.bags import batch_of
from weir.warehouse.following import Follower
from weir.warehouse.record import LOAD
from weir.warehouse.store import ViewStore

TRUNCATED = "a TRUNCATE whose rows are in no log"
ORDERED = "loaded again from its sources"
FIRST = "first load"
MADE_ANEW = "its table was made anew, the one before it is no more"
MOST_GAPS = 100  # that a commit tells of; each is in the history of the table besides


@dataclass(frozen=True)
class WholeStates:
    """A unit's load in a round that has delivered so many transactions; None: nobody has counted them."""

    transactions: int | None

    @classmethod
    def of(cls, unit: Unit, blocks: Sequence[Block]) -> WholeStates:
        return cls(None if unit.state == NEW else unit.count(blocks))

    def why(self, view: MaintainedView) -> str:
        """The reason, as the table's history tells it."""
        if not view.begun:
            return FIRST
        return MADE_ANEW if not view.loaded else ORDERED if self.transactions is None else TRUNCATED

    def arrivals(self, view: MaintainedView) -> tuple[int, int]:
        """The numbers that the load takes."""
        if not view.begun:
            return 0, 0
        return view.received + 1, view.received + (self.transactions or 1)

    def _gap(self, view: MaintainedView) -> Gap | None:
        first, last = self.arrivals(view)
        if view.begun and not view.loaded:
            return Gap(0, last, self.why(view))
        missing = view.loaded and (self.transactions is None or first < last)
        return Gap(first - 1, last, self.why(view)) if missing and view.complete else None

    def parts(self, view: MaintainedView, values: Mapping[str, tuple[ViewStore, FrameBag]]) -> Iterator[Follower]:
        """The content of a view's table, which has the empty name, and of its auxiliary ones. One that is there and has
        no content any more (of a grouping that was given up) is emptied.
        """
        why, arrivals, gap = self.why(view), self.arrivals(view), self._gap(view)
        gone = [view.auxiliary.pop(name) for name in [*view.auxiliary] if name not in values]
        view.gaps = [*(view.gaps if view.loaded else ()), *([gap] if gap else ())][-MOST_GAPS:]
        notes = {**view.notes, "load": why}
        for store, rows in values.values():
            yield Follower(store, batch_of(rows.rows, store.schema.names), LOAD, None, arrivals, notes=notes)
        for store in gone:
            yield Follower(store, None, LOAD, None, arrivals)
