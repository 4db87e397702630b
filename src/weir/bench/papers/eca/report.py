"""What ``weir bench eca`` shows: a table and a picture per figure, and the crossovers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table

from weir.bench.drawing.pictures import Curve, Picture, draw
from weir.bench.drawing.tables import Noted, noted
from weir.bench.papers.eca.model import SERIES
from weir.bench.papers.eca.study import FORMULAS, QUICK, EcaSizes, EcaStudy
from weir.bench.papers.study import Bench, FigurePoint

TITLES = {
    "6.2": "Figure 6.2: bytes against C, three updates",
    "6.3": "Figure 6.3: bytes against k",
    "6.4": "Figure 6.4: block reads against k, with indexes",
    "6.5": "Figure 6.5: block reads against k, without indexes",
    "messages": "Messages against k",
}
_LABELS = {
    "6.2": ("tuples a relation (C)", "bytes"),
    "6.3": ("updates (k)", "bytes"),
    "6.4": ("updates (k)", "block reads"),
    "6.5": ("updates (k)", "block reads"),
}
_SUBTITLE = "lines: the paper's formulas · points: measured in the simulator · {fixed}, J = 4, sigma = 1/2"


def tables(study: EcaStudy) -> Iterator[Noted]:
    """Per figure a table, and what its marks mean; series beyond the paper's four have tables of their own."""
    for figure, title in TITLES.items():
        chosen = [row for row in study.rows if row.figure == figure]
        for family in dict.fromkeys(_family(row) for row in chosen):
            part = [row for row in chosen if _family(row) == family]
            yield noted(title + family, "C" if figure == "6.2" else "k", part, lambda point: _name(point.series))


def _family(row: FigurePoint) -> str:
    """What is said after the series' name: ", all reads"."""
    return row.series.removeprefix(_name(row.series))


def _name(series: str) -> str:
    return series.partition(",")[0]


def crossover_table(study: EcaStudy) -> Table:
    table = Table(title="Crossovers: the first k at which ECA costs as much as one recomputation", title_justify="left")
    table.add_column("cost", no_wrap=True)
    table.add_column("series", no_wrap=True)
    for name in ("paper", "formula", "measured", "C = 96"):
        table.add_column(name, justify="right")
    for found in study.crossovers:
        roomy = "" if found.roomy is None else str(found.roomy)
        table.add_row(found.cost, found.series, found.paper, str(found.formula), str(found.measured), roomy)
    return table


def pictures(study: EcaStudy, directory: Path) -> list[Path]:
    """One SVG per figure."""
    return [draw(picture(study.rows, figure), directory / f"{_stem(figure)}.svg") for figure in FORMULAS]


def _stem(figure: str) -> str:
    return "eca-figure-" + figure.replace(".", "-")


def picture(rows: Sequence[FigurePoint], figure: str) -> Picture:
    chosen = [row for row in rows if row.figure == figure]
    xs = range(1 if figure != "6.2" else 2, max(row.x for row in chosen) + 1)
    formula = FORMULAS[figure]
    measured = {name: [(row.x, row.measured) for row in chosen if row.series == name] for name in SERIES}
    curves = [Curve(name, [(x, formula(name, x)) for x in xs], measured[name]) for name in SERIES]
    subtitle = _SUBTITLE.format(fixed="k = 3" if figure == "6.2" else "C = 100")
    return Picture(TITLES[figure], *_LABELS[figure], curves, subtitle, log_x=figure == "6.3", log_y=True)


BENCH = Bench(
    lambda quick: EcaStudy(QUICK if quick else EcaSizes()),
    "Every cell: measured / the paper's formula. A letter marks a difference of more than a tenth.",
    tables, pictures, crossover_table,
)  # fmt: skip
