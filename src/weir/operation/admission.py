"""Views that cannot begin because a source does not answer: they wait outside the engine while the others run.

A view's text means nothing without its tables' columns, and only the source can tell them. So the source is asked again
and again, in the background, and its views are admitted when it answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from weir.algebra.errors import WeirError
from weir.project.folder import ViewText
from weir.project.survey import Survey, named_sources

PAUSE = 1.0  # seconds between two questions


class Absent:
    """Who waits for whom: ``views`` by name, each with the source it waits for."""

    def __init__(self, survey: Survey, texts: Mapping[str, ViewText]) -> None:
        self.survey, self.texts = survey, texts
        self.views = waiting(survey, texts)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weir-absent")
        self._asking: Future[Survey] | None = None
        self._ask_at = 0.0

    @property
    def problems(self) -> dict[str, str]:
        """By view."""
        known = self.survey.problems
        return {name: f"waits for source {source}: {known[source]}" for name, source in self.views.items()}

    def admitted(self) -> list[str]:
        """The views that can begin now. Whoever is not, is asked about in the background."""
        if self._asking is not None and self._asking.done():
            self.survey, self._asking = self._asking.result(), None
            before, self.views = self.views, waiting(self.survey, self.texts)
            self._ask_at = time.monotonic() + PAUSE
            return [name for name in before if name not in self.views]
        if self.views and self._asking is None and time.monotonic() >= self._ask_at:
            self._asking = self._thread.submit(self.survey.ask_silent)
        return []

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def waiting(survey: Survey, texts: Mapping[str, ViewText]) -> dict[str, str]:
    """Views whose sources do not all answer, and those that commit together with one of these."""
    found = {name: source for name, text in texts.items() if (source := _missing(survey, text)) is not None}
    groups = {group: source for name, source in found.items() if (group := texts[name].options.get("group"))}
    mates = {n: groups[text.options["group"]] for n, text in texts.items() if text.options.get("group") in groups}
    return {**mates, **found}


def _missing(survey: Survey, text: ViewText) -> str | None:
    return next((source for source in named_sources(text, survey.specs) if source in survey.problems), None)


def told(problems: Mapping[str, str], stuck: Iterable[tuple[str, str]]) -> WeirError | None:
    """All that keeps views from catching up, as one error."""
    lines = [f"view {name}: {problem}" for name, problem in (*problems.items(), *stuck)]
    return WeirError("; ".join(lines)) if lines else None
