"""A simulated source: tables in memory, a script of transactions, and answers from its current state.

Its transactions are fixed by the scenario; only *when* they happen is the schedule's choice. So its state is its
position in the script, and an answer depends on nothing but that position and the question: both are computed once and
kept, however many schedules are explored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weir.algebra.catalog import Catalog, Relation
from weir.algebra.hops import Lookup, answer
from weir.algebra.memory import MemoryBag
from weir.algebra.query import Query, evaluate_with
from weir.algorithms.node import Node, Reaction
from weir.consistency.replay import apply_update, in_memory
from weir.messages import Answer, Ask, NodeMessage, Update

TableBags = Mapping[Relation, MemoryBag]


@dataclass(frozen=True)
class Reads:
    """What an answer cost its source: lookups run, tuples read with an index on the join keys, and without any."""

    lookups: int = 0
    indexed: int = 0
    scanned: int = 0

    def __add__(self, other: Reads) -> Reads:
        return Reads(self.lookups + other.lookups, self.indexed + other.indexed, self.scanned + other.scanned)


class SimulatedSource:
    """One source. It knows nothing of views."""

    def __init__(self, name: str, tables: TableBags, script: tuple[Update, ...]) -> None:
        self.name = name
        self.script = script
        self.states: list[TableBags] = [dict(tables)]
        for update in script:
            self.states.append(apply_update(self.states[-1], update))
        self._answers: dict[tuple[int, tuple[Query | Lookup, ...]], tuple[tuple[MemoryBag, ...], Reads]] = {}
        self._reactions: dict[tuple[int, Node, NodeMessage], Reaction] = {}

    def answer(self, position: int, ask: Ask) -> tuple[Answer, Reads]:
        """The answer in the state after ``position`` transactions."""
        key = (position, ask.questions)
        if key not in self._answers:
            self._answers[key] = self._evaluate_all(position, ask)
        bags, reads = self._answers[key]
        return Answer(self.name, ask.identifier, bags), reads

    def host(self, position: int, node: Node, message: NodeMessage) -> Reaction:
        """What an algorithm's node here makes of a message, in the state after ``position`` transactions."""
        key = (position, node, message)
        if key not in self._reactions:
            tables = self.states[position]
            self._reactions[key] = node.receive(message, lambda lookup: _look_up(tables, lookup)[0])
        return self._reactions[key]

    def _evaluate_all(self, position: int, ask: Ask) -> tuple[tuple[MemoryBag, ...], Reads]:
        results = [evaluate_at(self.states[position], question) for question in ask.questions]
        return tuple(bag for bag, _ in results), sum((reads for _, reads in results), Reads())


def evaluate_at(tables: TableBags, question: Query | Lookup) -> tuple[MemoryBag, Reads]:
    """A question's value over tables in memory, and what it reads."""
    if isinstance(question, Lookup):
        return _look_up(tables, question)
    costs: list[Reads] = []

    def fetch(asked: Lookup) -> MemoryBag:
        rows, cost = _look_up(tables, asked)
        costs.append(cost)
        return rows

    value = in_memory(evaluate_with(question, fetch))
    return value, sum(costs, Reads())


def _look_up(tables: TableBags, question: Lookup) -> tuple[MemoryBag, Reads]:
    table = tables[question.relation]
    rows = in_memory(answer(question, table))
    matched = table.cardinality if question.keys is None else rows.cardinality
    return rows, Reads(1, matched, table.cardinality)


def empty_tables(catalog: Catalog, source: str) -> TableBags:
    """Every table of a source, without rows."""
    return {r: MemoryBag.of(t.schema) for r, t in catalog.tables.items() if r.source == source}
