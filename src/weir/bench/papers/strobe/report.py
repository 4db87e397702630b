"""What ``weir bench strobe`` shows: tables, and a picture per number of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from weir.bench.drawing.pictures import Curve, Picture, draw
from weir.bench.drawing.tables import Noted, noted
from weir.bench.papers.strobe.study import QUICK, StrobeSizes, StrobeStudy, grouped_bound, ungrouped_bound
from weir.bench.papers.study import Bench, FigurePoint

TITLES = {
    "burst": "Compensating queries of one insert, K deletes during the first query / K^(n-2)",
    "stream": "Compensating queries of one insert, K deletes during every query / K^(n-2)",
    "grouped": "The same, grouped by table / (n-1)!",
    "questions": "Questions over n sources, K deletes during the first query / our count",
    "sweep": "Questions of SWEEP, K deletes during every question / n-1",
}


def tables(study: StrobeStudy) -> Iterator[Noted]:
    """Per figure a table, and what its marks mean."""
    for figure, title in TITLES.items():
        yield noted(title, "K", [row for row in study.rows if row.figure == figure])


def pictures(study: StrobeStudy, directory: Path) -> list[Path]:
    """One SVG per number of tables."""
    numbers = dict.fromkeys(int(row.series.removeprefix("n = ")) for row in study.rows)
    return [draw(picture(study.rows, n), directory / f"strobe-queries-{n}.svg") for n in numbers]


def picture(rows: Sequence[FigurePoint], n: int) -> Picture:
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


def _points(rows: Sequence[FigurePoint], figure: str) -> list[tuple[float, float]]:
    return [(row.x, row.measured) for row in rows if row.figure == figure]


BENCH = Bench(
    lambda quick: StrobeStudy(QUICK if quick else StrobeSizes()),
    "Every cell: measured / formula. A letter marks a difference of more than a tenth.",
    tables, pictures,
)  # fmt: skip
