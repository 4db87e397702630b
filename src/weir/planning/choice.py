"""Which algorithm keeps a view, and why.

A named strategy is used or refused, never replaced; ``auto`` takes what the first of its rules (``automatic``) proposes
that nothing stands against (``request``), and keeps the reasons.
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
from weir.planning.automatic import RULES, TYPICAL, remarks
from weir.planning.costs import Estimate, maintaining, recomputing
from weir.planning.options import read_options
from weir.planning.request import CannotMaintain, Request, ViewFacts, promised

__all__ = ["CannotMaintain", "Choice", "ViewFacts", "choose", "promised"]


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
    request = Request.of(view, facts)
    try:
        name, reasons = _automatic(request) if request.is_automatic else _named(request)
        options = _options(request, name)
    except CannotMaintain:
        raise
    except WeirError as problem:
        raise CannotMaintain(f"view {view.name}: {problem}") from None
    merge = request.is_automatic and ALGORITHMS[name].facts.merges
    return Choice(
        name, promised(name, request.scenario), request.asked, request.scenario, options, tuple(reasons),
        request.obstacles, _estimate(request, name, merge), request.is_automatic, merge,
    )  # fmt: skip


def _named(request: Request) -> tuple[str, list[str]]:
    algorithm(request.strategy)  # a name that nobody knows is answered with the near ones
    if request.strategy in request.obstacles:
        raise _refused(request)
    return request.strategy, ["the view names it", *remarks(request)]


def _refused(request: Request) -> CannotMaintain:
    name, obstacles = request.strategy, request.obstacles
    possible = [other for other in ALGORITHMS if other not in obstacles]
    ways = [f"use strategy = 'auto' or one of {', '.join(possible)}"] if possible else []
    level = promised(name, request.scenario)
    if not implies(level, request.asked):
        ways.append(f"ask for consistency = '{level}'")
    return CannotMaintain(
        f"view {request.view.name} cannot be kept by {name} at consistency = '{request.asked}': {obstacles[name]}"
        + (f".\nEither {', or '.join(ways)}." if ways else ".")
    )


def _automatic(request: Request) -> tuple[str, list[str]]:
    """The first proposal that nothing stands against; what was passed over comes after its own reason."""
    passed: list[str] = []
    for rule in (rule for rule in RULES if rule.speaks(request)):
        name, (pays, reason) = rule.proposes.facts.name, rule.verdict(request)
        if pays and name not in request.obstacles:
            return name, [reason, *passed, *remarks(request)]
        passed.append(f"not {name}: {request.obstacles[name]}" if pays else reason)
    typical = [each.facts.name for each in TYPICAL if each.facts.name in request.obstacles]
    told = "\n".join(f"  {name}: {request.obstacles[name]}" for name in typical)
    raise CannotMaintain(
        f"view {request.view.name} cannot be kept at consistency = '{request.asked}' {request.in_words}:\n{told}\n"
        "Mend what is named, or ask for a lower level."
    )


def _options(request: Request, name: str) -> dict[str, Any]:
    """The view's own, and: a round's changes go together, swept in one batch or recomputed for once.

    Recomputing for several changes shows fewer states, so for a view that names it only its own options say it.
    """
    facts = ALGORITHMS[name].facts
    together = facts.gathers and (request.is_automatic or not facts.recomputes)
    ours = {facts.gathers: request.facts.max_batch} if together else {}
    return ours | read_options(ALGORITHMS[name], request.strategy_options)


def _estimate(request: Request, name: str, merge: bool) -> Estimate:
    facts, changes = ALGORITHMS[name].facts, request.changes
    swept = maintaining(request.view, request.sizes, changes)
    questions = facts.questions(request.view, 1 if merge else changes)
    if facts.recomputes:
        return replace(recomputing(request.view, request.sizes) or swept, changes=changes, questions=questions)
    if not questions:
        return replace(swept, questions=0, found=0.0, read=0.0)
    return replace(swept, questions=questions)
