"""One view's conversation with its sources: the algorithm's driver, what it has asked and not been answered yet, and
what it has committed and nobody has written yet.

Three ways a question is answered, none of which the algorithm knows of: an Ask by the source's own thread, a delegated
sweep together with those of other views as one Spark job, a node's read (token algorithms) where the node lives.

**Which arrival number a state has.** A commit shows all updates up to the positions that it carries. How many that
are, counted on from what was written before, is the arrival number of its state. An algorithm that shows updates in
the order of their arrival thereby gives every state its last update's own number; one with an order of its own
numbers that order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from weir.algebra.bag import Bag
from weir.algebra.hops import Lookup
from weir.algebra.query import Query, evaluate_with
from weir.algorithms.driver import Driver
from weir.algorithms.procedure import Numbered
from weir.messages import Answer, Ask, Commit, Effect, NodeMessage, Position, Run, Send, Swept, Update
from weir.rounds.deltas import RoundCommits
from weir.sweeping.order import SweptDelta

Fetch = Callable[[Lookup], Bag]


@dataclass(frozen=True)
class Sweeping:
    """A delegated sweep that waits to be run."""

    conversation: Conversation
    key: Hashable
    batch: Numbered

    @property
    def arrived(self) -> Numbered:
        """What the held snapshots have seen too much of: known once the whole round is delivered."""
        return self.conversation.driver.algorithm.arrived(self.key, "")


class Conversation:
    """An algorithm's driver, and what is under way between it, its sources and its table."""

    def __init__(self, driver: Driver, every_state: bool) -> None:
        self.driver, self.every_state = driver, every_state
        self.mail: dict[str, list[NodeMessage]] = {source: [] for source in driver.nodes}
        self.asks: list[Ask] = []
        self.sweeps: list[Sweeping] = []
        self.idled = False
        self.written = driver.arrivals  # the last arrival number that was taken to be written
        self._begin_round()
        self._carry_out(driver.begin())

    def _begin_round(self) -> None:
        self._commits: list[Commit] = []
        self._deltas: list[SweptDelta] = []
        self._awaited: dict[str, Position] = {}  # where commits must have brought each source before they are written
        self._shown: dict[str, Position] = {}
        self._counts: dict[str, dict[Position, int]] = defaultdict(dict)  # updates of a source up to a position

    # -- a round, from outside -----------------------------------------------------------------------------------------

    def deliver(self, updates: Sequence[Update]) -> None:
        """The round's updates of one source after the other, in order of arrival."""
        self.idled = False
        for update in updates:
            counts = self._counts[update.source]
            counts[update.position] = next(reversed(counts.values()), 0) + update.transactions
        numbered = self.driver.number(updates)
        self._awaited |= {update.source: update.position for _, update in numbered}
        self._carry_out(self.driver.deliver(numbered))

    @property
    def resting(self) -> bool:
        """Nothing is under way but messages that carry nothing."""
        mail = [message for box in self.mail.values() for message in box]
        quiet = self.driver.only_idle(mail) if self.driver.algorithm.perpetual else not mail
        return not self.asks and not self.sweeps and quiet

    def let_idle(self) -> None:
        """Nothing more comes in this round: the timer of algorithms that wait for more."""
        if not self.idled:
            self.idled = True
            self._carry_out(self.driver.let_idle())

    @property
    def holds_back(self) -> bool:
        """Whether updates were received that no commit shows yet, such as a part of a global transaction."""
        return any(self._shown.get(source) != position for source, position in self._awaited.items())

    def take_round(self) -> RoundCommits | None:
        """What was committed since the last time; None when there is nothing to write.

        Where something is held back all of it waits here, because a restart must find it in the sources again.
        """
        before, last = self.written, self.driver.arrivals
        if last == before or self.holds_back:
            return None
        states = self._states(before) if self.every_state else [last] * len(self._commits)
        commits = tuple(zip(states, self._commits, strict=True))
        taken = RoundCommits(commits, self._deltas, before + 1, last, self.every_state)
        self.written = last
        self._begin_round()
        return taken

    def _states(self, before: int) -> list[int]:
        """Every commit's arrival number. A source that a commit does not name has not moved."""
        shown = dict.fromkeys(self._counts, 0)
        states = []
        for commit in self._commits:
            shown |= {at: self._counts[at][p] for at, p in commit.positions.items() if p in self._counts.get(at, ())}
            states.append(before + sum(shown.values()))
        return states

    # -- questions -----------------------------------------------------------------------------------------------------

    def take_asks(self) -> list[Ask]:
        asks, self.asks = self.asks, []
        return asks

    def receive_answer(self, answer: Answer) -> None:
        self._carry_out(self.driver.receive(answer))

    def take_sweeps(self) -> list[Sweeping]:
        sweeps, self.sweeps = self.sweeps, []
        return sweeps

    def swept(self, sweeping: Sweeping, delta: SweptDelta) -> None:
        """A sweep of its has been run; the delta is kept for the round that commits it."""
        self._deltas.append(delta)
        self._carry_out(self.driver.finish(sweeping.key, Swept(sweeping.key)))

    def take_mail(self) -> list[tuple[str, NodeMessage]]:
        """One message per node, so that everything moves on; in a quiet ring the token waits where it is."""
        if self.resting:
            return []
        return [(source, box.pop(0)) for source, box in self.mail.items() if box]

    def node_receives(self, source: str, message: NodeMessage, fetch: Fetch) -> None:
        """To be called where the node lives: ``fetch`` reads its source in the held snapshot."""
        self._carry_out(self.driver.node_receives(source, message, lambda node, told: node.receive(told, fetch)))

    # -- effects -------------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Ask():
                    self.asks.append(effect)
                case Commit():
                    self._commits.append(effect)
                    self._shown |= effect.positions
                case Run(key, _, (_, batch)):
                    self.sweeps.append(Sweeping(self, key, batch))
                case Send(to=None):
                    self._carry_out(self.driver.receive(effect.message))
                case Send(to=str(source)):
                    self.mail[source].append(effect.message)


def answer(ask: Ask, fetch: Fetch) -> Answer:
    """An Ask answered from one state of its source."""
    return Answer(ask.source, ask.identifier, tuple(_value(question, fetch) for question in ask.questions))


def _value(question: Query | Lookup, fetch: Fetch) -> Bag:
    return fetch(question) if isinstance(question, Lookup) else evaluate_with(question, fetch)
