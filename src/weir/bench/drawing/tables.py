"""Tables that put measurement and formula side by side, and say in notes below why they differ where they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rich.table import Table


class Point(Protocol):
    """One measured point; ``explained`` is empty where formula and measurement agree."""

    @property
    def series(self) -> str: ...
    @property
    def x(self) -> int: ...
    @property
    def formula(self) -> float: ...
    @property
    def measured(self) -> float: ...
    @property
    def explained(self) -> str: ...


def side_by_side(
    title: str, x_name: str, points: Sequence[Point], column_of: Callable[[Point], str] = lambda point: point.series
) -> Table:
    """A line per x, a column per series, every cell ``measured / formula``, with a letter where there is a note."""
    reasons = list(dict.fromkeys(point.explained for point in points if point.explained))
    table = Table(title=title, title_justify="left")
    names = list(dict.fromkeys(column_of(point) for point in points))
    table.add_column(x_name, justify="right", min_width=3)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for x in sorted({point.x for point in points}):
        cells = {column_of(point): point for point in points if point.x == x}
        table.add_row(str(x), *(_cell(cells[name], reasons) if name in cells else "" for name in names))
    return table


def notes(points: Sequence[Point]) -> list[str]:
    """What the letters of a table mean."""
    reasons = dict.fromkeys(point.explained for point in points if point.explained)
    return [f"  {_mark(number)}: {text}" for number, text in enumerate(reasons)]


def _cell(point: Point, reasons: Sequence[str]) -> str:
    mark = f" [yellow]{_mark(reasons.index(point.explained))}[/]" if point.explained else ""
    return f"{_number(point.measured)} / {_number(point.formula)}{mark}"


def _number(value: float) -> str:
    """
    >>> _number(1234.0), _number(7.25)
    ('1,234', '7.2')
    """
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.1f}"


def _mark(number: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[number]
