"""What ``weir bench partition`` shows: a table per family of cases, and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from weir.bench.drawing.pictures import Curve, Picture, draw
from weir.bench.drawing.tables import Noted, noted
from weir.bench.papers.partition import model
from weir.bench.papers.partition.study import SPACE, TABLES, CasePoint, PartitionStudy
from weir.bench.papers.study import Bench

_FAMILIES = {
    "SWEEP": ("SWEEP", "n"),
    "C-Strobe": ("C-Strobe, one insert with mu deletes under way", "mu"),
    "equal": (f"Equal groups over {TABLES} tables", "p"),
    "skew": (f"Equal against frequency, {TABLES} tables, frequency falling with a power of the rank", "power"),
    "rows": ("Auxiliary rows of the same groups, 12 rows a table, 1 partner a row", "power"),
    "shift": ("The hot table changes half way", "x"),
    "r updates": ("r updates at the same moment, groups of 2", "r"),
    "keyed": ("Deletes by key in a hot group", "p"),
    "space": ("Auxiliary rows, 12 rows a table", "p"),
}
_SUBTITLE = "lines: formulas · points: measured in virtual time"


def tables(study: PartitionStudy) -> Iterator[Noted]:
    """Per family a table, and what its marks mean."""
    for prefix, (title, variable) in _FAMILIES.items():
        chosen = [row for row in study.rows if row.case.startswith(prefix)]
        yield noted(title, variable, chosen, number="{:,.4g}".format, least_width=11)


def pictures(study: PartitionStudy, directory: Path) -> list[Path]:
    return [draw(picture, directory / f"partition-{name}.svg") for name, picture in drawn(study.rows).items()]


def drawn(rows: Sequence[CasePoint]) -> dict[str, Picture]:
    """By file name: refresh time by group size, parallel groups, skewed frequencies, space against time."""
    return {
        "refresh": _refresh(rows),
        "parallel": _of_cases(rows, "r updates", "r updates at once, groups of 2", "r", "time until all are shown (t)"),
        "skew": _of_cases(rows, "skew", "Equal against frequency", "skew of the frequencies", "average refresh (t)"),
        "space": _space(rows),
    }


def _refresh(rows: Sequence[CasePoint]) -> Picture:
    full = _curve(rows, "equal groups of p, a full group")
    everywhere = _curve(rows, "equal groups of p, all tables")
    whole = Curve(f"SWEEP, n = {TABLES}", [(p, model.sweep(TABLES)) for p in range(1, TABLES + 1)])
    title = f"Refresh time by group size, {TABLES} tables"
    return Picture(title, "tables a group (p)", "refresh time (t)", [full, everywhere, whole], _SUBTITLE)


def _space(rows: Sequence[CasePoint]) -> Picture:
    curves = []
    for partners in (1, 2):
        held = [row for row in rows if row.case == SPACE.format(partners=partners)]
        line = [(model.equal(int(row.x)), row.formula) for row in held]
        points = [(model.equal(int(row.x)), row.measured) for row in held]
        curves.append(Curve(f"{partners} partner(s) a row", line, points))
    title = "Space against time: groups of 1 (left) to 8 (right) tables"
    return Picture(title, "refresh time of a full group (t)", "auxiliary rows", curves, _SUBTITLE, log_y=True)


def _of_cases(rows: Sequence[CasePoint], prefix: str, title: str, x_label: str, y_label: str) -> Picture:
    cases = dict.fromkeys(row.case for row in rows if row.case.startswith(prefix))
    curves = [replace(_curve(rows, case), label=case.partition(", ")[2]) for case in cases]
    return Picture(title, x_label, y_label, curves, _SUBTITLE)


def _curve(rows: Sequence[CasePoint], case: str) -> Curve:
    chosen = [row for row in rows if row.case == case]
    return Curve(case, [(row.x, row.formula) for row in chosen], [(row.x, row.measured) for row in chosen])


BENCH = Bench(
    lambda quick: PartitionStudy(),
    "Every cell: measured / the paper's formula, in message times t (or rows).",
    tables, pictures,
)  # fmt: skip
