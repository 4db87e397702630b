"""``weir bench eca``: Figures 6.2 to 6.5 of the ECA paper, its message counts and crossovers, formula and measurement.

Everything measured comes from runs of the simulated world of ``data``, priced by ``meter``; the formulas are ``model``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from operator import attrgetter

from weir.algorithms.eca import Eca
from weir.algorithms.recompute import Recompute
from weir.bench.papers.eca import model
from weir.bench.papers.eca.data import example_6
from weir.bench.papers.eca.meter import Cost, Laboratory
from weir.bench.papers.eca.model import ECA_BEST, ECA_WORST, RV_BEST, RV_WORST, SERIES, Parameters
from weir.bench.papers.eca.reasons import reason
from weir.bench.papers.study import FigurePoint, Study

_BYTES, _INDEXED = attrgetter("bytes"), attrgetter("indexed.all")
_NESTED = attrgetter("nested.inner")  # as the paper counts: without the loads of outer blocks
ROOMY = 96  # the largest C whose five blocks have room for the inserted tuples


@dataclass(frozen=True)
class Crossover:
    """The first number of updates at which ECA costs as much as the one recomputation of RV's best case."""

    cost: str
    series: str
    paper: str  # in the paper's words
    formula: int
    measured: int
    roomy: int | None = None  # measured again at C = 96, where cost is block reads


@dataclass(frozen=True)
class EcaSizes:
    """Which points are measured."""

    cardinalities: tuple[int, ...] = (4, 8, 20, 40, 60, 80, 100)
    updates_for_bytes: tuple[int, ...] = (1, 3, 6, 12, 24, 30, 48, 72, 96, 120)
    updates_for_reads: tuple[int, ...] = (1, 3, 6, 9, 12, 18, 24, 30)
    updates_for_messages: tuple[int, ...] = (1, 3, 10, 30)


QUICK = EcaSizes((4, 20, 100), (3, 6, 24, 30), (3, 6, 12, 24), (3, 10))


class EcaRuns:
    """The runs of one scenario, each made once: every series by number of updates."""

    def __init__(self, cardinality: int, updates: int) -> None:
        self.parameters = Parameters(C=cardinality)
        self._laboratory = Laboratory(example_6(cardinality, self.parameters.J, updates), self.parameters.K)
        self._spaced = cache(lambda algorithm: self._laboratory.spaced(algorithm, updates))
        self.cost = cache(self._cost)

    def _cost(self, series: str, updates: int) -> Cost:
        if series in (ECA_BEST, RV_WORST):
            costs: list[Cost] = self._spaced(Eca if series == ECA_BEST else Recompute)
            return costs[updates]
        if series == ECA_WORST:
            return self._laboratory.crowded(Eca, updates)
        return self._laboratory.crowded(Recompute, updates, every=updates)


Formula = Callable[[str, int, Parameters], float]


