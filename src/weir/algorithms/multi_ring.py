"""Multi-ring: views that are sums of terms (UNION ALL), a token per term, increments applied as one.

Paper: Agrawal, El Abbadi, Mostéfaoui, Raynal and Roy, "The Lord of the Rings: Efficient Maintenance of Views at Data
Warehouses", section 5. The paper gives the principle (each term has its ring and token; a node in several terms puts
its changes on them only when all their tokens are there together; what comes of one change is applied as one) and
leaves the protocol to a report. This is ours, with the warehouse as the centre, as in the star:

- All tokens are at home at the warehouse. A **visit** sends tokens to a node together and they come back together. At
  a node every part on a token that has not been here yet is multiplied by ``x_i - D_i``.
- A visit with the tokens of **all** the node's terms is **joint**: the node puts ``D_i`` on all of them, and clears
  it. Any other visit leaves ``D_i`` where it is. The warehouse numbers joint visits as it sends them.
- A part is complete when it has been at every node of its term. The increment of a joint visit is complete when all
  its parts are; it is applied as one, in the order of the numbers.
- Nodes that asked are served in the order of their requests. A request **reserves** the tokens it needs: they stay at
  home until all are. A token that is not reserved and carries something goes to the next node on its ring that its
  oldest part lacks; every other token of that node that is free goes with it.

No deadlock: tokens wait only at home, for tokens that are out; every visit ends; and the oldest request gets every
token it needs as it comes home. So every request is served, and since each token then goes on, every increment is
completed.

Why it is exact: two visits that share a token follow one another, so the numbers order any two joint visits of one
term in time. A part with number p meets node j for the first time after p's visit, when j's state ``x_j - D_j`` holds
just the changes of j with numbers below p; those of j with larger numbers come at that visit or later. So in every
term, and hence in the sum, increment p is the change from the vector of all visits before p to the vector with p.

Needs: nothing. No order of the channels. Promised level: strong. Messages: none when idle; two per visit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from weir.algebra.bag import Bag, total
from weir.algebra.hops import Partial, finish
from weir.algebra.view import Term, View
from weir.algorithms.base import Algorithm, Facts
from weir.algorithms.node import Node, Reaction, Read
from weir.algorithms.ring import STRONG
from weir.algorithms.token import AskingNode, TokenRequest, change, multiply, slots_at
from weir.messages import Add, Effect, NodeMessage, Position, Send, Update


@dataclass(frozen=True)
class ChangeShare:
    """One term's share of the change that a joint visit took from ``source``."""

    number: int
    source: str
    partial: Partial


@dataclass(frozen=True)
class TermToken:
    """The token of one term: parts on their way, oldest first."""

    term: int
    parts: tuple[ChangeShare, ...] = ()


@dataclass(frozen=True)
class TokenVisit(NodeMessage):
    """Tokens on their way to a node and back; ``number`` is set on a joint visit, ``position`` on the way back."""

    source: str
    number: int | None
    tokens: tuple[TermToken, ...]
    position: Position = 0

    def __str__(self) -> str:
        parts = (f"{t.term + 1} [{'; '.join(str(p.partial.bag) for p in t.parts)}]" for t in self.tokens)
        return f"tokens {'alone' if self.number is None else self.number}: {', '.join(parts)}"


@lru_cache(maxsize=1024)
def terms_of(view: View, source: str) -> tuple[int, ...]:
    """The terms whose rings a node is on."""
    return tuple(at for at, term in enumerate(view.terms) if source in term.sources)


@dataclass(frozen=True)
class MultiRingNode(AskingNode):
    """A node that asks for all its tokens, and puts its changes on them when they are there together."""

    def receive(self, message: NodeMessage, read: Read) -> Reaction:
        assert isinstance(message, TokenVisit)
        tokens = tuple(self._multiplied(token, read) for token in message.tokens)
        if message.number is None:
            return self, (Send(None, replace(message, tokens=tokens)),)
        tokens = tuple(self._with_changes(token, message.number, read) for token in tokens)
        after = replace(self, changes=(), requested=False)
        return after, (Send(None, replace(message, tokens=tokens, position=self.position)),)

    def _multiplied(self, token: TermToken, read: Read) -> TermToken:
        parts = (replace(p, partial=multiply(p.partial, self.source, self.changes, read)) for p in token.parts)
        return replace(token, parts=tuple(parts))

    def _with_changes(self, token: TermToken, number: int, read: Read) -> TermToken:
        own = change(self.view.terms[token.term], self.source, self.changes, read)
        return token if own is None else replace(token, parts=(*token.parts, ChangeShare(number, self.source, own)))


