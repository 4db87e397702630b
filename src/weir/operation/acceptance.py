"""Which views can be run: one set of rules, for ``weir check`` and for whoever runs them.

What is wrong with a view concerns that view, and those that commit together with it; all others are run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from weir.algebra.errors import WeirError
from weir.algebra.view import View
from weir.algorithms.registry import ALGORITHMS
from weir.operation.locking import FOLDER
from weir.planning.choice import Choice, ViewFacts, choose
from weir.planning.request import CannotMaintain
from weir.project.folder import ProjectError, ViewText
from weir.project.survey import Survey
from weir.rounds.units import Unit
from weir.rounds.views import AUXILIARY, MaintainedView, ViewTables, check_view_names
from weir.sweeping.failures import explained
from weir.warehouse.delta_log import refuse_occupied
from weir.warehouse.errors import StoreError
from weir.warehouse.place import Place

log = logging.getLogger("weir")
_OWN_FOLDERS = (FOLDER, AUXILIARY)


@dataclass(frozen=True)
class Acceptance:
    """The rules, over what the sources say of themselves and what the warehouse holds."""

    survey: Survey
    tables: ViewTables | None  # none: nothing can be said of them
    max_batch: int

    def plan(self, text: ViewText) -> tuple[View, Choice]:
        """The view and how it is to be kept; what is in the way is raised."""
        _refuse_own_folder(text)
        view = self.survey.view(text)
        check_view_names(view)
        choice = choose(view, ViewFacts.of(self.survey, view, self.max_batch))
        _refuse_in_group(view.name, view.options.get("group", ""), choice)
        return view, choice

    def view(self, text: ViewText, anew: bool = False) -> MaintainedView:
        """The view with its table. ``anew``: it is to be loaded, from whatever definition its table was made."""
        assert self.tables is not None
        view, choice = self.plan(text)
        made = MaintainedView(view, choice, self.tables, anew)
        if made.store is None and made.problem is None:
            refuse_occupied(Place.of(self.tables.place(view.name), self.tables.storage or None))
        elif made.store is not None and not anew:
            made.check_auxiliary(made.store)
        return made

    def units(self, texts: Iterable[ViewText], reload: Collection[str]) -> Accepted:
        """Views that commit together, made anew or brought back from their tables; and those that are refused."""
        groups: dict[str, list[ViewText]] = {}
        for text in texts:
            group = text.options.get("group", "")
            groups.setdefault(f"group {group}" if group else text.name, []).append(text)
        accepted = Accepted()
        for name, members in groups.items():
            accepted.add(name, members, partial(self._unit, name, members, reload))
        return accepted

    def _unit(self, name: str, members: Sequence[ViewText], reload: Collection[str]) -> Unit:
        """A unit whose tables cannot be gone on with has failed, and says so; one is loaded again as a whole."""
        anew = any(text.name in reload for text in members)
        unit = Unit(name, [self.view(text, anew) for text in members], anew=anew)
        try:
            if not anew and unit.loaded:
                unit.recover()
        except StoreError as problem:
            log.error("view %s stops: %s", name, problem)
            unit.stop(problem)
        return unit


@dataclass
class Accepted:
    """Units that can run, and views that cannot, with the reason."""

    units: list[Unit] = field(default_factory=list)
    refused: dict[str, WeirError] = field(default_factory=dict)

    def add(self, name: str, members: Iterable[ViewText], make: Callable[[], Unit]) -> None:
        """Views that commit together: one that is refused keeps the others of its group from running."""
        try:
            self.units.append(make())
        except Exception as problem:
            self.refused |= dict.fromkeys((text.name for text in members), explained(problem, name))


def all_refused(refused: Mapping[str, WeirError]) -> WeirError:
    """For a run that has nothing to do: the one reason as it is, or all of them."""
    if len(set(refused.values())) == 1:
        return next(iter(refused.values()))
    return WeirError("; ".join(f"view {name}: {problem}" for name, problem in refused.items()))


def _refuse_own_folder(text: ViewText) -> None:
    """A view's table lies in a folder with its name, beside what Weir itself keeps in the warehouse."""
    if text.name.lower() in _OWN_FOLDERS:
        raise ProjectError(f"{text.place}: '{text.name}' is a folder of Weir's own in the warehouse; rename the view")


def _refuse_in_group(name: str, group: str, choice: Choice) -> None:
    if group and not choice.algorithm.facts.delegates:
        possible = ", ".join(name for name, each in ALGORITHMS.items() if each.facts.delegates)
        raise CannotMaintain(
            f"view {name} is in group '{group}', but its strategy {choice.strategy} shows states of its own; "
            f"use one of {possible}, or take it out of the group"
        )