class EcaStudy(Study[FigurePoint]):
    """All rows and crossovers."""

    def __init__(self, sizes: EcaSizes | None = None) -> None:
        self.sizes = sizes or EcaSizes()
        self.runs = cache(lambda cardinality: EcaRuns(cardinality, {100: 120, ROOMY: 30}.get(cardinality, 3)))

    def points(self) -> Iterator[FigurePoint]:
        yield from self._bytes_by_cardinality()
        yield from self._by_updates()
        yield from self._messages()
        yield from self._crossover_rows()

    @cached_property
    def crossovers(self) -> list[Crossover]:
        return [
            self._crossover("bytes", ECA_BEST, "100", model.bytes_of_k_updates, _BYTES),
            self._crossover("bytes", ECA_WORST, "30", model.bytes_of_k_updates, _BYTES),
            *(
                self._crossover(cost, series, paper, formula, priced, roomy=True)
                for cost, paper, formula, priced in (
                    ("reads with indexes", "3", model.reads_with_indexes, _INDEXED),
                    ("reads without indexes", "5 to 8", model.reads_without_indexes, _NESTED),
                )
                for series in (ECA_BEST, ECA_WORST)
            ),
        ]

    # -- figures ------------------------------------------------------------------------------------------------------

    def _bytes_by_cardinality(self) -> Iterator[FigurePoint]:
        for cardinality in self.sizes.cardinalities:
            runs = self.runs(cardinality)
            for series in SERIES:
                formula = model.bytes_of_three_updates(series, runs.parameters)
                yield _row("6.2", series, cardinality, formula, runs.cost(series, 3).bytes)

    def _by_updates(self) -> Iterator[FigurePoint]:
        """Figures 6.3 to 6.5: by number of updates, and again with what the paper's four series leave out."""
        many, some, without = self.sizes.updates_for_bytes, self.sizes.updates_for_reads, model.reads_without_indexes
        for figure, series, xs, formula, priced, note, cardinality in (
            ("6.3", SERIES, many, model.bytes_of_k_updates, _BYTES, "", 100),
            ("6.3", (ECA_WORST,), many, model.bytes_of_k_updates, attrgetter("netted"), ", netted", 100),
            ("6.4", SERIES, some, model.reads_with_indexes, _INDEXED, "", 100),
            ("6.5", SERIES, some, without, _NESTED, "", 100),
            ("6.5", SERIES, some, without, attrgetter("nested.all"), ", all reads", 100),
            ("6.5", SERIES, some, without, _NESTED, f", C = {ROOMY}", ROOMY),
        ):
            runs = self.runs(cardinality)
            for name, k in product(series, xs):
                yield _row(figure, name + note, k, formula(name, k, runs.parameters), priced(runs.cost(name, k)))

    def _messages(self) -> Iterator[FigurePoint]:
        runs = self.runs(100)
        for k in self.sizes.updates_for_messages:
            for series in SERIES:
                yield _row("messages", series, k, model.messages(series, k), runs.cost(series, k).messages)
            for s in (2, 4):
                measured = self._messages_every(k, s)
                yield _row("messages", f"RV every {s}", k, model.messages("RV", k, s), measured)

    def _messages_every(self, k: int, s: int) -> int:
        """A run of exactly k updates, so that what is left over is asked for when nothing more comes."""
        return Laboratory(example_6(updates=k)).to_the_end(Recompute, every=s).messages

    def _crossover_rows(self) -> Iterator[FigurePoint]:
        for found in self.crossovers:
            yield _row("crossovers", f"{found.cost}, {found.series}", 100, found.formula, found.measured)

    # -- crossovers ---------------------------------------------------------------------------------------------------

    def _crossover(
        self, cost: str, series: str, paper: str, formula: Formula, priced: Callable[[Cost], int], roomy: bool = False
    ) -> Crossover:
        p = Parameters()
        by_formula = first_not_below(lambda k: formula(series, k, p), lambda k: formula(RV_BEST, k, p))
        measured = [self._measured_crossover(c, series, priced) for c in ((100, ROOMY) if roomy else (100,))]
        return Crossover(cost, series, paper, by_formula, measured[0], measured[1] if roomy else None)

    def _measured_crossover(self, cardinality: int, series: str, priced: Callable[[Cost], int]) -> int:
        runs = self.runs(cardinality)
        return first_not_below(lambda k: priced(runs.cost(series, k)), lambda k: priced(runs.cost(RV_BEST, k)))


def first_not_below(cost: Callable[[int], float], limit: Callable[[int], float]) -> int:
    """The first k at which ``cost`` reaches ``limit`` (which may itself depend on k)."""
    k = 1
    while cost(k) < limit(k):
        k += 1
    return k


def _row(figure: str, series: str, x: int, formula: float, measured: float) -> FigurePoint:
    return FigurePoint.of(figure, series, x, formula, measured, reason(figure, series, x))


FORMULAS: Mapping[str, Callable[[str, int], float]] = {
    "6.2": lambda series, x: model.bytes_of_three_updates(series, Parameters(C=x)),
    "6.3": lambda series, x: model.bytes_of_k_updates(series, x, Parameters()),
    "6.4": lambda series, x: model.reads_with_indexes(series, x, Parameters()),
    "6.5": lambda series, x: model.reads_without_indexes(series, x, Parameters()),
}  # the curves of the pictures
