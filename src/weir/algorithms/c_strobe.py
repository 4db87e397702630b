"""C-Strobe: complete consistency for keyed views, by asking again for what later deletes hid.

Paper: Zhuge, Garcia-Molina and Wiener, "The Strobe Algorithms for Multi-Source Warehouse Consistency", section 6,
algorithm 3.

Updates wait in a queue and are shown one at a time. A delete is a key-delete on the view. An insert U_i asks V<U_i>;
by the time an answer is in, updates behind U_i have arrived, and the answer must be brought back to the state right
after U_i:
- a later **delete** U_p may have hidden tuples. They are asked for: Q<U_p>, the query with the deleted row in its
  place, whose answer is brought back in the same way (deletes behind U_p), until no table is left to ask;
- a later **insert** may have shown tuples too early. They are taken out of the result by full tuple, unless a delete
  between U_i and it is of the same tuple (then it was there before, too).

**What waits is looked at together.** The rows of all waiting updates are kept as one bag per table, each with its
update's number (``Waiting``), and not gone through update by update for every insert:
- the last compensation of a query, when one table is left to bind, asks nobody: it is one join with all that table's
  deletes behind the query's own;
- whether a tuple was there right after U_i is whether it is there now, less its inserts and plus its deletes since. So
  of the tuples that have changed since, those came too early for which that is 0: changed - present + inserted -
  deleted, as bags, has each of them once and nothing else.

Results gather in Delta as a set of full join tuples (all needed columns of all tables: two versions of one key may be
there for a while), which reach the view after projection. Columns that the view does not need are cut off first, so
that two versions of a row that differ only there are the same tuple.

Compensating queries are asked one per delete, up to K^(n-2) for K deletes and n tables; or, ``grouped``, one per table
for all its deletes together, at most (n-1)!. (These are the paper's bounds, which count the last level of queries
only: see docs/theory/strobe.md.) ``every`` = k shows the view after k updates (or when the queue is empty): fewer
commits, strong instead of complete.

C-Strobe knows no transactions and takes their changes one by one (C-TStrobe does not).

Needs: keys. Promised level: complete for single updates; strong for every > 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weir.algebra.bag import Bag, total
from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.expression import Expression, column
from weir.algebra.query import Query, SubUpdate, evaluate_locally, sub_updates, substitute, whole
from weir.algebra.view import Term, View
from weir.algorithms.base import KEYS, SINGLE_UPDATE, Algorithm, Facts
from weir.algorithms.keys import key_deletes, narrowed, single_changes, surviving
from weir.algorithms.procedure import Numbered, Reply, Steps, pose_and_see
from weir.messages import Action, AddMissing, Answer, Change, DeleteKeys, Effect, Position, Update

DeletePlace = tuple[int, int]  # a delete's number in the queue, and its place within its transaction
LAST = 1 << 30
NUMBER = "\0number"  # beside columns of any name: no database takes a NUL in one


@dataclass(frozen=True)
class WaitingRows:
    """One table's changed rows with their updates' numbers: ``present`` are the inserted ones that are still there."""

    inserted: Bag | None = None
    deleted: Bag | None = None
    present: Bag | None = None

    def behind(self, number: int) -> WaitingRows:
        """Those of later updates."""
        return WaitingRows(*(_behind(rows, number) for rows in (self.inserted, self.deleted, self.present)))

    def with_changes(self, changes: Sequence[tuple[int, Change]], key: tuple[str, ...]) -> WaitingRows:
        inserted = _with(self.inserted, [(number, change.inserted) for number, change in changes])
        deleted = _with(self.deleted, [(number, change.deleted) for number, change in changes])
        if inserted is None or deleted is None:
            return WaitingRows(inserted, deleted, inserted)
        same_key = tuple((name, name) for name in key)
        return WaitingRows(inserted, deleted, surviving(inserted, NUMBER, DeleteKeys(deleted, same_key), NUMBER))

    def too_early(self, at: int) -> Bag | None:
        """Tuples that were not there right after ``at`` and have been since: see the head of this file."""
        later = self.behind(at)
        if later.inserted is None or later.present is None:
            return None
        inserted, present = _rows(later.inserted), _rows(later.present)
        if later.deleted is None:
            return inserted
        deleted = _rows(later.deleted)
        return ((inserted + deleted).distinct() - present + inserted - deleted).positive()


@dataclass(frozen=True)
class Waiting:
    """What waits when an answer arrives: update by update, and all rows together by table."""

    numbered: Numbered = ()
    by_table: tuple[tuple[Relation, WaitingRows], ...] = ()


@dataclass(frozen=True)
class Seen(Reply):
    """A reply with what waited when it arrived."""

    waiting: Waiting = Waiting()


def _behind(rows: Bag | None, number: int) -> Bag | None:
    return None if rows is None else rows.select(Expression(f"`{NUMBER}` > {number}"))


def _with(known: Bag | None, more: Sequence[tuple[int, Bag | None]]) -> Bag | None:
    tagged = [rows.tagged(NUMBER, number) for number, rows in more if rows is not None]
    bags = tagged if known is None else [known, *tagged]
    return total(*bags).distinct() if bags else None  # no row is there twice, so this only makes one table of many


def _rows(tagged: Bag) -> Bag:
    """Without the numbers."""
    return tagged.keep([name for name in tagged.schema.names if name != NUMBER])


class CStrobe(Algorithm):
    """One update at a time, brought back to its own state."""

    facts = Facts(11, "c-strobe", "Strobe 6", {SINGLE_UPDATE: "complete"}, "up to K^(n-2); grouped (n-1)!", (KEYS,))

    def __init__(self, *arguments: Any, grouped: bool = False, every: int = 1, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if every < 1:
            raise WeirError(f"showing the view every {every} updates makes no sense; give a number of at least 1")
        self.grouped, self.every = grouped, every
        self.wide = widened(self.view)
        self.queue: dict[int, Update] = {}  # single changes, the first one being processed
        self.unsorted: list[int] = []  # numbers whose rows are not among those by table yet
        self.by_table: dict[Relation, WaitingRows] = {}
        self.last_of: dict[int, bool] = {}  # whether a change is the last of its transaction
        self.steps = 0
        self.busy = False
        self.actions: list[Action] = []
        self.gathered = 0  # changes in ``actions``
        self.shown: dict[str, Position] = {}

    def on_update(self, update: Update) -> Iterator[Effect]:
        changes = self._changes(narrowed(self.view, update))
        for place, change in enumerate(changes):
            self.steps += 1
            self.queue[self.steps] = change
            self.unsorted.append(self.steps)
            self.last_of[self.steps] = place == len(changes) - 1
        yield from self._process_next()

    def _changes(self, update: Update) -> list[Update]:
        return single_changes(self.view, update)

    def reply_for(self, key: Hashable, answer: Answer) -> Reply:
        self._sort()
        return Seen(answer.bags, waiting=Waiting(tuple(self.queue.items()), tuple(self.by_table.items())))

    def _sort(self) -> None:
        """Puts the rows of updates that have come to those of their tables; what has been shown is dropped."""
        by_relation: dict[Relation, list[tuple[int, Change]]] = {}
        for number in self.unsorted:
            for change in self.queue[number].changes if number in self.queue else ():
                by_relation.setdefault(change.relation, []).append((number, change))
        keys = {slot.relation: slot.key for slot in self.view.terms[0].slots}
        for relation, new in by_relation.items():
            known = self.by_table.get(relation, WaitingRows())
            self.by_table[relation] = known.behind(next(iter(self.queue)) - 1).with_changes(new, keys[relation])
        self.unsorted = []

    def _process_next(self) -> Iterator[Effect]:
        yield from self.repeat(lambda: bool(self.queue) and not self.busy, self._process_one)

    def _process_one(self) -> Iterator[Effect]:
        self.busy = True
        at, change = next(iter(self.queue.items()))
        self.actions += key_deletes(self.view, change.changes)
        yield from self.start(at, effect_of_insert, self.wide, self.view, at, change, self.grouped)

    def on_finished(self, key: Hashable, result: Any) -> Iterator[Effect]:
        at, change = next(iter(self.queue.items()))
        del self.queue[at]
        self.actions += [] if result is None else [AddMissing(result)]
        self.gathered += 1
        if self.last_of.pop(at):
            self.shown[change.source] = change.position
        if not self.queue:
            self.unsorted, self.by_table = [], {}
        if self.gathered >= self.every or not self.queue:
            yield self.commit(*self.actions, positions=self.shown)
            self.actions, self.gathered = [], 0
        self.busy = False
        yield from self._process_next()


def widened(view: View) -> View:
    """The same joins with every needed column of every table as output, under its qualified name."""
    terms = []
    for term in view.terms:
        output = tuple((name, column(name)) for slot in term.slots for name in slot.names)
        terms.append(Term(term.slots, term.equalities, term.selections, term.rest, output))
    return View(view.name, tuple(terms), view.options, view.text)


def effect_of_insert(wide: View, view: View, at: int, change: Update, grouped: bool) -> Steps:
    """What an update's inserts add to the view in the state right after it; None when it inserts nothing."""
    inserted = [(c.relation, c.inserted) for c in change.changes if c.inserted is not None]
    definition = whole(wide)
    first = tuple(term for part in sub_updates(wide, inserted) for term in substitute(definition, part))
    if not first:
        return None
    delta: Bag | None = None
    waiting = Waiting()
    todo: list[tuple[Query, DeletePlace]] = [(first, (at, LAST))]
    while todo:
        query, since = todo.pop(0)
        answer, waiting = yield from _evaluate(query, waiting)
        delta = answer.distinct() if delta is None else (delta + answer).distinct()
        todo += _compensations(wide, query, since, waiting, grouped)
    assert delta is not None
    for inserts in _shown_too_early(wide, at, waiting):
        delta = delta.without(inserts.delta, _full_tuple(wide, inserts), nulls_match=True)
    return delta.project(view.terms[0].output).distinct()


