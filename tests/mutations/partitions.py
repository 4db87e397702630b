"""Planted bugs in the partition family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.mutations.mutation import Case, Mutation
from weir.algebra.bag import Bag, total
from weir.algebra.hops import finish
from weir.algorithms.equal_partition import EqualPartition
from weir.algorithms.keyed_partition import KeyedPartition
from weir.algorithms.parallel_partition import ParallelPartition
from weir.algorithms.partitioning import Content, SlotGroup, join_all
from weir.algorithms.procedure import Reply
from weir.messages import Answer, Commit, Effect


class LeavesItsAuxiliaryViews(EqualPartition):
    def show(self, arrivals: list[int]) -> Commit:
        before = dict(self.content)
        commit = super().show(arrivals)
        self.content = before
        return commit


class RunsAhead(ParallelPartition):
    """The other groups are not frozen: an auxiliary view moves on before the view is shown with it."""

    def on_finished(self, key: Any, result: Any) -> Iterator[Effect]:
        if isinstance(key, tuple):
            group = key[1]
            self.content[group] = self.content[group] + result.keep(group.view.columns)
        yield from super().on_finished(key, result)

    def show(self, arrivals: list[int]) -> Commit:
        shown = [(group, delta) for (arrival, group), delta in self.deltas.items() if arrival in arrivals]
        commit = super().show(arrivals)
        for group, delta in shown:
            self.content[group] = self.content[group] - delta  # it was there already
        return commit


def all_others_before(view: Any, content: Content, changes: Mapping[SlotGroup, Bag]) -> Bag | None:
    """Every group's delta with all other groups as they were: what two groups change together is lost."""
    parts = []
    for group, delta in changes.items():
        others = [(other, bag) for other, bag in content if other.index == group.index and other != group]
        parts.append(finish(join_all([(group, delta), *others])))
    return total(*parts).rename(view.columns) if parts else None


class SweepsDeletesTwice(KeyedPartition):
    """Deletes by key are still among what a sweep takes out of answers."""

    def reply_for(self, key: Any, answer: Answer) -> Reply:
        return Reply(answer.bags, tuple(self.queue.items()))


PARTITIONED = "weir.algorithms.partitioned."
MUTATIONS = [
    Mutation(
        "partition-stale",
        "auxiliary views are not brought forward",
        "equal-partition",
        Case("single-update", seed=2, sources=2),
        LeavesItsAuxiliaryViews,
    ),
    Mutation(
        "partition-not-frozen",
        "an auxiliary view moves on before the view does",
        "parallel-partition",
        Case("single-update", seed=2, sources=2),
        RunsAhead,
    ),
    Mutation(
        "partition-cross-term",
        "what a transaction changes in two groups together is lost",
        "equal-partition",
        Case("source-local", seed=8, sources=2),
        patches={PARTITIONED + "view_change": all_others_before},
    ),
    Mutation(
        "partition-keyed-twice",
        "a delete done by key is compensated for in its own sweep",
        "keyed-partition",
        Case("keyed_group_transaction"),
        SweepsDeletesTwice,
    ),
    Mutation(
        "partition-regroup-now",
        "new auxiliary views hold updates that still wait",
        "frequency-partition",
        Case("single-update", seed=8, updates=3, keyed=False),
        patches={"weir.algorithms.regrouping._without_waiting": lambda term, slot, reply: reply.bags[0]},
        options={"repartition_after": 1},
    ),
]
