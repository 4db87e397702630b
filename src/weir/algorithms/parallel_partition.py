"""Parallel partition: every group sweeps its own updates, all groups at once.

Paper: Wang, Orlowska and Liang, "Efficient Refreshment of Materialized Views With Multiple Sources", section 5.1.

Two phases: each group maintains its auxiliary view by itself, with SWEEP; then the view is brought forward by what
the groups have found. r updates in r groups take the time of one. The paper does not say when the second phase runs.
Here: whenever the oldest update that is not shown has been swept in all its groups, everything that is done up to the
next one that is not is shown, as ONE step. Nothing waits for a quiet moment, and the vector shown is always that of a
prefix of the arrivals.

A state between two updates that are shown together is never seen: strong, not complete. But the price is not needed.
Every group hands in its deltas per update, so they can as well be shown one after the other, which ``one_by_one``
does: complete, with the same messages at the same time. (The auxiliary views must then stand at the vector shown, and
not be ahead of it: that is why deltas wait in ``deltas``.)

Groups are of equal ``size``, or, when ``groups`` is given, by frequency with all options of frequency partition.

Needs: space. Promised level: strong. Messages as the partition, groups in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weir.algebra.view import View
from weir.algorithms.base import AUXILIARY, SINGLE_SOURCE, SINGLE_UPDATE, SOURCE_LOCAL, Facts
from weir.algorithms.equal_partition import AUXILIARY_SPACE, EqualPartition
from weir.algorithms.frequency_partition import FrequencyPartition
from weir.algorithms.partitioning import Groups
from weir.algorithms.questions import per_change
from weir.messages import Commit

STRONG = {SINGLE_SOURCE: "strong", SINGLE_UPDATE: "strong", SOURCE_LOCAL: "strong"}


class ParallelPartition(FrequencyPartition):
    """All groups at work at once; what is done and next in order is shown together."""

    facts = Facts(
        20,
        "parallel-partition",
        "Partition 5.1",
        STRONG,
        "2(p-1), groups in parallel",
        questions=per_change,
        stores=AUXILIARY,
        space=AUXILIARY_SPACE,
    )

    def __init__(
        self, *arguments: Any, size: int = 2, groups: int | None = None, one_by_one: bool = False, **options: Any
    ) -> None:
        super().__init__(*arguments, groups=groups or 1, **options)
        self.by_frequency, self.one_by_one = groups is not None, one_by_one

    @classmethod
    def groups_for(cls, view: View, *, size: int = 2, groups: int | None = None, **options: Any) -> Groups:
        if groups is None:
            return EqualPartition.groups_for(view, size=size)
        return FrequencyPartition.groups_for(view, groups=groups, **options)

    def admits(self, arrival: int) -> bool:
        return True

    def commits(self, done: list[int]) -> Iterator[Commit]:
        if self.one_by_one:
            yield from super().commits(done)
        elif done:
            yield self.show(done)

    def wants_new_groups(self) -> bool:
        return self.by_frequency and super().wants_new_groups()
