"""What a kind of source needs in its database: installed, removed and inspected by ``weir capture``.

Each kind tells what it does as lines of text; with ``dry_run`` it tells and does nothing. All may be repeated. Every
kind has its own in its folder (``installing.py``), and ``project/kinds.py`` names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from weir.sources.source import Source


@dataclass(frozen=True)
class StatusLine:
    """One line of a status; ``well`` when nothing is missing. ``table`` is empty for what concerns the whole source."""

    table: str
    well: bool
    text: str


@dataclass(frozen=True)
class Capture(ABC):
    """What one kind needs in its database."""

    options: Any  # the kind's own
    reader: str = ""  # the role that shall read the log, where the kind has one to name

    @abstractmethod
    def install(self, tables: Sequence[str], dry_run: bool) -> list[str]: ...

    @abstractmethod
    def remove(self, dry_run: bool) -> list[str]: ...

    def release(self, dry_run: bool) -> list[str]:
        """Takes away what one reader owns, so that another can read, or nobody must."""
        return ["nothing here belongs to one reader"]

    @abstractmethod
    def status(self) -> list[StatusLine]: ...


def released(found: str | None, dry_run: bool) -> str:
    """What is said of a reader's mark."""
    if not found:
        return "the log bears no reader's mark"
    return f"{'take' if dry_run else 'took'} the mark of the warehouse at {found.partition(' ')[2]} off the log"


def status_of(source: Source) -> list[StatusLine]:
    """What a source says of itself; a warning is well enough to run."""
    with closing(source):
        found = source.describe().findings
    lines = [(f, f"{f.severity}: {f.problem}" + (f"; to mend it: {f.remedy}" if f.remedy else "")) for f in found]
    return [StatusLine("", finding.severity != "error", text) for finding, text in lines] or [
        StatusLine("", True, "nothing is missing")
    ]
