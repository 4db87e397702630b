"""``weir bench sources``: what a visit costs, idle and under load; changes per second; lookups beside the bare driver.

A lookup is a whole visit (snapshot, question, log) with the rows as Arrow; beside it, in the same run and taking
turns, the bare driver runs the same SELECT and fetches the rows. Medians count. Wall time on a machine with other work
is what it is, so the processor time of this process stands beside it; the server's own is in neither.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table as Grid

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.bench.product.source_labs import MEASURED, NEEDED, Lab, open_lab, write
from weir.proving.oracle import ask
from weir.sources.source import Source

MOST_RATIO, LEAST_CHANGES = 1.5, 20_000  # the targets: at the largest number of keys; row changes per second
T = Relation("bench", "t")


@dataclass(frozen=True)
class SourceSizes:
    """How much is measured."""

    rows: int = 100_000
    changed: int = 20_000
    rounds_of_changes: int = 5
    idle_visits: int = 300
    loaded_seconds: float = 5.0
    keys: tuple[int, ...] = (1, 100, 10_000)
    rounds: tuple[int, ...] = (200, 100, 15)


QUICK = SourceSizes(20_000, 5_000, 2, 50, 1.0, (1, 100, 10_000), (20, 10, 3))


@dataclass(frozen=True)
class Spent:
    """Medians of one action, in milliseconds: by the clock, and of this process's processor time."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class LookupCost:
    """A lookup of so many keys: ours, the bare driver's, and the ratios."""

    keys: int
    ours: Spent
    bare: Spent

    @property
    def ratio(self) -> float:
        return self.ours.wall / self.bare.wall

    @property
    def cpu_ratio(self) -> float:
        return self.ours.cpu / self.bare.cpu


@dataclass(frozen=True)
class Result:
    """One kind."""

    kind: str
    idle: Spent
    loaded: Spent
    loaded_transactions_per_second: float
    changes_per_second: float  # changed rows, each an old and a new image
    changes_per_cpu_second: float
    lookups: tuple[LookupCost, ...]

    @property
    def holds(self) -> bool:
        return self.changes_per_second >= LEAST_CHANGES and self.lookups[-1].ratio <= MOST_RATIO


def measure(kinds: Sequence[str], sizes: SourceSizes) -> Iterator[Result]:
    """One kind after the other, each on a database of its own."""
    for kind in kinds or MEASURED:
        with open_lab(kind, sizes.rows) as lab, closing(lab.open()) as source:
            yield _measure(lab, source, sizes)


def _measure(lab: Lab, source: Source, sizes: SourceSizes) -> Result:
    source.watch({T: NEEDED})
    load = source.load()
    for partition in load.held.parts():
        for _ in load.held.read(partition):
            pass
    load.held.release()
    with closing(lab.login.connect()) as bare:
        lookups = tuple(_lookups(lab, source, bare, n, r) for n, r in zip(sizes.keys, sizes.rounds, strict=True))
        changes, per_cpu = _changes(lab, source, bare, sizes)
    idle = _median(lambda: source.visit(), sizes.idle_visits)
    loaded, rate = _under_load(lab, source, sizes)
    return Result(lab.kind, idle, loaded, rate, changes, per_cpu, lookups)


def _lookups(lab: Lab, source: Source, bare: Any, many: int, rounds: int) -> LookupCost:
    """Other keys in every round; the same for both, taking turns."""
    dice, ours, theirs = random.Random(many), [], []
    for _ in range(rounds + 1):  # the first warms up
        keys = dice.sample(range(1, lab.many + 1), many)
        lookup = Lookup(T, NEEDED, ("k",), MemoryBag.of(Schema.parse("k int"), [(key,) for key in keys]))
        spent, (_, (answer,)) = _timed(lambda lookup=lookup: ask(source, [lookup]))  # type: ignore[misc]
        ours.append(spent)
        spent, rows = _timed(lambda keys=keys: lab.bare(bare, keys))  # type: ignore[misc]
        theirs.append(spent)
        if not answer.num_rows == len(rows) == many:
            raise AssertionError(f"{many} keys: {answer.num_rows} rows, the bare driver {len(rows)}")
    return LookupCost(many, _middle(ours[1:]), _middle(theirs[1:]))


