"""POSSE-style plans: the hops of one sweep asked one after the other, branch by branch at once, or all at once.

Paper: named by Zhang, Ding and Rundensteiner, "Parallel Multisource View Maintenance", sections 1 and 8, which
describe the idea (a choice of how many of one update's questions are open at the same time, paid for with larger
answers) and say that no cost model was ever given. Plans and cost model here are ours.

A sweep answers two needs with one question: to know the rows of a table, and to know the keys to ask the next one
for. A plan takes them apart. First the rows of every table are *fetched*, in rounds; then all is joined here, with
the same compensation as in SWEEP, each table with the updates that had arrived when its own answer came:
- ``sequence``: SWEEP itself. n - 1 rounds; every hop asks only for what all hops before have left over;
- ``halves``: all branches from the updated table at once, each branch hop by hop, with the keys of the neighbour's
  rows. As many rounds as the longest branch has hops. In a chain that is the left and the right half;
- ``all``: every other table whole, in one round.

``auto`` chooses by a small cost model for every sweep: rounds * ``latency`` + rows fetched * ``per_row``, where a key
finds ``fan_out`` rows and a table has ``sizes[source.table]`` of them. It looks at the view and at which tables
changed, never into a bag.

Over a batch a table is asked for from every side from which updates come, at most from two in a chain; tables of one
source that are due in the same round are asked for in one question.

Needs: nothing. Promised level: complete, as SWEEP, whose order and commits it keeps. Messages: n - 1 questions per
update at the most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from weir.algebra.bag import Bag, total
from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup, Partial, begin, finish, lookup
from weir.algebra.view import Term, View
from weir.algorithms.base import Facts
from weir.algorithms.procedure import Numbered, Question, Reply, Steps
from weir.algorithms.questions import shared_per_hop
from weir.algorithms.sweep import COMPLETE, Sweep
from weir.algorithms.sweeping import ARRIVAL, VALIDITY, begun, compensated, hops, join_valid

SEQUENCE, HALVES, ALL = "sequence", "halves", "all"
PLANS = (SEQUENCE, HALVES, ALL)
UNKNOWN_SIZE = 1000  # rows of a table of which nothing is known

Edge = tuple[int, int]  # (slot to fetch, the neighbour whose rows say which keys)
EdgePlace = tuple[int, int, int]  # a term and an edge of it


class Posse(Sweep):
    """SWEEP with a choice of how many questions are open at once."""

    facts = Facts(15, "posse", "PVM 1, 8", COMPLETE, "2(n-1), fewer rounds", questions=shared_per_hop, gathers="batch")

    def __init__(
        self,
        *arguments: Any,
        plan: str = "auto",
        latency: float = 1.0,
        per_row: float = 0.001,
        fan_out: float = 1.0,
        sizes: Mapping[str, int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        if plan not in ("auto", *PLANS):
            raise WeirError(f"plan = '{plan}' is unknown; use 'auto', 'sequence', 'halves' or 'all'")
        self.plan = plan
        self.latency, self.per_row, self.fan_out = latency, per_row, fan_out
        self.sizes = dict(sizes or {})

    def _procedure(self) -> tuple[Any, ...]:
        plan = self.chosen(self.swept) if self.plan == "auto" else self.plan
        return super()._procedure() if plan == SEQUENCE else (fetch_and_join, self.view, self.swept, plan)

    def chosen(self, batch: Numbered) -> str:
        """The cheapest plan for a batch; of equals the one that asks least at once."""
        return min(PLANS, key=lambda plan: self.cost(plan, batch))

    def cost(self, plan: str, batch: Numbered) -> float:
        """What a plan is expected to cost: the terms' rounds coincide except in a sequence, their rows add up."""
        changed = {change.relation for _, update in batch for change in update.changes}
        rounds, rows = [0], 0.0
        for term in self.view.terms:
            starts = frozenset(at for at, slot in enumerate(term.slots) if slot.relation in changed)
            if starts:
                rounds.append(len(hops_from(term, starts)) if plan == SEQUENCE else len(fetches(term, starts, plan)))
                rows += self._rows(plan, term, starts, len(batch))
        return (sum(rounds) if plan == SEQUENCE else max(rounds)) * self.latency + rows * self.per_row

    def _rows(self, plan: str, term: Term, starts: frozenset[int], updates: int) -> float:
        """Rows fetched: whole tables; or what keys find, in a sequence after what the hops before have left over."""
        rows, hop = 0.0, 0
        for depth, edges in enumerate(fetches(term, starts, plan), 1):
            for slot, _ in edges:
                hop += 1
                narrowing = hop if plan == SEQUENCE and self.fan_out < 1 else depth
                relation = term.slots[slot].relation
                size = self.sizes.get(str(relation), UNKNOWN_SIZE)
                rows += size if plan == ALL else min(size, updates * self.fan_out**narrowing)
        return rows


