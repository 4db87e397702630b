"""``weir spectrum``: every algorithm in every transaction scenario, what it claims and what it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from weir.algebra.errors import WeirError
from weir.simulator.spectrum import FULL, QUICK, Cell, chosen, measure

PAGE, PICTURE, DATA = (
    Path("docs/spectrum.md"),
    Path("docs/pictures/spectrum.svg"),
    Path("src/weir/algorithms/measured.toml"),
)


def spectrum(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller scenarios: under a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the picture and a scenario file per counterexample.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Other scenarios and other random schedules.")] = 0,
    algorithm: Annotated[
        list[str] | None, typer.Option("--algorithm", "-a", help="Which algorithms, by name; repeat for several.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="How many processes share the work.")] = 2,
    keep: Annotated[
        bool,
        typer.Option("--write", help="In a source tree: keep the result in the registry, the page and the picture."),
    ] = False,
) -> None:
    """Measure the level that every algorithm holds on all schedules explored.

    Exits with 1 when a claim does not hold and nobody knows why.
    """
    if keep and (algorithm or quick):
        raise WeirError("--write keeps the whole table, measured in full: leave out --algorithm and --quick")
    if keep and not DATA.parent.is_dir():
        raise WeirError(f"--write needs a source tree: there is no {DATA.parent} here")
    console = Console(stderr=True)
    chosen_ones, effort = chosen(algorithm or ()), QUICK if quick else FULL
    with console.status("exploring") as status:
        rows = measure(chosen_ones, effort, seed, processes, lambda row: _tell(console, status, row))
    if as_json:
        typer.echo(json.dumps({"rows": [row.document() for row in rows]}, indent=1))
    else:
        _print(rows)
    _keep(rows, out, keep)
    if not all(row.claim_holds or row.explained for row in rows):
        raise typer.Exit(1)


def _tell(console: Console, status: Status, row: Cell) -> None:
    """A terminal shows the last cell; a log gets a line for each."""
    if console.is_terminal:
        status.update(_told(row))
    else:
        console.print(_told(row), highlight=False)


def _told(row: Cell) -> str:
    return f"{row.algorithm.facts.name}, {row.kind}: {row.measured}"


def _print(rows: list[Cell]) -> None:
    from weir.bench.simulator.spectrum_report import table  # not needed for --json

    console = Console()
    if not console.is_terminal:
        console.width = 200
    console.print(table(rows))
    for row in rows:
        if not row.claim_holds:
            reason = row.explained or "UNEXPLAINED"
            console.print(f"NOT AS CLAIMED: {_told(row)}, claimed {row.claimed}: {reason}", highlight=False)


def _keep(rows: list[Cell], out: Path | None, keep: bool) -> None:
    from weir.algorithms.measured import written
    from weir.bench.simulator.spectrum_picture import squares, write_picture
    from weir.bench.simulator.spectrum_report import put_into, write_counterexamples

    if out is not None:
        write_picture(squares(rows), out / "spectrum.svg")
        write_counterexamples(rows, out)
    if keep:
        levels: dict[str, dict[str, str]] = {}
        for row in rows:
            levels.setdefault(row.algorithm.facts.name, {})[row.kind] = row.measured
        DATA.write_text(written(levels), encoding="utf-8")
        PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
        write_picture(squares(rows), PICTURE)
