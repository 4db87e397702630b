"""Counters: what a run costs, as the papers count it."""

from __future__ import annotations

from dataclasses import dataclass

from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.query import Query
from weir.algebra.types import Type, Value
from weir.consistency.replay import in_memory
from weir.messages import Answer, Ask, Commit, Message, Send, Update
from weir.simulator.source import Reads
from weir.simulator.world import Observer

_WIDTH = {
    "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "float": 4, "double": 8, "decimal": 16, "boolean": 1, "date": 4,
    "timestamp": 8, "timestamp_ntz": 8,
}  # fmt: skip


@dataclass
class Counters(Observer):
    """An observer that counts. Notifications are kept apart: every algorithm receives the same."""

    notifications: int = 0
    questions: int = 0
    answers: int = 0
    question_rows: int = 0  # deltas and join keys sent along with questions
    question_bytes: int = 0
    answer_rows: int = 0
    answer_bytes: int = 0
    lookups: int = 0
    indexed_reads: int = 0  # tuples read at the sources, were every join column indexed
    scanned_reads: int = 0  # tuples read without any index
    rounds: int = 0  # times the warehouse went back to a source: steps of it that asked something
    commits: int = 0
    node_messages: int = 0  # between nodes and the warehouse: tokens, increments, requests
    _asked_in_step: bool = False

    @property
    def messages(self) -> int:
        """Questions and answers, and what nodes send and receive, as the papers count messages."""
        return self.questions + self.answers + self.node_messages

    def ran(self, update: Update) -> None:
        self.notifications += 1

    def asked(self, ask: Ask) -> None:
        self.questions += 1
        self.rounds += not self._asked_in_step
        self._asked_in_step = True
        for bag in (bag for question in ask.questions for bag in shipped(question)):
            self.question_rows += bag.cardinality
            self.question_bytes += size(bag)

    def answered(self, answer: Answer, reads: Reads) -> None:
        self.answers += 1
        self.lookups += reads.lookups
        self.indexed_reads += reads.indexed
        self.scanned_reads += reads.scanned
        for bag in map(in_memory, answer.bags):
            self.answer_rows += bag.cardinality
            self.answer_bytes += size(bag)

    def sent(self, send: Send) -> None:
        self.node_messages += 1

    def delivered(self, message: Message) -> None:
        self._asked_in_step = False

    def committed(self, commit: Commit, view: MemoryBag) -> None:
        self.commits += 1


def shipped(question: Query | Lookup) -> list[MemoryBag]:
    """The rows that travel with a question."""
    if isinstance(question, Lookup):
        return [in_memory(question.keys)] if question.keys is not None else []
    return [in_memory(bag) for term in question for bag in term.bindings if bag is not None]


def size(bag: MemoryBag) -> int:
    """Bytes of all rows, every row as often as its weight says; numbers in their natural width, text in UTF-8."""
    return sum(
        abs(weight) * sum(_width(value, type_) for value, type_ in zip(row, bag.schema.types, strict=True))
        for row, weight in bag.items()
    )


def _width(value: Value, type_: Type) -> int:
    if value is None:
        return 1
    if type_.name in _WIDTH:
        return _WIDTH[type_.name]
    return len(value.encode()) if isinstance(value, str) else len(value)