# -- which rows are fetched, in which round --------------------------------------------------------------------------


def hops_from(term: Term, starts: frozenset[int]) -> tuple[Edge, ...]:
    """Every edge along which some start's effect spreads; n - 1 from one start, at most 2(n - 1) from several."""
    return tuple(edge for edges in fetches(term, starts, HALVES) for edge in edges)


@lru_cache(maxsize=4096)
def fetches(term: Term, starts: frozenset[int], plan: str) -> tuple[tuple[Edge, ...], ...]:
    """The edges by round. An edge is due when all edges behind it are answered: they say which keys to ask for.

    Where whole tables are asked for, nothing has to wait.
    """
    rounds = {edge: _round(term, starts, *edge) for edge in hops(term)}
    if plan == ALL:
        whole = tuple({slot: (slot, neighbour) for (slot, neighbour), at in rounds.items() if at}.values())
        return (whole,) if whole else ()
    last = max(rounds.values(), default=0)
    return tuple(tuple(edge for edge, at in rounds.items() if at == turn) for turn in range(1, last + 1))


def _round(term: Term, starts: frozenset[int], slot: int, neighbour: int) -> int:
    """The round of an edge, from 1 on; 0 when no start lies behind it, so that nobody needs it."""
    behind = [_round(term, starts, neighbour, other) for other in _neighbours(term, neighbour) if other != slot]
    return 1 + max(behind, default=0) if neighbour in starts or any(behind) else 0


def _neighbours(term: Term, slot: int) -> list[int]:
    return [neighbour for at, neighbour in hops(term) if at == slot]


# -- fetching and joining --------------------------------------------------------------------------------------------


def fetch_and_join(view: View, batch: Numbered, plan: str) -> Steps:
    """The view's change by each update of the batch, as ``sweeping.sweep`` returns it."""
    starts = [{min(p.joined): p for p in begun(view, index, batch)} for index in range(len(view.terms))]
    plans = [fetches(term, frozenset(begin), plan) for term, begin in zip(view.terms, starts, strict=True)]
    rows: dict[EdgePlace, Bag] = {}
    for turn in range(max(map(len, plans))):
        due = [(index, *edge) for index, rounds in enumerate(plans) if turn < len(rounds) for edge in rounds[turn]]
        asked = {place: _lookup(view, place, starts[place[0]], rows, plan) for place in due}
        rows |= yield from _fetch(view, asked)
    parts = [
        finish(_joined(view, index, start, rows), (ARRIVAL,))
        for index, partials in enumerate(starts)
        for start in partials.values()
    ]
    return total(*parts) if parts else None


def _lookup(
    view: View, place: EdgePlace, starts: Mapping[int, Partial], rows: Mapping[EdgePlace, Bag], plan: str
) -> Lookup:
    """Asks for the partners of all that is known of the neighbour from behind; in plan ``all`` for the table.

    Rows of either sign and any validity give keys: more than a join will need, never less.
    """
    index, slot, neighbour = place
    term = view.terms[index]
    if plan == ALL:
        return lookup(term, slot)
    known = [starts[neighbour]] if neighbour in starts else []
    for other in _neighbours(term, neighbour):
        if other != slot and (index, neighbour, other) in rows:
            known.append(begin(term, neighbour, rows[index, neighbour, other], (VALIDITY,)))
    return lookup(term, slot, *known)


def _fetch(view: View, asked: Mapping[EdgePlace, Lookup]) -> Steps:
    """One question per source for one round; every table's rows compensated as of its own answer."""
    by_source: dict[str, list[EdgePlace]] = {}
    for place, question in asked.items():
        by_source.setdefault(question.relation.source, []).append(place)
    replies = yield tuple(Question(source, tuple(asked[at] for at in places)) for source, places in by_source.items())
    rows: dict[EdgePlace, Bag] = {}
    for places, reply in zip(by_source.values(), _each(replies), strict=True):
        for (index, slot, neighbour), bag in zip(places, reply.bags, strict=True):
            rows[index, slot, neighbour] = compensated(view, index, slot, bag, reply.arrived)
    return rows


def _each(replies: Reply | tuple[Reply, ...]) -> Iterable[Reply]:
    return (replies,) if isinstance(replies, Reply) else replies


def _joined(view: View, index: int, start: Partial, rows: Mapping[EdgePlace, Bag]) -> Partial:
    """One start's partial joined outwards with the rows fetched on its side of every table."""
    term, partial = view.terms[index], start
    whole = {(at, slot): bag for (at, slot, _), bag in rows.items()}
    while not partial.complete:
        slot, neighbour = next((s, n) for s, n in hops(term) if s not in partial.joined and n in partial.joined)
        fetched = rows.get((index, slot, neighbour), whole[index, slot])
        partial = join_valid(partial, slot, fetched)
    return partial
