"""Star: the token of the ring, kept at the warehouse, and only while somebody wants it.

Paper: Agrawal, El Abbadi, Mostéfaoui, Raynal and Roy, "The Lord of the Rings: Efficient Maintenance of Views at Data
Warehouses", section 4.4, Figure 2.

The sources need not know each other, and nothing is sent while nothing changes:
- a node with changes asks the warehouse for the token, once until it has been there;
- the warehouse sends the token to a node and gets it back. A visit is the same as in the ring;
- when the token comes back from node i, it has been everywhere since it was at ``succ(i)``: that entry is complete,
  is applied at once and cleared. (The warehouse sees all increments in order, so they carry no numbers.)
- a token that carries something goes on to ``succ(i)``; one that carries nothing goes to the next node that asked for
  it, or ceases to be.

Since the token goes on step by step as long as it carries anything, each entry meets every other node exactly once,
in order.

Needs: a view of one term. No order of the channels. Promised level: strong. Messages: none when idle; a lone change
costs one request and 2n for its turn.
Slips of the paper, mended, all in ``next_holder``: the loop must advance ``y = succ(y)`` (printed: ``succ(i)``, which
stays where it is); it must test ``pending[y]`` (printed: an unbound ``x``); and it must look at ``pending[i]`` last,
where the paper gives up on reaching i. That last one matters only where channels reorder: i's next request can
overtake the token that comes back from i, and would never be served.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from weir.algebra.hops import finish
from weir.algorithms.base import Algorithm, Facts
from weir.algorithms.node import Node, Reaction, Read
from weir.algorithms.ring import ONE_TERM, STRONG, visit
from weir.algorithms.token import AskingNode, Token, TokenRequest, bottom
from weir.messages import Add, Effect, NodeMessage, Send, Update


@dataclass(frozen=True)
class StarNode(AskingNode):
    """Figure 2, lines 1 to 12."""

    def receive(self, message: NodeMessage, read: Read) -> Reaction:
        assert isinstance(message, Token)
        token = visit(message, self.view.sources.index(self.source), self, read)
        return replace(self, changes=(), requested=False), (Send(None, token),)


class Star(Algorithm):
    """The warehouse: keeps the token, sends it where it is wanted (Figure 2, lines 13 to 36)."""

    facts = Facts(23, "star", "Ring 4.4", STRONG, "none when idle; 2n + 1 for a lone update", needs=(ONE_TERM,))

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.ring = self.view.sources
        self.pending: dict[str, bool] = dict.fromkeys(self.ring, False)
        self.holder: str | None = None  # the node that has the token; None: there is no token

    def node(self, source: str) -> Node:
        return StarNode(self.view, source)

    def on_update(self, update: Update) -> Iterator[Effect]:
        raise AssertionError("every source has a node, which hears of its updates")

    def on_message(self, message: NodeMessage) -> Iterator[Effect]:
        if isinstance(message, Token):
            yield from self._came_back(message)
        elif isinstance(message, TokenRequest) and self.holder is not None:
            self.pending[message.source] = True
        elif isinstance(message, TokenRequest):
            yield from self._pass_on(message.source, bottom(self.ring))

    def _came_back(self, token: Token) -> Iterator[Effect]:
        assert self.holder is not None
        following = self.succ(self.holder)
        at = self.ring.index(following)
        entry = token.entries[at]
        if entry is not None:
            yield self.commit(Add(finish(entry.partial)), positions={following: entry.position})
            token = replace(token, entries=(*token.entries[:at], None, *token.entries[at + 1 :]))
        yield from self._pass_on(self.next_holder(self.holder) if token.idle else following, token)

    def _pass_on(self, to: str | None, token: Token) -> Iterator[Effect]:
        self.holder = to
        if to is not None:
            self.pending[to] = False
            yield Send(to, token)

    def succ(self, node: str) -> str:
        """The node that follows on the ring."""
        return self.ring[(self.ring.index(node) + 1) % len(self.ring)]

    def next_holder(self, node: str) -> str | None:
        """The next node on the ring, from this one on, that asked for the token; itself comes last."""
        following = self.succ(node)
        while following != node and not self.pending[following]:
            following = self.succ(following)
        return following if self.pending[following] else None
