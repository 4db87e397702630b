"""Evaluating a term hop by hop: which table next, with which keys, and how its rows join what is known.

A **partial** is the join of some of a term's slots. One hop adds one slot: ``lookup`` says what to ask its source (the
distinct join keys and the needed columns only), ``extend`` joins what comes back. The same steps evaluate a query
inside one source, run a sweep across many, and run in a Spark task: only who fetches the rows differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from weir.algebra.bag import Bag, total
from weir.algebra.catalog import Relation
from weir.algebra.expression import Expression, column, conjunction
from weir.algebra.view import Term


@dataclass(frozen=True)
class Lookup:
    """The one question a database must be able to answer: rows of a table whose key columns occur in ``keys``.

    ``keys`` has one column per ``key_columns``, under the same names, every key once; None asks for the whole table.
    The answer has exactly ``columns``. It may hold more rows than asked for (a source that compares loosely, or that
    cannot apply ``selection``): the view's own predicates decide in ``extend``.
    """

    relation: Relation
    columns: tuple[str, ...]
    key_columns: tuple[str, ...] = ()
    keys: Bag | None = None
    selection: Expression | None = None  # over the table's own column names

    def __str__(self) -> str:
        where = f" for {self.keys} on {', '.join(self.key_columns)}" if self.keys is not None else ""
        return f"{', '.join(self.columns)} of {self.relation}{where}"


@dataclass(frozen=True)
class Partial:
    """The join of the slots in ``joined``, columns named ``alias.column``; a caller may carry columns of its own
    along.
    """

    term: Term
    joined: frozenset[int]
    bag: Bag

    @property
    def complete(self) -> bool:
        return len(self.joined) == len(self.term.slots)


def begin(term: Term, slot: int, rows: Bag, extra: tuple[str, ...] = ()) -> Partial:
    """A partial of one slot: ``rows`` of its table (needed columns are taken by name), selection applied.

    ``extra`` names columns of ``rows`` that are not the table's and shall be carried along (such as an arrival number).
    """
    return Partial(term, frozenset([slot]), _qualified(term, slot, rows, extra))


def hop_order(term: Term, known: Iterable[int], at_hand: Iterable[int] = ()) -> tuple[int, ...]:
    """The slots still to be joined, in the order to join them, from the slots already known.

    Next comes a slot that an equality ties to what is known (so that keys can be shipped), failing that one that
    another condition ties to it, failing that the first left. Among equals a slot whose rows are ``at_hand`` comes
    first, so that it narrows what is asked for; then the order of the FROM clause decides.
    """
    return _hop_order(term, frozenset(known), frozenset(at_hand))


@lru_cache(maxsize=4096)
def _hop_order(term: Term, known: frozenset[int], at_hand: frozenset[int]) -> tuple[int, ...]:
    reached, order = set(known), []
    while len(reached) < len(term.slots):
        left = (at for at in range(len(term.slots)) if at not in reached)
        following = min(left, key=lambda at: (_looseness(term, reached, at), at not in at_hand, at))
        reached.add(following)
        order.append(following)
    return tuple(order)


def _looseness(term: Term, reached: set[int], slot: int) -> int:
    if any(mine == slot and other in reached for e in term.equalities for mine, _, other, _ in e.sides()):
        return 0
    if any(slot in spanned and spanned - {slot} <= reached for spanned in map(term.slots_of, term.rest)):
        return 1
    return 2


def lookup(term: Term, slot: int, *partials: Partial) -> Lookup:
    """What to ask the slot's source so that ``extend`` can join the answer to each of ``partials``.

    Keys are shipped on the columns that are tied to every one of them, from all of them together; without any, the
    whole table is asked for.
    """
    plain, shared, sources = _question(term, slot, tuple(partial.joined for partial in partials))
    if not shared:
        return plain
    keys = [_every_key(partial.bag, names).rename(shared) for partial, names in zip(partials, sources, strict=True)]
    return replace(plain, key_columns=shared, keys=total(*keys).distinct())


@lru_cache(maxsize=4096)
def _question(
    term: Term, slot: int, joined: tuple[frozenset[int], ...]
) -> tuple[Lookup, tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The lookup without keys, the table's columns that keys are shipped for, and where each partial has them."""
    target, selection = term.slots[slot], term.selections[slot]
    if selection is not None:
        selection = selection.rename({target.qualify(name): name for name in target.schema.names})
    known = [{theirs: mine for mine, theirs in reversed(_ties(term, slots, slot))} for slots in joined]
    names = target.schema.names
    shared = tuple(name for name in names if known and all(target.qualify(name) in ties for ties in known))
    sources = tuple(tuple(ties[target.qualify(name)] for name in shared) for ties in known)
    return Lookup(target.relation, names, selection=selection), shared, sources


def _every_key(bag: Bag, names: Sequence[str]) -> Bag:
    """Keys of rows of either sign: a deleted row asks for its partners just as an inserted one does."""
    return bag.occurring(names)


def answer(lookup: Lookup, table: Bag) -> Bag:
    """The lookup's answer from a table that is at hand (a copy, a simulated source)."""
    rows = table if lookup.selection is None else table.select(lookup.selection)
    if lookup.keys is not None:
        rows = rows.matching(lookup.keys, [(name, name) for name in lookup.key_columns])
    return rows.keep(lookup.columns)


def extend(partial: Partial, slot: int, rows: Bag, as_of: tuple[str, str] | None = None) -> Partial:
    """The partial joined with rows of one more slot (of either sign), by every condition that is now complete.

    ``as_of``: a column of the partial's and one of ``rows`` that is not the table's, the moment and the validity of
    ``join_as_of``.
    """
    where = conjunction(_completed(partial.term, partial.joined, slot))
    ties = _ties(partial.term, partial.joined, slot)
    others = _qualified(partial.term, slot, rows, as_of[1:] if as_of else ())
    joined = partial.bag.join_as_of(others, *as_of, ties, where) if as_of else partial.bag.join(others, ties, where)
    return Partial(partial.term, partial.joined | {slot}, joined)


def finish(partial: Partial, extra: tuple[str, ...] = ()) -> Bag:
    """The select list over a complete partial: the term's value. ``extra`` columns of the caller's are kept behind it.
    """
    return partial.bag.project([*partial.term.output, *((name, column(name)) for name in extra)])


def _qualified(term: Term, slot: int, rows: Bag, extra: tuple[str, ...] = ()) -> Bag:
    target, chosen = term.slots[slot], term.selections[slot]
    # A condition without columns, such as FALSE, belongs to no slot: the first one applies it.
    constants = [e for e in term.rest if not e.columns] if slot == 0 else []
    selection = conjunction([*([chosen] if chosen is not None else []), *constants])
    renamed = rows.keep([*target.schema.names, *extra]).rename([*target.names, *extra])
    return renamed if selection is None else renamed.select(selection)


@lru_cache(maxsize=4096)
def _completed(term: Term, joined: frozenset[int], slot: int) -> tuple[Expression, ...]:
    """The conditions over several slots that can be applied once this slot is joined too."""
    spans = ((expression, term.slots_of(expression)) for expression in term.rest)
    return tuple(expression for expression, spanned in spans if slot in spanned and spanned <= joined | {slot})


@lru_cache(maxsize=4096)
def _ties(term: Term, joined: frozenset[int], slot: int) -> tuple[tuple[str, str], ...]:
    """Equalities between what is known and the slot: (known column, the slot's column), qualified."""
    return tuple(
        (theirs, mine)
        for equality in term.equalities
        for at, mine, other, theirs in equality.sides()
        if at == slot and other in joined
    )
