"""A view explained: its normal form, what each source will be asked, the algorithm and why, the level, the cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weir.algebra.describe import describe
from weir.algebra.view import View
from weir.algorithms.base import COPIES
from weir.planning.choice import Choice, ViewFacts, choose
from weir.planning.costs import Estimate, TableSizes, crossover, recomputing
from weir.planning.routes import Hop, Route, routes
from weir.project.survey import Survey


@dataclass(frozen=True)
class Explanation:
    """All that ``weir explain`` tells."""

    view: View
    choice: Choice
    routes: tuple[Route, ...]
    recomputing: Estimate | None
    crossover: int | None

    @classmethod
    def of(cls, view: View, facts: ViewFacts) -> Explanation:
        sizes = TableSizes(facts.rows, facts.catalog)
        return cls(
            view, choose(view, facts), routes(view, facts.catalog), recomputing(view, sizes), crossover(view, sizes)
        )

    # -- for people ---------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Headings begin at the margin."""
        choice = self.choice
        how = "chosen by auto" if choice.automatic else "named by the view"
        yield f"view {self.view.name}: {choice.strategy} ({how}), promises '{choice.level}', asked for '{choice.asked}'"
        yield from (f"  - {reason}" for reason in choice.reasons)
        if choice.options:
            yield "  options: " + ", ".join(f"{name} = {value}" for name, value in choice.options.items())
        yield from ("", "normal form", *(f"  {line}" for line in describe(self.view).splitlines()))
        for route in self.routes:
            yield from self._route(route)
        yield from ("", "keys carried", *(f"  {line}" for line in self._keys()))
        yield from ("", *self._cost())
        others = [name for name in choice.possible if name != choice.strategy]
        yield from ("", "other strategies", f"  possible at '{choice.asked}': {', '.join(others) or 'none'}")
        by_reason: dict[str, list[str]] = {}
        for name, why in choice.rejected.items():
            by_reason.setdefault(why, []).append(name)
        yield from (f"  not {', '.join(names)}: {why}" for why, names in by_reason.items())

    def _route(self, route: Route) -> Iterator[str]:
        slot = self.view.terms[route.term].slots[route.slot]
        part = f", in SELECT {route.term + 1}" if len(self.view.terms) > 1 else ""
        yield from ("", f"when rows of {slot.relation} change (as {slot.alias}{part})")
        if not route.hops:
            yield "  nothing is asked: the rows are enough"
        elif self.choice.algorithm.facts.stores == COPIES:
            yield "  nothing is asked: the other tables are answered from their copies"
        else:
            yield from (f"  {number}. {line}" for number, hop in enumerate(route.hops, 1) for line in [question(hop)])

    def _keys(self) -> Iterator[str]:
        for term in self.view.terms:
            for slot, pairs in zip(term.slots, term.carried_keys, strict=True):
                if pairs is not None:
                    yield f"{slot.relation} ({slot.alias}): yes, in {', '.join(output for output, _ in pairs)}"
                elif slot.key:
                    lacking = ", ".join(slot.qualify(name) for name in slot.key)
                    yield f"{slot.relation} ({slot.alias}): no, the select list lacks {lacking}"
                else:
                    yield f"{slot.relation} ({slot.alias}): no, the table has no key"

    def _cost(self) -> Iterator[str]:
        cost = self.choice.estimate
        yield f"expected for {cost.changes:,} changes together (say WITH (changes = 'N') to have another number)"
        yield f"  {cost.messages:,} messages: a question and an answer for each of {cost.questions:,} lookups"
        yield f"  about {cost.found:,.0f} rows found by key, {cost.read:,.0f} read in whole tables"
        yield f"  about {cost.written:,.0f} rows of the view added or removed"
        if self.recomputing is None:
            yield "  recomputing: not known, a source has no statistics of its tables"
            return
        whole = f"{self.recomputing.read:,.0f} rows read, {self.recomputing.written:,.0f} written"
        pays = "never pays" if self.crossover is None else f"pays from about {self.crossover:,} changes together on"
        yield f"  recomputing: about {whole}; it {pays}"

    # -- for programs -------------------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        choice = self.choice
        return {
            "view": self.view.name,
            "strategy": choice.strategy,
            "automatic": choice.automatic,
            "level": choice.level,
            "asked": choice.asked,
            "scenario": choice.scenario,
            "options": dict(choice.options),
            "reasons": list(choice.reasons),
            "possible": choice.possible,
            "rejected": dict(choice.rejected),
            "columns": list(self.view.columns),
            "sources": list(self.view.sources),
            "normal_form": describe(self.view),
            "routes": [self._route_json(route) for route in self.routes],
            "keyed": self.view.keyed,
            "expected": _estimate_json(choice.estimate),
            "recomputing": _estimate_json(self.recomputing) if self.recomputing is not None else None,
            "crossover": self.crossover,
        }

    def _route_json(self, route: Route) -> dict[str, Any]:
        slot = self.view.terms[route.term].slots[route.slot]
        hops = [_hop_json(hop) for hop in route.hops]
        return {"changed": str(slot.relation), "alias": slot.alias, "term": route.term + 1, "hops": hops}


def explain(survey: Survey, view: View, max_batch: int = 10_000) -> Explanation:
    """What ``weir explain`` tells of a view."""
    return Explanation.of(view, ViewFacts.of(survey, view, max_batch))


def question(hop: Hop) -> str:
    """A lookup as SQL would say it; the real one ships the values beside the text."""
    keys = [f"{name} IN (values of {known})" for name, known in zip(hop.lookup.key_columns, hop.known, strict=True)]
    chosen = [str(hop.lookup.selection)] if hop.lookup.selection is not None else []
    where = f" WHERE {' AND '.join(keys + chosen)}" if keys or chosen else ""
    asked = f"{hop.relation.source}: SELECT {', '.join(hop.lookup.columns)} FROM {hop.relation.table}{where}"
    return f"{asked}   [{how_found(hop)}]"


def how_found(hop: Hop) -> str:
    if hop.whole_table:
        return "the whole table: no equality ties it to what is known"
    return f"index {', '.join(hop.index)}" if hop.index is not None else "no index: the source reads the whole table"


def _hop_json(hop: Hop) -> dict[str, Any]:
    return {
        "source": hop.relation.source,
        "table": hop.relation.table,
        "columns": list(hop.lookup.columns),
        "key_columns": list(hop.lookup.key_columns),
        "known": list(hop.known),
        "selection": str(hop.lookup.selection) if hop.lookup.selection is not None else None,
        "index": list(hop.index) if hop.index is not None else None,
    }


def _estimate_json(estimate: Estimate) -> dict[str, Any]:
    return {
        "changes": estimate.changes,
        "messages": estimate.messages,
        "rows_found": round(estimate.found, 1),
        "rows_read": round(estimate.read, 1),
        "rows_written": round(estimate.written, 1),
    }


