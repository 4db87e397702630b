"""Virtual time: the schedule that a set of latencies leads to.

Where a schedule says *in which order*, a clock says *when*: transactions happen at given times, messages travel for a
given time, a source works on one question (its node on one message) at a time. The clock takes, again and again, the
step whose time comes first, and so turns latencies into a schedule of the same world that exploration runs. At the
same moment transactions come first, in the order in which ``when`` lists them, then answers and deliveries, what was
sent first before what was sent later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weir.algebra.errors import WeirError
from weir.simulator.step import ANSWER, DELIVER, IDLE, RUN, Step
from weir.simulator.world import World

Moment = tuple[float, int]  # a time, and a place among what happens at it


@dataclass(frozen=True)
class Latencies:
    """Time per message to a source, per answer worked out, and per message to the warehouse."""

    to_source: float = 1.0
    to_answer: float = 0.0
    to_warehouse: float = 1.0


@dataclass
class Clock:
    """Runs a world in virtual time. ``when`` gives each transaction's time by name; unnamed ones happen at 0."""

    world: World
    latencies: Latencies = field(default_factory=Latencies)
    when: Mapping[str, float] = field(default_factory=dict)
    now: float = 0.0

    def __post_init__(self) -> None:
        if not self.world.fifo:
            raise WeirError("virtual time needs channels that keep their order")
        self._arrivals: dict[str, list[Moment]] = {name: [] for name in self.world.sources}  # of messages on their way
        there = self.world.inboxes.items()
        self._questions: dict[str, list[Moment]] = {name: [(0.0, 0)] * len(inbox) for name, inbox in there}
        self._busy_until = dict.fromkeys(self.world.sources, 0.0)
        self._places = {name: place for place, name in enumerate(self.when)}
        self._sent = 0

    def run(self) -> Sequence[tuple[float, Step]]:
        """Runs to the end and tells the schedule with its times; ``now`` is then the time of the last step."""
        taken = []
        while enabled := self.world.enabled():
            step = min(enabled, key=self._turn_of)
            self.now = max(self.now, self._moment_of(step)[0])
            self._take(step)
            taken.append((self.now, step))
        return taken

    def _turn_of(self, step: Step) -> tuple[float, int, int]:
        time, place = self._moment_of(step)
        return time, _RANK[step.kind], place

    def _moment_of(self, step: Step) -> Moment:
        if step.kind == RUN:
            return self.when.get(step.name, 0.0), self._places.get(step.name, 0)
        if step.kind == DELIVER:
            return self._arrivals[step.name][0]
        if step.kind == ANSWER:
            received, place = self._questions[step.name][0]
            return max(received, self._busy_until[step.name]) + self.latencies.to_answer, place
        return self.now, 0

    def _take(self, step: Step) -> None:
        waiting = {name: len(inbox) for name, inbox in self.world.inboxes.items()}
        sent = {name: len(channel) for name, channel in self.world.channels.items()}
        self.world.take(step)
        if step.kind == DELIVER:
            self._arrivals[step.name].pop(0)
            sent[step.name] -= 1
        if step.kind == ANSWER:
            self._questions[step.name].pop(0)
            self._busy_until[step.name] = self.now
            waiting[step.name] -= 1
        for name in self.world.sources:
            new_questions = len(self.world.inboxes[name]) - waiting[name]
            new_messages = len(self.world.channels[name]) - sent[name]
            self._questions[name] += self._moments(self.now + self.latencies.to_source, new_questions)
            self._arrivals[name] += self._moments(self.now + self.latencies.to_warehouse, new_messages)

    def _moments(self, time: float, count: int) -> list[Moment]:
        first, self._sent = self._sent, self._sent + count
        return [(time, first + place) for place in range(count)]


_RANK = {RUN: 0, ANSWER: 1, DELIVER: 2, IDLE: 3}  # at the same moment: what happens, then what is said about it
