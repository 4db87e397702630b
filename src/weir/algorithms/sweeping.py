"""The sweep: the exact effect of updates on a view, hop by hop over many sources, compensated locally.

This is the procedure that SWEEP, Nested SWEEP, PVM and PVM-CC share. Its rules (each one general, none a special case):

1. A transaction is a run of **sub-updates**, one per slot that its tables fill, each with its own number in the order
   of arrival. ``number`` gives it: arrival number times the view's slots, plus the slot's place.
2. **Compensation is one join.** A hop wants, for every row of a partial result, the table as it was when that row's
   sub-update arrived; the source answers as of now. So every row read gets the validity "for ever", every later update
   that the answer has seen is added negated with its own number as validity, and the join asks for ``arrival <
   validity``. One read serves a whole batch of updates, and each still gets its own exact delta.
3. A hop ships the distinct join keys of all partial results that wait for that table, and fetches the needed columns
   only.

The hops follow a tree over the slots: first every partial result goes up towards the root, then all go down together.
So a table is asked for at most twice, whatever the number of updates and of slots they start from; a single update
asks every other table exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import compress

from weir.algebra.bag import Bag, total
from weir.algebra.expression import Expression
from weir.algebra.hops import Partial, begin, extend, finish, hop_order, lookup
from weir.algebra.view import Term, View
from weir.algorithms.procedure import Numbered, Packed, Question, Reply, Steps
from weir.messages import Action, Add, AddSwept, Swept, Update

Member = tuple[int, Update] | Packed
Members = Numbered | Packed  # a driver with large batches packs them: one bag per table for all of them
ARRIVAL, VALIDITY = "\0arrival", "\0validity"  # beside columns of any name: no database takes a NUL in one
FOR_EVER = 1 << 62


def width(view: View) -> int:
    """How many numbers one arrival takes: one per slot of the view."""
    return sum(len(term.slots) for term in view.terms)


def number(view: View, arrival: int, term: int, slot: int) -> int:
    """The number of a sub-update in the order of arrival."""
    return arrival * width(view) + sum(len(t.slots) for t in view.terms[:term]) + slot


def sweep(view: View, batch: Members) -> Steps:
    """The view's change by each of these updates and of those admitted on the way, as one bag of the view's columns
    and ARRIVAL; None when they do not concern it.

    Expects a ``Reply`` to every question.
    """
    members: list[Member] = list(batch) if isinstance(batch, tuple) else [batch]
    started = [0] * len(view.terms)  # how many members each term has begun with
    parts: list[Bag] = []
    while any(count < len(members) for count in started):
        for index in range(len(view.terms)):
            parts += yield from _sweep_term(view, index, members, started)
    return total(*parts) if parts else None


def _sweep_term(view: View, index: int, members: list[Member], started: list[int]) -> Steps:
    """Brings the members that this term has not begun with to their end; new ones may come in on the way."""
    term = view.terms[index]
    partials = _begin(view, index, members, started)
    while not all(partial.complete for partial in partials):
        for slot, neighbour in hops(term):
            waits = [slot not in partial.joined and neighbour in partial.joined for partial in partials]
            waiting = list(compress(partials, waits))
            if waiting:
                partials = [partial for partial, waited in zip(partials, waits, strict=True) if not waited]
                partials += yield from _hop(view, index, slot, waiting, members)
                partials += _begin(view, index, members, started)
    return [finish(partial, (ARRIVAL,)) for partial in partials]


def _begin(view: View, index: int, members: list[Member], started: list[int]) -> list[Partial]:
    """The partials of the members that this term has not begun with."""
    new, started[index] = tuple(members[started[index] :]), len(members)
    return begun(view, index, new)


def begun(view: View, index: int, updates: Iterable[Member]) -> list[Partial]:
    """A partial per slot of a term that the updates change, their rows tagged with their sub-updates' numbers."""
    term = view.terms[index]
    changes = {slot: _changes(view, index, slot, updates, ARRIVAL) for slot in range(len(term.slots))}
    return [begin(term, slot, total(*bags), (ARRIVAL,)) for slot, bags in changes.items() if bags]


def _changes(view: View, index: int, slot: int, updates: Iterable[Member], tag: str) -> list[Bag]:
    target, factor, offset = view.terms[index].slots[slot], width(view), number(view, 0, index, slot)
    bags: list[Bag] = []
    for member in updates:
        if isinstance(member, tuple):
            arrival, update = member
            deltas = [delta for relation, delta in update.deltas if relation == target.relation]
            bags += [delta.keep(target.schema.names).tagged(tag, arrival * factor + offset) for delta in deltas]
        elif (packed := member.changes(target.relation, target.schema.names, tag, factor, offset)) is not None:
            bags.append(packed)
    return bags


def _hop(view: View, index: int, slot: int, waiting: list[Partial], members: list[Member]) -> Steps:
    """Reads one table for all waiting partials, takes out what arrived later, and joins."""
    term = view.terms[index]
    reply: Reply = yield Question(term.slots[slot].relation.source, (lookup(term, slot, *waiting),))
    members += reply.admitted
    rows = compensated(view, index, slot, reply.bags[0], reply.arrived)
    return [join_valid(partial, slot, rows) for partial in waiting]


def compensated(view: View, index: int, slot: int, read: Bag, arrived: Members) -> Bag:
    """Rows of a slot's table as of any moment: what was read, valid for ever, and every later update negated, each
    valid up to its own number.
    """
    later = _changes(view, index, slot, arrived if isinstance(arrived, tuple) else [arrived], VALIDITY)
    return total(read.tagged(VALIDITY, FOR_EVER), *(-delta for delta in later))


def join_valid(partial: Partial, slot: int, rows: Bag) -> Partial:
    """The partial joined with compensated rows, every row of it with the table as of its own number."""
    return extend(partial, slot, rows, (ARRIVAL, VALIDITY))


@lru_cache(maxsize=256)
def hops(term: Term) -> tuple[tuple[int, int], ...]:
    """Every hop as (slot to join, slot it is joined from): up the tree first, then down."""
    parent = _tree(term)
    order = list(parent)  # from the root on
    up = [(above, slot) for slot in reversed(order) if (above := parent[slot]) is not None]
    down = [(slot, above) for slot in order if (above := parent[slot]) is not None]
    return (*up, *down)


def _tree(term: Term) -> Mapping[int, int | None]:
    """A spanning tree of the slots from slot 0, along equalities where there are any."""
    parent: dict[int, int | None] = {0: None}
    for slot in hop_order(term, [0]):
        tied = [other for e in term.equalities for at, _, other, _ in e.sides() if at == slot and other in parent]
        parent[slot] = tied[0] if tied else next(iter(parent))
    return parent


def split(view: View, found: Bag | Swept | None, batch: Numbered) -> Iterator[tuple[int, tuple[Action, ...]]]:
    """What a sweep has found taken apart: by arrival number, in order, what each update adds to the view."""
    for arrival, _ in batch:
        if isinstance(found, Swept):
            yield arrival, (AddSwept(found, arrival),)
            continue
        first = arrival * width(view)
        own = Expression(f"`{ARRIVAL}` >= {first} AND `{ARRIVAL}` < {first + width(view)}")
        yield arrival, () if found is None else (Add(found.select(own).keep(view.columns)),)


def together(view: View, found: Bag | Swept | None) -> tuple[Action, ...]:
    """What a sweep has found as one addition to the view."""
    if isinstance(found, Swept):
        return (AddSwept(found),)
    return () if found is None else (Add(found.keep(view.columns)),)
