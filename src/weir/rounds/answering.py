"""Running algorithms to rest: everything they ask is answered in the snapshots that the round holds.

Asks are answered side by side, one thread per source that is asked. Sweeps of a party's views are one Spark job; if it
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
from weir.messages import Ask
from weir.rounds.conversation import Sweeping, answer
from weir.rounds.delivery import pack
from weir.rounds.holds import Hold, Holds
from weir.rounds.parties import Party
from weir.rounds.threads import spawn
from weir.rounds.units import Unit
from weir.rounds.views import MaintainedView
from weir.sources.source import Answers
from weir.spark.arrow_bag import ArrowBag
from weir.sweeping.failures import SourceFailed, asking, explained
from weir.sweeping.job import sweep_on_spark
from weir.sweeping.lookups import Access, LookupServer, SharedSnapshot
from weir.sweeping.order import Asked, Numbering, SweepOrder

T = TypeVar("T")


class Answering:
    """Answers questions of one engine's views; every call is one party's, in its own thread."""

    def __init__(self, spark: SparkSession, schemas: Mapping[Relation, Schema], tasks: int, host: str) -> None:
        self.spark, self.schemas, self.tasks, self.host = spark, schemas, tasks, host
        self.asked = Asked()
        self.holds = Holds()
        self._counting = threading.Lock()
        self._server: LookupServer | None = None

    def run_to_rest(self, party: Party) -> None:
        """Until nobody has a question any more and nobody's timer brings up another. Units that fail drop out."""
        while True:
            steps = [self._step(party, unit) for unit in party.well]
            if any(steps) or self._sweep_all(party):
                continue
            conversations = [conversation for unit in party.well for conversation in unit.conversations]
            for conversation in conversations:
                conversation.let_idle()
            if all(conversation.resting for conversation in conversations):
                return

    def _step(self, party: Party, unit: Unit) -> bool:
        """Answers what is asked now, sweeps aside; whether there was anything."""
        try:
            asked = [(conversation, ask) for conversation in unit.conversations for ask in conversation.take_asks()]
            begun = [(conversation, ask, self._ask(party, unit, ask)) for conversation, ask in asked]
            for conversation, ask, future in begun:
                conversation.receive_answer(_result(future, ask.source))
            mail = [(each, *letter) for each in unit.conversations for letter in each.take_mail()]
            for conversation, source, message in mail:
                with asking(source):
                    conversation.node_receives(source, message, partial(self._fetch, unit, party.holds[source]))
        except Exception as problem:
            party.problems[unit.name] = problem
            return True
        return bool(asked or mail)

    # -- by the driver -------------------------------------------------------------------------------------------------

    def _ask(self, party: Party, unit: Unit, ask: Ask) -> Future[Any]:
        """Sources answer side by side."""
        fetch = partial(self._fetch, unit, party.holds[ask.source])
        return spawn(f"weir-ask-{ask.source}", lambda: answer(ask, fetch))

    def _fetch(self, unit: Unit, hold: Hold, lookup: Lookup) -> Bag:
        points.reach(points.BETWEEN_HOPS)
        (found,) = hold.snapshot.look((lookup,))
        keys: Any = lookup.keys
        self._count(unit, Asked(1, 0 if keys is None else len(keys), found.num_rows, found.nbytes))
        return ArrowBag.from_table(self.schemas[lookup.relation].only(lookup.columns), found)

    # -- by Spark ------------------------------------------------------------------------------------------------------

    def _sweep_all(self, party: Party) -> bool:
        """The sweeps of all units in one job; whether there were any."""
        sweeps = {unit.name: [s for each in unit.conversations for s in each.take_sweeps()] for unit in party.well}
        waiting = [unit for unit in party.well if sweeps[unit.name]]
        if len(waiting) > 1 and not party.called_off:
            try:
                self._sweep(party, waiting, [s for unit in waiting for s in sweeps[unit.name]])
                return True
            except SourceFailed as problem:  # they all have the same sources
                party.problems |= {unit.name: problem for unit in waiting}
                return True
            except WeirError:
                pass  # one of them is in trouble: which one shows when each is tried alone
        for unit in waiting:
            try:
                if party.called_off:
                    raise WeirError(party.called_off)
                self._sweep(party, [unit], sweeps[unit.name])
            except WeirError as problem:
                party.problems[unit.name] = problem
        return bool(waiting)

    def _sweep(self, party: Party, units: Sequence[Unit], sweeps: Sequence[Sweeping]) -> None:
        views = {id(view.conversation): view for unit in units for view in unit.views}
        unit_of = {id(view.conversation): unit for unit in units for view in unit.views}
        orders = [_order(views[id(sweep.conversation)], sweep) for sweep in sweeps]
        access = {source: self._access(hold) for source, hold in party.holds.items()}
        points.reach(points.SWEEPING)
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

    def _access(self, hold: Hold) -> Access:
        if hold.snapshot.token is not None:
            return SharedSnapshot(hold.snapshot.token)
        with self._counting:
            if self._server is None:
                self._server = LookupServer(self._look, self.host, self.tasks)
        return self._server.access_to(hold.source, hold.number)

    def _look(self, source: str, number: int, lookups: Sequence[Lookup]) -> Answers:
        """For a task."""
        points.reach(points.BETWEEN_HOPS)
        return self.holds.look(source, number, lookups)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


def _order(view: MaintainedView, sweep: Sweeping) -> SweepOrder:
    assert view.store is not None
    relations = view.view.relations
    numbering = Numbering(width(view.view), None if view.complete else sweep.conversation.driver.arrivals)
    batch, arrived = pack(sweep.batch, relations), pack(sweep.arrived, relations)
    return SweepOrder(view.view, batch, arrived, view.store.stager(last=numbering.end), numbering)


def _result(future: Future[T], source: str) -> T:
    with asking(source):
        return future.result()
