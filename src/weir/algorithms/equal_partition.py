"""Equal partition: groups of p tables, each with an auxiliary view.

Paper: Wang, Orlowska and Liang, "Efficient Refreshment of Materialized Views With Multiple Sources", section 4.3.

The view's slots are divided into groups of ``size`` (the paper's p), taken along the joins. An update asks the other
p - 1 tables of its group and nobody else; ``p = 1`` stores every table and asks nothing (the copies of the ECA
paper), ``p = n`` is SWEEP. The paper takes any p tables in a row. Here a group is closed early when no table left is
joined to it: the auxiliary view of tables that are not joined is a cross product.

One update is in process at a time and the other groups are frozen meanwhile: what the delta meets in them is the
state before it.

Needs: space for the auxiliary views. Promised level: complete. Messages: p - 1 questions per update.
Invariant: the view and every auxiliary view equal their definitions over the vector of everything shown.
"""

from __future__ import annotations

from typing import Any

from weir.algebra.errors import WeirError
from weir.algebra.view import View
from weir.algorithms.base import AUXILIARY, Facts
from weir.algorithms.partitioned import Partitioned
from weir.algorithms.partitioning import Groups, SlotGroup, joined_parts
from weir.algorithms.questions import per_change
from weir.algorithms.sweep import COMPLETE

AUXILIARY_SPACE = "an auxiliary view per group: its join, with the columns that others need"


class EqualPartition(Partitioned):
    """Groups of up to ``size`` joined slots, one update at a time."""

    facts = Facts(
        18,
        "equal-partition",
        "Partition 4.3",
        COMPLETE,
        "2(p-1)",
        questions=per_change,
        stores=AUXILIARY,
        space=AUXILIARY_SPACE,
    )

    def __init__(self, *arguments: Any, size: int = 2, **options: Any) -> None:
        super().__init__(*arguments, **options)

    @classmethod
    def groups_for(cls, view: View, size: int = 2, **options: Any) -> Groups:
        if size < 1:
            raise WeirError(f"groups of {size} tables make no sense; give a size of at least 1")
        return tuple(
            SlotGroup(index, term, tuple(sorted(slots)))
            for index, term in enumerate(view.terms)
            for slots in joined_parts(term, range(len(term.slots)), size)
        )
