"""Queries as sums of signed terms, and substitution: ``V<U>``, ``Q<U>``, and so on.

A **bound term** is a view term in which some slots hold a known delta instead of the base table. A query is a sum of
bound terms with signs. Substituting an update for a slot binds that slot in every term where it is still the base
table, and drops the terms where it is bound already: two updates of one slot give nothing.

A transaction is a run of **sub-updates**, one per slot that its tables fill, in slot order: this is what makes
self-joins and transactions over several tables need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace

from weir.algebra.bag import Bag
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup, Partial, begin, extend, finish, hop_order, lookup
from weir.algebra.view import Term, View


@dataclass(frozen=True)
class SubUpdate:
    """The change of one slot: ``delta`` is a signed bag of the slot's table."""

    term: int
    slot: int
    delta: Bag


@dataclass(frozen=True)
class BoundTerm:
    """``sign`` times a view term with deltas in some of its slots. ``index`` is the term's number in its view."""

    index: int
    term: Term
    bindings: tuple[Bag | None, ...]
    sign: int = 1

    @property
    def free(self) -> tuple[int, ...]:
        """The slots that are still base tables."""
        return tuple(at for at, bag in enumerate(self.bindings) if bag is None)

    @property
    def is_local(self) -> bool:
        """Every slot bound: evaluated at the warehouse and never sent."""
        return not self.free

    @property
    def sources(self) -> frozenset[str]:
        """The sources that must be asked."""
        return frozenset(self.term.slots[at].relation.source for at in self.free)

    def __neg__(self) -> BoundTerm:
        return replace(self, sign=-self.sign)

    def __str__(self) -> str:
        slots = zip(self.term.slots, self.bindings, strict=True)
        parts = [slot.relation.table if bag is None else f"[{bag}]" for slot, bag in slots]
        return ("-" if self.sign < 0 else "") + " x ".join(parts)


Query = tuple[BoundTerm, ...]


def whole(view: View) -> Query:
    """The view itself as a query: every slot free."""
    return tuple(BoundTerm(at, term, (None,) * len(term.slots)) for at, term in enumerate(view.terms))


def sub_updates(view: View, deltas: Iterable[tuple[Relation, Bag]]) -> list[SubUpdate]:
    """A transaction's run of sub-updates: one per slot of each changed table."""
    by_relation = dict(deltas)
    return [
        SubUpdate(number, at, by_relation[slot.relation])
        for number, term in enumerate(view.terms)
        for at, slot in enumerate(term.slots)
        if slot.relation in by_relation
    ]


def substitute(query: Query, update: SubUpdate) -> Query:
    """``Q<U>``: the update's delta in its slot, terms where the slot is taken dropped."""
    return tuple(
        replace(term, bindings=_bind(term.bindings, update))
        for term in query
        if term.index == update.term and term.bindings[update.slot] is None
    )


def negate(query: Query) -> Query:
    return tuple(-term for term in query)


def incremental(definition: Query, parts: Iterable[SubUpdate], unanswered: Iterable[Query] = ()) -> Query:
    """``V<U>`` minus ``Q<U>`` for every query that is open, slot after slot of one transaction.

    The sources will answer in a state that holds the whole transaction. So a later slot's delta is also taken out of
    what the earlier slots of the same transaction ask: they shall see that slot as it was.
    """
    still_open = tuple(unanswered)
    query: Query = ()
    for part in parts:
        seen = [substitute(other, part) for other in (*still_open, query)]
        query = sum((negate(extra) for extra in seen), query + substitute(definition, part))
    return query


def local_part(query: Query) -> Query:
    """The terms the warehouse evaluates by itself."""
    return tuple(term for term in query if term.is_local)


def remote_part(query: Query) -> Query:
    """The terms that need a source."""
    return tuple(term for term in query if not term.is_local)


def evaluate_term(bound: BoundTerm) -> Generator[Lookup, Bag, Bag]:
    """Evaluates one bound term; yields a lookup for every base table it needs and is sent the rows."""
    known = [at for at, bag in enumerate(bound.bindings) if bag is not None]
    order = [*known[:1], *hop_order(bound.term, known[:1], at_hand=known)]
    partial: Partial | None = None
    for slot in order:
        rows = bound.bindings[slot]
        if rows is None:
            rows = yield lookup(bound.term, slot, *([partial] if partial else []))
        partial = extend(partial, slot, rows) if partial else begin(bound.term, slot, rows)
    assert partial is not None
    return finish(partial).scale(bound.sign)


def evaluate(query: Query) -> Generator[Lookup, Bag, Bag]:
    """Evaluates a sum of terms, term by term."""
    result: Bag | None = None
    for term in query:
        value = yield from evaluate_term(term)
        result = value if result is None else result + value
    assert result is not None, "an empty query has no value"
    return result


def evaluate_with(query: Query, fetch: Callable[[Lookup], Bag]) -> Bag:
    """The value of a query whose lookups somebody at hand can answer."""
    steps = evaluate(query)
    try:
        asked = next(steps)
        while True:
            asked = steps.send(fetch(asked))
    except StopIteration as stop:
        value: Bag = stop.value
        return value


def evaluate_locally(query: Query) -> Bag:
    """The value of a query that needs no source."""

    def refuse(asked: Lookup) -> Bag:
        raise AssertionError(f"a local query asked a source: {asked}")

    return evaluate_with(query, refuse)


def _bind(bindings: tuple[Bag | None, ...], update: SubUpdate) -> tuple[Bag | None, ...]:
    return (*bindings[: update.slot], update.delta, *bindings[update.slot + 1 :])
