"""The spectrum as a table: for the terminal, and as Markdown for the page about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from weir.algorithms.base import GLOBAL, SCENARIOS
from weir.simulator.scenario import write
from weir.simulator.spectrum import Cell

BEGIN, END = "<!-- table: written by weir spectrum --write -->", "<!-- end of the table -->"
NO_CLAIM = "-"
HEADERS = ("algorithm", "scenario", "claimed", "measured", "schedules", "not", "shortest counterexample")


def table(rows: Sequence[Cell]) -> Table:
    shown = Table(title="The level held on all schedules explored", title_justify="left")
    for name in HEADERS:
        shown.add_column(name, justify="right" if name == "schedules" else "left", no_wrap=True)
    for row in rows:
        style = None if row.claim_holds else "bold red"
        shown.add_row(*cells(row), style=style, end_section=row.kind == SCENARIOS[-1])
    return shown


def cells(row: Cell) -> tuple[str, ...]:
    """One line of the table."""
    measured = row.measured
    if row.kind == GLOBAL and row.by_parts != measured:
        measured += f" ({row.by_parts} by parts)"
    if row.refused:
        measured += ", refused"
    found = row.shortest[row.measured] if row.broken else None
    example = f"{len(found.schedule)} steps: {found.scenario.title}" if found else ""
    claimed = row.claimed if row.kind in row.algorithm.facts.claims else NO_CLAIM
    return (row.algorithm.facts.name, row.kind, claimed, measured, short(row.schedules), row.broken or "", example)


def short(number: float) -> str:
    """Schedules are counted by the billion.

    >>> short(12_345), short(2_340_000_000)
    ('12,345', '2.3e+09')
    """
    return f"{number:,.0f}" if number < 10_000_000 else f"{number:.1e}"


def markdown(rows: Sequence[Cell]) -> str:
    """The same table for a page."""
    lines = [" | ".join(HEADERS), "|".join("---" for _ in HEADERS)]
    lines += [" | ".join(cell or " " for cell in cells(row)) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def put_into(page: str, rows: Sequence[Cell]) -> str:
    """The page with this table in place of the one it holds."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{markdown(rows)}\n\n{END}{after}"


def write_counterexamples(rows: Sequence[Cell], folder: Path) -> list[Path]:
    """A scenario file per cell that is not complete; ``weir simulate FILE --unchecked`` runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for row in rows:
        example = row.counterexample()
        if example is not None:
            paths.append(folder / f"{row.algorithm.facts.name}-{row.kind}.toml")
            paths[-1].write_text(write(example), encoding="utf-8")
    return paths
