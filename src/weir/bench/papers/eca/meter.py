"""Measuring one run of Example 6: messages, bytes and block reads, answer by answer.

Bytes are counted twice. ``netted`` is what travels here: an answer is one bag, in which a tuple that one term adds
and another takes away is gone. ``bytes`` is what the paper counts: the terms' tuples side by side, whatever their
signs. Block reads are the storage engine's, term by term, and its answers must be the simulator's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from weir.algebra.bag import Bag
from weir.algebra.errors import WeirError
from weir.algebra.memory import MemoryBag
from weir.algebra.query import BoundTerm
from weir.algorithms.base import Algorithm
from weir.bench.papers.eca.data import R1, R2, R3, SOURCE
from weir.bench.papers.eca.storage import BlockReads, JoinedRows, SignedTerm, Storage
from weir.messages import Answer, Ask, Update
from weir.simulator.counters import Counters, size
from weir.simulator.scenario import Scenario
from weir.simulator.source import Reads, TableBags, evaluate_at
from weir.simulator.step import ANSWER, DELIVER, IDLE, RUN, Step
from weir.simulator.world import Observer, World


@dataclass(frozen=True)
class Cost:
    """What a term, an answer or a run costs."""

    messages: int = 0
    bytes: int = 0
    netted: int = 0
    indexed: BlockReads = field(default_factory=BlockReads)
    nested: BlockReads = field(default_factory=BlockReads)

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.messages + other.messages,
            self.bytes + other.bytes,
            self.netted + other.netted,
            self.indexed + other.indexed,
            self.nested + other.nested,
        )


class Laboratory:
    """One scenario under any timing. A term is evaluated once per state of the source, however many runs ask for it."""

    def __init__(self, scenario: Scenario, block_size: int = 20) -> None:
        self.scenario = scenario
        self.source = scenario.sources[SOURCE]
        self._block_size = block_size
        self.storage = cache(self._storage)
        self.term_cost = cache(self._term_cost)

    def spaced(self, algorithm: type[Algorithm], updates: int, **options: int) -> list[Cost]:
        """Every question is answered before the next update: the cost after each update, from none on."""
        world, meter = self._begin(algorithm, **options)
        costs = [meter.cost]
        for number in range(updates):
            _run_updates(world, number, number + 1)
            _settle(world)
            costs.append(meter.cost)
        return costs

    def crowded(self, algorithm: type[Algorithm], updates: int, **options: int) -> Cost:
        """All updates come before any question is answered."""
        world, meter = self._begin(algorithm, **options)
        _run_updates(world, 0, updates)
        _settle(world)
        return meter.cost

    def to_the_end(self, algorithm: type[Algorithm], **options: int) -> Cost:
        """All updates of the scenario, crowded, and the timer after them."""
        world, meter = self._begin(algorithm, **options)
        _run_updates(world, 0, len(self.source.script))
        _settle(world)
        world.take(Step(IDLE))
        _settle(world)
        return meter.cost

    def _term_cost(self, position: int, term: BoundTerm) -> Cost:
        """Bytes and block reads of one term in one state of the source."""
        return _measure(self.source.states[position], self.storage(position), term)

    def _storage(self, position: int) -> Storage:
        tables = self.source.states[position]
        return Storage.of([tables[r] for r in (R1, R2, R3)], self._block_size)

    def _begin(self, algorithm: type[Algorithm], **options: Any) -> tuple[World, _Meter]:
        world, meter = self.scenario.begin(algorithm, **options), _Meter(self)
        world.observers = (meter.counters, meter)
        return world, meter


@dataclass
class _Meter(Observer):
    """An observer that prices every answer, beside the simulator's own counters."""

    laboratory: Laboratory
    counters: Counters = field(default_factory=Counters)
    position: int = 0
    open: list[Ask] = field(default_factory=list)
    spent: Cost = field(default_factory=Cost)

    @property
    def cost(self) -> Cost:
        return replace(self.spent, messages=self.counters.messages, netted=self.counters.answer_bytes)

    def ran(self, update: Update) -> None:
        self.position += 1

    def asked(self, ask: Ask) -> None:
        self.open.append(ask)

    def answered(self, answer: Answer, reads: Reads) -> None:
        for term in _terms(self.open.pop(0)):
            self.spent += self.laboratory.term_cost(self.position, term)


def _terms(ask: Ask) -> Iterator[BoundTerm]:
    for query in ask.questions:
        assert isinstance(query, tuple), "Example 6 has one source, which is asked whole queries"
        yield from query


def _measure(tables: TableBags, storage: Storage, term: BoundTerm) -> Cost:
    value, _ = evaluate_at(tables, (term,))
    stored = SignedTerm([None if bag is None else list(bag.items()) for bag in term.bindings], term.sign)
    indexed_rows, indexed = storage.with_indexes(stored)
    nested_rows, nested = storage.without_indexes(stored)
    for rows in (indexed_rows, nested_rows):
        if view_tuples(stored, rows, value) != value:
            raise WeirError(f"the storage engine and the simulator answer {term} differently")
    return Cost(bytes=size(value), indexed=indexed, nested=nested)


def view_tuples(term: SignedTerm, joined: list[JoinedRows], like: Bag) -> MemoryBag:
    """Example 6's select and project over the storage engine's rows: (W, Z) where W > Z."""
    pairs = (((r1[0], r3[1]), term.weight((r1, r2, r3))) for r1, r2, r3 in joined)
    return MemoryBag.weighted(like.schema, (pair for pair in pairs if pair[0][0] > pair[0][1]))


def _run_updates(world: World, first: int, last: int) -> None:
    for update in world.sources[SOURCE].script[first:last]:
        world.take(Step(RUN, update.name))


def _settle(world: World) -> None:
    """Delivers everything, then answers, until nothing is under way."""
    while world.channels[SOURCE] or world.inboxes[SOURCE]:
        world.take(Step(DELIVER if world.channels[SOURCE] else ANSWER, SOURCE))
