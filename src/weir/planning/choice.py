"""Which algorithm keeps a view, and why.

A named strategy is used or refused, never replaced; ``auto`` takes the first of its preferences (``automatic``) that
nothing stands against (``situation``), and keeps the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from weir.algebra.errors import WeirError
from weir.algebra.view import View
from weir.algorithms.base import Algorithm
from weir.algorithms.registry import ALGORITHMS, algorithm
from weir.consistency.levels import implies
from weir.planning.automatic import preferences, recomputing_remark
from weir.planning.costs import Estimate, maintaining, recomputing
from weir.planning.options import option_types, read_options
from weir.planning.request import ON_SPARK, CannotMaintain, Situation, ViewFacts, promised
from weir.planning.routes import shared_questions

__all__ = ["CannotMaintain", "Choice", "ViewFacts", "choose", "promised"]
_TYPICAL = ("pvm-cc", "eca", "g-strobe")  # shown when nothing is possible


@dataclass(frozen=True)
class Choice:
    """The algorithm for a view. ``options`` are its constructor's; ``merge``: the transactions of a round may be given
    to it as one, because the level shows batch ends only.
    """

    strategy: str
    level: str  # promised
    asked: str
    scenario: str
    options: Mapping[str, Any]
    reasons: tuple[str, ...]
    rejected: Mapping[str, str]
    estimate: Estimate
    automatic: bool = True
    merge: bool = False

    @property
    def algorithm(self) -> type[Algorithm]:
        return ALGORITHMS[self.strategy]

    @property
    def possible(self) -> list[str]:
        """Every strategy that the view could name at this level."""
        return [name for name in ALGORITHMS if name not in self.rejected]


def choose(view: View, facts: ViewFacts) -> Choice:
    """The view's algorithm, or CannotMaintain."""
    at = Situation.of(view, facts)
    try:
        name, reasons = _automatic(at) if at.strategy == "auto" else _named(at)
        options = _options(at, name)
    except CannotMaintain:
        raise
    except WeirError as problem:
        raise CannotMaintain(f"view {view.name}: {problem}") from None
    automatic = at.strategy == "auto"
    return Choice(
        name, promised(name, at.scenario), at.asked, at.scenario, options, tuple(reasons), at.obstacles,
        _estimate(at, name), automatic, merge=automatic and name == "eca",
    )  # fmt: skip


def _named(at: Situation) -> tuple[str, list[str]]:
    algorithm(at.strategy)  # a name that nobody knows is answered with the near ones
    if at.strategy in at.obstacles:
        raise _refused(at)
    remark = recomputing_remark(at)
    return at.strategy, ["the view names it", *([remark.reason] if remark is not None else [])]


def _refused(at: Situation) -> CannotMaintain:
    possible = [name for name in ALGORITHMS if name not in at.obstacles]
    ways = [f"use strategy = 'auto' or one of {', '.join(possible)}"] if possible else []
    level = promised(at.strategy, at.scenario)
    if not implies(level, at.asked):
        ways.append(f"ask for consistency = '{level}'")
    return CannotMaintain(
        f"view {at.view.name} cannot be kept by {at.strategy} at consistency = '{at.asked}': "
        f"{at.obstacles[at.strategy]}" + (f".\nEither {', or '.join(ways)}." if ways else ".")
    )


def _automatic(at: Situation) -> tuple[str, list[str]]:
    """The first candidate that nothing stands against; what was passed over comes after its own reason."""
    passed: list[str] = []
    for candidate in preferences(at):
        if candidate.name and candidate.name not in at.obstacles:
            remark = recomputing_remark(at)
            return candidate.name, [candidate.reason, *passed, *([remark.reason] if remark is not None else [])]
        against = at.obstacles.get(candidate.name)
        passed.append(f"not {candidate.name}: {against}" if against else candidate.reason)
    tried = "\n".join(f"  {name}: {at.obstacles[name]}" for name in _TYPICAL if name in at.obstacles)
    raise CannotMaintain(
        f"view {at.view.name} cannot be kept at consistency = '{at.asked}' {at.in_words}:\n{tried}\n"
        "Mend what is named, or ask for a lower level."
    )


def _options(at: Situation, name: str) -> dict[str, Any]:
    """The view's own, and: a round's changes go together, swept in one batch or recomputed for once."""
    together = {"batch": at.facts.max_batch}
    if name == "recompute" and at.strategy == "auto":
        together["every"] = at.facts.max_batch
    known = option_types(ALGORITHMS[name])
    own = read_options(ALGORITHMS[name], at.strategy_options)
    return {option: value for option, value in together.items() if option in known} | own


def _estimate(at: Situation, name: str) -> Estimate:
    swept = maintaining(at.view, at.sizes, at.changes)
    questions = _questions(at, name)
    if name == "recompute":
        return replace(recomputing(at.view, at.sizes) or swept, changes=at.changes, questions=questions)
    if name == "copies":
        return replace(swept, questions=0, found=0.0, read=0.0)
    return replace(swept, questions=questions)


def _questions(at: Situation, name: str) -> int:
    """Per batch: sweeps share them, the one-source family asks once per transaction, others once per hop."""
    if name in ON_SPARK or name == "posse":
        return shared_questions(at.view)
    if name == "recompute" or (name == "eca" and at.strategy == "auto"):
        return 1
    if len(at.view.sources) == 1 or name.endswith("partition"):
        return at.changes
    return at.changes * sum(len(term.slots) - 1 for term in at.view.terms)
