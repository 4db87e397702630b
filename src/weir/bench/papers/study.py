"""What the papers' studies have in common: points with a formula and a measurement, and how they become a command.

A study measures when its rows are first asked for, and once. Where a measurement differs from the paper's formula by
more than a tenth the point says why.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from rich.table import Table

from weir.bench.drawing.tables import Noted

P = TypeVar("P")


def agree(formula: float, measured: float) -> bool:
    """Within a tenth of the formula (times ten, since a tenth is no binary fraction)."""
    return abs(measured - formula) * 10 <= formula


@dataclass(frozen=True)
class FigurePoint:
    """One point of a figure: ``explained`` is empty where formula and measurement agree within a tenth."""

    figure: str
    series: str
    x: int
    formula: float
    measured: float
    explained: str

    @classmethod
    def of(cls, figure: str, series: str, x: int, formula: float, measured: float, why: str = "") -> Self:
        """``why`` they differ, if they do."""
        return cls(figure, series, x, formula, measured, "" if agree(formula, measured) else why)


class Study(ABC, Generic[P]):
    """Measurements of one paper; a point is a flat dataclass."""

    @cached_property
    def rows(self) -> list[P]:
        return list(self.points())

    @abstractmethod
    def points(self) -> Iterator[P]:
        """Measures all of them."""

    def document(self) -> dict[str, list[dict[str, Any]]]:
        """What ``--json`` prints."""
        return {"rows": [dict(vars(row)) for row in self.rows]}


S = TypeVar("S", bound=Study[Any])


@dataclass(frozen=True)
class Bench(Generic[S]):
    """A command: the study it makes and what it shows of it."""

    study: Callable[[bool], S]  # told whether fewer points will do
    introduction: str
    tables: Callable[[S], Iterator[Noted]]
    pictures: Callable[[S, Path], list[Path]]
    last_table: Callable[[S], Table] | None = None

    def run(self, quick: bool, out: Path) -> tuple[dict[str, Any], Iterator[Table | str]]:
        """The document, and what is printed instead; pictures are drawn when they are told of."""
        study = self.study(quick)
        return study.document(), self._shown(study, out)

    def _shown(self, study: S, out: Path) -> Iterator[Table | str]:
        yield f"{self.introduction}\n"
        for table, notes in self.tables(study):
            yield table
            yield "\n".join([*notes, ""])
        if self.last_table:
            yield self.last_table(study)
        for path in self.pictures(study, out):
            yield f"picture: {path}"
