"""Evaluating a term hop by hop: which table next, with which keys, and how its rows join what is known.

A **partial** is the join of some of a term's slots. One hop adds one slot: ``lookup`` says what to ask its source (the
distinct join keys and the needed columns only), ``extend`` joins what comes back. The same steps evaluate a query inside one
source, run a sweep across many, and run in a Spark task: only who fetches the rows differs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from weir.algebra.bag import Bag
from weir.algebra.catalog import Relation
from weir.algebra.expression import Expression, conjunction
from weir.algebra.view import Term


@dataclass(frozen=True)
class Lookup:
    """The one question a database must be able to answer: rows of a table whose key columns occur in ``keys``.

    ``keys`` has one column per ``key_columns``, under the same names, every key once; None asks for the whole table. The answer
    has exactly ``columns``. It may hold more rows than asked for (a source that compares loosely, or that cannot apply
    ``selection``): the view's own predicates decide in ``extend``.
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
    """The join of the slots in ``joined``, columns named ``alias.column``; a caller may carry columns of its own along."""

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


def hop_order(term: Term, known: Iterable[int], at_hand: Collection[int] = ()) -> Iterator[int]:
    """The slots still to be joined, in the order to join them, from the slots already known.

    Next comes a slot that an equality ties to what is known (so that keys can be shipped), failing that one that another
    condition ties to it, failing that the first left. Among equals a slot whose rows are ``at_hand`` comes first, so that it
    narrows what is asked for; then the order of the FROM clause decides.
    """
    reached = set(known)
    left = [at for at in range(len(term.slots)) if at not in reached]
    while left:
        following = min(left, key=lambda at: (_looseness(term, reached, at), at not in at_hand, at))
        yield following
        reached.add(following)
        left.remove(following)


def _looseness(term: Term, reached: set[int], slot: int) -> int:
    if any(mine == slot and other in reached for e in term.equalities for mine, _, other, _ in e.sides()):
        return 0
    if any(slot in spanned and spanned - {slot} <= reached for spanned in map(term.slots_of, term.rest)):
        return 1
    return 2


def lookup(term: Term, slot: int, partial: Partial | None = None) -> Lookup:
    """What to ask the slot's source so that ``extend`` can join the answer to ``partial``; without one, the whole table."""
    target, selection = term.slots[slot], term.selections[slot]
    if selection is not None:
        selection = selection.rename({target.qualify(name): name for name in target.schema.names})
    ties = _ties(partial, slot) if partial else []
    if partial is None or not ties:
        return Lookup(target.relation, target.schema.names, selection=selection)
    by_column = {theirs: mine for mine, theirs in reversed(ties)}  # one key column once, however many equalities use it
    key_columns = tuple(name for name in target.schema.names if target.qualify(name) in by_column)
    keys = partial.bag.keep([by_column[target.qualify(name)] for name in key_columns]).rename(key_columns)
    return Lookup(target.relation, target.schema.names, key_columns, _every_key_once(keys), selection)


def _every_key_once(keys: Bag) -> Bag:
    """Keys of either sign, each once: a deleted row asks for its partners just as an inserted one does."""
    return (keys.distinct() + (-keys).distinct()).distinct()


def answer(lookup: Lookup, table: Bag) -> Bag:
    """The lookup's answer from a table that is at hand (a copy, a simulated source)."""
    rows = table if lookup.selection is None else table.select(lookup.selection)
    if lookup.keys is not None:
        rows = rows.matching(lookup.keys, [(name, name) for name in lookup.key_columns])
    return rows.keep(lookup.columns)


def extend(partial: Partial, slot: int, rows: Bag) -> Partial:
    """The partial joined with rows of one more slot (of either sign), by every condition that is now complete."""
    joined = partial.joined | {slot}
    where = conjunction(e for e in partial.term.rest if slot in (s := partial.term.slots_of(e)) and s <= joined)
    bag = partial.bag.join(_qualified(partial.term, slot, rows), _ties(partial, slot), where)
    return Partial(partial.term, joined, bag)


def finish(partial: Partial) -> Bag:
    """The select list over a complete partial: the term's value."""
    return partial.bag.project(partial.term.output)


def _qualified(term: Term, slot: int, rows: Bag, extra: tuple[str, ...] = ()) -> Bag:
    target, chosen = term.slots[slot], term.selections[slot]
    # A condition without columns, such as FALSE, belongs to no slot: the first one applies it.
    constants = [e for e in term.rest if not e.columns] if slot == 0 else []
    selection = conjunction([*([chosen] if chosen is not None else []), *constants])
    renamed = rows.keep([*target.schema.names, *extra]).rename([*target.names, *extra])
    return renamed if selection is None else renamed.select(selection)


def _ties(partial: Partial, slot: int) -> list[tuple[str, str]]:
    """Equalities between what is known and the slot: (known column, the slot's column), qualified."""
    return [
        (theirs, mine)
        for equality in partial.term.equalities
        for at, mine, other, theirs in equality.sides()
        if at == slot and other in partial.joined
    ]
