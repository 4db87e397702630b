"""What ``strategy = 'auto'`` prefers, best first, each with its reason.

- Over several sources ``pvm-cc`` in batches: one lookup per hop whatever the batch, every transaction's state kept;
  ``g-strobe`` where global transactions shall be shown whole.
- Over one source ``eca`` (one question in one snapshot for all changes of a round) where batch ends are enough, and
  ``pvm-cc`` where every state is asked for.
- ``recompute`` over one source when that is cheaper; over several it is only said, because it would mix states.
- ``copies`` and the partitions only where ``space`` allows what they store, and only where they save something.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weir.algorithms.base import GLOBAL
from weir.planning.costs import crossover, recomputing
from weir.planning.request import Situation
from weir.planning.routes import shared_questions

MOST_COPIED = 1_000_000  # rows that auto keeps copies of
MIXES = "over several sources it would mix states of different moments"
SKIPS = "it shows only the states in which it happens to ask"


@dataclass(frozen=True)
class Candidate:
    """An algorithm to be taken if the view can have it. Without a name it is only a remark."""

    reason: str
    name: str = ""


def preferences(at: Situation) -> Iterator[Candidate]:
    """The candidates in order, with remarks between them."""
    if at.space == "copies":
        yield _copies(at)
    if at.space != "none":
        yield _partition(at)
    yield from _one_source(at) if len(at.view.sources) == 1 else _several_sources(at)


def _copies(at: Situation) -> Candidate:
    total = at.sizes.total(at.view)
    if total is not None and total <= MOST_COPIED:
        return Candidate(f"copies are allowed and small (about {total:,} rows in all): no source is asked", "copies")
    why = f"about {total:,} rows are too many" if total is not None else "not all sizes are known"
    return Candidate(f"no copies, though allowed: {why}; strategy = 'copies' makes them all the same")


def _partition(at: Situation) -> Candidate:
    """Groups of two tables ask once per change; a sweep asks each table at most twice per batch."""
    swept, changes = shared_questions(at.view), at.changes
    if max(len(term.slots) for term in at.view.terms) < 3:
        return Candidate("no auxiliary views, though allowed: with fewer than three tables they save no question")
    if changes >= swept:
        why = f"{changes} changes would ask {changes} times, a sweep of them all {swept} times"
        return Candidate(f"no auxiliary views, though allowed: {why}")
    name = "equal-partition" if at.asked == "complete" else "parallel-partition"
    return Candidate(f"auxiliary views are allowed: {changes} changes a batch ask {changes} times, not {swept}", name)


def _one_source(at: Situation) -> Iterator[Candidate]:
    every_state = at.asked == "complete"
    yield _recomputing(at, SKIPS if every_state else "")
    if not every_state:
        yield Candidate("one source: one question in one snapshot for all changes of a round", "eca")
    yield Candidate("one source: a sweep in one snapshot gives every transaction its own exact delta", "pvm-cc")


def _several_sources(at: Situation) -> Iterator[Candidate]:
    sources = f"{len(at.view.sources)} sources ({', '.join(at.view.sources)})"
    if at.scenario == GLOBAL and at.asked in ("strong", "complete"):
        yield Candidate(f"{sources}, and global transactions shall be shown whole", "g-strobe")
        return
    yield Candidate(
        f"{sources}: a batch is swept together, at most {shared_questions(at.view)} lookups whatever its size, and "
        "every transaction still gets its own exact delta; needs no keys",
        "pvm-cc",
    )


def recomputing_remark(at: Situation) -> Candidate | None:
    """What recomputing would cost a view over several sources."""
    return _recomputing(at, MIXES) if len(at.view.sources) > 1 else None


def _recomputing(at: Situation, obstacle: str) -> Candidate:
    """Recomputing, if it is cheaper and nothing is against it; else a remark."""
    limit, whole = crossover(at.view, at.sizes), recomputing(at.view, at.sizes)
    if limit is None or whole is None:
        unknown = ", ".join(map(str, at.sizes.unknown(at.view)))
        return Candidate(f"whether recomputing is cheaper is not known: no statistics of {unknown}")
    cost = f"about {whole.read:,.0f} rows read for a batch of {at.changes} expected changes"
    if at.changes < limit:
        return Candidate(f"recomputing is dearer ({cost}); it would pay from about {limit:,} changes a batch on")
    if obstacle:
        advice = "if that is good enough, a batch job that reads the tables does it without Weir"
        return Candidate(f"recomputing would be cheaper ({cost}), but is not done: {obstacle}; {advice}")
    return Candidate(f"recomputing is cheaper ({cost}) than maintaining, which pays below {limit:,}", "recompute")
