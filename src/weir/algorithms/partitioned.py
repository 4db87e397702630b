"""What the four partition algorithms share: one auxiliary view per group, an update swept inside its groups only.

Paper: Wang, Orlowska and Liang, "Efficient Refreshment of Materialized Views With Multiple Sources", sections 4, 5.

An update of a table in group k is swept over the group's own slots (``weir.algorithms.sweeping`` on the auxiliary
view): p - 1 questions for a group of p. The rest of its effect on the view is a join with the other groups' auxiliary
views, which are at hand.

- A transaction that touches several groups is swept in each of them; it counts as done when all are. Inside a group
  the sweep takes its slots as a run of sub-updates; between groups ``view_change`` does.
- Every group takes its updates in the order of arrival, one at a time. Updates are shown in the order of arrival too,
  so what is not yet shown is all that a sweep may have to take out of an answer.
- The auxiliary views are kept at the vector of the view, and every commit carries their changes with the view's.

**New groups while running.** When an algorithm wants other groups it first finishes what it has begun; further
updates wait. Then the new auxiliary views are built for exactly the vector that the view stands at
(``weir.algorithms.regrouping``), and work goes on. The view is not touched and nothing is committed in between, so a
reader cannot tell: the level is that of the algorithm. What has changed among the auxiliary views is stored with the
next commit: new ones as what they hold, those that are gone as its negation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from weir.algebra.bag import Bag, total
from weir.algebra.errors import WeirError
from weir.algebra.query import Query
from weir.algebra.view import View
from weir.algorithms.base import Algorithm
from weir.algorithms.partitioning import Content, Groups, SlotGroup, check_partition, group_named, view_change
from weir.algorithms.procedure import Reply
from weir.algorithms.regrouping import regroup
from weir.algorithms.sweeping import sweep
from weir.messages import Add, Answer, Commit, Effect, Position, Update

REGROUPING = "regrouping"


class Partitioned(Algorithm):
    """Sweeps inside groups, shown one by one; ``admits`` says which updates may be in process together."""

    def __init__(self, view: View, auxiliary: Mapping[str, Bag] | None = None, **options: Any) -> None:
        super().__init__(view, auxiliary, **options)
        if auxiliary is None:
            raise WeirError(f"{self.facts.name} lacks its auxiliary views: load what auxiliary_for asks for")
        groups = check_partition(view, tuple(group_named(view, name) for name in auxiliary))
        self.content: dict[SlotGroup, Bag] = dict(
            zip(groups, auxiliary.values(), strict=True)
        )  # as of the view's vector
        self.queue: dict[int, Update] = {}  # received, not yet shown
        self.vectors: dict[int, Mapping[str, Position]] = {}
        self.deltas: dict[tuple[int, SlotGroup], Bag] = {}  # swept, not yet shown
        self.begun = 0  # the last arrival of which something was swept
        self.unstored: dict[str, Bag] = {}  # auxiliary views that new groups brought or took away since the last commit
        self.going = False

    @classmethod
    @abstractmethod
    def groups_for(cls, view: View, **options: Any) -> Groups:
        """The groups to start with."""

    @classmethod
    def auxiliary_for(cls, view: View, **options: Any) -> Mapping[str, Query]:
        return {group.name: group.query for group in cls.groups_for(view, **options)}

    @property
    def auxiliary(self) -> Mapping[str, Bag]:
        """The auxiliary views as they are, by name: what the partition costs in space."""
        return {group.name: bag for group, bag in self.content.items()}

    # -- what the variants decide --------------------------------------------------------------------------------------

    def admits(self, arrival: int) -> bool:
        """Whether this update may be in process now. Here: one at a time, all other groups frozen."""
        return arrival == next(iter(self.queue))

    def new_groups(self) -> Groups | None:
        """The groups to go on with, asked when nothing is in process and ``wants_new_groups``."""
        return None

    def wants_new_groups(self) -> bool:
        return False

    def commits(self, done: list[int]) -> Iterator[Commit]:
        """Shows updates that are done and next in order. Here: each for itself."""
        for arrival in done:
            yield self.show([arrival])

    # -- messages ------------------------------------------------------------------------------------------------------

    def on_update(self, update: Update) -> Iterator[Effect]:
        self.queue[self.arrival] = update
        self.vectors[self.arrival] = dict(self.received)
        yield from self.commits(self._done())  # it may touch no group
        yield from self._go_on_working()

    def reply_for(self, key: Hashable, answer: Answer) -> Reply:
        return Reply(answer.bags, tuple(self.queue.items()))

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        if isinstance(key, tuple):
            arrival, group = key
            self.deltas[arrival, group] = result.keep(group.view.columns)
        else:
            self._install(result)
        yield from self.commits(self._done())
        yield from self._go_on_working()

    # -- working through the queue -------------------------------------------------------------------------------------

    def _go_on_working(self) -> Iterator[Effect]:
        """Starts whatever may start. A sweep that needs no question ends inside: the flag keeps that from nesting."""
        if self.going:
            return
        self.going = True
        while True:
            if self.wants_new_groups() and not self.running and not self.deltas:
                yield from self._change_groups()
            following = self._next_sweep()
            if following is None:
                break
            yield from self._begin(*following)
        self.going = False

    def _next_sweep(self) -> tuple[int, SlotGroup] | None:
        """The first sweep that may start: per group in the order of arrival, one at a time."""
        if REGROUPING in self.running:
            return None
        busy: set[SlotGroup] = set()
        for arrival, update in self.queue.items():
            finishing_only = self.wants_new_groups() and arrival > self.begun
            if finishing_only or not self.admits(arrival) or len(busy) == len(self.content):
                return None
            for group in self._open(arrival, update):
                if group not in busy and (arrival, group) not in self.running:
                    return arrival, group
                busy.add(group)
        return None

    def _begin(self, arrival: int, group: SlotGroup) -> Iterator[Effect]:
        self.begun = max(self.begun, arrival)
        yield from self.start((arrival, group), sweep, group.view, ((arrival, self.queue[arrival]),))

    def _open(self, arrival: int, update: Update) -> list[SlotGroup]:
        """The groups in which the update is not yet swept to its end."""
        return [group for group in self.content if group.touched_by(update) and (arrival, group) not in self.deltas]

    def _done(self) -> list[int]:
        """The updates that can be shown: none before them is open."""
        done = []
        for arrival, update in self.queue.items():
            if self._open(arrival, update):
                break
            done.append(arrival)
        return done

    # -- showing -------------------------------------------------------------------------------------------------------

    def show(self, arrivals: list[int]) -> Commit:
        """One commit for these updates, of the view and of the auxiliary views together."""
        changes = self._take_changes(arrivals)
        change = view_change(self.view, self._content(), changes)
        for group, delta in changes.items():
            self.content[group] = self.content[group] + delta
        stored, self.unstored = self.unstored, {}
        for group, delta in changes.items():
            stored[group.name] = stored[group.name] + delta if group.name in stored else delta
        vectors = [self.vectors.pop(arrival) for arrival in arrivals]
        for arrival in arrivals:
            self.shown(self.queue.pop(arrival))
        return Commit((Add(change),) if change is not None else (), vectors[-1], stored)

    def shown(self, update: Update) -> None:
        """Told of every update that is shown."""

    def _take_changes(self, arrivals: list[int]) -> dict[SlotGroup, Bag]:
        taken: dict[SlotGroup, list[Bag]] = {group: [] for group in self.content}
        for arrival, group in [key for key in self.deltas if key[0] in arrivals]:
            taken[group].append(self.deltas.pop((arrival, group)))
        return {group: total(*deltas) for group, deltas in taken.items() if deltas}

    def _content(self) -> Content:
        return tuple(self.content.items())

    # -- new groups ----------------------------------------------------------------------------------------------------

    def _change_groups(self) -> Iterator[Effect]:
        groups = self.new_groups()
        if groups is not None and set(groups) != set(self.content):
            yield from self.start(REGROUPING, regroup, self._content(), groups)

    def _install(self, built: Content) -> None:
        gone = {group: bag for group, bag in self.content.items() if group not in dict(built)}
        come = {group: bag for group, bag in built if group not in self.content}
        self.unstored = {**{g.name: -bag for g, bag in gone.items()}, **{g.name: bag for g, bag in come.items()}}
        self.content = dict(built)
