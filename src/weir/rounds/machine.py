"""One view's algorithm at work in a round: it is handed the round's updates, its questions are answered in the held
snapshots, and what it commits is collected.

Three ways a question is answered, none of which the algorithm knows of: an Ask by the source's own thread, a delegated
sweep together with those of other views as one Spark job, a node's read (token algorithms) where the node lives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from weir.algebra.bag import Bag
from weir.algebra.expression import Expression
from weir.algebra.hops import Lookup
from weir.algebra.query import evaluate_with
from weir.algorithms.base import Algorithm
from weir.algorithms.node import Node
from weir.algorithms.procedure import Numbered
from weir.algorithms.sweeping import sweep
from weir.messages import Answer, Ask, Commit, Effect, NodeMessage, Run, Send, Update
from weir.sweeping.job import SweptDelta

Fetch = Callable[[Lookup], Bag]


class SweptBag:
    """The change that a delegated sweep has found, still in files: an algorithm may take parts of it by arrival.

    Every stored row carries its arrival, so a part needs no work.
    """

    def __init__(self, delta: SweptDelta) -> None:
        self.delta = delta

    def select(self, predicate: Expression) -> SweptBag:
        return self

    def keep(self, names: Sequence[str]) -> SweptBag:
        return self


@dataclass(frozen=True)
class Sweeping:
    """A delegated sweep that waits to be run."""

    machine: Machine
    key: Hashable
    batch: Numbered

    @property
    def arrived(self) -> Numbered:
        """What the held snapshots have seen too much of: known once the whole round is delivered."""
        return self.machine.algorithm.arrived(self.key, "")


class Machine:
    """An algorithm, its nodes, and what is under way between them."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.delegates = bool(algorithm.facts.delegates)
        if self.delegates:
            algorithm.delegated = frozenset([sweep])
        nodes = {source: algorithm.node(source) for source in algorithm.view.sources}
        self.nodes: dict[str, Node] = {source: node for source, node in nodes.items() if node is not None}
        self.mail: dict[str, list[NodeMessage]] = {source: [] for source in self.nodes}
        self.asks: list[Ask] = []
        self.sweeps: list[Sweeping] = []
        self.commits: list[Commit] = []
        self.deltas: list[SweptDelta] = []
        self.idled = False
        self._carry_out(algorithm.on_begin())

    # -- a round, from outside -----------------------------------------------------------------------------------------

    def receive(self, updates: Sequence[Update]) -> None:
        """The round's updates of one source after the other, in order of arrival."""
        self.idled = False
        if not self.nodes:
            self._carry_out(self.algorithm.receive_all(updates))
            return
        for update in updates:
            self.nodes[update.source], sends = self.nodes[update.source].changed(update)
            self._send(sends)

    @property
    def resting(self) -> bool:
        """Nothing is under way but messages that carry nothing."""
        mail = [message for box in self.mail.values() for message in box]
        quiet = all(message.idle for message in mail) and all(node.idle for node in self.nodes.values())
        return not self.asks and not self.sweeps and (quiet if self.algorithm.perpetual else not mail)

    def take_commits(self) -> tuple[list[Commit], list[SweptDelta]]:
        commits, self.commits, deltas, self.deltas = self.commits, [], self.deltas, []
        return commits, deltas

    def let_idle(self) -> None:
        """Nothing more comes in this round: the timer of algorithms that wait for more."""
        if not self.idled:
            self.idled = True
            self._carry_out(self.algorithm.on_idle())

    # -- questions -----------------------------------------------------------------------------------------------------

    def take_asks(self) -> list[Ask]:
        asks, self.asks = self.asks, []
        return asks

    def answered(self, answer: Answer) -> None:
        self._carry_out(self.algorithm.receive(answer))

    def take_sweeps(self) -> list[Sweeping]:
        sweeps, self.sweeps = self.sweeps, []
        return sweeps

    def swept(self, sweeping: Sweeping, delta: SweptDelta) -> None:
        self.deltas.append(delta)
        self._carry_out(self.algorithm.finish(sweeping.key, SweptBag(delta)))

    def take_mail(self) -> list[tuple[str, NodeMessage]]:
        """One message per node, so that everything moves on; in a quiet ring the token waits where it is."""
        if self.resting:
            return []
        return [(source, box.pop(0)) for source, box in self.mail.items() if box]

    def node_received(self, source: str, message: NodeMessage, fetch: Fetch) -> None:
        """To be called where the node lives: ``fetch`` reads its source in the held snapshot."""
        self.nodes[source], sends = self.nodes[source].receive(message, fetch)
        self._send(sends)

    # -- effects -------------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Ask():
                    self.asks.append(effect)
                case Commit():
                    self.commits.append(effect)
                case Run(key, _, (_, batch)):
                    self.sweeps.append(Sweeping(self, key, batch))
                case Send():
                    self._send((effect,))

    def _send(self, sends: Iterable[Send]) -> None:
        for send in sends:
            if send.to is None:
                self._carry_out(self.algorithm.receive(send.message))
            else:
                self.mail[send.to].append(send.message)


def answer(ask: Ask, fetch: Fetch) -> Answer:
    """An Ask answered from one state of its source."""
    return Answer(ask.source, ask.identifier, tuple(_value(question, fetch) for question in ask.questions))


def _value(question: Any, fetch: Fetch) -> Bag:
    return fetch(question) if isinstance(question, Lookup) else evaluate_with(question, fetch)
