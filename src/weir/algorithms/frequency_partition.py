"""Frequency partition: tables that change often share a group with few others.

Paper: Wang, Orlowska and Liang, "Efficient Refreshment of Materialized Views With Multiple Sources", section 4.4.

``f_parti`` goes through the tables in descending order of update frequency and fills a group until its sum exceeds
``M = floor(sum f / K)``, then the next. So the hottest tables end up in the smallest groups, and the average refresh
time, weighted by frequency, falls.

Frequencies are counts of updates per table, given (``frequencies``, by ``source.table``) or measured: after every
``repartition_after`` updates shown the groups are computed again from what was counted since the last time, and
changed if they differ.

Three choices the paper leaves open:
- Tables of equal frequency come in the order of the joins, so that neighbours stay together.
- Frequency alone may put tables into a group that are not joined to each other; their auxiliary view is a cross
  product. Such a group is split into its joined parts, which ask less and store less; ``split_unjoined=False`` keeps
  it as the paper has it.
- A table that fills several slots counts in each of them, since an update of it is swept from each.

Slips: with ``f`` as shares of 1, as the paper's formula (3) has them, M is 0 and every table is a group of its own:
counts are meant. And since a group is filled until its sum EXCEEDS M, there may be fewer than K groups: six tables of
equal frequency and K = 3 give two groups of three.

Needs: space, frequencies. Promised level: complete, as equal partition. Messages: group size - 1 questions per
update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from weir.algebra.errors import WeirError
from weir.algebra.hops import hop_order
from weir.algebra.view import Term, View
from weir.algorithms.base import AUXILIARY, Facts
from weir.algorithms.equal_partition import AUXILIARY_SPACE
from weir.algorithms.partitioned import Partitioned
from weir.algorithms.partitioning import Groups, SlotGroup, joined_parts
from weir.algorithms.questions import per_change
from weir.algorithms.sweep import COMPLETE
from weir.messages import Update

T = TypeVar("T")
Frequencies = Mapping[str, int]  # updates counted per table, by source.table


def f_parti(frequencies: Sequence[tuple[T, int]], groups: int) -> list[list[T]]:
    """The paper's ``F_Parti(n, K)``. Items of equal frequency keep their order.

    >>> f_parti([("a", 1), ("b", 6), ("c", 2), ("d", 1)], 2)
    [['b'], ['c', 'a', 'd']]
    """
    if groups < 1:
        raise WeirError(f"{groups} groups make no sense; give a number of at least 1")
    limit = sum(frequency for _, frequency in frequencies) // groups  # M
    parts: list[list[T]] = []
    filled = limit + 1
    for item, frequency in sorted(frequencies, key=lambda pair: -pair[1]):
        if filled > limit:
            parts.append([])
            filled = 0
        parts[-1].append(item)
        filled += frequency
    return parts


def ranked_parts(
    term: Term, frequencies: Frequencies, groups: int, split_unjoined: bool
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """A term's groups with the rank of the F_Parti group they come from, hottest first."""
    walk = [0, *hop_order(term, [0])]
    counted = [(slot, frequencies.get(str(term.slots[slot].relation), 0)) for slot in walk]
    for rank, part in enumerate(f_parti(counted, groups)):
        pieces = joined_parts(term, part) if split_unjoined else [tuple(part)]
        yield from ((rank, piece) for piece in pieces)


def checked(view: View, frequencies: Frequencies | None) -> Frequencies:
    """The frequencies as counts; every table alike when nothing is known yet."""
    known = {str(relation): 1 for relation in view.relations}
    if frequencies is None:
        return known
    for table, count in frequencies.items():
        if table not in known:
            raise WeirError(f"frequency of '{table}': view {view.name} has no such table; it has {', '.join(known)}")
        if not isinstance(count, int) or count < 0:
            raise WeirError(f"frequency of '{table}' is {count!r}; give a count of updates, a whole number from 0 on")
    return frequencies


class FrequencyPartition(Partitioned):
    """Groups by F_Parti, one update at a time, other groups when the frequencies shift."""

    facts = Facts(
        19,
        "frequency-partition",
        "Partition 4.4",
        COMPLETE,
        "2(group size - 1)",
        questions=per_change,
        stores=AUXILIARY,
        space=AUXILIARY_SPACE,
    )

    def __init__(
        self,
        *arguments: Any,
        groups: int = 2,
        frequencies: Frequencies | None = None,
        split_unjoined: bool = True,
        repartition_after: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        if repartition_after is not None and repartition_after < 1:
            raise WeirError(f"repartition_after = {repartition_after} makes no sense; give a number of updates")
        self.grouping: dict[str, Any] = {"groups": groups, "split_unjoined": split_unjoined}
        self.repartition_after = repartition_after
        self.counted: dict[str, int] = {}  # updates shown per table since the groups were last computed
        self.counted_updates = 0

    @classmethod
    def groups_for(
        cls,
        view: View,
        *,
        groups: int = 2,
        frequencies: Frequencies | None = None,
        split_unjoined: bool = True,
        hot: int = 0,
        **options: Any,
    ) -> Groups:
        """``hot``: how many of the first groups carry keys, where a table of theirs has one."""
        known = checked(view, frequencies)
        return tuple(
            SlotGroup(index, term, tuple(sorted(slots)), rank < hot and any(term.slots[slot].key for slot in slots))
            for index, term in enumerate(view.terms)
            for rank, slots in ranked_parts(term, known, groups, split_unjoined)
        )

    def shown(self, update: Update) -> None:
        if self.repartition_after is not None:
            self.counted_updates += 1
            for change in update.changes:
                self.counted[str(change.relation)] = self.counted.get(str(change.relation), 0) + 1

    def wants_new_groups(self) -> bool:
        return self.repartition_after is not None and self.counted_updates >= self.repartition_after

    def new_groups(self) -> Groups | None:
        mine = {str(relation) for relation in self.view.relations}
        counted = {table: count for table, count in self.counted.items() if table in mine}
        self.counted, self.counted_updates = {}, 0
        return self.groups_for(self.view, frequencies=counted, **self.grouping) if counted else None
