"""Where commands print: the user's terminal, plain when it is no terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from weir.simulator.diagram import draw
from weir.simulator.run import FinishedRun

UNKNOWN_WIDTH = 100  # of a pipe or a file


def print_lines(lines: Iterable[Text | str]) -> None:
    """Every line as it is: nothing is folded, nothing is guessed to be a link or a number."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for line in lines:
        console.print(line)


def print_run(run: FinishedRun) -> None:
    console = Console()
    print_lines(draw(run, console.width if console.is_terminal else UNKNOWN_WIDTH))


def print_json(outcome: Mapping[str, Any]) -> None:
    """One line that a program can read."""
    typer.echo(json.dumps(outcome, ensure_ascii=False))


def outcome_of(run: FinishedRun) -> dict[str, Any]:
    """A run for programs."""
    return {
        "algorithm": run.algorithm.facts.name,
        "schedule": [str(step) for step in run.schedule],
        "states": [{"rows": str(state), "places": list(run.places(at))} for at, state in enumerate(run.states)],
        "level": run.level,
        "final": str(run.final),
        "expected": str(run.expected),
        "messages": run.counters.messages,
        "counters": {name: value for name, value in vars(run.counters).items() if not name.startswith("_")},
    }
