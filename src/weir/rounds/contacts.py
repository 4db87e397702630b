"""One contact with a source: whatever there is to say to it, in one go, in the source's own thread.

A source that is closed is opened first: it is told the tables in use, and goes on at the oldest position of all its
units. What is durable is acknowledged. Then comes the visit. Units that are ahead of the oldest get delivered what they
have already; for each of them the contact tells which transactions those are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from weir import points
from weir.algebra.catalog import Relation
from weir.rounds.concerns import TROUBLE, Claim, Concerning, concerned
from weir.sources.source import Source, Visit


@dataclass(frozen=True)
class Resumption:
    """A source is to be followed for these columns, from where its units are."""

    columns: Mapping[Relation, Sequence[str]]
    received: Mapping[str, str]  # unit -> the position up to which it has received


@dataclass(frozen=True)
class Heard:
    """What came of a contact. ``known``: of units that are ahead, the numbers of transactions that they have already;
    ``ahead``: those that are ahead of this visit too.
    """

    visit: Visit | None
    known: Mapping[str, Collection[int]] = field(default_factory=dict)
    ahead: Mapping[str, str] = field(default_factory=dict)
    opened: bool = False
    fresh: int = 0  # transactions that were never delivered before
    repeating: bool = False  # what is delivered was delivered before
    retained: Mapping[str, str] = field(default_factory=dict)  # by view: how much log is kept for it, in words


@dataclass(frozen=True)
class Contact:
    """``hold``: the visit's snapshot is wanted; ``lock``: also if writers wait for a moment while it opens."""

    opening: Resumption | None = None
    needed: Mapping[str, str] = field(default_factory=dict)  # by view: the position from which on it needs the log
    acknowledging: bool = False  # up to the oldest of these the log may be forgotten
    visiting: bool = True
    hold: bool = False
    lock: bool = False
    ahead: Mapping[str, str] = field(default_factory=dict)  # unit -> its position
    furthest: str | None = None  # what was delivered up to there is delivered again
    followers: Mapping[str, Claim] = field(default_factory=dict)  # its units: some trouble concerns only some

    def __call__(self, source: Source) -> Heard:
        try:
            return self._spoken(source)
        except TROUBLE as problem:
            found = concerned(source, self.followers) if len(self.followers) > 1 else {}
            raise Concerning(problem, found) from problem

    def _spoken(self, source: Source) -> Heard:
        ahead = dict(self.ahead) if self.opening is None else self._open(source, self.opening)
        if self.acknowledging:
            points.reach(points.BEFORE_ACKNOWLEDGE)
            source.acknowledge(min(self.needed.values(), key=source.order))
            points.reach(points.AFTER_ACKNOWLEDGE)
        if not self.visiting:
            return Heard(None, ahead=ahead, opened=self.opening is not None)
        points.reach(points.VISITING)
        visit = source.visit(hold=self.hold and (self.lock or not source.locks_to_hold))
        known = {
            unit: {number for number, one in enumerate(visit.transactions) if source.holds(position, one)}
            for unit, position in ahead.items()
        }
        reached = source.order(visit.position)
        still = {unit: position for unit, position in ahead.items() if source.order(position) > reached}
        retained = {view: source.distance(position, visit.position) for view, position in self.needed.items()}
        anew = self.opening is not None and not self.opening.received  # another log, perhaps
        furthest = None if anew else self.furthest
        fresh = [one for one in visit.transactions if furthest is None or not source.holds(furthest, one)]
        repeating = furthest is not None and reached < source.order(furthest)
        return Heard(visit, known, still, self.opening is not None, len(fresh), repeating, retained)

    @staticmethod
    def _open(source: Source, opening: Resumption) -> dict[str, str]:
        """Watches the tables and goes on at the oldest position; where nobody has one, the log is followed from now.

        Returns the units that are ahead of it.
        """
        source.watch(opening.columns)
        if not opening.received:
            source.load().held.release()
            return {}
        oldest, *later = sorted(set(opening.received.values()), key=source.order)
        source.resume(oldest, later)
        return {unit: position for unit, position in opening.received.items() if position != oldest}
