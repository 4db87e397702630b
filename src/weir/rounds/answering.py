"""Running algorithms to rest: everything they ask is answered in the snapshots that the round holds.

Asks and the reads of token nodes are answered by the sources' own threads. Sweeps of all views are one Spark job; if it
fails, each unit's are tried alone, so that one unit's trouble is not another's.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from weir import points
from weir.algebra.bag import Bag
from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.algebra.types import Schema
from weir.algorithms.sweeping import width
from weir.messages import Ask, NodeMessage
from weir.rounds.channels import Channel
from weir.rounds.conversation import Conversation, Sweeping, answer
from weir.rounds.delivery import pack
from weir.rounds.readiness import Readiness
from weir.rounds.units import RUNNING, Unit
from weir.rounds.views import MaintainedView
from weir.sources.source import Answers
from weir.spark.arrow_bag import ArrowBag
from weir.sweeping.failures import asking, explained
from weir.sweeping.job import sweep_on_spark
from weir.sweeping.lookups import Access, LookupServer, SharedSnapshot
from weir.sweeping.order import Asked, Numbering, SweepOrder

T = TypeVar("T")


class Answering:
    """Answers questions of one engine's views."""

    def __init__(
        self, spark: SparkSession, readiness: Readiness, schemas: Mapping[Relation, Schema], tasks: int, host: str
    ) -> None:
        self.spark, self.readiness, self.channels, self.schemas = spark, readiness, readiness.channels, schemas
        self.tasks, self.host = tasks, host
        self.asked = Asked()
        self._counting = threading.Lock()  # sources answer in threads of their own
        self.round = 0
        self._server: LookupServer | None = None

    def run_to_rest(self, units: Sequence[Unit]) -> None:
        """Until nobody has a question any more and nobody's timer brings up another. Units that fail drop out."""
        while True:
            steps = [self._step(unit, unit.conversations) for unit in units if unit.state == RUNNING]
            if any(steps) or self._sweep_all(units):
                continue
            conversations = [conversation for unit in units for conversation in unit.conversations]
            for conversation in conversations:
                conversation.let_idle()
            if all(conversation.resting for conversation in conversations):
                return

    def _step(self, unit: Unit, conversations: Sequence[Conversation]) -> bool:
        """Answers what is asked now, sweeps aside; whether there was anything."""
        try:
            asked = [(conversation, ask) for conversation in conversations for ask in conversation.take_asks()]
            for conversation, ask, future in [(conversation, ask, self._ask(unit, ask)) for conversation, ask in asked]:
                conversation.receive_answer(_result(future, ask.source))
            mail = [(conversation, *letter) for conversation in conversations for letter in conversation.take_mail()]
            for conversation, source, message in mail:
                _result(self._hand_over(unit, conversation, source, message), source)
        except Exception as problem:
            self.readiness.trouble(unit, problem)
            return True
        return bool(asked or mail)

    # -- by a source's own thread --------------------------------------------------------------------------------------

    def _ask(self, unit: Unit, ask: Ask) -> Future[Any]:
        channel = self.channels[ask.source]
        return channel.call(lambda _: answer(ask, partial(self._fetch, unit, channel)))

    def _hand_over(self, unit: Unit, conversation: Conversation, source: str, message: NodeMessage) -> Future[None]:
        """To the node that lives at the source."""
        channel = self.channels[source]
        return channel.call(lambda _: conversation.node_receives(source, message, partial(self._fetch, unit, channel)))

    def _fetch(self, unit: Unit, channel: Channel, lookup: Lookup) -> Bag:
        points.reach(points.BETWEEN_HOPS)
        (found,) = channel.source.look((lookup,))
        keys: Any = lookup.keys
        self._count(unit, Asked(1, 0 if keys is None else len(keys), found.num_rows, found.nbytes))
        return ArrowBag.from_table(self.schemas[lookup.relation].only(lookup.columns), found)

    # -- by Spark ------------------------------------------------------------------------------------------------------

    def _sweep_all(self, units: Sequence[Unit]) -> bool:
        """The sweeps of all units in one job; whether there were any."""
        sweeps = {unit.name: [s for each in unit.conversations for s in each.take_sweeps()] for unit in units}
        waiting = [unit for unit in units if sweeps[unit.name] and unit.state == RUNNING]
        if len(waiting) > 1:
            try:
                self._sweep(waiting, [s for unit in waiting for s in sweeps[unit.name]])
                return True
            except WeirError:
                pass  # one of them is in trouble: which one shows when each is tried alone
        for unit in waiting:
            if unit.state != RUNNING:  # another one's trouble with a source was this one's too
                continue
            try:
                self._sweep([unit], sweeps[unit.name])
            except WeirError as problem:
                self.readiness.trouble(unit, problem)
        return bool(waiting)

    def _sweep(self, units: Sequence[Unit], sweeps: Sequence[Sweeping]) -> None:
        views = {id(view.conversation): view for unit in units for view in unit.views}
        unit_of = {id(view.conversation): unit for unit in units for view in unit.views}
        orders = [_order(views[id(sweep.conversation)], sweep) for sweep in sweeps]
        access = {source: self._access(source) for unit in units for source in unit.sources}
        try:
            deltas = sweep_on_spark(self.spark, orders, access, self.tasks)
        except Exception as problem:
            raise explained(problem, ", ".join(unit.name for unit in units)) from problem
        points.reach(points.AFTER_SWEEP)
        for sweep, delta in zip(sweeps, deltas, strict=True):
            self._count(unit_of[id(sweep.conversation)], delta.asked)
            sweep.conversation.swept(sweep, delta)

    def _count(self, unit: Unit, asked: Asked) -> None:
        with self._counting:
            self.asked += asked
            unit.asked += asked

    def _access(self, source: str) -> Access:
        visit = self.channels[source].visit
        assert visit is not None, f"source {source} is not held"
        if visit.snapshot is not None:
            return SharedSnapshot(visit.snapshot)
        if self._server is None:
            self._server = LookupServer(self._look, self.host, self.tasks)
        return self._server.access_to(source, self.round)

    def _look(self, source: str, round_: int, lookups: Sequence[Lookup]) -> Answers:
        """For a task of this round."""
        if round_ != self.round:
            raise WeirError(f"source {source}: the snapshot of round {round_} is gone")
        points.reach(points.BETWEEN_HOPS)
        return self.channels[source].look(lookups)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


def _order(view: MaintainedView, sweep: Sweeping) -> SweepOrder:
    assert view.store is not None
    relations = view.view.relations
    numbering = Numbering(width(view.view), None if view.complete else sweep.conversation.driver.arrivals)
    batch, arrived = pack(sweep.batch, relations), pack(sweep.arrived, relations)
    return SweepOrder(view.view, batch, arrived, view.store.stager(), numbering)


def _result(future: Future[T], source: str) -> T:
    with asking(source):
        return future.result()
