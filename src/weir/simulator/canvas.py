"""A small SVG canvas: lines, arrows, marks and texts whose boxes are known, so that none covers another.

All text is set in a fixed-width face, whose widths can be computed without the reader's fonts. Colours come from
classes, with a second set for readers on a dark background.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

LINE = 17.0  # height of a line of text
SIZES = {"title": 16.0}
SIZE = 12.0  # of every other text
_ADVANCE = 0.61  # width of a character over the size; the common fixed-width faces have 0.55 to 0.605

# class: (light, dark)
COLOURS = {
    "ground": ("#ffffff", "#0d1117"),
    "lane": ("#c9d1d9", "#3d444d"),
    "plain": ("#1f2328", "#e6edf3"),
    "dim": ("#656d76", "#8b949e"),
    "update": ("#0969da", "#58a6ff"),
    "question": ("#8250df", "#bc8cff"),
    "answer": ("#0b7285", "#39c5cf"),
    "right": ("#1a7f37", "#3fb950"),
    "wrong": ("#cf222e", "#ff7b72"),
}


@dataclass(frozen=True)
class Box:
    """A rectangle: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def grown(self, by: float) -> Box:
        return Box(self.left - by, self.top - by, self.right + by, self.bottom + by)

    def overlaps(self, other: Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def text_width(text: str, style: str = "plain") -> float:
    return len(text) * SIZES.get(style, SIZE) * _ADVANCE


def characters(width: float, style: str = "plain") -> int:
    """How many characters fit."""
    return max(1, int(width / (SIZES.get(style, SIZE) * _ADVANCE)))


@dataclass
class Canvas:
    """Collects shapes, and texts above them."""

    shapes: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)  # of the texts

    # -- shapes -------------------------------------------------------------------------------------------------------

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str, width: float = 1.5) -> None:
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self.shapes.append(f'<line class="{style}-line" {ends} stroke-width="{width}"/>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """A line with a head at its end."""
        angle = math.atan2(y2 - y1, x2 - x1)
        self.line(x1, y1, x2 - 6 * math.cos(angle), y2 - 6 * math.sin(angle), style)
        corners = ((x2, y2), *(_beyond(x2, y2, angle + math.pi + turn, 9) for turn in (0.42, -0.42)))
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        self.shapes.append(f'<polygon class="{style}" points="{points}"/>')

    def dot(self, x: float, y: float, style: str, hollow: bool = False) -> None:
        name = f"{style}-line hollow" if hollow else style
        self.shapes.append(f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="4.5" stroke-width="2"/>')

    def verdict(self, x: float, y: float, style: str) -> None:
        """A disc with a tick when right, a cross when wrong; drawn, so that no font needs the signs."""
        self.shapes.append(f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="8"/>')
        strokes = ["-4 0 L-1 3.2 L4 -3"] if style == "right" else ["-3 -3 L3 3", "3 -3 L-3 3"]
        path = f'd="{" ".join(f"M{stroke}" for stroke in strokes)}" transform="translate({x:.1f} {y:.1f})"'
        self.shapes.append(f'<path class="ground-line" {path} stroke-width="2"/>')

    def frame(self, box: Box, style: str) -> None:
        self.shapes.append(
            f'<rect class="{style}-line paper" x="{box.left:.1f}" y="{box.top:.1f}" width="{box.right - box.left:.1f}" '
            f'height="{box.bottom - box.top:.1f}" rx="6" stroke-width="1.5"/>'
        )

    # -- texts --------------------------------------------------------------------------------------------------------

    def text(self, x: float, y: float, text: str, style: str = "plain", anchor: str = "start") -> None:
        """One line of text whose middle is at height ``y``; lines that pass behind it are interrupted."""
        box = text_box(x, y, text, style, anchor)
        self.boxes.append(box)
        size = f'width="{box.right - box.left:.1f}" height="{box.bottom - box.top:.1f}"'
        font = SIZES.get(style, SIZE)
        self.texts += [
            f'<rect class="ground" x="{box.left:.1f}" y="{box.top:.1f}" {size}/>',
            f'<text class="{style}" x="{x:.1f}" y="{y + font * 0.35:.1f}" text-anchor="{anchor}" font-size="{font:g}">'
            f"{escape(text)}</text>",
        ]

    def is_free(self, box: Box) -> bool:
        """Whether no text is there yet."""
        return not any(box.overlaps(other) for other in self.boxes)

    def svg(self, width: float, height: float, name: str) -> str:
        """The document."""
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
            f"<title>{escape(name)}</title>",
            f"<style>{_style()}</style>",
            f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>',
        ]
        return "\n".join([*lines, *self.shapes, *self.texts, "</svg>"]) + "\n"


def text_box(x: float, y: float, text: str, style: str = "plain", anchor: str = "start") -> Box:
    width = text_width(text, style)
    left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    half = SIZES.get(style, SIZE) * 0.65
    return Box(left, y - half, left + width, y + half)


def _beyond(x: float, y: float, angle: float, length: float) -> tuple[float, float]:
    return x + length * math.cos(angle), y + length * math.sin(angle)


def _style() -> str:
    shared = (
        "text{font-family:ui-monospace,'SFMono-Regular',Menlo,Consolas,'DejaVu Sans Mono',monospace}"
        ".title,.wrong{font-weight:bold}path{fill:none}"
    )
    dark = "".join(_rules(1))
    return f"{shared}{''.join(_rules(0))}@media(prefers-color-scheme:dark){{{dark}}}"


def _rules(shade: int) -> list[str]:
    """Every class as a fill and, with ``-line``, as a stroke."""
    ground = COLOURS["ground"][shade]
    shades = {name: colours[shade] for name, colours in COLOURS.items()}
    rules = [f".{name}{{fill:{colour}}}.{name}-line{{stroke:{colour}}}" for name, colour in shades.items()]
    rules.append(f".title{{fill:{COLOURS['plain'][shade]}}}.hollow,.paper{{fill:{ground}}}")
    return rules
