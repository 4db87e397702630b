"""The driver: it hands an algorithm its updates and answers, and takes what it asks, sends and commits.

There is one, for the simulator and for Spark, so that what runs is what the explored schedules have shown. Around it
differs only who answers and when: the simulator's world lets a schedule decide every step, the runtime's conversation
answers everything in the snapshots that a round holds. Neither speaks with the algorithm or its nodes itself.

**Arrival numbers** are given here and nowhere else: 1, 2, 3, ... to the updates of one view, in the order in which they
arrive, from its first load on. After a restart the numbers go on after the last one that was stored.

**What an algorithm gets.** Changes of its view's own tables only; with ``facts.prefilter`` only rows that can matter.
What is left of an update may be nothing: it is handed over all the same, and shown, but not to a node, which would have
nothing to send for it. An algorithm whose procedures are run elsewhere gets updates as they are, because to look into a
large batch here would cost more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace

from weir.algorithms.base import Algorithm
from weir.algorithms.node import Node, Reaction
from weir.algorithms.procedure import Numbered
from weir.algorithms.relevance import concerning, relevant
from weir.messages import Answer, Effect, NodeMessage, Update

Host = Callable[[Node, NodeMessage], Reaction]  # lets a node react where its source can be read


class Driver:
    """One view's algorithm and its nodes. What it returns is to be carried out in order."""

    __slots__ = ("algorithm", "arrivals", "nodes")

    def __init__(self, algorithm: Algorithm, arrivals: int = 0) -> None:
        self.algorithm = algorithm
        self.arrivals = arrivals  # the last number given
        nodes = {source: algorithm.node(source) for source in algorithm.view.sources}
        self.nodes: dict[str, Node] = {source: node for source, node in nodes.items() if node is not None}

    def fork(self) -> Driver:
        """An independent copy that goes on the same way."""
        twin = Driver.__new__(Driver)
        twin.algorithm, twin.arrivals, twin.nodes = self.algorithm.fork(), self.arrivals, self.nodes.copy()
        return twin

    def fingerprint(self) -> Hashable:
        """Equal fingerprints behave alike from here on."""
        return tuple(self.nodes.values()), self.algorithm.fingerprint()

    # -- updates -------------------------------------------------------------------------------------------------------

    def number(self, updates: Iterable[Update]) -> Numbered:
        """Gives updates that have arrived their numbers; what a node has no use for is left out."""
        numbered = []
        for update in updates:
            self.arrivals += update.transactions
            if (wanted := self._wanted(update)) is not None:
                numbered.append((self.arrivals, wanted))
        return tuple(numbered)

    def _wanted(self, update: Update) -> Update | None:
        if self.algorithm.delegated:
            return update
        mine = concerning(self.algorithm.view, update)
        if self.nodes and not mine.changes:
            return None
        return relevant(self.algorithm.view, mine) if self.algorithm.facts.prefilter else mine

    def deliver(self, numbered: Numbered) -> list[Effect]:
        """Updates that have arrived together. A source's node, where there is one, hears of them instead."""
        if not self.nodes:
            return self.algorithm.receive_updates(numbered)
        effects: list[Effect] = []
        for _, update in numbered:
            effects += self._reacted(update.source, self.nodes[update.source].changed(update))
        return effects

    # -- everything else -----------------------------------------------------------------------------------------------

    def begin(self) -> list[Effect]:
        return list(self.algorithm.on_begin())

    def receive(self, message: Answer | NodeMessage) -> list[Effect]:
        """An answer, or what a node has sent to the warehouse."""
        return self.algorithm.receive(message)

    def node_receives(self, source: str, message: NodeMessage, host: Host) -> list[Effect]:
        """A message has reached the node at a source; ``host`` lets it react there."""
        return self._reacted(source, host(self.nodes[source], message))

    def _reacted(self, source: str, reaction: Reaction) -> list[Effect]:
        self.nodes[source], sends = reaction
        return [replace(send, sender=source) for send in sends]

    def finish(self, key: Hashable, result: object) -> list[Effect]:
        """The result of a procedure that was run elsewhere."""
        return self.algorithm.finish(key, result)

    def let_idle(self) -> list[Effect]:
        """Nothing is under way: the timer of algorithms that wait for more updates."""
        return list(self.algorithm.on_idle())

    @property
    def has_timer(self) -> bool:
        return type(self.algorithm).on_idle is not Algorithm.on_idle

    def only_idle(self, under_way: Iterable[object]) -> bool:
        """Whether these messages carry nothing (a token that only goes round) and no node has anything for them."""
        return all(isinstance(message, NodeMessage) and message.idle for message in under_way) and all(
            node.idle for node in self.nodes.values()
        )

