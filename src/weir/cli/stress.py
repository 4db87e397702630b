"""``weir stress``: how exact is a kind of source, on a real database under concurrent writers?"""

from __future__ import annotations

import json as json_format
from typing import Annotated

import typer

from weir.proving.kinds import KINDS
from weir.proving.stress import StressReport, find_workload, run_stress


def stress(
    kind: Annotated[str, typer.Argument(help=f"The kind of source: {', '.join(KINDS)}.")],
    seconds: Annotated[float, typer.Option(help="How long.", min=1)] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="The verdict as one JSON object.")] = False,
    seed: Annotated[int, typer.Option(help="Seeds writers and questions.")] = 0,
) -> None:
    """Start a database and writers, visit without pause, and compare every answer with the replay.

    Exits with 1 if one is wrong.
    """
    report = run_stress(find_workload(kind), seconds, seed)
    typer.echo(json_format.dumps(report.as_json()) if json else _in_words(report))
    if report.wrong:
        raise typer.Exit(1)


def _in_words(report: StressReport) -> str:
    verdict = (
        f"{report.kind}: {report.answers} answers over {report.transactions} transactions "
        f"in {report.seconds:.1f} s, {report.wrong} wrong"
    )
    return "\n".join([verdict, *report.failures])
