"""``weir bench explore``: how many states and schedules a second exhaustive exploration visits.

The scenarios are chains ``r1 join r2 join ...``, one relation per source, every source with so many single-row
updates; a chain of one source is two relations there. An algorithm takes part by its name in the registry, and only
where a scenario meets its needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from rich.table import Table

from weir.algebra.errors import WeirError
from weir.algorithms.base import NeedNotMet
from weir.algorithms.registry import algorithm
from weir.bench.simulator.spectrum_report import short
from weir.simulator.explore import every_schedule, run_listed
from weir.simulator.scenario import Scenario, parse

ALGORITHMS = ("basic", "eca", "copies")


@dataclass(frozen=True)
class ChainSize:
    """So many sources with so many single-row updates each."""

    sources: int
    updates: int

    @classmethod
    def parse(cls, text: str) -> ChainSize:
        """From ``3x2``.

        >>> ChainSize.parse("3x2")
        ChainSize(sources=3, updates=2)
        """
        sources, _, updates = text.partition("x")
        if not (sources.isdigit() and updates.isdigit() and int(sources) and int(updates)):
            raise WeirError(f"'{text}' is no size of a scenario: write sources x updates at each, such as 3x2")
        return cls(int(sources), int(updates))

    def __str__(self) -> str:
        return f"{self.sources} source{'s' * (self.sources > 1)} x {self.updates}"


SIZES = (ChainSize(1, 3), ChainSize(1, 5), ChainSize(1, 7), ChainSize(2, 2), ChainSize(2, 3), ChainSize(3, 1))
QUICK = (ChainSize(1, 3), ChainSize(2, 2))


@dataclass(frozen=True)
class Speed:
    """One exploration."""

    scenario: str
    algorithm: str
    states: int
    schedules: int
    histories: int
    seconds: float

    @property
    def states_per_second(self) -> float:
        return self.states / self.seconds

    @property
    def schedules_per_second(self) -> float:
        return self.schedules / self.seconds


def measure(names: Sequence[str], sizes: Iterable[ChainSize]) -> list[Speed]:
    """Explores every scenario with every algorithm that can maintain its view."""
    for name in names:
        algorithm(name)  # a wrong name is told before anything runs
    return [speed for size in sizes for name in names if (speed := explore_one(size, name)) is not None]


def explore_one(size: ChainSize, name: str) -> Speed | None:
    """One exploration timed; None where the scenario does not meet the algorithm's needs."""
    scenario, chosen = chain(size), algorithm(name)
    try:
        chosen.check(scenario.view)
    except NeedNotMet:
        return None
    run_listed(chain(size).begin(chosen), ())  # compiles the view's expressions, which is not what is timed
    started = perf_counter()
    found = every_schedule(scenario, lambda: scenario.begin(chosen))
    seconds = perf_counter() - started
    return Speed(str(size), name, found.states, found.schedules, len(found.histories), seconds)


def chain(size: ChainSize) -> Scenario:
    """The chain of that size; every relation begins with one row, and its updates insert and delete in turn."""
    tables = [("s1.r1", "s1.r2")] if size.sources == 1 else [(f"s{n}.r{n}",) for n in range(1, size.sources + 1)]
    names = [name for at_source in tables for name in at_source]
    joins = " ".join(f"JOIN {name} ON r{n}.B = r{n + 1}.A" for n, name in enumerate(names[1:], start=1))
    outputs = ", ".join(f"r{n}.K AS K{n}" for n in range(1, len(names) + 1))
    return parse(
        {
            "title": str(size),
            "view": f"CREATE MATERIALIZED VIEW chain AS SELECT {outputs} FROM {names[0]} {joins}",
            "tables": {name: {"columns": "K int, A int, B int", "key": ["K"], "rows": "(1, 0, 0)"} for name in names},
            "transactions": [
                _transaction(at_source, number) for at_source in tables for number in range(1, size.updates + 1)
            ],
        }
    )


def _transaction(tables: Sequence[str], number: int) -> dict[str, str]:
    """Inserts row 2, 3, ..., and every third update deletes the first row: no two updates are alike."""
    source, _, table = tables[number % len(tables)].partition(".")
    change = f"-{table}(1, 0, 0)" if number % 3 == 0 else f"+{table}({number + 1}, 0, 0)"
    return {"name": f"{source}u{number}", "source": source, "changes": change}


def document(results: Iterable[Speed]) -> dict[str, list[dict[str, Any]]]:
    """What ``--json`` prints."""
    return {
        "rows": [
            {**asdict(r), "states_per_second": r.states_per_second, "schedules_per_second": r.schedules_per_second}
            for r in results
        ]
    }


def table(results: Iterable[Speed]) -> Table:
    shown = Table(title="Every schedule of a chain of joins, explored", title_justify="left")
    for name in ("scenario", "by"):
        shown.add_column(name, no_wrap=True)
    for name in ("states", "schedules", "seconds", "states/s", "sched./s"):
        shown.add_column(name, justify="right", no_wrap=True)
    for r in results:
        rates = f"{r.states_per_second:,.0f}", short(r.schedules_per_second)
        shown.add_row(r.scenario, r.algorithm, f"{r.states:,}", short(r.schedules), f"{r.seconds:.2f}", *rates)
    return shown
