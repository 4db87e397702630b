"""A run as a sequence diagram in the terminal: a lane per source, the warehouse, the view; one event after the other.

     s   warehouse  view
     │       │       ✓   state 0: {}  ✓ s@0
     ●       │       │   U1: +r2(2, 3)
     ├──────▶│       │   U1 arrives
     │◀──────┤       │   asks Q1: r1 x [(2, 3)]

The text stands beside the lanes, so it has the same room whatever the number of sources.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rich.text import Text

from weir.simulator.captions import (
    DIM,
    MARKS,
    PLAIN,
    RIGHT,
    WRONG,
    Remark,
    beginning,
    caption,
    contents,
    shorten,
    standing,
    summary,
    title,
)
from weir.simulator.run import FinishedRun
from weir.simulator.trace import ANSWERED, ASKED, COMMITTED, DELIVERED, RAN, RECEIVED, Event

NARROWEST, WIDEST = 60, 120
STYLES = {PLAIN: "", DIM: "dim", RIGHT: "green", WRONG: "bold red", "message": "cyan", "question": "magenta"}
_ENOUGH_TEXT = 44  # columns that texts should have; lane names are cut before that
_LINES = 4  # of one event; what is longer ends in …
_LABELS = 12  # columns of the labels under the diagram


def draw(run: FinishedRun, width: int = 100) -> list[Text]:
    """The run as lines of at most ``width`` columns (within what is readable)."""
    width = max(NARROWEST, min(WIDEST, width))
    lanes = _Lanes.of(tuple(run.scenario.sources), width)
    lines = [Text(shorten(title(run), width), "bold"), *_wrapped(run.scenario.view_text, width, "dim"), Text()]
    lines.append(lanes.header())
    for event in (beginning(run), *run.events):
        lines += _event(run, event, lanes)
    return [*lines, Text(), *(line for remark in summary(run) for line in _remark(remark, width))]


# -- lanes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lanes:
    """Where the lanes are: a column for every source, then the warehouse's and the view's."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    columns: tuple[int, ...]
    width: int

    @classmethod
    def of(cls, sources: tuple[str, ...], width: int) -> _Lanes:
        for longest in range(12, 2, -1):
            labels = (*(shorten(name, longest) for name in sources), "warehouse", "view")
            columns = _columns(labels)
            if width - columns[-1] >= _ENOUGH_TEXT:
                break
        return cls(sources, labels, columns, width)

    @property
    def text_column(self) -> int:
        return self.columns[-1] + 4

    @property
    def room(self) -> int:
        """Columns for text."""
        return self.width - self.text_column

    def column(self, name: str) -> int:
        return self.columns[self.names.index(name)]

    @property
    def warehouse(self) -> int:
        return self.columns[-2]

    @property
    def view(self) -> int:
        return self.columns[-1]

    def header(self) -> Text:
        line = ""
        for label, column in zip(self.labels, self.columns, strict=True):
            line = line.ljust(column - len(label) // 2) + label
        return Text(line, "bold")

    def blank(self) -> Text:
        """Nothing happens: the lanes alone."""
        cells = [" "] * self.text_column
        for column in self.columns:
            cells[column] = "│"
        return Text("".join(cells), "dim")

    def mark(self, column: int, sign: str, style: str) -> Text:
        """Something happens on one lane."""
        line = self.blank()
        return _put(line, column, sign, style)

    def arrow(self, start: int, end: int, style: str, head: str = "│") -> Text:
        """A message goes from one lane to another, across those between."""
        between = range(min(start, end) + 1, max(start, end))
        cells = ["┼" if column in self.columns else "─" for column in between]
        if start < end:
            shaft = "├" + "".join(cells[:-1]) + "▶"
            return _put(_put(self.blank(), start, shaft, style), end, head, style if head != "│" else "dim")
        return _put(self.blank(), end + 1, "◀" + "".join(cells[1:]) + "┤", style)


def _columns(labels: Sequence[str]) -> tuple[int, ...]:
    columns = [1 + len(labels[0]) // 2]
    for before, label in pairwise(labels):
        columns.append(columns[-1] + max(5, (len(before) + len(label)) // 2 + 2))
    return tuple(columns)


def _put(line: Text, column: int, sign: str, style: str) -> Text:
    """The line with ``sign`` written over it."""
    plain = Text(line.plain[:column], "dim") if not line.spans else line[:column]
    return Text.assemble(plain, (sign, style), Text(line.plain[column + len(sign) :], "dim"))


# -- events -----------------------------------------------------------------------------------------------------------


def _event(run: FinishedRun, event: Event, lanes: _Lanes) -> Iterator[Text]:
    if event.state is not None:
        remark = standing(run, event)
        yield from _beside(lanes, _view_line(event, lanes, remark), [Remark(caption(event)), _marked(remark)])
        return
    remarks = [Remark(caption(event)), *(Remark(text, DIM) for text in contents(event))]
    yield from _beside(lanes, _message_line(event, lanes), remarks)


def _marked(remark: Remark) -> Remark:
    """With its sign in front, so that it says the same without colours."""
    return replace(remark, text=f"{MARKS[remark.tone]} {remark.text}") if remark.tone in MARKS else remark


def _view_line(event: Event, lanes: _Lanes, remark: Remark) -> Text:
    style = STYLES[remark.tone]
    if event.kind == COMMITTED and event.state:
        return lanes.arrow(lanes.warehouse, lanes.view, style, head=MARKS[remark.tone])
    return lanes.mark(lanes.view, MARKS[remark.tone] if event.kind == COMMITTED else "◇", style)


def _message_line(event: Event, lanes: _Lanes) -> Text:
    source = lanes.column(event.source)
    if event.kind == DELIVERED:
        return lanes.arrow(source, lanes.warehouse, STYLES["message"])
    if event.kind == RECEIVED and event.sender and event.sender != event.source:
        return lanes.arrow(lanes.column(event.sender), source, STYLES["message"])
    if event.kind == ASKED or (event.kind == RECEIVED and not event.sender):
        return lanes.arrow(lanes.warehouse, source, STYLES["question"])
    return lanes.mark(source, {RAN: "●", ANSWERED: "○", RECEIVED: "○"}[event.kind], STYLES["message"])


def _beside(lanes: _Lanes, line: Text, remarks: list[Remark]) -> Iterator[Text]:
    """The remarks at the right of the lanes: beside each other while there is room, else below."""
    for remark in _rows(remarks, lanes.room):
        yield Text.assemble(line, remark)
        line = lanes.blank()


def _rows(remarks: list[Remark], room: int) -> Iterator[Text]:
    row = Text()
    for remark in remarks:
        gap = "   " if row.plain else ""
        if row.plain and len(row.plain) + len(gap) + len(remark.text) > room:
            yield row
            row, gap = Text(), ""
        *full, last = _wrapped(remark.text, room if not gap else room - len(row.plain) - len(gap), STYLES[remark.tone])
        yield from full
        row = Text.assemble(row, gap, last)
    yield row


def _wrapped(text: str, width: int, style: str = "", lines: int | None = _LINES) -> list[Text]:
    rows = textwrap.wrap(text, width, max_lines=lines, placeholder=" …", break_on_hyphens=False)
    return [Text(row, style) for row in rows or [""]]


def _remark(remark: Remark, width: int) -> Iterator[Text]:
    label = Text(remark.label.ljust(_LABELS), "dim")
    for row in _wrapped(_marked(remark).text, width - _LABELS, STYLES[remark.tone], lines=None):
        yield Text.assemble(label, row)
        label = Text(" " * _LABELS)
