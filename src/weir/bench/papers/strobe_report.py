"""What ``weir bench strobe`` shows: tables, and a picture per number of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table

from weir.bench.drawing.pictures import Curve, Picture, draw
from weir.bench.drawing.tables import notes, side_by_side
from weir.bench.papers.eca import Row
from weir.bench.papers.strobe import grouped_bound, ungrouped_bound

TITLES = {
    "burst": "Compensating queries of one insert, K deletes during the first query / K^(n-2)",
    "stream": "Compensating queries of one insert, K deletes during every query / K^(n-2)",
    "grouped": "The same, grouped by table / (n-1)!",
    "questions": "Questions over n sources, K deletes during the first query / our count",
    "sweep": "Questions of SWEEP, K deletes during every question / n-1",
}


def tables(rows: Sequence[Row]) -> Iterator[tuple[Table, list[str]]]:
    """Per figure a table, and what its marks mean."""
    for figure, title in TITLES.items():
        chosen = [row for row in rows if row.figure == figure]
        yield side_by_side(title, "K", chosen), notes(chosen)


def pictures(rows: Sequence[Row], directory: Path) -> list[Path]:
    """One SVG per number of tables."""
    numbers = dict.fromkeys(int(row.series.removeprefix("n = ")) for row in rows)
    return [draw(picture(rows, n), directory / f"strobe-queries-{n}.svg") for n in numbers]


def picture(rows: Sequence[Row], n: int) -> Picture:
    own = [row for row in rows if row.series == f"n = {n}"]
    xs = range(1, max(row.x for row in own) + 1)
    flat = [xs[0], xs[-1]]
    curves = [
        Curve("paper: K^(n-2)", [(k, ungrouped_bound(n, k)) for k in xs]),
        Curve("K in the first query", points=_points(own, "burst")),
        Curve("K in every query", points=_points(own, "stream")),
        Curve("grouped", [(k, grouped_bound(n)) for k in flat], _points(own, "grouped")),
        Curve("SWEEP", [(k, n - 1) for k in flat], _points(own, "sweep")),
    ]
    subtitle = "lines: K^(n-2), (n-1)! and n-1 · points: measured in the simulator"
    title = f"C-Strobe: compensating queries of one insert, n = {n}"
    return Picture(title, "deletes that come meanwhile (K)", "queries", curves, subtitle, log_y=True)


def _points(rows: Sequence[Row], figure: str) -> list[tuple[float, float]]:
    return [(row.x, row.measured) for row in rows if row.figure == figure]
