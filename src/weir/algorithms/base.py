"""What all algorithms share: they receive updates and answers, and return questions and commits.

An algorithm is a state machine without I/O. Its driver (``weir.algorithms.driver``, the same in the simulator and on
Spark) hands it each source's updates and answers in that source's one order, and takes its questions and commits. It
branches on metadata (which update, which relation, which source, what is pending), never on what a bag holds.

State lives in plain attributes: immutable values, and dictionaries and lists of them. That is what makes ``fork``
(continue in several ways) and ``fingerprint`` (two states that behave alike) work for every algorithm without a line
of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from weir.algebra.bag import Bag
from weir.algebra.errors import WeirError
from weir.algebra.query import Query, whole
from weir.algebra.view import View
from weir.algorithms.node import Node
from weir.algorithms.procedure import Memory, Numbered, Procedure, Reply, Steps
from weir.algorithms.questions import Questions, per_hop
from weir.messages import Action, Answer, Ask, Commit, Effect, NodeMessage, Position, Run, Update

SINGLE_SOURCE, SINGLE_UPDATE, SOURCE_LOCAL, GLOBAL = "single-source", "single-update", "source-local", "global"
SCENARIOS = (SINGLE_SOURCE, SINGLE_UPDATE, SOURCE_LOCAL, GLOBAL)
NOTHING, AUXILIARY, COPIES = "none", "auxiliary", "copies"
SPACES = (NOTHING, AUXILIARY, COPIES)  # what may be stored beside the view, each more than the one before


_NOT_STATE = ("view", "definition", "memory", "delegated", "put_off")


class NeedNotMet(WeirError):
    """A view lacks what an algorithm needs. Raised before anything runs, with what would make it possible."""


@dataclass(frozen=True)
class Setting:
    """What is known of the sources beside their tables."""

    global_identifiers: bool = True  # parts of a global transaction carry its identifier and its sources


@dataclass(frozen=True)
class Need:
    """Something an algorithm stands on: ``unmet`` says what of it a view lacks, or nothing."""

    name: str
    unmet: Callable[[View, Setting], str | None]

    def require(self, view: View, who: str, setting: Setting | None = None) -> None:
        missing = self.unmet(view, setting or Setting())
        if missing:
            raise NeedNotMet(f"view {view.name} cannot be maintained by {who}: {missing}")


@dataclass(frozen=True)
class Facts:
    """All that others know of an algorithm: outside this folder only the rules of ``auto`` know one from another."""

    number: int  # in the papers' table
    name: str  # as a view's ``strategy`` says it
    paper: str  # and its section
    claims: Mapping[str, str]  # the papers' level, per scenario that they speak of
    messages: str  # per update, in the papers' words
    needs: tuple[Need, ...] = ()  # what a view must have
    questions: Questions = per_hop  # expected for a batch of changes
    stores: str = NOTHING  # one of SPACES: what it keeps beside the view
    space: str = ""  # the same in words
    gathers: str = ""  # the option that says how many updates it takes together
    merges: bool = False  # a round's updates may be given to it as one where only batch ends are shown
    recomputes: bool = False  # it asks for the whole view, and shows no state between
    prefilter: bool = False  # drop changes that the view's own selections make irrelevant before they reach it
    delegates: tuple[Callable[..., Steps], ...] = ()  # procedures that a driver may run as a whole, on Spark


class Algorithm(ABC):
    """One view's maintenance. Give it messages in order; it returns effects in order."""

    facts: ClassVar[Facts]
    perpetual: ClassVar[bool] = False  # its messages never stop by themselves; it rests when all of them are idle

    def __init__(self, view: View, auxiliary: Mapping[str, Bag] | None = None, **options: Any) -> None:
        """``auxiliary`` holds the initial content of what ``auxiliary_for`` asked for, at the view's own initial
        state.
        """
        self.view = view
        self.definition = whole(view)
        self.received: dict[str, Position] = {}  # the vector of everything delivered so far
        self.arrival = 0  # the last update's arrival number, as the driver gave it
        self.asked = 0  # how many questions were asked: the last one's identifier
        self.running: dict[Hashable, Procedure] = {}
        self.waiting: dict[int, tuple[Hashable, int]] = {}  # open question -> (procedure, place in its questions)
        self.replies: dict[tuple[Hashable, int], Reply] = {}  # answers kept until the rest of that round is in
        self.memory: Memory | None = None  # a simulator may share one between all forks
        self.delegated: frozenset[Callable[..., Steps]] = frozenset()  # procedures that the driver runs as a whole
        self.repeating = False  # inside ``repeat``
        self.put_off: list[tuple[Callable[[], bool], Callable[[], Iterator[Effect]]]] | None = None  # see repeat
        if options:
            raise WeirError(f"{self.facts.name} has no option '{next(iter(options))}'")

    @classmethod
    def check(cls, view: View, setting: Setting | None = None) -> None:
        """Refuses a view that lacks what the algorithm needs."""
        for need in cls.facts.needs:
            need.require(view, cls.facts.name, setting)

    @classmethod
    def auxiliary_for(cls, view: View, **options: Any) -> Mapping[str, Query]:
        """What must be loaded beside the view before it starts, by name; options may change it."""
        return {}

    # -- what the driver calls ----------------------------------------------------------------------------------------

    def receive(self, message: Answer | NodeMessage) -> list[Effect]:
        """Takes one message and returns what to do about it, in order."""
        return list(self._answered(message) if isinstance(message, Answer) else self.on_message(message))

    def receive_updates(self, numbered: Iterable[tuple[int, Update]]) -> list[Effect]:
        """Takes updates that arrived together, by arrival number; work that they can share is begun after the last."""
        self.put_off = []
        effects: list[Effect] = []
        for self.arrival, update in numbered:
            self.received[update.source] = update.position
            effects += self.on_update(update)
        later, self.put_off = self.put_off, None
        return effects + [effect for more, begin in later[-1:] for effect in self.repeat(more, begin)]

    def arrived(self, key: Hashable, source: str) -> Numbered:
        """For a procedure that was delegated: what its answers of this source may have seen too much of, when they are
        given in the state that everything received so far has led to.
        """
        return self.reply_for(key, Answer(source, 0, ())).arrived

    def finish(self, key: Hashable, result: Any) -> list[Effect]:
        """Takes the result of a procedure that was delegated."""
        return list(self.on_finished(key, result))

    def node(self, source: str) -> Node | None:
        """What works at this source on the algorithm's behalf; the source's updates then go to it and nowhere else."""
        return None

    def fork(self) -> Self:
        """An independent copy that behaves the same from here on."""
        twin = self.__class__.__new__(self.__class__)
        for name, value in self.__dict__.items():
            twin.__dict__[name] = value.copy() if isinstance(value, dict | list) else value
        return twin

    def fingerprint(self) -> Hashable:
        """Equal fingerprints behave alike from here on."""
        return tuple(_frozen(value) for name, value in self.__dict__.items() if name not in _NOT_STATE)

    # -- what an algorithm writes -------------------------------------------------------------------------------------

    def on_begin(self) -> Iterable[Effect]:
        """Nothing has happened yet: the place of a message that is there from the first."""
        return ()

    def on_message(self, message: NodeMessage) -> Iterable[Effect]:
        """A node has sent something."""
        return ()

    @abstractmethod
    def on_update(self, update: Update) -> Iterable[Effect]:
        """A transaction has arrived."""

    def on_idle(self) -> Iterable[Effect]:
        """Nothing is under way anywhere: the place of a timer for algorithms that wait for more updates."""
        return ()

    def on_finished(self, key: Hashable, result: Any) -> Iterable[Effect]:
        """The procedure started under ``key`` has come to its end."""
        return ()

    def reply_for(self, key: Hashable, answer: Answer) -> Reply:
        """What an answered question sends into its procedure; an algorithm that compensates adds what interfered."""
        return Reply(answer.bags)

    def start(self, key: Hashable, function: Callable[..., Steps], *arguments: Any) -> Iterator[Effect]:
        """Starts a procedure: asks its first questions, or finishes it at once."""
        if function in self.delegated:
            yield Run(key, function, arguments)
            return
        yield from self._go_on(key, Procedure.start(function, *arguments, memory=self.memory))

    def repeat(self, more: Callable[[], bool], begin: Callable[[], Iterator[Effect]]) -> Iterator[Effect]:
        """Begins the next as long as there is more.

        A procedure may finish at once and its end ask for the next: that call leaves it to the one that is running, so
        a long queue of such updates is a loop and not a recursion.
        """
        if self.put_off is not None:
            self.put_off.append((more, begin))
            return
        if self.repeating:
            return
        self.repeating = True
        while more():
            yield from begin()
        self.repeating = False

    def commit(self, *actions: Action, positions: Mapping[str, Position] | None = None) -> Commit:
        """A commit up to everything received, or to the given positions."""
        return Commit(actions, dict(self.received if positions is None else positions))

    # -- questions and answers ----------------------------------------------------------------------------------------

    def _answered(self, answer: Answer) -> Iterator[Effect]:
        key, place = self.waiting.pop(answer.identifier)
        self.replies[key, place] = self.reply_for(key, answer)
        procedure = self.running[key]
        places = range(len(procedure.questions))
        if all((key, at) in self.replies for at in places):
            replies = tuple(self.replies.pop((key, at)) for at in places)
            yield from self._go_on(key, procedure.send(replies if len(replies) > 1 else replies[0]))

    def _go_on(self, key: Hashable, procedure: Procedure) -> Iterator[Effect]:
        if procedure.finished:
            self.running.pop(key, None)
            yield from self.on_finished(key, procedure.result)
            return
        self.running[key] = procedure
        for place, question in enumerate(procedure.questions):
            self.asked += 1
            self.waiting[self.asked] = (key, place)
            yield Ask(question.source, self.asked, question.parts)


