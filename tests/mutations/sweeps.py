"""Planted bugs in the sweep and in what is built on it: SWEEP, Nested SWEEP, PVM, PVM-CC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.mutations.mutation import Case, Mutation
from weir.algebra.bag import Bag, total
from weir.algebra.expression import Expression, column
from weir.algorithms import sweeping
from weir.algorithms.nested_sweep import NestedSweep
from weir.algorithms.procedure import Numbered, Reply
from weir.algorithms.pvm import Pvm
from weir.algorithms.pvm_cc import PvmCc
from weir.algorithms.sweep import Sweep
from weir.messages import Answer, Effect

_compensated = sweeping.compensated


def added(view: Any, index: int, slot: int, read: Bag, arrived: Numbered) -> Bag:
    later = sweeping._changes(view, index, slot, arrived, sweeping.VALIDITY)
    return total(read.tagged(sweeping.VALIDITY, sweeping.FOR_EVER), *later)


def one_short(view: Any, index: int, slot: int, read: Bag, arrived: Numbered) -> Bag:
    rows, validity = _compensated(view, index, slot, read, arrived), sweeping.VALIDITY
    kept = [(name, column(name)) for name in rows.schema.names if name != validity]
    return rows.project([*kept, (validity, Expression(f"`{validity}` - 1"))])


def first_only(view: Any, index: int, slot: int, read: Bag, arrived: Numbered) -> Bag:
    """As if at most one update could wait behind the one being swept."""
    return _compensated(view, index, slot, read, arrived[:2])


def one_number_per_update(view: Any, arrival: int, term: int, slot: int) -> int:
    return arrival * sweeping.width(view)


def keys_of_inserts(bag: Bag, names: Sequence[str]) -> Bag:
    return bag.distinct().keep(names)


class TakesTheYoungest(Sweep):
    """Takes updates off the wrong end of the queue."""

    def _sweep_next(self) -> Iterator[Effect]:
        if not self.swept:
            self.queue = dict(sorted(self.queue.items(), reverse=True))
        yield from super()._sweep_next()


class AdmitsTheYoungest(NestedSweep):
    def _admit(self, source: str) -> Numbered:
        self.queue = dict(sorted(self.queue.items(), reverse=True))
        self.limit = 1
        return super()._admit(source)


class TakesNothingOut(NestedSweep):
    """Updates that are not admitted stay in the answer."""

    def reply_for(self, key: Any, answer: Answer) -> Reply:
        reply = super().reply_for(key, answer)
        return Reply(reply.bags, tuple(self.members), reply.admitted)


class ForgetsTheWaiting(Pvm):
    """Looks for concurrent updates among those in process only."""

    def reply_for(self, key: Any, answer: Answer) -> Reply:
        reply = super().reply_for(key, answer)
        return Reply(reply.bags, tuple(item for item in reply.arrived if item[0] not in self.waiting_updates))


class DropsTooEarly(Pvm):
    """RPU is emptied with every commit."""

    def on_finished(self, key: Any, result: Any) -> Iterator[Effect]:
        self.committed = {}
        for effect in super().on_finished(key, result):
            self.committed = {}
            yield effect


class ShowsAsFinished(PvmCc):
    def _show_in_order(self) -> Iterator[Effect]:
        running, self.in_process = self.in_process, {}
        yield from super()._show_in_order()
        self.in_process = running


class ForgetsTheSwept(PvmCc):
    """An update that is swept and not yet shown is not taken out of older ones' answers."""

    def reply_for(self, key: Any, answer: Answer) -> Reply:
        reply = super().reply_for(key, answer)
        return Reply(reply.bags, tuple(item for item in reply.arrived if item[0] not in self.committed))


SWEEPING = "weir.algorithms.sweeping."
MUTATIONS = [
    Mutation(
        "sweep-wrong-sign",
        "later updates are added instead of taken out",
        "sweep",
        Case("single-update", seed=2, sources=2),
        patches={SWEEPING + "compensated": added},
    ),
    Mutation(
        "sweep-off-by-one",
        "an update with the very next number is not taken out",
        "sweep",
        Case("union_source_local"),
        patches={SWEEPING + "compensated": one_short},
    ),
    Mutation(
        "sweep-not-for-ever",
        "rows read are valid only up to the second update",
        "sweep",
        Case("single-update", seed=1, sources=2),
        patches={SWEEPING + "FOR_EVER": 6},
    ),
    Mutation(
        "sweep-misses-later",
        "only the first update that waits is taken out",
        "sweep",
        Case("single-update", seed=4, updates=3, keyed=False),
        patches={SWEEPING + "compensated": first_only},
    ),
    Mutation(
        "sweep-one-number",
        "the sub-updates of a transaction all have the same number",
        "sweep",
        Case("union_source_local"),
        patches={SWEEPING + "number": one_number_per_update},
    ),
    Mutation(
        "sweep-deleted-keys",
        "a hop asks for the partners of inserted rows only",
        "sweep",
        Case("single-update", seed=4),
        patches={"weir.algebra.hops._every_key": keys_of_inserts},
    ),
    Mutation(
        "sweep-youngest-first",
        "updates are taken off the wrong end of the queue",
        "sweep",
        Case("single-update", seed=5, updates=3, keyed=False),
        TakesTheYoungest,
    ),
    Mutation(
        "posse-wrong-sign",
        "what is fetched at once has later updates added instead of taken out",
        "posse",
        Case("single-update", seed=2, sources=2),
        patches={"weir.algorithms.posse.compensated": added},
        options={"plan": "all"},
    ),
    Mutation(
        "nested-sweep-out-of-order",
        "a younger update of a source is admitted before an older one",
        "nested-sweep",
        Case("single-update", seed=5, updates=3, keyed=False),
        AdmitsTheYoungest,
    ),
    Mutation(
        "nested-sweep-outsiders",
        "updates outside the sweep stay in its answers",
        "nested-sweep",
        Case("single-update", seed=2, sources=2),
        TakesNothingOut,
        options={"limit": 0},
    ),
    Mutation(
        "pvm-no-rpu",
        "committed updates are forgotten though an older one is in process",
        "pvm",
        Case("single-update", seed=8, keyed=False),
        broken_options={"remember_committed": False},
    ),
    Mutation(
        "pvm-rpu-early",
        "RPU is emptied with every commit",
        "pvm",
        Case("single-update", seed=8, keyed=False),
        DropsTooEarly,
    ),
    Mutation(
        "pvm-no-negative",
        "negative counters are dropped",
        "pvm",
        Case("single-update", seed=4),
        broken_options={"negative_counters": False},
    ),
    Mutation(
        "pvm-forgets-waiting",
        "waiting updates (UMQ) are not compensated for",
        "pvm",
        Case("single-update", seed=4, updates=3, keyed=False),
        ForgetsTheWaiting,
    ),
    Mutation(
        "pvm-cc-out-of-order",
        "results are shown as they finish",
        "pvm-cc",
        Case("single-update", seed=8, keyed=False),
        ShowsAsFinished,
    ),
    Mutation(
        "pvm-cc-forgets-swept",
        "what is swept and not yet shown is not compensated for",
        "pvm-cc",
        Case("single-update", seed=8, keyed=False),
        ForgetsTheSwept,
    ),
]
