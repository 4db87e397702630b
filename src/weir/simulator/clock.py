"""Virtual time: the schedule that a set of latencies leads to.

Where a schedule says *in which order*, a clock says *when*: transactions happen at given times, messages travel for a
given time, a source works on one question (its node on one message) at a time. The clock takes, again and again, the
step whose time comes first, and so turns latencies into a schedule of the same world that exploration runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weir.algebra.errors import WeirError
from weir.simulator.step import ANSWER, DELIVER, IDLE, RUN, Step
from weir.simulator.world import World


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
        self._arrivals: dict[str, list[float]] = {name: [] for name in self.world.sources}  # of messages on their way
        self._questions = {name: [0.0] * len(inbox) for name, inbox in self.world.inboxes.items()}  # when there
        self._busy_until = dict.fromkeys(self.world.sources, 0.0)

    def run(self) -> Sequence[tuple[float, Step]]:
        """Runs to the end and tells the schedule with its times; ``now`` is then the time of the last step."""
        taken = []
        while enabled := self.world.enabled():
            time, step = min(((self._time_of(step), step) for step in enabled), key=lambda pair: (pair[0], _RANK[pair[1].kind]))
            self.now = max(self.now, time)
            self._take(step)
            taken.append((self.now, step))
        return taken

    def _time_of(self, step: Step) -> float:
        if step.kind == RUN:
            return self.when.get(step.name, 0.0)
        if step.kind == DELIVER:
            return self._arrivals[step.name][0]
        if step.kind == ANSWER:
            return max(self._questions[step.name][0], self._busy_until[step.name]) + self.latencies.to_answer
        return self.now

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
            self._questions[name] += [self.now + self.latencies.to_source] * new_questions
            self._arrivals[name] += [self.now + self.latencies.to_warehouse] * new_messages


_RANK = {RUN: 0, ANSWER: 1, DELIVER: 2, IDLE: 3}  # at the same moment: what happens, then what is said about it
