"""What ``weir bench pvm`` shows: a table and a picture per figure, and Figure 22 tick by tick."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table

from weir.bench.drawing.pictures import Bar, Curve, Picture, Points, Timetable, draw, draw_plans
from weir.bench.drawing.tables import Noted, noted
from weir.bench.papers.pvm import model
from weir.bench.papers.pvm.study import PVM, QUICK, SWEEP, PvmSizes, PvmStudy
from weir.bench.papers.pvm.world import Measured
from weir.bench.papers.study import Bench, FigurePoint

TITLES = {
    "21": "Figure 21: time against updates in flight, n = 60, m = 4",
    "22": "Figure 22: ticks of three updates at three sources",
    "23": "Figure 23: time against updates in flight, ten updates a source",
    "24": "Figure 24: time against runs of one source, m = 3, n = 30, p = 5",
    "25": "Figure 25: time against updates a source, m = 2, p = 5",
    "26": "Figure 26: time (ms) against the time between updates, m = 2, n = 40, p = 5",
    "queries": "Remote queries: n(m - 1)",
    "compensations": "Local compensations: n²(m - 1) / 2m",
}
_X = {
    "21": ("p", "updates in flight (p)"),
    "22": ("p", ""),
    "23": ("p", "updates in flight (p)"),
    "24": ("c", "consecutive updates of one source (c)"),
    "25": ("n/m", "updates a source"),
    "26": ("i", "time between two updates (ms)"),
    "queries": ("n", ""),
    "compensations": ("n", ""),
}
_SUBTITLE = "lines: the paper's model · points: measured in virtual time"
_SOURCES = ("IS1", "IS2", "IS3")


def tables(study: PvmStudy) -> Iterator[Noted]:
    """Per figure a table, and what its marks mean."""
    for figure, title in TITLES.items():
        yield noted(title, _X[figure][0], [row for row in study.rows if row.figure == figure])


# -- Figure 22 -------------------------------------------------------------------------------------------------------


def cells(measured: Measured) -> dict[tuple[int, str], str]:
    """(tick, source) -> what it does then. A query takes two ticks: SQ when it is begun, SQR when it is answered."""
    found: dict[tuple[int, str], str] = {}
    for query in measured.queries:
        name = f"{query.update},{query.source.removeprefix('IS')}"
        found[int(query.answered) - 1, query.source] = f"SQ{name}"
        found[int(query.answered), query.source] = f"SQR{name}"
    return found


def tick_table(study: PvmStudy) -> Table:
    """The table of Figure 22, from the runs."""
    shown = Table(title="Figure 22, tick by tick: SWEEP, PVM p = 2, PVM p = 3", title_justify="left")
    shown.add_column("tick", justify="right")
    for _ in study.ticks:
        for source in _SOURCES:
            shown.add_column(source, no_wrap=True)
    runs = [cells(measured) for measured in study.ticks.values()]
    shown.add_row("0", *(f"DU{number}" for _ in runs for number in (1, 2, 3)))
    for tick in range(1, 13):
        shown.add_row(str(tick), *(run.get((tick, source), "") for run in runs for source in _SOURCES))
    return shown


def _plan(name: str, measured: Measured) -> Timetable:
    bars = [
        Bar(query.source, query.answered - 2, 2, f"SQ{query.update},{query.source[2:]}", query.update)
        for query in measured.queries
    ]
    return Timetable(f"{name}: {measured.time:g} ticks", _SOURCES, bars)


# -- pictures --------------------------------------------------------------------------------------------------------


def pictures(study: PvmStudy, directory: Path) -> list[Path]:
    """One SVG per figure."""
    drawn = [
        draw(picture(study.rows, figure), directory / f"pvm-figure-{figure}.svg")
        for figure in ("21", "23", "24", "25", "26")
    ]
    plans = [_plan(f"{PVM}, p = {p}" if p else SWEEP, measured) for p, measured in study.ticks.items()]
    return [*drawn, draw_plans(TITLES["22"], "tick", plans, directory / "pvm-figure-22.svg")]


def picture(rows: Sequence[FigurePoint], figure: str) -> Picture:
    chosen = [row for row in rows if row.figure == figure]
    curves = [
        _curve([row for row in chosen if row.series == name]) for name in dict.fromkeys(row.series for row in chosen)
    ]
    unit = "milliseconds" if figure == "26" else "time (one query = 1)"
    return Picture(TITLES[figure], _X[figure][1], unit, curves, _SUBTITLE, from_zero=True)


def _curve(rows: Sequence[FigurePoint]) -> Curve:
    return Curve(rows[0].series, _formula(rows), [(row.x, row.measured) for row in rows])


def _formula(rows: Sequence[FigurePoint]) -> Points:
    """The model's line; where it bends (Figure 26) between the measured points, too."""
    if rows[0].figure != "26":
        return [(row.x, row.formula) for row in rows]
    together, t = rows[0].formula, model.time_of_update(2, 800.0)
    return [(x, model.spaced_time(together, 40, x, t)) for x in range(0, rows[-1].x + 1, 10)]


BENCH = Bench(
    lambda quick: PvmStudy(QUICK if quick else PvmSizes()),
    "Every cell: measured / the paper's model. A letter marks a difference of more than a tenth.",
    tables, pictures, tick_table,
)  # fmt: skip
