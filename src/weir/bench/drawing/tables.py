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
    def x(self) -> float: ...
    @property
    def formula(self) -> float: ...
    @property
    def measured(self) -> float: ...
    @property
    def explained(self) -> str: ...


Noted = tuple[Table, list[str]]  # and what its letters mean


def _number(value: float) -> str:
    """
    >>> _number(1234.0), _number(7.25)
    ('1,234', '7.2')
    """
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.1f}"


def noted(
    title: str, x_name: str, points: Sequence[Point], column_of: Callable[[Point], str] = lambda point: point.series,
    number: Callable[[float], str] = _number, least_width: int | None = None,
) -> Noted:  # fmt: skip
    """A line per x, a column per series, every cell ``measured / formula``, with a letter where there is a note.

    Columns may be made narrower, and their names be wrapped, down to a ``least_width``.
    """
    reasons = list(dict.fromkeys(point.explained for point in points if point.explained))
    table = Table(title=title, title_justify="left")
    names = list(dict.fromkeys(column_of(point) for point in points))
    table.add_column(x_name, justify="right", min_width=3 if least_width is None else None)
    for name in names:
        table.add_column(name, justify="right", no_wrap=least_width is None, min_width=least_width)
    for x in sorted({point.x for point in points}):
        cells = {column_of(point): _cell(point, reasons, number) for point in points if point.x == x}
        table.add_row(f"{x:g}", *(cells.get(name, "") for name in names))
    return table, [f"  {_mark(at)}: {text}" for at, text in enumerate(reasons)]


def _cell(point: Point, reasons: Sequence[str], number: Callable[[float], str]) -> str:
    mark = f" [yellow]{_mark(reasons.index(point.explained))}[/]" if point.explained else ""
    return f"{number(point.measured)} / {number(point.formula)}{mark}"


def _mark(number: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[number]