def _changes(lab: Lab, source: Source, admin: Any, sizes: SourceSizes) -> tuple[float, float]:
    """Changed rows decoded per second, by the clock and per second of processor time."""
    spent = []
    for _ in range(sizes.rounds_of_changes + 1):
        lab.change(admin, sizes.changed)
        one, visit = _timed(source.visit)
        if visit.changes[T].num_rows != 2 * sizes.changed:
            raise AssertionError(f"{sizes.changed} rows were changed, {visit.changes[T].num_rows} images delivered")
        source.acknowledge(visit.position)
        spent.append(one)
    middle = _middle(spent[1:])
    return sizes.changed / middle.wall * 1000, sizes.changed / middle.cpu * 1000


def _under_load(lab: Lab, source: Source, sizes: SourceSizes) -> tuple[Spent, float]:
    """Visits that found something, while a writer commits small transactions; and how many of these per second."""
    with _writer(lab) as commits:
        began, before, spent = time.monotonic(), commits.value, []
        while time.monotonic() < began + sizes.loaded_seconds:
            one, visit = _timed(source.visit)
            if visit.transactions:
                spent.append(one)
            source.acknowledge(visit.position)
        return _middle(spent), (commits.value - before) / (time.monotonic() - began)


@contextmanager
def _writer(lab: Lab) -> Iterator[Any]:
    context = multiprocessing.get_context("spawn")
    stop, commits = context.Value("b", 0, lock=False), context.Value("q", 0, lock=False)
    process = context.Process(target=write, args=(lab.login, lab.many, stop, commits), daemon=True)
    process.start()
    try:
        while not commits.value and process.is_alive():
            time.sleep(0.01)
        yield commits
    finally:
        stop.value = 1
        process.join(30)


def _timed(action: Callable[[], Any]) -> tuple[Spent, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = action()
    return Spent((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000), result


def _median(action: Callable[[], Any], times: int) -> Spent:
    return _middle([_timed(action)[0] for _ in range(times)])


def _middle(spent: Sequence[Spent]) -> Spent:
    return Spent(statistics.median(s.wall for s in spent), statistics.median(s.cpu for s in spent))


# -- telling ----------------------------------------------------------------------------------------------------------


def document(results: Sequence[Result], sizes: SourceSizes) -> dict[str, Any]:
    """For programs: milliseconds, and per second where the name says so."""
    machine = {"processors": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "python": platform.python_version()}
    targets = {"ratio_at_most": MOST_RATIO, "changes_per_second_at_least": LEAST_CHANGES}
    return {"machine": machine, "sizes": asdict(sizes), "targets": targets, "kinds": [_entry(r) for r in results]}


def _entry(result: Result) -> dict[str, Any]:
    entry = asdict(result)
    for found, cost in zip(entry["lookups"], result.lookups, strict=True):
        found |= {
            "lookups_per_second": round(1000 / cost.ours.wall, 1), "ratio": round(cost.ratio, 2),
            "cpu_ratio": round(cost.cpu_ratio, 2),
        }  # fmt: skip
    return {**entry, "holds": result.holds}


def table(results: Sequence[Result]) -> Grid:
    grid = Grid(
        title="A lookup is a whole visit; in brackets the bare driver; below, ratios of wall and processor time"
    )
    for heading in ("kind", "visit ms", "loaded", "changes/s", "per cpu s", *map(_keys, results[0].lookups)):
        grid.add_column(heading, justify="left" if heading == "kind" else "right")
    for result in results:
        lookups = [
            f"{c.ours.wall:.2f} ({c.bare.wall:.2f}) ms\n{c.ratio:.2f}, {c.cpu_ratio:.2f}" for c in result.lookups
        ]
        rates = (f"{result.changes_per_second:,.0f}", f"{result.changes_per_cpu_second:,.0f}")
        grid.add_row(result.kind, f"{result.idle.wall:.2f}", f"{result.loaded.wall:.2f}", *rates, *lookups)
    return grid


def _keys(cost: LookupCost) -> str:
    return f"{cost.keys:,} key{'s' if cost.keys > 1 else ''}"


def notes(results: Sequence[Result]) -> list[str]:
    """Which kinds miss a target."""
    return [
        f"{r.kind}: misses a target (ratio at most {MOST_RATIO} at {r.lookups[-1].keys:,} keys, "
        f"at least {LEAST_CHANGES:,} changes per second)"
        for r in results
        if not r.holds
    ]
