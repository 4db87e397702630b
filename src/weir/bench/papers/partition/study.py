"""``weir bench partition``: the Partition paper's refresh times, formula against measurement, and their space.

Everything is measured in virtual time on the chain of ``data``; the formulas are ``model``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.algorithms.base import Algorithm
from weir.algorithms.c_strobe import CStrobe
from weir.algorithms.equal_partition import EqualPartition
from weir.algorithms.frequency_partition import FrequencyPartition, f_parti
from weir.algorithms.keyed_partition import KeyedPartition
from weir.algorithms.parallel_partition import ParallelPartition
from weir.algorithms.sweep import Sweep
from weir.bench.papers.partition import model
from weir.bench.papers.partition.data import ROWS, ChainUpdate, chain, relation
from weir.bench.papers.partition.meter import Timed, auxiliary_rows, timed
from weir.bench.papers.study import Study, agree

TABLES = 8  # n, where it does not vary
APART = 100.0  # more than any single refresh takes: updates so far apart never meet
SKEWED = (5, 2, 7, 1, 8, 4, 3, 6)  # tables from hot to cold
SPACE = "space in rows, groups of p, {partners} partner(s) a row"


@dataclass(frozen=True)
class CasePoint:
    """One point: ``explained`` is empty where formula and measurement agree within a tenth."""

    case: str
    x: float
    formula: float
    measured: float
    explained: str

    @property
    def series(self) -> str:
        """What distinguishes it from the cases beside it."""
        return self.case.partition(", ")[2]


class PartitionStudy(Study[CasePoint]):
    """All rows."""

    def points(self) -> Iterator[CasePoint]:
        for cases in (_sweep, _c_strobe, _equal, _frequency, _shift, _parallel, _keyed, _space):
            yield from cases()


def _row(case: str, x: float, formula: float, measured: float, reason: str = "") -> CasePoint:
    return CasePoint(case, x, formula, measured, "" if agree(formula, measured) else reason)


# -- one update at a time ----------------------------------------------------------------------------------------------


def _sweep() -> Iterator[CasePoint]:
    for n in range(2, TABLES + 1):
        yield _row("SWEEP, n tables", n, model.sweep(n), _apart(n, [ChainUpdate(1)], Sweep).average)


def _c_strobe() -> Iterator[CasePoint]:
    """One insert; mu deletes, spread evenly over the other tables, happen while its first question is on the way."""
    reason = (
        "the formula bounds all ways to spread the deletes and takes a query as one round trip; spread evenly, and "
        "every query asking its tables in turn, it is 2(n-1)(mu/(n-1)+1)^(n-2)"
    )
    for n in (3, 4, 5):
        for each in range(3):
            events = [ChainUpdate(1), *(ChainUpdate(table, row) for table in range(2, n + 1) for row in range(each))]
            when = {f"U{at}": 0.0 if at == 1 else 1.5 for at in range(1, len(events) + 1)}
            took = timed(chain(n, events, fanout=4, all_keys=True), CStrobe, when).refresh("U1")
            mu = each * (n - 1)
            yield _row(f"C-Strobe, {n} tables, mu deletes", mu, model.c_strobe(n, mu), took, reason)


def _equal() -> Iterator[CasePoint]:
    everywhere = [ChainUpdate(table) for table in range(1, TABLES + 1)]
    for p in range(1, TABLES + 1):
        took = _apart(TABLES, everywhere, EqualPartition, size=p)
        yield _row("equal groups of p, a full group", p, model.equal(p), took.refresh("U1"))
        sizes = {
            table: size
            for group, size in enumerate(model.equal_sizes(TABLES, p))
            for table in range(group * p + 1, group * p + size + 1)
        }
        formula = model.weighted(sizes, dict.fromkeys(sizes, 1))
        yield _row("equal groups of p, all tables", p, formula, took.average)


# -- frequencies -------------------------------------------------------------------------------------------------------


def skewed(skew: int) -> dict[int, int]:
    """Updates per table: 24 for the hottest, falling with the ``skew``-th power of the rank."""
    return {table: max(1, round(24 / rank**skew)) for rank, table in enumerate(SKEWED, 1)}


def _frequency() -> Iterator[CasePoint]:
    """Four groups by size and by frequency, the same updates."""
    split = "groups of tables that are not joined are split into joined parts, which ask less"
    for skew in range(4):
        counts = skewed(skew)
        events = [ChainUpdate(table) for table, count in counts.items() for _ in range(count)]
        parts = f_parti(sorted(counts.items()), 4)  # tables of equal frequency come in the order of the chain
        sizes = {table: len(part) for part in parts for table in part}
        formula = model.weighted(sizes, counts)
        frequencies = {str(relation(table)): count for table, count in counts.items()}
        options: dict[str, Any] = {"groups": 4, "frequencies": frequencies}
        yield from _rows_by_skew(skew, parts, options)
        equal = _apart(TABLES, events, EqualPartition, size=2)
        yield _row("skew, equal groups of 2", skew, model.equal(2), equal.average)
        printed = _apart(TABLES, events, FrequencyPartition, split_unjoined=False, **options)
        yield _row("skew, F_Parti with K = 4", skew, formula, printed.average)
        joined = _apart(TABLES, events, FrequencyPartition, **options)
        yield _row("skew, F_Parti with K = 4, joined parts", skew, formula, joined.average, split)


def _rows_by_skew(skew: int, parts: Sequence[Sequence[int]], options: Mapping[str, Any]) -> Iterator[CasePoint]:
    """A group of c parts that are not joined to each other holds ROWS^c rows; split, c times ROWS."""
    unjoined = [sum(table - 1 not in part for table in part) for part in parts]
    product, empty = sum(int(ROWS**parts_inside) for parts_inside in unjoined), chain(TABLES)
    for case, formula, algorithm, chosen in (
        ("equal groups of 2", TABLES // 2 * ROWS, EqualPartition, {"size": 2}),
        ("F_Parti with K = 4", product, FrequencyPartition, {"split_unjoined": False, **options}),
        ("F_Parti with K = 4, joined parts", sum(unjoined) * ROWS, FrequencyPartition, options),
    ):
        yield _row(f"rows, {case}", skew, formula, auxiliary_rows(empty.begin(algorithm, **chosen)))


def _shift() -> Iterator[CasePoint]:
    """The hot table changes from r1 to r8 half way; groups as they were, or computed again after every x updates."""
    half = 24
    events = [ChainUpdate(1)] * half + [ChainUpdate(TABLES)] * half
    before = {str(relation(table)): 20 if table == 1 else 1 for table in range(1, TABLES + 1)}
    fixed = _apart(TABLES, events, FrequencyPartition, frequencies=before)
    kept = model.weighted({1: 1, TABLES: TABLES - 1}, {1: half, TABLES: half})
    yield _row("shift, groups kept", 0, kept, fixed.average)
    late = "the formula is that of groups that are always right: these follow at the end of a window of x updates"
    for after in (2, 4, 8, 12):
        took = _apart(TABLES, events, FrequencyPartition, frequencies=before, repartition_after=after)
        yield _row("shift, groups after x updates", after, 0.0, took.average, late)


# -- several at once ---------------------------------------------------------------------------------------------------


def _parallel() -> Iterator[CasePoint]:
    """r updates at the same moment, in r groups of 2 or all in one."""
    for r in range(1, TABLES // 2 + 1):
        spread = [ChainUpdate(2 * group + 1) for group in range(r)]
        together = [ChainUpdate(1)] * r
        serial, parallel = model.serial(2, r), model.equal(2)
        yield _row("r updates, in r groups, one at a time", r, serial, _at_once(spread, EqualPartition).span)
        yield _row("r updates, in r groups, parallel", r, parallel, _at_once(spread, ParallelPartition).span)
        shown = _at_once(spread, ParallelPartition, one_by_one=True)
        yield _row("r updates, in r groups, parallel, shown one by one", r, parallel, shown.span)
        yield _row("r updates, in one group, parallel", r, serial, _at_once(together, ParallelPartition).span)


def _keyed() -> Iterator[CasePoint]:
    """A delete and an insert in a hot group of p tables."""
    for p, heat in ((2, 4), (3, 4), (4, 2)):  # so hot that F_Parti takes exactly these p into its first group of two
        frequencies = {str(relation(table)): heat if table <= p else 1 for table in range(1, TABLES + 1)}
        took = _apart(TABLES, [ChainUpdate(1, 0), ChainUpdate(1)], KeyedPartition, groups=2, frequencies=frequencies)
        yield _row("keyed hot group of p, delete", p, 0, took.refresh("U1"))
        yield _row("keyed hot group of p, insert", p, model.equal(p), took.refresh("U2"))


# -- space -------------------------------------------------------------------------------------------------------------


def _space() -> Iterator[CasePoint]:
    for fanout in (1, 2):
        for p in range(1, TABLES + 1):
            held = auxiliary_rows(chain(TABLES, fanout=fanout).begin(EqualPartition, size=p))
            formula = model.auxiliary_rows(model.equal_sizes(TABLES, p), ROWS, fanout)
            yield _row(SPACE.format(partners=fanout), p, formula, held)


def _apart(tables: int, events: Sequence[ChainUpdate], algorithm: type[Algorithm], **options: Any) -> Timed:
    when = {f"U{at}": at * APART for at in range(1, len(events) + 1)}
    return timed(chain(tables, events), algorithm, when, **options)


def _at_once(events: Sequence[ChainUpdate], algorithm: type[Algorithm], **options: Any) -> Timed:
    return timed(chain(TABLES, events), algorithm, {}, size=2, **options)
