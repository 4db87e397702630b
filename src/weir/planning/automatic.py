"""What ``strategy = 'auto'`` takes: what the first of ``RULES`` proposes for the view that nothing stands against
(``request``). What the rules before it have to say is told with its own reason.

``docs/choosing-a-strategy.md`` tells the same rules in the same order. Outside ``weir.algorithms`` no other file knows
one algorithm from another; here a preference must say what it prefers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from weir.algorithms.base import COPIES, GLOBAL, NOTHING, Algorithm
from weir.algorithms.copies import Copies
from weir.algorithms.eca import Eca
from weir.algorithms.equal_partition import EqualPartition
from weir.algorithms.g_strobe import GStrobe
from weir.algorithms.parallel_partition import ParallelPartition
from weir.algorithms.pvm_cc import PvmCc
from weir.algorithms.questions import shared_per_hop
from weir.algorithms.recompute import Recompute
from weir.planning.costs import crossover, recomputing
from weir.planning.request import Request

MOST_COPIED = 1_000_000  # rows that auto keeps copies of
TYPICAL = (PvmCc, Eca, GStrobe)  # what stands against these is told when nothing is possible


class RuleVerdict(NamedTuple):
    """Whether a proposal pays, and why or why not."""

    pays: bool
    reason: str


@dataclass(frozen=True)
class Rule:
    """Speaks of some views: proposes an algorithm where that pays, else only says why it does not."""

    views: str  # as the docs name them
    speaks: Callable[[Request], bool]
    proposes: type[Algorithm]
    verdict: Callable[[Request], RuleVerdict]


def _copying(request: Request) -> RuleVerdict:
    total = request.sizes.total(request.view)
    if total is not None and total <= MOST_COPIED:
        return RuleVerdict(True, f"copies are allowed and small (about {total:,} rows in all): no source is asked")
    why = f"about {total:,} rows are too many" if total is not None else "not all sizes are known"
    advice = f"strategy = '{Copies.facts.name}' makes them all the same"
    return RuleVerdict(False, f"no copies, though allowed: {why}; {advice}")


def _grouping(request: Request) -> RuleVerdict:
    """Groups of two tables ask once per change; a sweep asks each table at most twice per batch."""
    swept, changes, why_not = shared_per_hop(request.view, request.changes), request.changes, ""
    if max(len(term.slots) for term in request.view.terms) < 3:
        why_not = "with fewer than three tables they save no question"
    elif changes >= swept:
        why_not = f"{changes} changes would ask {changes} times, a sweep of them all {swept} times"
    if why_not:
        return RuleVerdict(False, f"no auxiliary views, though allowed: {why_not}")
    return RuleVerdict(True, f"auxiliary views are allowed: {changes} changes a batch ask {changes} times, not {swept}")


def _recomputing(request: Request) -> RuleVerdict:
    """Whether it is cheaper; and over several sources, or where every state counts, it is only said."""
    limit, whole = crossover(request.view, request.sizes), recomputing(request.view, request.sizes)
    if whole is None:
        unknown = ", ".join(map(str, request.sizes.unknown_tables(request.view)))
        return RuleVerdict(False, f"whether recomputing is cheaper is not known: no statistics of {unknown}")
    if limit is None:
        return RuleVerdict(False, "recomputing is dearer: a change finds empty tables, and costs nothing")
    cost = f"about {whole.read:,.0f} rows read for a batch of {request.changes} expected changes"
    if request.changes < limit:
        dearer = f"recomputing is dearer ({cost}); it would pay from about {limit:,} changes a batch on"
        return RuleVerdict(False, dearer)
    if request.one_source and not request.every_state:
        return RuleVerdict(True, f"recomputing is cheaper ({cost}) than maintaining, which pays below {limit:,}")
    mixes, skips = "would mix states of different moments", "shows only the states in which it happens to ask"
    why_not = f"it {skips}" if request.one_source else f"over several sources it {mixes}"
    advice = "if that is good enough, a batch job that reads the tables does it without Weir"
    return RuleVerdict(False, f"recomputing would be cheaper ({cost}), but is not done: {why_not}; {advice}")


def remarks(request: Request) -> list[str]:
    """Told whatever keeps the view, chosen or named."""
    return [] if request.one_source else [_recomputing(request).reason]


def _asking_once(request: Request) -> RuleVerdict:
    return RuleVerdict(True, "one source: one question in one snapshot for all changes of a round")


def _sweeping_one_source(request: Request) -> RuleVerdict:
    return RuleVerdict(True, "one source: a sweep in one snapshot gives every transaction its own exact delta")


def _sources(request: Request) -> str:
    return f"{len(request.view.sources)} sources ({', '.join(request.view.sources)})"


def _waiting_for_all_parts(request: Request) -> RuleVerdict:
    return RuleVerdict(True, f"{_sources(request)}, and global transactions shall be shown whole")


def _sweeping(request: Request) -> RuleVerdict:
    lookups = f"at most {shared_per_hop(request.view, request.changes)} lookups whatever its size"
    exact = "every transaction still gets its own exact delta; needs no keys"
    return RuleVerdict(True, f"{_sources(request)}: a batch is swept together, {lookups}, and {exact}")


def _shown_whole(request: Request) -> bool:
    return request.scenario == GLOBAL and request.asked in ("strong", "complete")


RULES: tuple[Rule, ...] = (
    Rule("`space = 'copies'`, up to a million rows in all",
         lambda request: request.space == COPIES, Copies, _copying),
    Rule("`space` allows auxiliary views, level `complete`, three tables or more, few changes at a time",
         lambda request: request.space != NOTHING and request.every_state, EqualPartition, _grouping),
    Rule("the same, a lower level",
         lambda request: request.space != NOTHING and not request.every_state, ParallelPartition, _grouping),
    Rule("one source, level `strong` or lower, recomputing is cheaper",
         lambda request: request.one_source, Recompute, _recomputing),
    Rule("one source, level `strong` or lower",
         lambda request: request.one_source and not request.every_state, Eca, _asking_once),
    Rule("one source",
         lambda request: request.one_source, PvmCc, _sweeping_one_source),
    Rule("several sources, `transactions = 'global'`, level `strong` or `complete`",
         _shown_whole, GStrobe, _waiting_for_all_parts),
    Rule("several sources, else",
         lambda request: not request.one_source and not _shown_whole(request), PvmCc, _sweeping),
)  # fmt: skip
