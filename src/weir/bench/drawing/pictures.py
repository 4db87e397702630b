"""Pictures of benchmarks: formulas as lines, measurements as points. SVG or PNG, by the file's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from_zero: bool = False  # whether the y axis begins at 0


@dataclass(frozen=True)
class Bar:
    """Something that a line of a plan does for a while; bars of one ``group`` have one colour."""

    line: str
    start: float
    length: float
    label: str
    group: int


@dataclass(frozen=True)
class Timetable:
    """Who does what when: a line each, bars along the time."""

    title: str
    lines: Sequence[str]
    bars: Sequence[Bar]


def draw(picture: Picture, path: Path) -> Path:
    """Writes the picture; the same picture always gives the same file."""
    return _write(path, (7.2, 4.6), lambda figure: _plot(figure, picture))


def draw_plans(title: str, unit: str, plans: Sequence[Timetable], path: Path) -> Path:
    """Plans under each other, on one scale of time."""
    return _write(path, (7.2, 1.5 * len(plans) + 0.6), lambda figure: _plot_plans(figure, title, unit, plans))


def _write(path: Path, size: tuple[float, float], plot: Callable[[Figure], None]) -> Path:
    import matplotlib  # slow to load, and only needed where something is drawn
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings = {"svg.fonttype": "none", "svg.hashsalt": "weir", "font.family": "sans-serif", "font.size": 10}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        plot(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path


def _plot_plans(figure: Figure, title: str, unit: str, plans: Sequence[Timetable]) -> None:
    figure.suptitle(title, fontsize=12)
    end = max(bar.start + bar.length for plan in plans for bar in plan.bars)
    for axes, plan in zip(figure.subplots(len(plans), squeeze=False)[:, 0], plans, strict=True):
        for bar in plan.bars:
            colour = _COLOURS[(bar.group - 1) % len(_COLOURS)]
            at = len(plan.lines) - 1 - list(plan.lines).index(bar.line)
            axes.barh(at, bar.length, left=bar.start, color=colour, edgecolor="white")
            axes.text(bar.start + bar.length / 2, at, bar.label, ha="center", va="center", color="white", fontsize=8)
        axes.set_yticks(range(len(plan.lines)), reversed(plan.lines))
        axes.set_xlim(0, end)
        axes.set_title(plan.title, fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(unit)


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
    if picture.from_zero:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(picture.x_label)
    axes.set_ylabel(picture.y_label)
    figure.suptitle(picture.title, fontsize=12)
    axes.set_title(picture.subtitle, fontsize=9, color="#555555")
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
