"""The world of the PVM paper's experiments, in virtual time, and what is measured in it.

``R_j(A, B)`` at source j; the view joins R1.A = R2.B, R2.A = R3.B and so on (the paper's Figure 20). Every relation
holds (k, k) for 50 values of k and every update inserts a (k, k + 1) that was not there, so that every maintenance
query finds partners on both sides. The paper has up to 5000 tuples a relation; in virtual time a query takes what it
is said to take, so the number of tuples decides nothing and fifty are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.algebra.hops import Lookup
from weir.algorithms.base import Algorithm
from weir.algorithms.pvm import Pvm
from weir.algorithms.sweep import Sweep
from weir.messages import Answer, Ask, Message
from weir.simulator.clock import Clock, Latencies
from weir.simulator.counters import Counters
from weir.simulator.scenario import Scenario, parse
from weir.simulator.step import ANSWER
from weir.simulator.world import World

VALUES = 50
AT_THE_SOURCE = Latencies(0.0, 1.0, 0.0)  # a query takes one unit, all of it at its source
ON_THE_WAY = Latencies(0.25, 0.5, 0.25)  # a query takes one unit, half of it on the way


def chain(sources: Sequence[int]) -> Scenario:
    """As many relations as there are sources in the list, and an update of each listed source in turn (from 1 on)."""
    count = max(sources)
    names = [f"IS{at}.R{at}" for at in range(1, count + 1)]
    joins = " AND ".join(f"R{at}.A = R{at + 1}.B" for at in range(1, count))
    columns = ", ".join(f"R{at}.A AS A{at}" for at in range(1, count + 1))
    rows = " ".join(f"({k}, {k})" for k in range(VALUES))
    return parse(
        {
            "title": f"{len(sources)} updates of {count} sources",
            "view": f"CREATE MATERIALIZED VIEW v AS SELECT {columns} FROM {', '.join(names)} WHERE {joins}",
            "tables": {name: {"columns": "A int, B int", "rows": rows} for name in names},
            "transactions": [
                {"name": f"DU{number}", "source": f"IS{at}", "changes": _insert(at, sources[:number].count(at))}
                for number, at in enumerate(sources, 1)
            ],
        }
    )


def _insert(source: int, number: int) -> str:
    k = (number - 1) % VALUES
    return f"+R{source}({k}, {(k + 1) % VALUES})"


def runs_of(c: int, n: int, m: int) -> list[int]:
    """Whose turn it is: c updates of the first source, c of the second, and so on round."""
    return [number // c % m + 1 for number in range(n)]


@dataclass(frozen=True)
class Measured:
    """What one run took."""

    time: float
    remote: int
    local: int
    queries: tuple[Subquery, ...] = ()


@dataclass(frozen=True)
class Subquery:
    """The subquery SQ_i,j that update i sent to a source, and when its answer was ready."""

    update: int
    source: str
    answered: float


@dataclass(kw_only=True)
class Watch(Counters):
    """Counters that also know what SWEEP and PVM do without a message.

    That is one local compensation per answer and younger update that the answer has seen.
    """

    world: World
    local: int = 0
    asked_by: dict[str, list[int]] = field(default_factory=dict)  # source -> the updates whose questions wait there
    _relations: dict[int, object] = field(default_factory=dict)

    def asked(self, ask: Ask) -> None:
        super().asked(ask)
        (question,) = ask.questions
        assert isinstance(question, Lookup), "a sweep asks hop by hop"
        self._relations[ask.identifier] = question.relation
        self.asked_by.setdefault(ask.source, []).append(self._update_of(ask.identifier))

    def delivered(self, message: Message) -> None:
        super().delivered(message)
        if isinstance(message, Answer):
            self.local += self._younger(message)

    def _younger(self, answer: Answer) -> int:
        """The updates that the algorithm itself will take out of this answer."""
        relation, update = self._relations[answer.identifier], self._update_of(answer.identifier)
        reply = self.world.algorithm.fork().reply_for(update, answer)
        return sum(
            number > update and any(change.relation == relation for change in other.changes)
            for number, other in reply.arrived
        )

    def _update_of(self, identifier: int) -> int:
        """A process of SWEEP and PVM is called by its update's arrival number."""
        key, _ = self.world.algorithm.waiting[identifier]
        assert isinstance(key, int)
        return key


def measure(scenario: Scenario, parallel: int, latencies: Latencies = AT_THE_SOURCE, interval: float = 0.0) -> Measured:
    """Runs SWEEP (``parallel`` = 0) or PVM; time counts from the moment the first update has arrived."""
    algorithm: type[Algorithm] = Pvm if parallel else Sweep
    options: dict[str, Any] = {"parallel": parallel} if parallel else {}
    world = scenario.begin(algorithm, **options)
    watch = Watch(world=world)
    world.observers = (watch,)
    world.algorithm.memory = None  # a single run repeats nothing
    clock = Clock(world, latencies, {update.name: at * interval for at, update in enumerate(scenario.updates)})
    steps = clock.run()
    if world.view != scenario.lattice.final_value:
        raise AssertionError(f"{scenario.title}: the view is wrong, so its time says nothing")
    queries = tuple(
        Subquery(watch.asked_by[step.name].pop(0), step.name, time) for time, step in steps if step.kind == ANSWER
    )
    return Measured(clock.now - latencies.to_warehouse, watch.questions, watch.local, queries)