def _frozen(value: Any) -> Hashable:
    """A hashable stand-in for a piece of state."""
    if isinstance(value, dict):
        return tuple((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value.fingerprint() if isinstance(value, Procedure) else value


# -- needs ---------------------------------------------------------------------------------------------------------


def _several_sources(view: View, setting: Setting) -> str | None:
    if len(view.sources) <= 1:
        return None
    return (
        f"it spans the sources {', '.join(view.sources)}, and this algorithm asks one source for everything in one "
        "question; use sweep, pvm-cc or strategy = 'auto' for views over several sources"
    )


_WITHOUT_KEYS = "use an algorithm that needs no keys"


def _missing_keys(view: View, setting: Setting) -> str | None:
    if len(view.terms) > 1:
        return f"it is a UNION ALL, and a tuple does not tell which part it came from; {_WITHOUT_KEYS}"
    for slot, keys in zip(view.terms[0].slots, view.terms[0].carried_keys, strict=True):
        if not slot.key:
            return f"table {slot.relation} has no key; declare one at the source, or {_WITHOUT_KEYS}"
        if keys is None:
            missing = ", ".join(slot.qualify(column) for column in slot.key)
            return f"its select list lacks the key of {slot.relation}; add {missing} to it, or {_WITHOUT_KEYS}"
    return None


def _anonymous_parts(view: View, setting: Setting) -> str | None:
    if setting.global_identifiers:
        return None
    return (
        "the parts of a global transaction carry no identifier, so nobody can tell when all are in; have the "
        "application mark them at every source (see docs/sources), or use t-strobe, which is weak for global "
        "transactions"
    )


ONE_SOURCE = Need("one source", _several_sources)
KEYS = Need("keys of every table in the view", _missing_keys)
GLOBAL_IDENTIFIERS = Need("identifiers of global transactions", _anonymous_parts)
