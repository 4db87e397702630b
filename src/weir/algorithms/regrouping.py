"""Auxiliary views for new groups, as of the view's own vector, while updates wait.

A new group is put together from pieces: auxiliary views of old groups that lie inside it and hold the columns it
wants (joined here), and tables that no such view covers (asked for, hop by hop). A source answers as of now, but the
view stands where the last update was shown; so every update that waits in the queue is taken out of the answer. It is
a sweep with the whole view as its delta: compensation is the same, only that every row has the same arrival number,
so the later updates are simply subtracted.

A group that is a union of old ones needs no question. A part of an old one does: the join has dropped the rows
without partners.
"""

from __future__ import annotations

from dataclasses import dataclass

from weir.algebra.bag import Bag, total
from weir.algebra.hops import Partial, begin, extend, lookup
from weir.algebra.view import Term
from weir.algorithms.partitioning import Content, Groups, SlotGroup, join_all, join_group, tied
from weir.algorithms.procedure import Question, Reply, Steps


@dataclass(frozen=True)
class Pieces:
    """What a new group is made of."""

    at_hand: Content  # auxiliary views that are joined here
    remote: tuple[int, ...]  # slots whose tables must be asked for


def regroup(old: Content, new: Groups) -> Steps:
    """The content of the new groups' auxiliary views; expects every waiting update in a ``Reply``'s ``arrived``."""
    known = dict(old)
    built = []
    for group in new:
        bag = known[group] if group in known else (yield from _build(group, pieces_of(group, old)))
        built.append((group, bag))
    return tuple(built)


def pieces_of(group: SlotGroup, old: Content) -> Pieces:
    """The old auxiliary views to build a group from, and the slots they leave open."""
    at_hand = tuple((other, bag) for other, bag in old if _fits(other, group))
    covered = {slot for other, _ in at_hand for slot in other.slots}
    return Pieces(at_hand, tuple(slot for slot in group.slots if slot not in covered))


def _fits(part: SlotGroup, group: SlotGroup) -> bool:
    if part.index != group.index or not set(part.slots) <= set(group.slots):
        return False
    own = {name for slot in part.slots for name in part.term.slots[slot].names}
    return own.intersection(group.view.columns) <= set(part.view.columns)  # a keyed group wants keys too


def _build(group: SlotGroup, pieces: Pieces) -> Steps:
    left, remote = list(pieces.at_hand), list(pieces.remote)
    partial = join_all(left[:1]) if left else (yield from _read(group.term, remote.pop(0)))
    left = left[1:]
    while left or remote:
        near = [part for part in left if tied(group.term, partial.joined, part[0].slots)]
        slots = [slot for slot in remote if tied(group.term, partial.joined, [slot])]
        if near or not (slots or remote):  # what is at hand comes first: it narrows what is asked for
            following = (near or left)[0]
            left.remove(following)
            partial = join_group(partial, *following)
        else:
            slot = (slots or remote)[0]
            remote.remove(slot)
            partial = yield from _read(group.term, slot, partial)
    return partial.bag.keep(group.view.columns)


def _read(term: Term, slot: int, partial: Partial | None = None) -> Steps:
    """One more table, as of the view's vector, joined to what is there."""
    question = lookup(term, slot, *([partial] if partial else []))
    reply: Reply = yield Question(term.slots[slot].relation.source, (question,))
    rows = _without_waiting(term, slot, reply)
    return extend(partial, slot, rows) if partial else begin(term, slot, rows)


def _without_waiting(term: Term, slot: int, reply: Reply) -> Bag:
    target = term.slots[slot]
    later = [
        delta.keep(target.schema.names)
        for _, update in reply.arrived
        for relation, delta in update.deltas
        if relation == target.relation
    ]
    return total(reply.bags[0], *(-delta for delta in later))
