"""What a token does at a node: the work that ring, star and multi-ring share.

A node is a source with all the slots that its tables fill. It holds its tables ``x`` and its changes ``D`` since it
last put them on the token. ``D`` counts transactions, not rows: it is bottom when no transaction touched a table of
the view, whatever they add up to.
Two things happen when the token is there:

- **multiply**: a change of another node, on its way, is joined with this node's slots in the state ``x - D``. Every
  slot is read as it is now, and ``D`` is taken out of what was read: the join is bilinear, so that is exact.
- **change**: the node's own change is put on the token. Over several slots, ``new - old`` is a sum with one summand
  per changed slot: that slot's delta, the slots before it new, the slots after it old. So a transaction over several
  tables of one source, or over a table that fills several slots, is one change, and is never shown in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from weir.algebra.bag import Bag, total
from weir.algebra.catalog import Relation
from weir.algebra.hops import Partial, begin, extend, hop_order, lookup
from weir.algebra.view import Term, View
from weir.algorithms.node import Node, Reaction, Read
from weir.messages import NodeMessage, Position, Send, Update

Changes = tuple[tuple[Relation, Bag], ...]  # D: one signed bag per changed table; empty is bottom


@dataclass(frozen=True)
class Entry:
    """One node's change, joined with the nodes visited since; ``position`` is where it brings that source to."""

    partial: Partial
    position: Position


@dataclass(frozen=True)
class Token(NodeMessage):
    """One entry per node of the ring, None for bottom. ``sequence`` counts the increments handed out (ring only)."""

    entries: tuple[Entry | None, ...]
    sequence: int = 0

    @property
    def idle(self) -> bool:
        return not any(self.entries)

    def __str__(self) -> str:
        return (
            "token: [" + "; ".join("⊥" if entry is None else f"{{{entry.partial.bag}}}" for entry in self.entries) + "]"
        )


def bottom(nodes: Iterable[str]) -> Token:
    """A token that carries nothing."""
    return Token(tuple(None for _ in nodes))


@dataclass(frozen=True)
class TokenRequest(NodeMessage):
    """A node has changes and wants the token."""

    source: str

    def __str__(self) -> str:
        return f"request: {self.source} has changes"


@dataclass(frozen=True)
class TokenNode(Node):
    """The state that every token algorithm keeps at a node."""

    view: View
    source: str
    changes: Changes = ()
    position: Position = 0

    @property
    def idle(self) -> bool:
        return not self.changes

    def noting(self, update: Update) -> Self:
        """The node with one more transaction in D; tables that the view does not use are left out."""
        changes = dict(self.changes)
        for relation, delta in update.deltas:
            if relation in self.view.relations:
                changes[relation] = changes[relation] + delta if relation in changes else delta
        return replace(self, changes=tuple(changes.items()), position=update.position)


@dataclass(frozen=True)
class AskingNode(TokenNode):
    """A node that asks the warehouse for what it needs to hand over its changes, once until that has been there."""

    requested: bool = False

    def changed(self, update: Update) -> Reaction:
        node = self.noting(update)
        if node.idle or node.requested:
            return node, ()
        return replace(node, requested=True), (Send(None, TokenRequest(self.source)),)


@lru_cache(maxsize=4096)
def slots_at(term: Term, source: str) -> tuple[int, ...]:
    """The slots of a term that a source's tables fill."""
    return tuple(at for at, slot in enumerate(term.slots) if slot.relation.source == source)


def multiply(partial: Partial, source: str, changes: Changes, read: Read) -> Partial:
    """The partial joined with the source's slots in the state without ``changes``; slots that it has are left alone."""
    old = dict(changes)
    for slot in _hops_at(partial, source):
        partial = _join(partial, slot, old, read)
    return partial


def change(term: Term, source: str, changes: Changes, read: Read) -> Partial | None:
    """The source's own slots joined: with ``changes`` minus without. None when no slot of the term changed."""
    deltas = dict(changes)
    slots = slots_at(term, source)
    parts = [_change_by(term, slot, deltas, read) for slot in slots if term.slots[slot].relation in deltas]
    return Partial(term, frozenset(slots), total(*parts)) if parts else None


def _change_by(term: Term, changed: int, deltas: Mapping[Relation, Bag], read: Read) -> Bag:
    """One summand: this slot's delta, slots before it as they are now, slots after it as they were."""
    relation = term.slots[changed].relation
    partial = begin(term, changed, deltas[relation])
    for slot in _hops_at(partial, relation.source):
        partial = _join(partial, slot, deltas if slot > changed else {}, read)
    columns = [name for slot in slots_at(term, relation.source) for name in term.slots[slot].names]
    return partial.bag.keep(columns)  # every summand joins in another order; sums go by position


def _hops_at(partial: Partial, source: str) -> list[int]:
    mine = slots_at(partial.term, source)
    return [slot for slot in hop_order(partial.term, partial.joined) if slot in mine]


def _join(partial: Partial, slot: int, old: Mapping[Relation, Bag], read: Read) -> Partial:
    rows = read(lookup(partial.term, slot, partial))
    delta = old.get(partial.term.slots[slot].relation)
    return extend(partial, slot, rows if delta is None else rows - delta.keep(rows.schema.names))
