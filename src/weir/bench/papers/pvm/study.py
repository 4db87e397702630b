"""``weir bench pvm``: Figures 21 to 26 of the PVM paper in virtual time, formula and measurement.

Time is in queries: a maintenance query takes one unit, a source works on one at a time. Figure 22 has two ticks a
query, Figure 26 has 800 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from weir.bench.papers.pvm import model
from weir.bench.papers.pvm.world import ON_THE_WAY, Measured, chain, measure, runs_of
from weir.bench.papers.study import FigurePoint, Study
from weir.simulator.builtin import find
from weir.simulator.clock import Latencies

SWEEP, PVM = "SWEEP", "PVM"
MILLISECONDS = Latencies(0.0, 800.0, 0.0)
TICKS = Latencies(0.0, 2.0, 0.0)
PAPER_TICKS = {0: 12, 2: 8, 3: 6}  # parallel (0: SWEEP) -> ticks

BLOCKED = (
    "with so few updates in flight one of them often waits in line at a source behind another (the paper's Figure "
    "22), which the model has not: nothing else takes time here"
)
IDLE = (
    "from p = q on the formula needs every source busy all the time; here some are idle now and then while the updates "
    "in flight wait in line at others, less often the more there are"
)
RUNS = (
    "the model does not know c: when the updates in flight are of one source nobody asks that source, and only m - 1 "
    "have work"
)


@dataclass(frozen=True)
class PvmSizes:
    """Which points are measured."""

    parallels: tuple[int, ...] = tuple(range(1, 11))
    sources: tuple[int, ...] = (2, 3, 4, 5, 6)
    runs: tuple[int, ...] = tuple(range(1, 11))
    per_source: tuple[int, ...] = (4, 8, 12, 16, 20, 24, 28, 32, 36, 40)
    intervals: tuple[int, ...] = (0, 100, 200, 300, 400, 500, 600, 700, 800, 1000, 1200, 1400, 1600)
    counts: tuple[int, ...] = (12, 24, 60)


QUICK = PvmSizes((1, 2, 4, 8), (2, 4), (1, 5, 10), (4, 20), (0, 400, 800, 1600), (12,))


class PvmStudy(Study[FigurePoint]):
    """All rows."""

    def __init__(self, sizes: PvmSizes | None = None) -> None:
        self.sizes = sizes or PvmSizes()

    def points(self) -> Iterator[FigurePoint]:
        yield from self._more_in_flight()
        yield from self._ticks()
        yield from self._more_sources()
        yield from self._runs_of_one_source()
        yield from self._more_updates()
        yield from self._more_time_between()
        yield from self._messages()

    @cached_property
    def ticks(self) -> dict[int, Measured]:
        """Figure 22: SWEEP (0), and PVM with two and three in flight."""
        return {parallel: measure(find("pvm_figure_22"), parallel, TICKS) for parallel in PAPER_TICKS}

    # -- figures ------------------------------------------------------------------------------------------------------

    def _more_in_flight(self) -> Iterator[FigurePoint]:
        """Figure 21: n = 60, m = 4; once more with half of a query's time on the way, where q is 8."""
        scenario, t = chain(runs_of(1, 60, 4)), model.time_of_update(4)
        for p in self.sizes.parallels:
            yield FigurePoint.of("21", PVM, p, model.pvm_time(60, p, 4, t), measure(scenario, p).time, _waiting(p, 4))
        for p in self.sizes.parallels:
            formula, measured = model.pvm_time(60, p, 8, t), measure(scenario, p, ON_THE_WAY).time
            yield FigurePoint.of("21", f"{PVM}, half on the way", p, formula, measured, _waiting(p, 8))
        yield FigurePoint.of("21", SWEEP, 1, model.sweep_time(60, t), measure(scenario, 0).time)

    def _ticks(self) -> Iterator[FigurePoint]:
        for parallel, measured in self.ticks.items():
            yield FigurePoint.of("22", PVM if parallel else SWEEP, parallel or 1, PAPER_TICKS[parallel], measured.time)

    def _more_sources(self) -> Iterator[FigurePoint]:
        """Figure 23: ten updates a source."""
        for m in self.sizes.sources:
            scenario, t = chain(runs_of(1, 10 * m, m)), model.time_of_update(m)
            for p in self.sizes.parallels:
                formula = model.pvm_time(10 * m, p, m, t)
                yield FigurePoint.of("23", f"m = {m}", p, formula, measure(scenario, p).time, _waiting(p, m))

    def _runs_of_one_source(self) -> Iterator[FigurePoint]:
        """Figure 24: m = 3, n = 30, p = 5."""
        t = model.time_of_update(3)
        for c in self.sizes.runs:
            scenario = chain(runs_of(c, 30, 3))
            yield FigurePoint.of("24", PVM, c, model.pvm_time(30, 5, 3, t), measure(scenario, 5).time, RUNS)
            yield FigurePoint.of("24", SWEEP, c, model.sweep_time(30, t), measure(scenario, 0).time)

    def _more_updates(self) -> Iterator[FigurePoint]:
        """Figure 25: m = 2, p = 5."""
        t = model.time_of_update(2)
        for each in self.sizes.per_source:
            scenario, n = chain(runs_of(1, 2 * each, 2)), 2 * each
            yield FigurePoint.of("25", PVM, each, model.pvm_time(n, 5, 2, t), measure(scenario, 5).time)
            yield FigurePoint.of("25", SWEEP, each, model.sweep_time(n, t), measure(scenario, 0).time)

    def _more_time_between(self) -> Iterator[FigurePoint]:
        """Figure 26: m = 2, n = 40, p = 5."""
        scenario, t = chain(runs_of(1, 40, 2)), model.time_of_update(2, 800.0)
        for interval in self.sizes.intervals:
            for series, parallel, together in (
                (PVM, 5, model.pvm_time(40, 5, 2, t)),
                (SWEEP, 0, model.sweep_time(40, t)),
            ):
                measured = measure(scenario, parallel, MILLISECONDS, float(interval)).time
                yield FigurePoint.of("26", series, interval, model.spaced_time(together, 40, interval, t), measured)

    def _messages(self) -> Iterator[FigurePoint]:
        """Remote queries and local compensations, all updates there before any answer."""
        for m in (2, 3, 4):
            for n in self.sizes.counts:
                scenario = chain(runs_of(1, n, m))
                for name, parallel in ((SWEEP, 0), (PVM, 4)):
                    measured = measure(scenario, parallel)
                    yield FigurePoint.of("queries", f"{name}, m = {m}", n, model.remote_queries(n, m), measured.remote)
                    local = model.local_compensations(n, m)
                    yield FigurePoint.of("compensations", f"{name}, m = {m}", n, local, measured.local)


def _waiting(parallel: int, queries: int) -> str:
    return BLOCKED if parallel < queries else IDLE
