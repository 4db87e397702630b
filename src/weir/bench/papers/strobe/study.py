"""``weir bench strobe``: how many queries C-Strobe needs for one insert while deletes come, against SWEEP's n - 1.

n tables in a chain, one insert, and K deletes of the other tables, one table after the other. Either all K come while
the first query is open (``burst``), or K more come during *every* query (``stream``). Contents decide nothing here:
C-Strobe asks whatever the answers hold, since on Spark it would not know. So the first rows deleted do join the
insert and the rest do not, which keeps the bags small.

Queries are counted with all tables at one source, where a query is one question; what a query costs in questions over
n sources is measured apart (``questions``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb, factorial
from typing import Any

from weir.algebra.errors import WeirError
from weir.algorithms.base import Algorithm
from weir.algorithms.c_strobe import CStrobe
from weir.algorithms.sweep import Sweep
from weir.bench.papers.study import FigurePoint, Study
from weir.simulator.counters import Counters
from weir.simulator.explore import run_listed
from weir.simulator.scenario import Scenario, parse
from weir.simulator.step import ANSWER, DELIVER, RUN, Step
from weir.simulator.world import World

BEHIND_ONLY = (
    "the bound gives every query K deletes to compensate for; in a burst only those matter that came after the query's "
    "own delete and are of a table that it still asks"
)
EVERY_LEVEL = "the bound counts the queries of the last level only; those of the levels before it are asked as well"
MORE_ARRIVE = (
    "the bound counts the last level of queries only, and K deletes for each; but every level is asked, all deletes "
    "since a query's own one matter, and more come while compensating queries are asked one after the other"
)
FEW_TABLES = "with so few deletes not every table has one when a query is answered, so some queries fall away"


class TooFew(WeirError):
    """A stream of deletes that ended before the insert was shown."""


# -- the paper's bounds, and what a burst comes to -------------------------------------------------------------------


def ungrouped_bound(n: int, k: int) -> int:
    """K^(n-2), for the compensating queries of one insert."""
    return int(k ** (n - 2))


def grouped_bound(n: int) -> int:
    """(n-1)!."""
    return factorial(n - 1)


def burst_questions(n: int, k: int) -> int:
    """Questions of one burst of K deletes, K/(n-1) in each other table, over n sources.

    There is a query per choice of up to n-2 tables and of a delete in each, and in a query a question for every table
    that is left to ask.
    """
    each = k // (n - 1)
    return sum(comb(n - 1, level) * each**level * (n - 1 - level) for level in range(n - 1))


# -- the world -------------------------------------------------------------------------------------------------------


def chain(n: int, deletes: int, sources: int = 1) -> Scenario:
    """t1 to tn; U inserts into t1, D1, D2, ... delete from t2, t3, ... in turn. The first two rounds of them join U."""
    names = {at: f"s{at if sources > 1 else 1}.t{at}" for at in range(1, n + 1)}
    touched = [2 + number % (n - 1) for number in range(deletes)]
    values = [0 if number < 2 * (n - 1) else number for number in range(deletes)]
    rows = {at: ["(0, 0, 0)"] * (at > 1) for at in names}
    for number, (at, value) in enumerate(zip(touched, values, strict=True), 1):
        rows[at].append(f"({number}, {value}, {value})")
    transactions = [{"name": "U", "source": names[1].partition(".")[0], "changes": "+t1(1, 0, 0)"}]
    for number, (at, value) in enumerate(zip(touched, values, strict=True), 1):
        change = f"-t{at}({number}, {value}, {value})"
        transactions.append({"name": f"D{number}", "source": names[at].partition(".")[0], "changes": change})
    keys = ", ".join(f"t{at}.K AS K{at}" for at in names)
    joins = " AND ".join(f"t{at}.R = t{at + 1}.L" for at in range(1, n))
    return parse(
        {
            "title": f"an insert and {deletes} deletes over {n} tables",
            "view": f"CREATE MATERIALIZED VIEW v AS SELECT {keys} FROM {', '.join(names.values())} WHERE {joins}",
            "tables": {
                name: {"columns": "K int, L int, R int", "key": ["K"], "rows": " ".join(rows[at])}
                for at, name in names.items()
            },
            "transactions": transactions,
        }
    )


def questions_of_insert(scenario: Scenario, algorithm: type[Algorithm], first: int, later: int, **options: Any) -> int:
    """Questions until the insert is shown; ``first`` deletes come during the first one, ``later`` during each other."""
    world, counters = scenario.begin(algorithm, **options), Counters()
    world.observers = (counters,)
    world.algorithm.memory = None  # a single run repeats nothing
    deletes = iter(scenario.updates[1:])
    _let_happen(world, "U", scenario.updates[0].source)
    coming = first
    while counters.commits == 0:
        asked = next(name for name, inbox in world.inboxes.items() if inbox)
        for _ in range(coming):
            update = next(deletes, None)
            if update is None:
                raise TooFew(f"{scenario.title}: too few for {coming} during every question; make the scenario longer")
            _let_happen(world, update.name, update.source)
        world.take(Step(ANSWER, asked))
        questions = counters.questions
        world.take(Step(DELIVER, asked))
        coming = later
    run_listed(world, ())
    if world.view != scenario.lattice.final_value:
        raise AssertionError(f"{scenario.title}: the view is wrong, so its cost says nothing")
    return questions


def _let_happen(world: World, name: str, source: str) -> None:
    world.take(Step(RUN, name))
    world.take(Step(DELIVER, source))


# -- the study -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StrobeSizes:
    """Per n the numbers of deletes K. In a burst K is a multiple of n - 1, so that every table has the same number."""

    burst: tuple[tuple[int, tuple[int, ...]], ...] = ((3, (2, 4, 6, 8, 12)), (4, (3, 6, 9, 12)), (5, (4, 8, 12)))
    stream: tuple[tuple[int, tuple[int, ...]], ...] = ((3, (1, 2, 3, 4, 6)), (4, (1, 2, 3, 4, 5)), (5, (1, 2, 3)))
    grouped: tuple[tuple[int, tuple[int, ...]], ...] = ((3, (1, 2, 4, 6)), (4, (1, 3, 6)), (5, (1, 4, 8)))


QUICK = StrobeSizes(((3, (2, 4)), (4, (3, 6))), ((3, (1, 3)), (4, (1, 2))), ((3, (2,)), (4, (3,))))


class StrobeStudy(Study[FigurePoint]):
    """All rows."""

    def __init__(self, sizes: StrobeSizes | None = None) -> None:
        self.sizes = sizes or StrobeSizes()

    def points(self) -> Iterator[FigurePoint]:
        for part in (self._bursts, self._streams, self._grouped, self._questions, self._sweeps):
            yield from part()

    def _bursts(self) -> Iterator[FigurePoint]:
        for n, k in _points(self.sizes.burst):
            measured = questions_of_insert(chain(n, k), CStrobe, k, 0) - 1
            bound = ungrouped_bound(n, k)
            yield _row("burst", n, k, bound, measured, BEHIND_ONLY)

    def _streams(self) -> Iterator[FigurePoint]:
        for n, k in _points(self.sizes.stream):
            measured = stream(n, k)
            bound = ungrouped_bound(n, k)
            yield _row("stream", n, k, bound, measured, MORE_ARRIVE)

    def _grouped(self) -> Iterator[FigurePoint]:
        for n, k in _points(self.sizes.grouped):
            measured = stream(n, k, grouped=True)
            bound = grouped_bound(n)
            yield _row("grouped", n, k, bound, measured, FEW_TABLES if measured < bound else EVERY_LEVEL)

    def _questions(self) -> Iterator[FigurePoint]:
        """Over n sources, hop by hop; the formula is ours."""
        for n, k in _points(self.sizes.burst):
            measured = questions_of_insert(chain(n, k, sources=n), CStrobe, k, 0)
            yield _row("questions", n, k, burst_questions(n, k), measured)

    def _sweeps(self) -> Iterator[FigurePoint]:
        for n, k in _points(self.sizes.stream):
            measured = questions_of_insert(chain(n, n * k, sources=n), Sweep, k, k)
            yield _row("sweep", n, k, n - 1, measured)


def _points(sizes: tuple[tuple[int, tuple[int, ...]], ...]) -> Iterator[tuple[int, int]]:
    for n, numbers in sizes:
        for k in numbers:
            yield n, k


def stream(n: int, k: int, **options: Any) -> int:
    """Compensating queries while k deletes come during every query, however many that takes."""
    deletes = 8 * k
    while True:
        try:
            return questions_of_insert(chain(n, deletes), CStrobe, k, k, **options) - 1
        except TooFew:
            deletes *= 2


def _row(figure: str, n: int, k: int, formula: float, measured: float, why: str = "") -> FigurePoint:
    return FigurePoint.of(figure, f"n = {n}", k, formula, measured, why)
