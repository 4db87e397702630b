"""Pictures of benchmarks: formulas as lines, measurements as points. SVG or PNG, by the file's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]

_COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8a5fbf", "#7f7f7f", "#c98a1b")
_MARKERS = ("o", "s", "^", "D", "v", "P")


@dataclass(frozen=True)
class Curve:
    """One series: a line where there is a formula, points where something was measured."""

    label: str
    line: Points = ()
    points: Points = ()


@dataclass(frozen=True)
class Picture:
    """A diagram. ``subtitle`` is the place for the parameters."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    subtitle: str = ""
    log_x: bool = False
    log_y: bool = False


def draw(picture: Picture, path: Path) -> Path:
    """Writes the picture; the same picture always gives the same file."""
    settings = {"svg.fonttype": "none", "svg.hashsalt": "weir", "font.family": "sans-serif", "font.size": 10}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(7.2, 4.6), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        _plot(figure, picture)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path


def _plot(figure: Figure, picture: Picture) -> None:
    axes = figure.add_subplot()
    for number, curve in enumerate(picture.curves):
        colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]
        if curve.line:
            label = None if curve.points else curve.label
            axes.plot(*zip(*curve.line, strict=True), color=colour, linewidth=1.4, label=label)
        if curve.points:
            axes.plot(*zip(*curve.points, strict=True), color=colour, marker=marker, linestyle="", label=curve.label)
    if picture.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    if picture.log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel(picture.x_label)
    axes.set_ylabel(picture.y_label)
    figure.suptitle(picture.title, fontsize=12)
    axes.set_title(picture.subtitle, fontsize=9, color="#555555")
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
