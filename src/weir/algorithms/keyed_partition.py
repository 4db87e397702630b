"""Keyed partition: hot groups carry keys, so a delete there asks nobody.

Paper: Wang, Orlowska and Liang, "Efficient Refreshment of Materialized Views With Multiple Sources", section 5.2,
which only outlines it.

The ``hot`` first groups of F_Parti are **special**: their auxiliary views also carry the key of every slot that has
one. A row deleted from such a slot then takes with it exactly the rows of the auxiliary view that carry its key,
which are at hand: the delta is their negation, and nothing is asked. Inserts are swept as ever, and so are deletes
from tables without a key.

A transaction that does both in a group is a run of two parts: first all deletes by key, then the rest, swept. The
sources answer with the whole transaction in, so for the sweep the transaction is only its rest: the deletes have
happened before it.

Needs: space, and a key of at least one table (the key of a table must be unique and not NULL). Promised level:
complete, as frequency partition. Messages: 0 for deletes from keyed tables of hot groups, else group size - 1
questions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

from weir.algebra.bag import Bag, total
from weir.algebra.view import View
from weir.algorithms.base import AUXILIARY, Facts, Need, Setting
from weir.algorithms.equal_partition import AUXILIARY_SPACE
from weir.algorithms.frequency_partition import FrequencyPartition
from weir.algorithms.keys import key_deletes, without
from weir.algorithms.partitioning import Groups, SlotGroup
from weir.algorithms.procedure import Reply
from weir.algorithms.questions import per_change
from weir.algorithms.sweep import COMPLETE
from weir.algorithms.sweeping import sweep
from weir.messages import Answer, Change, Effect, Update


def _no_keys(view: View, setting: Setting) -> str | None:
    if any(slot.key for term in view.terms for slot in term.slots):
        return None
    tables = ", ".join(str(relation) for relation in view.relations)
    return f"none of its tables ({tables}) has a key; declare one at a source, or use frequency-partition instead"


class KeyedPartition(FrequencyPartition):
    """Frequency partition whose ``hot`` first groups delete by key."""

    facts = Facts(
        21,
        "keyed-partition",
        "Partition 5.2",
        COMPLETE,
        "0 per delete in a hot group, else 2(group size - 1)",
        (Need("a key of a table", _no_keys),),
        questions=per_change,
        stores=AUXILIARY,
        space=AUXILIARY_SPACE + "; keys too in hot groups",
    )

    def __init__(self, *arguments: Any, hot: int = 1, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.grouping["hot"] = hot

    @classmethod
    def groups_for(cls, view: View, *, hot: int = 1, **options: Any) -> Groups:
        return super().groups_for(view, hot=hot, **options)

    # -- deletes by key ------------------------------------------------------------------------------------------------

    def _begin(self, arrival: int, group: SlotGroup) -> Iterator[Effect]:
        rest = swept_part(group, self.queue[arrival])
        if rest.changes:
            self.begun = max(self.begun, arrival)
            yield from self.start((arrival, group), sweep, group.view, ((arrival, rest),))
        else:
            yield from self.on_finished((arrival, group), None)

    def reply_for(self, key: Hashable, answer: Answer) -> Reply:
        """While an update is swept it is only its rest: its deletes by key have happened before."""
        if not isinstance(key, tuple):
            return super().reply_for(key, answer)
        arrival, group = key
        arrived = {**self.queue, arrival: swept_part(group, self.queue[arrival])}
        return Reply(answer.bags, tuple(arrived.items()))

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        if isinstance(key, tuple):
            arrival, group = key
            deleted = self._deleted(group, self.queue[arrival])
            swept = [] if result is None else [result.keep(group.view.columns)]
            result = total(*swept, *deleted)
        yield from super().on_finished(key, result)

    def _deleted(self, group: SlotGroup, update: Update) -> list[Bag]:
        """What the deletes by key take out of the group's auxiliary view, as a delta; none when there are none."""
        deletes = key_deletes(group.view, (c for c in update.changes if deletes_by_key(group, c)))
        before = self.content[group]
        return [without(before, deletes) - before] if deletes else []


def deletes_by_key(group: SlotGroup, change: Change) -> bool:
    """Whether the group's auxiliary view can find the rows that this change deletes."""
    filled = [slot for slot in group.view.terms[0].slots if slot.relation == change.relation]
    return group.keyed and change.deleted is not None and bool(filled) and all(slot.key for slot in filled)


def swept_part(group: SlotGroup, update: Update) -> Update:
    """The update as the group's sweep sees it: tables of the group, without what is deleted by key."""
    relations = {slot.relation for slot in group.view.terms[0].slots}
    mine = [change for change in update.changes if change.relation in relations]
    rest = [replace(change, deleted=None) if deletes_by_key(group, change) else change for change in mine]
    return replace(update, changes=tuple(c for c in rest if c.inserted is not None or c.deleted is not None))
