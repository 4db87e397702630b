"""The run: batches of every size in turns, and after each batch all three ways, in an order that changes.

Every way is held back while a batch is applied, and has the machine for itself when it goes. The first rounds warm up
and are not counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir.bench.product.tpch.apart import Apart, Called
from weir.bench.product.tpch.bare import Address
from weir.bench.product.tpch.changes import TpchWorkload
from weir.bench.product.tpch.data import Data, generate
from weir.bench.product.tpch.floor import Floor
from weir.bench.product.tpch.memory import MemoryUse
from weir.bench.product.tpch.places import TpchDatabase, addresses, open_places
from weir.bench.product.tpch.recompute import RecomputedView
from weir.bench.product.tpch.tables import TABLES
from weir.bench.product.tpch.turn import Turn
from weir.bench.product.tpch.weir_way import MaintainedFacts, WeirWay
from weir.bench.product.tpch.writer import TpchWriter
from weir.spark.session import open_session

WEIR, FLOOR, RECOMPUTE = "weir", "floor", "recompute"
WAYS = (WEIR, FLOOR, RECOMPUTE)
Tell = Callable[[str], None]


@dataclass(frozen=True)
class TpchPlan:
    """What is measured."""

    scale: float = 1.0
    sources: str = "postgres"
    sizes: tuple[int, ...] = (1, 100, 10_000)
    repeats: int = 5
    warmups: int = 1
    seed: int = 0
    settings: Mapping[str, str] = field(
        default_factory=lambda: {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "4"}
    )  # of Spark, the same for every way


@dataclass(frozen=True)
class Sample:
    """One turn of one way after a batch of so many changes in so many transactions."""

    way: str
    changes: int
    transactions: int
    turn: Turn


@dataclass
class TpchOutcome:
    """All that a run has found."""

    plan: TpchPlan
    base_rows: Mapping[str, int]
    base_parquet: int  # bytes of the base tables as Parquet files
    base_stored: int  # bytes in the databases, indexes and all
    load_ms: float = 0.0
    first_recompute_ms: float = 0.0  # the other way's first run: in a Spark that has done nothing yet, like the load
    samples: list[Sample] = field(default_factory=list)
    differences: dict[int, int] = field(default_factory=dict)  # by size: the view against recomputation
    floor_differences: int = 0
    audit: int = -1  # by the maintainer's own audit, at the end
    facts: MaintainedFacts | None = None
    memory: dict[str, MemoryUse] = field(default_factory=dict)

    def turns(self, way: str, size: int) -> list[Turn]:
        return [sample.turn for sample in self.samples if sample.way == way and sample.changes == size]


Ways = Mapping[str, Called]
Opening = Callable[[TpchPlan, Mapping[str, TpchDatabase], Path], Ways]


def measure(plan: TpchPlan, open_ways: Opening, tell: Tell = lambda text: None) -> TpchOutcome:
    """The whole of it: data, sources, ways, rounds, audit."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-tpch-")))
        tell(f"scale {plan.scale:g}: making the data and three sources ({plan.sources})")
        data = generate(plan.scale, folder / "data")
        places = stack.enter_context(open_places(plan.sources, data))
        ways = open_ways(plan, places, folder)
        for way in ways.values():
            stack.enter_context(closing(way))
        stored = sum(place.size() for place in places.values())
        outcome = TpchOutcome(plan, data.rows(), data.size(), stored)
        connections = {source: stack.enter_context(closing(place.address.open())) for source, place in places.items()}
        bare = {name: connections[table.source] for name, table in TABLES.items()}
        Rounds(outcome, ways, TpchWorkload(data, bare, plan.seed), TpchWriter(bare), data, tell).run()
        return outcome


@dataclass
class Rounds:
    """The rounds of one run."""

    outcome: TpchOutcome
    ways: Ways
    workload: TpchWorkload
    writer: TpchWriter
    data: Data
    tell: Tell
    batches: int = 0

    def run(self) -> None:
        plan, outcome = self.outcome.plan, self.outcome
        self.tell("first load")
        outcome.load_ms = self.ways[WEIR].call("begin")
        outcome.first_recompute_ms = self.ways[RECOMPUTE].call("run").ms
        for at in range(plan.warmups + plan.repeats):
            for size in plan.sizes:
                self._batch(size, counted=at >= plan.warmups)
                if at == plan.warmups + plan.repeats - 1:
                    self._compare(size)
        self._finish()

    def _batch(self, size: int, counted: bool) -> None:
        batch = self.workload.batch(size)
        self.writer.apply(batch)
        deltas = {table: batch.delta(table, self.data.schema(table)) for table in TABLES}
        calls: dict[str, tuple[Any, ...]] = {WEIR: ("caught_up",), FLOOR: ("run", deltas), RECOMPUTE: ("run",)}
        for way in self._order():
            turn: Turn = self.ways[way].call(*calls[way])
            self.outcome.memory[way] = self.outcome.memory.get(way, MemoryUse()).most(self.ways[way].peak())
            self.tell(f"{size:>6} changes, {way}: {turn.ms:,.0f} ms{'' if counted else ' (warming up)'}")
            if counted:
                self.outcome.samples.append(Sample(way, size, len(batch.transactions), turn))

    def _order(self) -> Iterator[str]:
        """Another one goes first each time: who comes later finds the sources' caches warm."""
        first, self.batches = self.batches % len(WAYS), self.batches + 1
        yield from (*WAYS[first:], *WAYS[:first])

    def _compare(self, size: int) -> None:
        """What a reader sees now, against what was recomputed after the same batch."""
        facts: MaintainedFacts = self.ways[WEIR].call("facts")
        self.outcome.differences[size] = self.ways[RECOMPUTE].call("differences_at", facts.table)

    def _finish(self) -> None:
        outcome = self.outcome
        self.tell("audit")
        outcome.facts = self.ways[WEIR].call("facts")
        outcome.audit = self.ways[WEIR].call("audit")
        outcome.floor_differences = self.ways[RECOMPUTE].call("differences_after", self.ways[FLOOR].call("files"))


# -- the ways, each in a process of its own ----------------------------------------------------------------------------


def all_apart(plan: TpchPlan, places: Mapping[str, TpchDatabase], folder: Path) -> Ways:
    sources = {name: (place.kind, place.options) for name, place in places.items()}
    where, opened = addresses(places), ExitStack()
    try:
        weir = Apart(_weir, plan, sources, str(folder / "warehouse"))
        opened.callback(weir.close)
        floor = Apart(Floor, where, folder / "floor")
        opened.callback(floor.close)
        return {WEIR: weir, FLOOR: floor, RECOMPUTE: Apart(_recompute, plan, where, folder / "recompute")}
    except BaseException:
        opened.close()
        raise


def _weir(plan: TpchPlan, sources: Mapping[str, tuple[str, Mapping[str, Any]]], path: str) -> WeirWay:
    return WeirWay(path, sources, settings=plan.settings)


def _recompute(plan: TpchPlan, where: Mapping[str, Address], folder: Path) -> RecomputedView:
    return RecomputedView(open_session("local[*]", "tpch recompute", plan.settings), where, folder)
