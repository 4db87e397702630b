"""The world: sources, one channel each way per source, and the warehouse. A schedule decides every step.

Everything that happens is one of the steps of ``weir.simulator.step``. A world can be forked and goes on
independently; two worlds with equal keys have the same future and the same past as far as a reader of the view can
tell.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

from weir.algebra.errors import WeirError
from weir.algebra.memory import MemoryBag
from weir.algorithms.base import Algorithm
from weir.algorithms.driver import Driver
from weir.consistency.replay import in_memory
from weir.messages import Answer, Ask, Commit, Effect, Message, NodeMessage, Send, Update, apply_actions
from weir.simulator.source import Reads, SimulatedSource
from weir.simulator.step import ANSWER, DELIVER, IDLE, RUN, Step

Sources = Mapping[str, SimulatedSource]


class Observer:
    """Somebody who watches a run: counters, a trace for drawing. Exploration runs without.

    Everything is told; an observer overrides what concerns it.
    """

    def ran(self, update: Update) -> None: ...
    def asked(self, ask: Ask) -> None: ...
    def answered(self, answer: Answer, reads: Reads) -> None: ...
    def delivered(self, message: Message) -> None: ...
    def sent(self, send: Send) -> None: ...  # by a node, or to one
    def received(self, source: str, message: NodeMessage) -> None: ...  # by the node there, before it reacts
    def committed(self, commit: Commit, view: MemoryBag) -> None: ...
    def read(self, view: MemoryBag) -> None: ...


class World:
    """One run in progress."""

    __slots__ = (
        "channels", "driver", "fifo", "idled", "inboxes", "observers", "positions", "reads", "sources", "states",
        "vectors", "view",
    )  # fmt: skip

    def __init__(self, sources: Sources, algorithm: Algorithm, view: MemoryBag, fifo: bool = True) -> None:
        self.sources = sources
        self.driver = Driver(algorithm)
        self.view = view
        self.fifo = fifo
        self.positions = dict.fromkeys(sources, 0)  # transactions run per source
        self.inboxes: dict[str, tuple[Ask | NodeMessage, ...]] = dict.fromkeys(sources, ())
        self.channels: dict[str, tuple[Message, ...]] = dict.fromkeys(sources, ())
        self.states: tuple[MemoryBag, ...] = (view.positive(),)  # what a reader could see, from the first on
        self.vectors: tuple[Mapping[str, Any], ...] = (dict.fromkeys(sources, 0),)  # what the commits say they reflect
        self.reads: tuple[int, ...] = ()  # indexes into states
        self.idled = False
        self.observers: tuple[Observer, ...] = ()
        self._carry_out(self.driver.begin())

    def fork(self) -> World:
        twin = World.__new__(World)
        twin.sources, twin.view, twin.fifo, twin.idled = self.sources, self.view, self.fifo, self.idled
        twin.driver = self.driver.fork()
        twin.positions = self.positions.copy()
        twin.inboxes = self.inboxes.copy()
        twin.channels = self.channels.copy()
        twin.states, twin.vectors, twin.reads, twin.observers = self.states, self.vectors, self.reads, self.observers
        return twin

    def key(self) -> Hashable:
        """Equal keys: same future, and the same view states so far."""
        return (
            tuple(self.positions.values()),
            tuple(self.inboxes.values()),
            tuple(self.channels.values()),
            self.driver.fingerprint(),
            self.view,
            self.states,
            self.idled,
        )

    @property
    def algorithm(self) -> Algorithm:
        return self.driver.algorithm

    # -- steps --------------------------------------------------------------------------------------------------------

    def enabled(self) -> list[Step]:
        """Every step that can come next; IDLE only when there is no other, once, and for algorithms with a timer."""
        steps: list[Step] = []
        for name, source in self.sources.items():
            if self.channels[name]:
                places = 1 if self.fifo else len(self.channels[name])
                steps += [Step(DELIVER, name, place) for place in range(places)]
            if self.inboxes[name]:
                places = len(self.inboxes[name]) if self.driver.nodes and not self.fifo else 1
                steps += [Step(ANSWER, name, place) for place in range(places)]
            if self.positions[name] < len(source.script):
                steps.append(Step(RUN, source.script[self.positions[name]].name))
        if self.algorithm.perpetual and self.resting and self._everything_ran():
            return []
        return steps or ([Step(IDLE)] if self.driver.has_timer and not self.idled else [])

    @property
    def resting(self) -> bool:
        """Nothing is under way but idle messages (a token that carries nothing), and no node has anything for them."""
        asked = (message for inbox in self.inboxes.values() for message in inbox)
        return not any(self.channels.values()) and self.driver.only_idle(asked)

    def _everything_ran(self) -> bool:
        return all(self.positions[name] == len(source.script) for name, source in self.sources.items())

    def take(self, step: Step) -> None:
        """Takes one step; WeirError when it is not possible now."""
        match step.kind:
            case "run":
                self._run(step)
            case "answer":
                self._answer(step)
            case "deliver":
                self._deliver(step)
            case "idle":
                self.idled = True
                self._carry_out(self.driver.let_idle())
            case "read":
                self.reads += (len(self.states) - 1,)
                for observer in self.observers:
                    observer.read(self.view.positive())
            case _:
                raise WeirError(f"unknown step {step}")

    def _run(self, step: Step) -> None:
        for name, source in self.sources.items():
            at = self.positions[name]
            if at < len(source.script) and source.script[at].name == step.name:
                break
        else:
            raise WeirError(f"transaction {step.name} cannot run now: it has run already, or another comes before it")
        update = source.script[at]
        self.positions[name] = at + 1
        for observer in self.observers:
            observer.ran(update)
        if name in self.driver.nodes:
            self._carry_out(self.driver.deliver(self.driver.number((update,))))
        else:
            self.channels[name] += (update,)

    def _require_source(self, name: str) -> None:
        if name not in self.sources:
            raise WeirError(f"there is no source '{name}'; known: {', '.join(self.sources)}")

    def _answer(self, step: Step) -> None:
        self._require_source(step.name)
        name, inbox = step.name, self.inboxes[step.name]
        if step.place >= len(inbox):
            number = f" number {step.place + 1}" if step.place else ""
            raise WeirError(f"source {name} has no question{number} to answer now")
        message, position = inbox[step.place], self.positions[name]
        self.inboxes[name] = inbox[: step.place] + inbox[step.place + 1 :]
        if isinstance(message, NodeMessage):
            for observer in self.observers:
                observer.received(name, message)
            self._carry_out(self.driver.node_receives(name, message, partial(self.sources[name].host, position)))
            return
        answer, reads = self.sources[name].answer(position, message)
        self.channels[name] += (answer,)
        for observer in self.observers:
            observer.answered(answer, reads)

    def _send(self, send: Send) -> None:
        if send.to is not None:
            self.inboxes[send.to] += (send.message,)
        else:
            assert send.sender is not None, "the warehouse sends nothing to itself"
            self.channels[send.sender] += (send.message,)
        for observer in self.observers:
            observer.sent(send)

    def _deliver(self, step: Step) -> None:
        self._require_source(step.name)
        channel = self.channels[step.name]
        if step.place >= len(channel):
            raise WeirError(f"there is no message number {step.place + 1} of source {step.name} to deliver now")
        message = channel[step.place]
        self.channels[step.name] = channel[: step.place] + channel[step.place + 1 :]
        for observer in self.observers:
            observer.delivered(message)
        if isinstance(message, Update):
            self._carry_out(self.driver.deliver(self.driver.number((message,))))
        else:
            self._carry_out(self.driver.receive(message))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Ask):
                self.inboxes[effect.source] += (effect,)
                for observer in self.observers:
                    observer.asked(effect)
            elif isinstance(effect, Send):
                self._send(effect)
            elif isinstance(effect, Commit):
                self._commit(effect)
            else:
                raise AssertionError(f"the simulator answers every question by itself: {effect.function}")

    def _commit(self, commit: Commit) -> None:
        view = self.view = in_memory(apply_actions(self.view, commit.actions))
        self.states += (view.positive(),)
        self.vectors += ({**self.vectors[-1], **commit.positions},)
        for observer in self.observers:
            observer.committed(commit, view)
