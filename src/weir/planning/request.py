"""What a view asks for: its options read, the facts around it (sources, transactions, sizes), and what stands against
each algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from weir.algebra.catalog import Catalog, Relation
from weir.algebra.errors import WeirError
from weir.algebra.suggestion import did_you_mean
from weir.algebra.view import View
from weir.algorithms.base import GLOBAL, SINGLE_SOURCE, SINGLE_UPDATE, SOURCE_LOCAL, SPACES, NeedNotMet, Setting
from weir.algorithms.measured import measured
from weir.algorithms.registry import ALGORITHMS
from weir.consistency.levels import NAMES, implies
from weir.planning.costs import TableSizes
from weir.project.survey import Survey

DEFAULT_LEVEL, DEFAULT_CHANGES = "strong", 10
AUTO = "auto"  # the strategy that is not named
SCOPES = {"single": SINGLE_UPDATE, "local": SOURCE_LOCAL, "global": GLOBAL}
OWN_OPTIONS = ("consistency", "strategy", "group", "space", "changes", "transactions")  # the others are the strategy's
_IN_WORDS = {
    SINGLE_SOURCE: "over one source",
    SINGLE_UPDATE: "over several sources with one change per transaction",
    SOURCE_LOCAL: "over several sources",
    GLOBAL: "for global transactions",
}


class CannotMaintain(WeirError):
    """A view cannot be kept as it asks to be; says what would make it possible."""


@dataclass(frozen=True)
class ViewFacts:
    """What is known beside the view's own text."""

    catalog: Catalog
    rows: Mapping[Relation, int] = field(default_factory=dict)
    marked: bool = True  # transactions of every source can carry the identifier of a global one
    max_batch: int = 10_000

    @classmethod
    def of(cls, survey: Survey, view: View, max_batch: int = 10_000) -> ViewFacts:
        return cls(survey.catalog, survey.rows, survey.marked(view), max_batch)


@dataclass(frozen=True, eq=False)
class Request:
    """A view, its options read, and the facts."""

    view: View
    facts: ViewFacts
    asked: str
    strategy: str
    space: str
    changes: int  # expected per batch
    scenario: str

    @classmethod
    def of(cls, view: View, facts: ViewFacts) -> Request:
        options = view.options
        scope = _one_of(view, "transactions", "local", tuple(SCOPES))
        return cls(
            view,
            facts,
            options.get("consistency", DEFAULT_LEVEL),
            options.get("strategy", AUTO),
            _one_of(view, "space", "none", SPACES),
            _number(view, "changes", DEFAULT_CHANGES),
            SINGLE_SOURCE if len(view.sources) == 1 else SCOPES[scope],
        )

    @property
    def is_automatic(self) -> bool:
        return self.strategy == AUTO

    @property
    def one_source(self) -> bool:
        return self.scenario == SINGLE_SOURCE

    @property
    def every_state(self) -> bool:
        return self.asked == "complete"

    @property
    def in_words(self) -> str:
        return _IN_WORDS[self.scenario]

    @property
    def strategy_options(self) -> dict[str, str]:
        return {name: text for name, text in self.view.options.items() if name not in OWN_OPTIONS}

    @cached_property
    def sizes(self) -> TableSizes:
        return TableSizes(self.facts.rows, self.facts.catalog)

    @cached_property
    def obstacles(self) -> dict[str, str]:
        """Per algorithm that the view cannot have: why."""
        return {name: why for name in ALGORITHMS if (why := self._obstacle(name)) is not None}

    def _obstacle(self, name: str) -> str | None:
        try:
            ALGORITHMS[name].check(self.view, Setting(global_identifiers=self.facts.marked))
        except NeedNotMet as unmet:
            return str(unmet).partition(": ")[2]
        level = promised(name, self.scenario)
        if not implies(level, self.asked):
            return f"it promises '{level}' {self.in_words}, less than '{self.asked}'"
        if self.view.spark_only and not ALGORITHMS[name].facts.delegates:
            return f"only Spark evaluates {self.view.spark_only[0]}, and this algorithm joins outside Spark's SQL"
        return self._too_much_space(name)

    def _too_much_space(self, name: str) -> str | None:
        """Naming an algorithm allows what it stores, unless ``space`` says otherwise."""
        facts = ALGORITHMS[name].facts
        named = self.strategy == name and "space" not in self.view.options
        if named or SPACES.index(facts.stores) <= SPACES.index(self.space):
            return None
        return f"it stores {facts.space}; allow it by space = '{facts.stores}'"


def promised(name: str, scenario: str) -> str:
    """The level an algorithm promises: the papers' claim, and no more than all explored schedules held.

    One that was never explored promises nothing.

    >>> promised("pvm-cc", "source-local"), promised("strobe", "source-local"), promised("t-strobe", "global")
    ('complete', 'convergence', 'convergence')
    """
    found, claim = measured().get(name, {}).get(scenario, "none"), ALGORITHMS[name].facts.claims.get(scenario)
    return found if claim is None else min(found, claim, key=NAMES.index)


def _one_of(view: View, name: str, default: str, known: tuple[str, ...]) -> str:
    value = view.options.get(name, default)
    if value not in known:
        raise CannotMaintain(f"view {view.name}: {name} = '{value}'; {did_you_mean(value, known, 'use one of')}")
    return value


def _number(view: View, name: str, default: int) -> int:
    value = view.options.get(name, str(default))
    if not value.isdecimal() or int(value) < 1:
        raise CannotMaintain(f"view {view.name}: {name} = '{value}'; give a whole number of at least 1")
    return int(value)