def _evaluate(query: Query, waiting: Waiting) -> Steps:
    if all(term.is_local for term in query):
        return evaluate_locally(query), waiting
    (answer,), reply = yield from pose_and_see(query)
    return answer, reply.waiting


def _compensations(
    wide: View, query: Query, since: DeletePlace, waiting: Waiting, grouped: bool
) -> list[tuple[Query, DeletePlace]]:
    """A query for every delete behind ``since``, or one per slot for all of its table's deletes together."""
    if all(term.is_local for term in query):
        return []  # no table is left to ask
    if grouped or all(len(term.free) == 1 for term in query):  # nobody will be asked: no question to count
        deletes = [(since, part) for part in _together(wide, since, waiting)]
    else:
        deletes = [(place, part) for place, part in _deletes(wide, waiting.numbered) if place > since]
    return [(hidden, place) for place, part in deletes if (hidden := substitute(query, part))]


def _deletes(wide: View, arrived: Numbered) -> Iterator[tuple[DeletePlace, SubUpdate]]:
    """Every slot's deletes in the order in which they count; those of one transaction one after the other."""
    for number, update in arrived:
        deleted = [(change.relation, change.deleted) for change in update.changes if change.deleted is not None]
        for part in sub_updates(wide, deleted):
            yield (number, part.slot), part


def _together(wide: View, since: DeletePlace, waiting: Waiting) -> Iterator[SubUpdate]:
    """Per slot all deletes behind ``since``: those of its own transaction only in later slots."""
    number, slot = since
    deleted = {relation: rows.deleted for relation, rows in waiting.by_table if rows.deleted is not None}
    for part in sub_updates(wide, deleted.items()):
        later = _behind(part.delta, number if part.slot <= slot else number - 1)
        assert later is not None
        yield SubUpdate(part.term, part.slot, _rows(later).distinct())


def _shown_too_early(wide: View, at: int, waiting: Waiting) -> Iterator[SubUpdate]:
    """Inserts behind ``at``, without the rows that a delete between had removed: those had been there before."""
    early = ((relation, rows.too_early(at)) for relation, rows in waiting.by_table)
    yield from sub_updates(wide, [(relation, rows) for relation, rows in early if rows is not None])


def _full_tuple(wide: View, inserts: SubUpdate) -> list[tuple[str, str]]:
    slot = wide.terms[inserts.term].slots[inserts.slot]
    return list(zip(slot.names, slot.schema.names, strict=True))
