"""A trace: everything that happened in a run, event by event, for whoever draws it.

A message leaves at one event and arrives at another: an update is sent when its transaction runs, a question when it is
asked, an answer when it is worked out, a node's message with whatever made the node send it. ``Event.sent`` is the
number of the event at which what arrives here had left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weir.algebra.catalog import Relation
from weir.algebra.memory import MemoryBag
from weir.messages import Answer, Ask, Commit, Message, NodeMessage, Send, Update
from weir.simulator.source import Reads, TableBags
from weir.simulator.world import Observer, Sources, World

RAN, ASKED, ANSWERED, DELIVERED, COMMITTED, READ = "ran", "asked", "answered", "delivered", "committed", "read"
RECEIVED = "received"  # by the node at a source


@dataclass(frozen=True)
class Event:
    """One thing that happened. What does not apply to its kind is empty.

    ``source`` is where it happened, or for a message at the warehouse the other end. ``name`` is the message's short
    name (U1, Q1, A1) and ``text`` what it says. ``state`` is the number of the view state that a commit led to or a
    reader saw. ``sender`` is the source that a node's message came from, empty when it was the warehouse.
    """

    kind: str
    source: str = ""
    name: str = ""
    text: str = ""
    sent: int | None = None
    tables: Mapping[Relation, MemoryBag] = field(default_factory=dict, hash=False)
    view: MemoryBag | None = None
    state: int | None = None
    sender: str = ""

    def __str__(self) -> str:
        said = f"{self.name}: {self.text}" if self.text else self.name
        shown = f"state {self.state} {{{self.view}}}" if self.view is not None else ""
        return " ".join(part for part in (self.kind, self.source, said, shown) if part)


class Trace(Observer):
    """An observer (``weir.simulator.world``) that writes down every event."""

    def __init__(self, sources: Sources) -> None:
        self.events: list[Event] = []
        self._sources = sources
        self._positions = dict.fromkeys(sources, 0)
        self._sent: dict[Any, int] = {}  # message on its way -> the event at which it left
        self._under_way: dict[tuple[str | None, NodeMessage], list[tuple[str, int | None]]] = {}  # who sent it, when
        self._states = 0

    @classmethod
    def of(cls, world: World) -> Trace:
        """A trace of what this world does from now on."""
        trace = cls(world.sources)
        world.observers += (trace,)
        return trace

    def ran(self, update: Update) -> None:
        self._positions[update.source] += 1
        self._sent[update.source, update.position] = len(self.events)
        self._add(RAN, update, tables=self._changed_tables(update))

    def asked(self, ask: Ask) -> None:
        self._sent["question", ask.identifier] = len(self.events)
        self._add(ASKED, ask)

    def answered(self, answer: Answer, reads: Reads) -> None:
        sent = self._sent.pop(("question", answer.identifier))
        self._sent["answer", answer.identifier] = len(self.events)
        self._add(ANSWERED, answer, sent=sent)

    def delivered(self, message: Message) -> None:
        if isinstance(message, NodeMessage):
            sender, left = self._arrived(None, message)
            self.events.append(Event(DELIVERED, sender, *_said(message), left))
            return
        if isinstance(message, Update):
            sent = self._sent.pop((message.source, message.position))
        else:
            sent = self._sent.pop(("answer", message.identifier))
        self._add(DELIVERED, message, sent=sent)

    def sent(self, send: Send) -> None:
        happened = (at for at, event in reversed([*enumerate(self.events)]) if event.kind != COMMITTED)
        self._under_way.setdefault((send.to, send.message), []).append((send.sender or "", next(happened, None)))

    def received(self, source: str, message: NodeMessage) -> None:
        sender, left = self._arrived(source, message)
        self.events.append(Event(RECEIVED, source, *_said(message), left, sender=sender))

    def _arrived(self, to: str | None, message: NodeMessage) -> tuple[str, int | None]:
        """Who sent it and when; what was under way before anything happened came from the warehouse."""
        known = self._under_way.get((to, message))
        return known.pop(0) if known else ("", None)

    def committed(self, commit: Commit, view: MemoryBag) -> None:
        self._states += 1
        self.events.append(Event(COMMITTED, view=view.positive(), state=self._states))

    def read(self, view: MemoryBag) -> None:
        self.events.append(Event(READ, view=view, state=self._states))

    def _add(
        self, kind: str, message: Update | Ask | Answer, sent: int | None = None, tables: TableBags | None = None
    ) -> None:
        self.events.append(Event(kind, message.source, *_said(message), sent, tables or {}))

    def _changed_tables(self, update: Update) -> TableBags:
        """What the transaction's tables hold after it."""
        after = self._sources[update.source].states[self._positions[update.source]]
        return {relation: after[relation] for relation, _ in update.deltas}


def _said(message: Message | Ask) -> tuple[str, str]:
    """A message's short name and what it says."""
    name, _, text = str(message).partition(": ")
    return name, text
