"""Ring: a token goes round the sources for ever and carries every change once around.

Paper: Agrawal, El Abbadi, Mostéfaoui, Raynal and Roy, "The Lord of the Rings: Efficient Maintenance of Views at Data
Warehouses", section 4.2, Figure 1.

The token has one entry per node. When it arrives at node i:
- the entry of i has been all around: it is handed to the warehouse as the next increment, with the next sequence
  number;
- every other entry is multiplied by ``x_i - D_i``, the node as it was at the token's last visit;
- the entry of i becomes ``D_i``, the changes since that visit, and ``D_i`` is cleared; the token goes on.

Why it is exact: an entry that is on the token when it comes to i is handed in before the change that i puts on it now
(its node is met again first), so it must see i without that change; an entry put on later must see i with it, and
does, one turn later. So the increments, in the order of their numbers, each bring the view from one vector to the
next, one source moving by all its transactions of one turn. The warehouse applies them in that order, whatever order
they arrive in.

A node is a source with all its slots (weir.algorithms.token), so a transaction is on the token wholly or not at all.

Needs: a view of one term. No order of the channels. Promised level: strong (validity, order consistency and
up-to-dateness of what readers get). Messages: n per turn, whether anything changed or not, plus one per increment.
Slip of the paper, mended: increments are numbered from 1 while the warehouse waits for 0 first. Both start at 1 here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from weir.algebra.bag import Bag
from weir.algebra.hops import finish
from weir.algebra.view import View
from weir.algorithms.base import SINGLE_SOURCE, SINGLE_UPDATE, SOURCE_LOCAL, Algorithm, Facts, Need, Setting
from weir.algorithms.node import Node, Reaction, Read
from weir.algorithms.token import Entry, Token, TokenNode, bottom, change, multiply
from weir.messages import Add, Effect, NodeMessage, Position, Send, Update

STRONG = {SINGLE_SOURCE: "strong", SINGLE_UPDATE: "strong", SOURCE_LOCAL: "strong"}


def _several_terms(view: View, setting: Setting) -> str | None:
    if len(view.terms) == 1:
        return None
    return f"it is a UNION ALL of {len(view.terms)} parts, and one token carries one of them; use multi-ring"


ONE_TERM = Need("one term", _several_terms)


@dataclass(frozen=True)
class Increment(NodeMessage):
    """One node's change of the view, complete; ``sequence`` says in which order to apply it."""

    source: str
    position: Position
    sequence: int
    delta: Bag

    def __str__(self) -> str:
        return f"increment {self.sequence}: {{{self.delta}}}"


class RingNode(TokenNode):
    """Figure 1, lines 1 to 13."""

    def changed(self, update: Update) -> Reaction:
        return self.noting(update), ()

    def receive(self, message: NodeMessage, read: Read) -> Reaction:
        assert isinstance(message, Token)
        ring = self.view.sources
        at = ring.index(self.source)
        token, sends = self.hand_in(message, at)
        token = visit(token, at, self, read)
        following = ring[(at + 1) % len(ring)]
        return replace(self, changes=()), (*sends, Send(following, token))

    def hand_in(self, token: Token, at: int) -> tuple[Token, tuple[Send, ...]]:
        """The node's own entry goes to the warehouse, numbered."""
        entry = token.entries[at]
        if entry is None:
            return token, ()
        number = token.sequence + 1
        increment = Increment(self.source, entry.position, number, finish(entry.partial))
        return replace(token, sequence=number), (Send(None, increment),)


def visit(token: Token, at: int, node: TokenNode, read: Read) -> Token:
    """The token after a visit: the node's own entry is its changes, every other one is multiplied."""
    term = node.view.terms[0]
    own = change(term, node.source, node.changes, read)
    entries = [
        replace(entry, partial=multiply(entry.partial, node.source, node.changes, read)) if entry else None
        for entry in token.entries
    ]
    entries[at] = Entry(own, node.position) if own else None
    return replace(token, entries=tuple(entries))


class Ring(Algorithm):
    """The warehouse: applies increments in sequence (Figure 1, lines 14 to 17)."""

    facts = Facts(22, "ring", "Ring 4.2", STRONG, "n per turn, shared by all updates", needs=(ONE_TERM,))
    perpetual: ClassVar[bool] = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.next_sequence = 1
        self.early: dict[int, Increment] = {}  # arrived before their turn

    def node(self, source: str) -> Node:
        return RingNode(self.view, source)

    def on_begin(self) -> Iterator[Effect]:
        ring = self.view.sources
        yield Send(ring[0], bottom(ring))

    def on_update(self, update: Update) -> Iterator[Effect]:
        raise AssertionError("every source has a node, which hears of its updates")

    def on_message(self, message: NodeMessage) -> Iterator[Effect]:
        assert isinstance(message, Increment)
        self.early[message.sequence] = message
        while (increment := self.early.pop(self.next_sequence, None)) is not None:
            self.next_sequence += 1
            yield self.commit(Add(increment.delta), positions={increment.source: increment.position})
