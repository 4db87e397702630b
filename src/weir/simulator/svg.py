"""A run as a sequence diagram in SVG: a lane per source, the warehouse, the view; time runs down.

A message is a slanted arrow from the event at which it left to the event at which it arrived: what overtakes crosses.
Every event has a row of its own as high as its text, which stands left of a source's lane and right of the
warehouse's and the view's. So texts cannot meet; the short names on the arrows go where there is room.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

from weir.algebra.errors import WeirError
from weir.simulator.canvas import LINE, Box, Canvas, characters, text_box, text_width
from weir.simulator.captions import PLAIN, Remark, beginning, caption, contents, shorten, standing, summary, title
from weir.simulator.run import FinishedRun
from weir.simulator.trace import ANSWERED, ASKED, COMMITTED, DELIVERED, RAN, READ, RECEIVED, Event

MARGIN, PAD = 24.0, 14.0
WAREHOUSE, VIEW = "\0warehouse", "\0view"  # lanes that no source can be called
_SOURCE_TEXT, _SIDE_TEXT = 190.0, 290.0  # the widest that text beside a lane may be
_ARROWS = 190.0  # between the last source and the warehouse
_ROW_GAP, _HEAD = 11.0, 26.0
_LINES = 6  # of one text; what is longer ends in …
_NAME = 14  # characters of a name on an arrow
_KINDS = {RAN: "update", ANSWERED: "answer", ASKED: "question", RECEIVED: "answer", DELIVERED: "question"}


def draw_svg(run: FinishedRun) -> str:
    """The document."""
    return _Drawing(run).document()


def write_svg(run: FinishedRun, path: Path) -> None:
    try:
        path.write_text(draw_svg(run), encoding="utf-8")
    except OSError as problem:
        raise WeirError(f"cannot write the drawing to {path}: {problem.strerror}") from None


@dataclass(frozen=True)
class _Row:
    """One event with its text, wrapped, and the lane that the text stands beside."""

    event: Event
    lane: str
    lines: tuple[Remark, ...]

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + _ROW_GAP

    @property
    def width(self) -> float:
        return max(text_width(line.text) for line in self.lines)


class _Drawing:
    """Lays out the lanes, then draws from the top down."""

    def __init__(self, run: FinishedRun) -> None:
        self.run = run
        self.canvas = Canvas()
        self.rows = [self._row(event) for event in (beginning(run), *run.events)]
        self.lanes = _lanes(tuple(run.scenario.sources), self.rows)
        right = self.lanes[VIEW] + PAD + max([row.width for row in self.rows if row.lane == VIEW])
        self.width = max(right, MARGIN + 560) + MARGIN
        self.heights: list[float] = []  # where each row's event is

    def document(self) -> str:
        top = self._heading(MARGIN)
        bottom = self._place_rows(top + _HEAD + 1.5 * LINE)
        self._draw_lanes(top, bottom)
        for row, y in zip(self.rows, self.heights, strict=True):
            self._draw_text(row, y)
        for row, y in zip(self.rows, self.heights, strict=True):
            self._draw_event(row, y)
        end = self._summary(bottom + LINE)
        return self.canvas.svg(self.width, end + MARGIN, title(self.run))

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _row(self, event: Event) -> _Row:
        remarks = [Remark(caption(event)), *(Remark(text, "dim") for text in contents(event))]
        if event.state is not None:
            remarks.append(standing(self.run, event))
        lane = VIEW if event.state is not None else WAREHOUSE if event.kind in (ASKED, DELIVERED) else event.source
        room = _SIDE_TEXT if lane in (WAREHOUSE, VIEW) else _SOURCE_TEXT
        return _Row(event, lane, tuple(line for remark in remarks for line in _wrap(remark, room)))

    def _place_rows(self, y: float) -> float:
        for row in self.rows:
            self.heights.append(y)
            y += row.height
        return y

    def _draw_text(self, row: _Row, y: float) -> None:
        left = row.lane not in (WAREHOUSE, VIEW)
        x = self.lanes[row.lane] + (-PAD if left else PAD)
        for number, line in enumerate(row.lines):
            self.canvas.text(x, y + number * LINE, line.text, line.tone, "end" if left else "start")

    # -- lanes and events ---------------------------------------------------------------------------------------------

    def _draw_lanes(self, top: float, bottom: float) -> None:
        for name, x in self.lanes.items():
            self.canvas.line(x, top + _HEAD, x, bottom, "lane", 2)
            label = _label(name)
            half = text_width(label) / 2 + 10
            self.canvas.frame(Box(x - half, top, x + half, top + _HEAD), "lane")
            self.canvas.text(x, top + _HEAD / 2, label, PLAIN, "middle")

    def _draw_event(self, row: _Row, y: float) -> None:
        event, x = row.event, self.lanes[row.lane]
        if event.kind in (RAN, ANSWERED, RECEIVED):
            self.canvas.dot(x, y, _KINDS[event.kind], hollow=event.kind != RAN)
        if event.sent is not None:
            self._draw_message(event, y)
        if event.kind == COMMITTED and event.state:
            self.canvas.arrow(self.lanes[WAREHOUSE], y, x - 9, y, row.lines[-1].tone)
        if event.kind == COMMITTED:
            self.canvas.verdict(x, y, row.lines[-1].tone)
        if event.kind == READ:
            self.canvas.dot(x, y, row.lines[-1].tone, hollow=True)

    def _draw_message(self, event: Event, y: float) -> None:
        """The arrow that ends here; ``rows`` has the initial state before the first event."""
        assert event.sent is not None
        sent, left = self.run.events[event.sent], self.heights[event.sent + 1]
        start, end = self.lanes[event.source], self.lanes[WAREHOUSE]
        if sent.kind == ASKED or event.kind == RECEIVED:
            start, end = self.lanes[event.sender or WAREHOUSE], start + 5  # it ends at the rim of the answer's dot
        self.canvas.arrow(start, left, end, y, _KINDS[sent.kind])
        name = sent.name if sent.kind in (RAN, ANSWERED, ASKED) and event.kind != RECEIVED else event.name
        self._name_arrow(shorten(name, _NAME), _KINDS[sent.kind], start, left, end, y)

    def _name_arrow(self, name: str, style: str, x1: float, y1: float, x2: float, y2: float) -> None:
        """The message's name on its arrow, at the first place that is free."""
        # The part that lies before the warehouse, where no text stands; all of it when a node writes to itself.
        near = min(1.0, abs(_ARROWS / (x2 - x1)))
        for place in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8):
            along = 1 - near * place if x1 < x2 else near * place
            x, y = x1 + along * (x2 - x1), y1 + along * (y2 - y1)
            if self.canvas.is_free(text_box(x, y, name, style, "middle").grown(8)):
                self.canvas.text(x, y, name, style, "middle")
                return

    # -- above and below ----------------------------------------------------------------------------------------------

    def _heading(self, y: float) -> float:
        lines = [
            *_wrap(Remark(title(self.run), "title"), self.width - 2 * MARGIN),
            *_wrap(Remark(self.run.scenario.view_text, "dim"), self.width - 2 * MARGIN),
        ]
        for line in lines:
            self.canvas.text(MARGIN, y, line.text, line.tone)
            y += LINE * (1.4 if line.tone == "title" else 1)
        return y + LINE / 2

    def _summary(self, y: float) -> float:
        indent = MARGIN + text_width("final view   ")
        for remark in summary(self.run):
            self.canvas.text(MARGIN, y, remark.label, "dim")
            for line in _wrap(remark, self.width - MARGIN - indent):
                self.canvas.text(indent, y, line.text, line.tone)
                y += LINE
            y += 3
        return y - LINE


def _lanes(sources: tuple[str, ...], rows: list[_Row]) -> dict[str, float]:
    """Where the lanes are: far enough apart for the texts between them, and for their own names."""
    lanes: dict[str, float] = {}
    x = MARGIN
    for name in sources:
        x += max(_widest(rows, name) + 2 * PAD, text_width(name) + 24)
        lanes[name] = x
    lanes[WAREHOUSE] = x + max(_ARROWS, (text_width(sources[-1]) + text_width("warehouse")) / 2 + 40)
    lanes[VIEW] = lanes[WAREHOUSE] + max(_widest(rows, WAREHOUSE) + 2 * PAD, 120)
    return lanes


def _widest(rows: list[_Row], lane: str) -> float:
    return max((row.width for row in rows if row.lane == lane), default=0.0)


def _label(lane: str) -> str:
    return lane.removeprefix("\0")


def _wrap(remark: Remark, room: float) -> list[Remark]:
    width = characters(room, remark.tone)
    lines = textwrap.wrap(remark.text, width, max_lines=_LINES, placeholder=" …", break_on_hyphens=False)
    return [Remark(line, remark.tone) for line in lines or [""]]
