"""One commit for several tables: views of one group, a view and its auxiliary views.

Delta commits one table at a time. So the files of all tables are written first, then ONE table's commit decides for
all: it carries, for every follower, the files that wait there and what that table's own commit will say. The followers'
commits are made after it. A process that dies before the decision has changed nothing; one that dies after it has left
followers that are behind, and everything needed to bring them forward is in the deciding commit: that is *settling*.

- Compactions of the deciding table carry the decision on, an append replaces it; and an append settles first. So there
  is never more than one decision open.
- A follower's commits name the table that decides for it, before any file waits there. So whoever cleans or appends to
  a follower alone settles first, too.
- Tables are named by their path from one another and by their Delta id: a warehouse can be moved or copied as a whole,
  and a table made anew at an old path is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from weir.messages import Position
from weir.warehouse.committing import Committer
from weir.warehouse.delta_log import DeltaLog, FileChange, Outrun
from weir.warehouse.errors import Damaged, StoreError, Unsettled, WriterConflict
from weir.warehouse.place import Place
from weir.warehouse.record import APPEND, FOLLOW, ArrivalStep, Decided, Record

if TYPE_CHECKING:
    from weir.warehouse.store import Batch, ViewStore


@dataclass(frozen=True)
class Follower:
    """What a commit brings to another table. What is None is as in the deciding table."""

    store: ViewStore
    batch: Batch | None
    kind: str = APPEND  # or LOAD
    positions: Mapping[str, Position] | None = None
    arrivals: tuple[int, int] | None = None
    steps: Sequence[ArrivalStep] | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False  # nothing is taken that is not there

    def completed_from(self, deciding: Follower) -> Follower:
        """With the positions, arrivals and steps of the deciding table's commit, where it has none of its own."""
        return replace(
            self,
            positions=deciding.positions if self.positions is None else self.positions,
            arrivals=deciding.arrivals if self.arrivals is None else self.arrivals,
            steps=deciding.steps if self.steps is None else self.steps,
        )


def check_distinct(deciding: DeltaLog, followers: Sequence[Follower]) -> None:
    """Every table once."""
    seen = {deciding.identity}
    for each in followers:
        if each.store.log.identity in seen:
            raise StoreError(f"the table at '{each.store.place.uri}' is named twice in one commit: join its two parts")
        seen.add(each.store.log.identity)


def follow(log: DeltaLog, deciding: DeltaLog) -> None:
    """Notes in a table who decides for it from now on."""
    path = log.place.path_to(deciding.place)
    while (head := log.head()).leader != path:
        record = replace(head, kind=FOLLOW, arrivals=None, steps=(), inside=(), anew=False, leader=path)
        try:
            log.commit(head.version, record, FileChange())
        except Outrun:
            continue


def leader_of(log: DeltaLog, head: Record) -> DeltaLog | None:
    """The table that decides for this one; None when there is none, or no longer, or none that could tell."""
    return _opened(log.place.at(head.leader)) if head.leader else None


def _opened(place: Place) -> DeltaLog | None:
    """A table that was dropped decides nothing and waits for nothing; nor does a damaged one: it is to be made anew."""
    try:
        found = DeltaLog.open(place) if place.has_table() else None
        if found is not None:
            found.head()
        return found
    except Damaged:
        return None


def settle_followers(log: DeltaLog, head: Record) -> list[str]:
    """Brings the tables that the newest decision of this one names up to it. The URIs of those that moved."""
    moved = []
    for decided in head.followers:
        follower = _opened(log.place.at(decided.path))
        if follower is None or follower.identity != decided.table:
            continue
        if bring_forward(Committer(follower), decided, log.place.uri):
            moved.append(follower.place.uri)
    return moved


def bring_forward(table: Committer, decided: Decided, by: str) -> bool:
    """Makes a follower's commit, once. False: it was there already."""
    record, uri = decided.record, table.log.place.uri
    try:
        if _is_there(table.log, record):
            return False
        table.commit(record, decided.staged, decided.after)
    except WriterConflict as problem:
        if _is_there(table.log, record):  # somebody else has settled it meanwhile
            return False
        raise WriterConflict(
            f"the table at '{uri}' is at transaction {table.log.head().transaction}, but '{by}' has decided what "
            f"follows {decided.after}: somebody else has appended to it. Load it anew."
        ) from problem
    except StoreError as problem:
        raise Unsettled(
            f"transaction {record.transaction} is committed at '{by}', but the table at '{uri}' is not yet at it: "
            f"{problem}\nThe next append, or settle(), will bring it there."
        ) from problem
    return True


def _is_there(log: DeltaLog, record: Record) -> bool:
    return log.head().transaction >= record.transaction
