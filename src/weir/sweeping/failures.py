"""Who is to blame when something fails, told by type: a source that failed while it was asked, or the work itself.

``SourceFailed`` is raised where the source is known: by whoever asks it. A task's exception reaches the driver only as
a text inside one of Spark's own, classic and Connect differently. So a task that fails writes a letter, one word in
which the failure is encoded, and the driver opens it again: the same type, the same source, the same words.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkException

from weir.algebra.errors import WeirError
from weir.sources.source import CannotWatch, LoadAgain, SchemaChanged, SourceError

_LETTER = re.compile(r"weir-letter:([\w=-]+)")
_SPECIAL_FIRST = (LoadAgain, SchemaChanged, CannotWatch, SourceError, WeirError)
_KINDS = {kind.__name__: kind for kind in _SPECIAL_FIRST}


class SourceFailed(WeirError):
    """A source failed while it was asked; ``problem`` is what it said."""

    def __init__(self, problem: WeirError, source: str) -> None:
        super().__init__(str(problem))
        self.problem, self.source = problem, source


class Unforeseen(WeirError):
    """What failed is nobody's known trouble: a process that was killed, memory that ran out, a fault of our own."""


class TaskFailed(Exception):
    """A task's failure; its text holds the letter."""


@contextmanager
def asking(source: str) -> Iterator[None]:
    """Whatever goes wrong inside is that source's trouble."""
    try:
        yield
    except SourceFailed:
        raise
    except WeirError as problem:
        raise SourceFailed(problem, source) from problem


@contextmanager
def writing_letters() -> Iterator[None]:
    """For a task: what fails inside is told to the driver."""
    try:
        yield
    except Exception as problem:
        raise TaskFailed(f"{problem}\nweir-letter:{_letter(problem)}") from problem


def named_problem(problem: WeirError) -> dict[str, str]:
    """A problem as words that another process can read."""
    kind = next(name for name, kind in _KINDS.items() if isinstance(problem, kind))
    return {"kind": kind, "said": str(problem)}


def problem_named(document: Mapping[str, str]) -> WeirError:
    """The problem again, in the nearest type that both sides know."""
    return _KINDS.get(document["kind"], WeirError)(document["said"])


def _letter(problem: Exception) -> str:
    told = problem.problem if isinstance(problem, SourceFailed) else problem
    ours = isinstance(told, WeirError)
    said = named_problem(told if isinstance(told, WeirError) else WeirError(f"{type(told).__name__}: {told}"))
    content = {**said, "source": getattr(problem, "source", ""), "ours": ours}
    return urlsafe_b64encode(json.dumps(content).encode()).decode()


def explained(problem: Exception, what: str) -> WeirError:
    """Any exception as one of ours, in few words. ``what`` was being done.

    >>> try:
    ...     with writing_letters(), asking("crm"):
    ...         raise LoadAgain("crm: its log was purged")
    ... except TaskFailed as failed:
    ...     told = explained(RuntimeError(f"Spark's words around it: {failed} and more"), "v")
    >>> type(told).__name__, told.source, type(told.problem).__name__, str(told)
    ('SourceFailed', 'crm', 'LoadAgain', 'crm: its log was purged')
    >>> str(explained(MemoryError("no more"), "v"))
    'v: no more'
    """
    if isinstance(problem, WeirError):
        return problem
    if (found := _LETTER.search(str(problem))) is not None:
        return _opened(found[1], what)
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    said = f"{what}: {(lines or [type(problem).__name__])[0]}"
    return WeirError(said) if _is_of_values(problem) else Unforeseen(said)


def _is_of_values(problem: Exception) -> bool:
    """Whether Spark says what is wrong with the data: computed again it would be wrong again."""
    condition = problem.getCondition() if isinstance(problem, PySparkException) else None
    return condition is not None and "INTERNAL" not in condition


def _opened(letter: str, what: str) -> WeirError:
    content = json.loads(urlsafe_b64decode(letter))
    told = problem_named(content) if content["ours"] else Unforeseen(f"{what}: {content['said']}")
    return SourceFailed(told, content["source"]) if content["source"] else told
