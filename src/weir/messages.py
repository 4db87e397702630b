"""The messages, in the order they flow: a source's Update, the warehouse's Ask, the source's Answer, the Commit.
Algorithms with nodes at the sources have messages of their own besides (NodeMessage).

All are frozen: a message that was sent does not change. Updates and answers of one source reach the warehouse in ONE
first-in-first-out order; that is the promise every algorithm stands on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weir.algebra.bag import Bag, Pairs
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.query import Query

Position = int | str  # the simulator counts transactions, a real source has its own opaque text; algorithms copy it


# -- source to warehouse: what happened -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """What one transaction did to one table, netted: rows inserted and rows deleted, all weights positive.

    None says that there are none, so that an algorithm can tell an insert from a delete without looking into a bag. A
    modification has both.
    """

    relation: Relation
    inserted: Bag | None = None
    deleted: Bag | None = None

    @property
    def delta(self) -> Bag:
        """As one signed bag."""
        if self.deleted is None:
            assert self.inserted is not None, f"a change of {self.relation} that changes nothing"
            return self.inserted
        return -self.deleted if self.inserted is None else self.inserted - self.deleted

    def __str__(self) -> str:
        signed = [("+", self.inserted), ("-", self.deleted)]
        return " ".join(f"{sign}{self.relation.table}{bag}" for sign, bag in signed if bag is not None)


@dataclass(frozen=True)
class GlobalTransaction:
    """A transaction with parts at several sources. Every part names the transaction and all its sources."""

    identifier: str
    sources: frozenset[str]


@dataclass(frozen=True)
class Update:
    """One committed transaction of one source. ``position`` is the source's position after it: 1, 2, 3, ..."""

    source: str
    position: Position
    changes: tuple[Change, ...]
    name: str = ""
    part_of: GlobalTransaction | None = None
    transactions: int = 1  # how many it stands for: where only the end of a batch is shown they may come as one

    @property
    def deltas(self) -> tuple[tuple[Relation, Bag], ...]:
        return tuple((change.relation, change.delta) for change in self.changes)

    def __str__(self) -> str:
        changes = " ".join(str(change) for change in self.changes) or "nothing"
        return f"{self.name or f'{self.source}#{self.position}'}: {changes}"


# -- warehouse to source: questions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ask:
    """A question to one source. ``questions`` are answered together, in one state of the source, a bag each.

    A question is either a query (a sum of terms, all of whose free slots are at that source) or one lookup.
    """

    source: str
    identifier: int
    questions: tuple[Query | Lookup, ...]

    def __str__(self) -> str:
        return f"Q{self.identifier}: " + "; ".join(describe_question(question) for question in self.questions)


def describe_question(question: Query | Lookup) -> str:
    if isinstance(question, Lookup):
        return str(question)
    return " ".join(f"{'' if term.sign < 0 else '+'}{term}" for term in question).removeprefix("+")


@dataclass(frozen=True)
class Answer:
    """What the source saw when it answered, one bag per question."""

    source: str
    identifier: int
    bags: tuple[Bag, ...]

    def __str__(self) -> str:
        return f"A{self.identifier}: " + "; ".join(f"{{{bag}}}" for bag in self.bags)


@dataclass(frozen=True)
class Run:
    """A whole procedure for the driver to run by itself, where every question it has is answered in one known state of
    each source: a sweep of a large batch, as one Spark job. Its result comes back by ``Algorithm.finish``.
    """

    key: Hashable
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


# -- between nodes and the warehouse -----------------------------------------------------------------------------------


class NodeMessage:
    """What an algorithm's nodes at the sources and its part at the warehouse say to each other: a token, say.

    Its subclasses are frozen dataclasses, and need no channel that keeps the order.
    """

    @property
    def idle(self) -> bool:
        """It carries nothing: a token that only goes round."""
        return False


@dataclass(frozen=True)
class Send:
    """A message to the node at a source, or (None) to the warehouse; ``sender`` likewise, filled in by the driver."""

    to: str | None
    message: NodeMessage
    sender: str | None = None


# -- warehouse to view: commits ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Add:
    """Add a signed bag to the view."""

    delta: Bag


@dataclass(frozen=True)
class AddSwept:
    """Add what a sweep that was run elsewhere has found for one update, or (None) for all of its batch. The rows are
    where ``sweep`` has left them, each with its arrival number.
    """

    sweep: Swept
    arrival: int | None = None


@dataclass(frozen=True)
class Swept:
    """The result of a sweep that the driver has run as a whole (see ``Run``), known here by the procedure's key."""

    key: Hashable


@dataclass(frozen=True)
class AddMissing:
    """Add the tuples that the view does not hold yet (set semantics, for views that carry all keys)."""

    rows: Bag


@dataclass(frozen=True)
class DeleteKeys:
    """Remove every view tuple that carries one of these keys; ``on`` pairs view columns with key columns."""

    keys: Bag
    on: Pairs = ()


@dataclass(frozen=True)
class Replace:
    """Put this bag in place of the view."""

    rows: Bag


@dataclass(frozen=True)
class DropNegative:
    """Forget tuples of negative weight (what a warehouse without negative counters does to PVM; for showing that it
    fails).
    """


Action = Add | AddSwept | AddMissing | DeleteKeys | Replace | DropNegative


@dataclass(frozen=True)
class Commit:
    """One atomic step of the view: actions in order, and the vector of source positions that it now reflects.

    ``positions`` is what the algorithm believes and a checker verifies; a source that is missing has not moved.
    ``auxiliary`` carries what must be stored with it (deltas of copies and auxiliary views, by name).
    """

    actions: tuple[Action, ...]
    positions: Mapping[str, Position] = field(hash=False)
    auxiliary: Mapping[str, Bag] = field(default_factory=dict, hash=False)


def apply_actions(view: Bag, actions: tuple[Action, ...]) -> Bag:
    """The view after a commit's actions."""
    for action in actions:
        match action:
            case Add(delta):
                view = view + delta
            case AddMissing(rows):
                view = (view + rows).distinct()
            case DeleteKeys(keys, on):
                view = view.without(keys, on)
            case Replace(rows):
                view = rows
            case DropNegative():
                view = view.positive()
            case AddSwept():
                raise AssertionError(f"{action.sweep} was run elsewhere: whoever ran it has its rows")
    return view


Message = Update | Answer | NodeMessage
Effect = Ask | Commit | Send | Run