@dataclass(frozen=True)
class Open:
    """A joint visit's increment in the making. ``missing`` counts its parts under way; None: the visit is not back."""

    source: str
    position: Position = 0
    missing: int | None = None
    deltas: tuple[Bag, ...] = ()


class MultiRing(Algorithm):
    """The warehouse: the centre where all tokens are at home."""

    facts = Facts(24, "multi-ring", "Ring 5", STRONG, "none when idle; 2 per visit, one token per term")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        terms = range(len(self.view.terms))
        self.home: dict[int, TermToken | None] = {at: TermToken(at) for at in terms}  # None: it is out
        self.requests: list[str] = []  # nodes that asked, oldest first
        self.visits = 0  # joint visits sent
        self.increments: dict[int, Open] = {}  # by number, not yet applied

    def node(self, source: str) -> Node:
        return MultiRingNode(self.view, source)

    def on_update(self, update: Update) -> Iterator[Effect]:
        raise AssertionError("every source has a node, which hears of its updates")

    def on_message(self, message: NodeMessage) -> Iterator[Effect]:
        if isinstance(message, TokenRequest) and message.source not in self.requests:
            self.requests.append(message.source)
        elif isinstance(message, TokenVisit):
            self._came_back(message)
            yield from self._apply()
        yield from self._send_tokens()

    # -- tokens that come back ----------------------------------------------------------------------------------------

    def _came_back(self, visit: TokenVisit) -> None:
        if visit.number is not None:
            handed_in = sum(part.number == visit.number for token in visit.tokens for part in token.parts)
            opened = self.increments[visit.number]
            self.increments[visit.number] = replace(opened, position=visit.position, missing=handed_in)
        for token in visit.tokens:
            under_way = tuple(part for part in token.parts if not part.partial.complete)
            self.home[token.term] = replace(token, parts=under_way)
            for part in token.parts:
                if part.partial.complete:
                    self._collect(part)

    def _collect(self, part: ChangeShare) -> None:
        growing = self.increments[part.number]
        assert growing.missing, "a part comes back with its visit or after it"
        deltas = (*growing.deltas, finish(part.partial))
        self.increments[part.number] = replace(growing, missing=growing.missing - 1, deltas=deltas)

    def _apply(self) -> Iterator[Effect]:
        """Complete increments in the order of their numbers; a visit that found no changes gives none."""
        for number, increment in sorted(self.increments.items()):
            if increment.missing != 0:
                return
            del self.increments[number]
            if increment.deltas:
                yield self.commit(Add(total(*increment.deltas)), positions={increment.source: increment.position})

    # -- tokens that go out -------------------------------------------------------------------------------------------

    def _send_tokens(self) -> Iterator[Effect]:
        reserved: set[int] = set()
        for source in tuple(self.requests):
            needed = terms_of(self.view, source)
            if reserved.isdisjoint(needed) and all(self.home[term] for term in needed):
                self.requests.remove(source)
                yield self._visit(source, needed)
            reserved.update(needed)
        for term, token in tuple(self.home.items()):
            if token and token.parts and self.home[term] and term not in reserved:
                source = self._next(token.parts[0], self.view.terms[term])
                free = [at for at in terms_of(self.view, source) if self.home[at] and at not in reserved]
                yield self._visit(source, free)

    def _visit(self, source: str, terms: Sequence[int]) -> Send:
        """Sends tokens to a node together; with all of its terms, the visit is joint."""
        tokens = tuple(token for term in terms if (token := self.home[term]))
        for term in terms:
            self.home[term] = None
        number = None
        if len(tokens) == len(terms_of(self.view, source)):
            self.visits += 1
            number = self.visits
            self.increments[number] = Open(source)
        return Send(source, TokenVisit(source, number, tokens))

    def _next(self, part: ChangeShare, term: Term) -> str:
        """The next node on the term's ring, from the part's own on, where the part has not been."""
        ring = [source for source in self.view.sources if source in term.sources]
        at = ring.index(part.source)
        return next(s for s in (*ring[at:], *ring[:at]) if not part.partial.joined.issuperset(slots_at(term, s)))
