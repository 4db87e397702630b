"""Groups of a view's slots, their auxiliary views, and the view put together from them.

A **group** is a set of slots of one term. Its auxiliary view ``V_k`` is the join of these slots with

- the conditions that fit into the group, applied;
- the columns that the term's select list, or a condition that reaches out of the group, still needs; for a **keyed**
  group also the key of every slot that has one.

Columns keep their names inside the term (``alias.column``), so an auxiliary view is a partial result of its term, and
the term is the join of its groups' auxiliary views by the conditions between them. That join is bilinear like any
other: when several groups change, their deltas are taken one group after the other, earlier groups as they will be
and later ones as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from weir.algebra.bag import Bag, Pairs, total
from weir.algebra.errors import WeirError
from weir.algebra.expression import Expression, column, conjunction
from weir.algebra.hops import Partial, finish
from weir.algebra.query import Query, whole
from weir.algebra.view import Equality, Term, View
from weir.messages import Update


@dataclass(frozen=True)
class SlotGroup:
    """Some slots of the term number ``index``, in ascending order."""

    index: int
    term: Term
    slots: tuple[int, ...]
    keyed: bool = False

    @property
    def name(self) -> str:
        """As its auxiliary view is stored: ``0:1+2`` is slots 1 and 2 of term 0, ``0:1+2k`` the same with keys."""
        return f"{self.index}:{'+'.join(map(str, self.slots))}{'k' if self.keyed else ''}"

    @property
    def view(self) -> View:
        """The auxiliary view's definition."""
        return _auxiliary_view(self)

    @property
    def query(self) -> Query:
        """Its initial content, asked for."""
        return whole(self.view)

    @property
    def hops(self) -> int:
        """How many questions an update of one of its slots takes."""
        return len(self.slots) - 1

    def touched_by(self, update: Update) -> bool:
        relations = {self.term.slots[slot].relation for slot in self.slots}
        return any(change.relation in relations for change in update.changes)

    def __str__(self) -> str:
        return " + ".join(self.term.slots[slot].alias for slot in self.slots) + (" with keys" if self.keyed else "")


Groups = tuple[SlotGroup, ...]
Content = tuple[tuple[SlotGroup, Bag], ...]  # groups with what their auxiliary views hold


def group_named(view: View, name: str) -> SlotGroup:
    """The group whose auxiliary view is stored under a name: how a restart finds the groups it stopped with."""
    index, _, slots = name.removesuffix("k").partition(":")
    try:
        return SlotGroup(int(index), view.terms[int(index)], tuple(map(int, slots.split("+"))), name.endswith("k"))
    except (ValueError, IndexError):
        raise WeirError(f"'{name}' is no auxiliary view of {view.name}: a name says term and slots, as 0:1+2") from None


def check_partition(view: View, groups: Groups) -> Groups:
    """Refuses groups that do not hold every slot of the view exactly once."""
    held = sorted((group.index, slot) for group in groups for slot in group.slots)
    if held != [(index, slot) for index, term in enumerate(view.terms) for slot in range(len(term.slots))]:
        raise WeirError(
            f"the groups {', '.join(group.name for group in groups)} do not hold every table of view {view.name} "
            "exactly once; load the auxiliary views that the algorithm asks for, and drop those it has emptied"
        )
    return groups


# -- a group's auxiliary view ------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _auxiliary_view(group: SlotGroup) -> View:
    """One view per group, however often it is asked for: terms are compared by identity."""
    term, inside = group.term, frozenset(group.slots)
    place = {slot: at for at, slot in enumerate(group.slots)}
    equalities = tuple(
        Equality(place[e.left_slot], e.left, place[e.right_slot], e.right)
        for e in term.equalities
        if {e.left_slot, e.right_slot} <= inside
    )
    part = Term(
        tuple(term.slots[slot] for slot in group.slots),
        equalities,
        tuple(term.selections[slot] for slot in group.slots),
        tuple(e for e in term.rest if term.slots_of(e) <= inside and (e.columns or 0 in inside)),
        tuple((name, column(name)) for name in _columns(group)),
    )
    return View(group.name, (part,))


def _columns(group: SlotGroup) -> tuple[str, ...]:
    """What others need of the group; at least one column, since a table without columns counts rows but holds none."""
    needed = _needed_outside(group) | (_keys(group) if group.keyed else set())
    names = [name for slot in group.slots for name in group.term.slots[slot].names]
    return tuple(name for name in names if name in needed) or tuple(names[:1])


def _needed_outside(group: SlotGroup) -> set[str]:
    term, inside = group.term, frozenset(group.slots)
    crossing = [e for e in term.rest if not term.slots_of(e) <= inside]
    ends = {name for e in term.equalities if not {e.left_slot, e.right_slot} <= inside for name in (e.left, e.right)}
    return ends.union(*(e.columns for _, e in term.output), *(e.columns for e in crossing))


def _keys(group: SlotGroup) -> set[str]:
    return {slot.qualify(name) for slot in (group.term.slots[at] for at in group.slots) for name in slot.key}


# -- putting them together ---------------------------------------------------------------------------------------------


def view_change(view: View, content: Content, changes: Mapping[SlotGroup, Bag]) -> Bag | None:
    """The view's change when auxiliary views with this content change so; None when none does."""
    parts = []
    current = dict(content)
    for group, delta in changes.items():
        others = [(other, bag) for other, bag in current.items() if other.index == group.index and other != group]
        parts.append(finish(join_all([(group, delta), *others])))
        current[group] = current[group] + delta
    return total(*parts).rename(view.columns) if parts else None


def join_all(parts: Sequence[tuple[SlotGroup, Bag]]) -> Partial:
    """The join of partial results of one term, from the first on along the conditions between them."""
    (first, bag), *left = parts
    joined = Partial(first.term, frozenset(first.slots), bag)
    while left:
        following = min(left, key=lambda part: not tied(joined.term, joined.joined, part[0].slots))
        left.remove(following)
        joined = join_group(joined, *following)
    return joined


def join_group(partial: Partial, group: SlotGroup, bag: Bag) -> Partial:
    ties, rest = _between(partial.term, partial.joined, frozenset(group.slots))
    return Partial(partial.term, partial.joined.union(group.slots), partial.bag.join(bag, ties, conjunction(rest)))


@lru_cache(maxsize=1024)
def _between(term: Term, one: frozenset[int], other: frozenset[int]) -> tuple[Pairs, tuple[Expression, ...]]:
    """The conditions that are complete once both sides are there, and were not before."""
    ties = tuple(
        (mine, theirs) for e in term.equalities for at, mine, there, theirs in e.sides() if at in one and there in other
    )
    spans = [(e, term.slots_of(e)) for e in term.rest]
    return ties, tuple(e for e, s in spans if s <= one | other and not s <= one and not s <= other)


def tied(term: Term, one: Iterable[int], other: Iterable[int]) -> bool:
    here, there = set(one), set(other)
    return any(at in here and to in there for e in term.equalities for at, _, to, _ in e.sides())


# -- making groups -----------------------------------------------------------------------------------------------------


def joined_parts(term: Term, slots: Iterable[int], size: int | None = None) -> list[tuple[int, ...]]:
    """The slots in parts of at most ``size`` that are each held together by equalities.

    A part grows by the next slot that is tied to it and is closed when there is none: a part that is no join would be
    a cross product, which costs more space and saves no question.
    """
    left, parts = list(slots), []
    while left:
        part = [left.pop(0)]
        while (size is None or len(part) < size) and (near := [slot for slot in left if tied(term, part, [slot])]):
            left.remove(near[0])
            part.append(near[0])
        parts.append(tuple(part))
    return parts
