"""Planted bugs in the token algorithms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.mutations.mutation import Case, Mutation
from weir.algorithms import ring, token
from weir.algorithms.multi_ring import MultiRing, Open, TokenVisit
from weir.algorithms.ring import Increment, Ring
from weir.algorithms.star import Star
from weir.messages import Add, Effect, NodeMessage, Send

_multiply, _visit = token.multiply, ring.visit


def multiply_by_now(partial: Any, source: str, changes: Any, read: Any) -> Any:
    return _multiply(partial, source, (), read)


def keep_entry(carried: Any, at: int, node: Any, read: Any) -> Any:
    after = _visit(carried, at, node, read)
    if after.entries[at] is None:
        after = replace(after, entries=(*after.entries[:at], carried.entries[at], *after.entries[at + 1 :]))
    return after


class AppliesAsTheyArrive(Ring):
    def on_message(self, message: NodeMessage) -> Iterator[Effect]:
        assert isinstance(message, Increment)
        yield self.commit(Add(message.delta), positions={message.source: message.position})


class WaitsForZero(Ring):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.next_sequence = 0


class AsPrinted(Star):
    """``next_holder`` whose loop stays at succ(i)."""

    def next_holder(self, node: str) -> str | None:
        following = self.succ(node)
        return following if self.pending[following] else None


class GivesUpAtItself(Star):
    def next_holder(self, node: str) -> str | None:
        following = super().next_holder(node)
        return None if following == node else following


class HandsInToSome(MultiRing):
    """A node's changes go on the tokens that are there, though one of its terms is missing."""

    def _visit(self, source: str, terms: Sequence[int]) -> Send:
        send = super()._visit(source, terms)
        assert isinstance(send.message, TokenVisit)
        if send.message.number is not None:
            return send
        self.visits += 1
        self.increments[self.visits] = Open(source)
        return Send(source, replace(send.message, number=self.visits))


MUTATIONS = [
    Mutation(
        "ring-no-sequence",
        "increments are applied as they arrive",
        "ring",
        Case("single-update", seed=11),
        AppliesAsTheyArrive,
    ),
    Mutation(
        "ring-from-zero",
        "the warehouse waits for increment 0 (as printed)",
        "ring",
        Case("single-update", seed=1, sources=2),
        WaitsForZero,
    ),
    Mutation(
        "ring-multiplies-now",
        "entries are multiplied by x_i instead of x_i - D_i",
        "ring",
        Case("single-update", seed=8, keyed=False),
        patches={"weir.algorithms.ring.multiply": multiply_by_now},
    ),
    Mutation(
        "ring-entry-kept",
        "an entry that was handed in stays on the token",
        "ring",
        Case("single-update", seed=1, sources=2),
        patches={"weir.algorithms.ring.visit": keep_entry},
    ),
    Mutation(
        "star-as-printed",
        "next_holder looks at succ(i) only (as printed)",
        "star",
        Case("single-update", seed=7),
        AsPrinted,
    ),
    Mutation(
        "star-gives-up",
        "next_holder gives up on reaching i (as printed)",
        "star",
        Case("single-update", seed=1, fifo=False),
        GivesUpAtItself,
    ),
    Mutation(
        "multi-ring-multiplies-now",
        "parts are multiplied by x_i instead of x_i - D_i",
        "multi-ring",
        Case("single-update", seed=8, keyed=False),
        patches={"weir.algorithms.multi_ring.multiply": multiply_by_now},
    ),
    Mutation(
        "multi-ring-some-terms",
        "changes are put on the tokens of some of a node's terms",
        "multi-ring",
        Case("union_single_update"),
        HandsInToSome,
    ),
]
