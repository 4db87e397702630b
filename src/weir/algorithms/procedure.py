"""A sequential procedure: a generator that yields questions and receives answers, and that can be forked.

The papers write their algorithms as sequences: ask, wait, compensate, ask the next. So do we, as generators. A
simulator that explores every schedule must continue one procedure in several ways, which a live generator cannot do;
so a procedure is a *value*: the function, its arguments and the answers it was sent so far. ``send`` returns the
continued procedure and leaves the old one as it was; a procedure whose generator has moved on is replayed from its
answers when it is continued once more. This asks one thing of the function: it depends on nothing but its arguments
and what it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from weir.algebra.bag import Bag
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.query import Query, evaluate
from weir.messages import Update


@dataclass(frozen=True)
class Question:
    """What a procedure wants to know of one source; ``parts`` are answered in one state of it, a bag each."""

    source: str
    parts: tuple[Query | Lookup, ...]


Numbered = tuple[tuple[int, Update], ...]  # updates by their number in the order in which the view shall show them


class Packed(Protocol):
    """Many numbered updates at once, as one bag per table: what a driver with large batches gives instead of them."""

    def changes(self, relation: Relation, columns: Sequence[str], tag: str, factor: int, offset: int) -> Bag | None:
        """Their change of a table, every row tagged with ``factor`` times its update's number plus ``offset``."""


@dataclass(frozen=True)
class Reply:
    """An answer, and what the algorithm knows at the moment it arrives.

    ``arrived``: every update that the answer may have seen and some row of the procedure must not see, by number.
    ``admitted``: updates that join the procedure now (Nested SWEEP); they are among ``arrived`` too.
    """

    bags: tuple[Bag, ...]
    arrived: Numbered = ()
    admitted: Numbered = ()


Steps = Generator[Question | tuple[Question, ...], Any, Any]  # yields one question, or several to be asked at once


class Memory:
    """What procedures did before, by what they were started with and sent. A simulator that runs the same steps over
    and over shares one; a running system has none.
    """

    def __init__(self) -> None:
        self.outcomes: dict[Hashable, Procedure] = {}


class Procedure:
    """A resumable run of ``function(*arguments)``."""

    __slots__ = ("_arguments", "_function", "_live", "_memory", "_sent", "questions", "result")

    def __init__(
        self, function: Callable[..., Steps], arguments: tuple[Any, ...], sent: tuple[Any, ...], memory: Memory | None
    ) -> None:
        self._function = function
        self._arguments = arguments
        self._sent = sent
        self._memory = memory
        self._live: Steps | None = None
        self.questions: tuple[Question, ...] = ()  # what it waits for; empty when it has finished
        self.result: Any = None

    @classmethod
    def start(cls, function: Callable[..., Steps], *arguments: Any, memory: Memory | None = None) -> Procedure:
        """Runs it to its first question, or to its end."""
        return cls(function, arguments, (), memory)._advanced(lambda: function(*arguments))

    @property
    def finished(self) -> bool:
        return not self.questions

    def send(self, reply: Any) -> Procedure:
        """Continues with the reply to its question (a tuple of replies when it asked several at once)."""
        following = Procedure(self._function, self._arguments, (*self._sent, reply), self._memory)
        return following._advanced(self._take_live)

    def _take_live(self) -> Steps:
        live, self._live = self._live, None
        return self._replayed() if live is None else live

    def _replayed(self) -> Steps:
        live = self._function(*self._arguments)
        if self._sent or self.questions:
            next(live)
        for reply in self._sent:
            live.send(reply)
        return live

    def _advanced(self, generator: Callable[[], Steps]) -> Procedure:
        """This procedure after its last reply, taken from memory where that has happened before."""
        if self._memory is None:
            self._run(generator())
            return self
        known = self._memory.outcomes.get(self.fingerprint())
        if known is None:
            self._run(generator())
            known = self._memory.outcomes[self.fingerprint()] = self
        return known

    def _run(self, live: Steps) -> None:
        try:
            asked = live.send(self._sent[-1]) if self._sent else next(live)
        except StopIteration as stop:
            self.result = stop.value
        else:
            self._live = live
            self.questions = asked if isinstance(asked, tuple) else (asked,)

    def fingerprint(self) -> Hashable:
        """Equal fingerprints behave alike from here on."""
        return (self._function, self._arguments, self._sent)


def pose(*parts: Query) -> Steps:
    """Evaluates queries, none of them local: as one question when one source can answer all, else hop by hop.

    Returns one bag per query. Hop by hop, every hop sees another state of its source: the caller must compensate or not
    care.
    """
    bags, _ = yield from pose_and_see(*parts)
    return bags


def pose_and_see(*parts: Query) -> Steps:
    """``pose`` that also returns the last reply, for those who must know what had arrived by then."""
    sources = {source for part in parts for term in part for source in term.sources}
    if len(sources) == 1:
        reply: Reply = yield Question(sources.pop(), parts)
        return reply.bags, reply
    values = []
    for part in parts:
        value, reply = yield from _hop_by_hop(part)
        values.append(value)
    return tuple(values), reply


def _hop_by_hop(query: Query) -> Steps:
    steps = evaluate(query)
    reply = Reply(())
    try:
        asked = next(steps)
        while True:
            reply = yield Question(asked.relation.source, (asked,))
            asked = steps.send(reply.bags[0])
    except StopIteration as stop:
        return stop.value, reply
