"""The spectrum as a picture: algorithms as rows, scenarios as columns, a colour per level, the claim marked.

The picture has a background of its own, so it reads alike on light and on dark pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from weir.algorithms.base import SCENARIOS
from weir.consistency.levels import NAMES
from weir.simulator.spectrum import Cell

COLOURS = {
    "none": "#c0392b", "convergence": "#e59a3c", "weak": "#e9d25b", "strong": "#7fb77e", "complete": "#2f7d5b",
}  # fmt: skip
INK = {"none": "#ffffff", "complete": "#ffffff"}
DARK, SOFT, PAPER = "#24292f", "#57606a", "#ffffff"
LEFT, TOP, WIDTH, HEIGHT, GAP = 166, 64, 172, 22, 3  # wide enough for "convergence" and "claim: weak" in one cell
FOOT = 106
NOTES = (
    "✓ as the paper claims; claim: what the paper claims instead; no mark: the papers make no claim",
    "refused (pale): the algorithm declines such views; run all the same, to show why",
    "basic and sweep-uncompensated are controls without guarantee: they must fail",
)


@dataclass(frozen=True)
class Square:
    """What the picture shows of a cell: nothing that the table does not."""

    algorithm: str
    scenario: str
    claimed: str | None
    measured: str
    refused: bool

    @property
    def mark(self) -> str:
        """Written beside the level: whether it is the claimed one, or that the algorithm declines such views."""
        if self.refused:
            return "refused"
        if self.claimed is None:
            return ""
        return "✓" if self.claimed == self.measured else f"claim: {self.claimed}"


def squares(rows: Sequence[Cell]) -> list[Square]:
    facts = ((row, row.algorithm.facts) for row in rows)
    return [Square(f.name, row.kind, f.claims.get(row.kind), row.measured, bool(row.refused)) for row, f in facts]


def draw(shown: Sequence[Square]) -> str:
    """The picture as SVG."""
    lines = [(name, list(line)) for name, line in groupby(shown, key=lambda square: square.algorithm)]
    width = LEFT + len(SCENARIOS) * (WIDTH + GAP) + 16
    bottom = TOP + len(lines) * (HEIGHT + GAP)
    parts = [*_frame(width, bottom + FOOT), *_columns()]
    for number, (name, line) in enumerate(lines):
        parts += _line(TOP + number * (HEIGHT + GAP), name, line)
    return "\n".join([*parts, *_legend(bottom + 18), "</svg>"]) + "\n"


def write_picture(shown: Sequence[Square], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(draw(shown), encoding="utf-8")
    return path


def _frame(width: int, height: int) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img">'
    )
    yield "<title>The consistency level that each algorithm held on all schedules explored</title>"
    yield f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}" stroke="#d0d7de"/>'
    yield _text(16, 24, "Consistency held on every schedule explored", DARK, size=15, weight="bold")


def _columns() -> Iterator[str]:
    for column, kind in enumerate(SCENARIOS):
        yield _text(_left_of(column) + WIDTH / 2, TOP - 10, kind, SOFT, anchor="middle")


def _line(top: int, name: str, line: list[Square]) -> Iterator[str]:
    yield _text(LEFT - 10, top + 15, name, DARK, anchor="end")
    for square in line:
        yield from _cell(_left_of(SCENARIOS.index(square.scenario)), top, square)


def _cell(left: int, top: int, square: Square) -> Iterator[str]:
    colour = COLOURS[square.measured]
    opacity = ' opacity="0.4"' if square.refused else ""
    yield f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="3" fill="{colour}"{opacity}/>'
    ink = DARK if square.refused else INK.get(square.measured, DARK)
    yield _text(left + 8, top + 15, square.measured, ink)
    if mark := square.mark:
        weight = "bold" if mark.startswith("claim") else "normal"
        yield _text(left + WIDTH - 8, top + 15, mark, ink, anchor="end", weight=weight, size=10)


def _legend(top: int) -> Iterator[str]:
    for number, level in enumerate(NAMES):
        left = 16 + number * 116
        yield f'<rect x="{left}" y="{top}" width="14" height="14" rx="3" fill="{COLOURS[level]}"/>'
        yield _text(left + 20, top + 11, level, DARK)
    for number, note in enumerate(NOTES):
        yield _text(16, top + 36 + number * 18, note, SOFT)


def _left_of(column: int) -> int:
    return LEFT + column * (WIDTH + GAP)


def _text(
    x: float, y: float, text: str, colour: str, anchor: str = "start", size: int = 12, weight: str = "normal"
) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    style = f'fill="{colour}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escaped}</text>'
