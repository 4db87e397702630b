"""``weir fuzz``: generated schemas, views and changes over mixed sources, compared with Spark's own SQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weir.cli.terminal import print_json

if TYPE_CHECKING:
    from weir.proving.fuzz.case import FuzzCase
    from weir.proving.fuzz.run import FuzzReport
    from weir.proving.fuzz.trial import TrialVerdict

_CASES = Path("tests/proving/fuzz/cases")  # of a checkout: what is kept there is run by its tests


def fuzz(
    seconds: Annotated[float, typer.Option(help="How long.", min=1)] = 60.0,
    seed: Annotated[int, typer.Option(help="The first case's; the next has the next number.")] = 0,
    kinds: Annotated[str, typer.Option(help="The kinds of source, with commas between them; all unless given.")] = "",
    cases: Annotated[int, typer.Option(help="So many cases, however long they take.", min=0)] = 0,
    keep: Annotated[
        Path | None, typer.Option(help="Where failing cases are written, small; in a checkout beside the tests.")
    ] = None,
    without: Annotated[str, typer.Option(help="Features to leave out, with commas between them.")] = "",
    json: Annotated[bool, typer.Option("--json", help="The verdict as one JSON object.")] = False,
) -> None:
    """Draw cases from seeds, keep their views by Weir, and compare every state with Spark's own SQL.

    Exits with 1 if one is wrong or a view stops.
    """
    from weir.proving.fuzz.drawing import FUZZED_KINDS  # with all drivers, which most commands do without
    from weir.proving.fuzz.run import run_fuzz

    def tell(case: FuzzCase, verdict: TrialVerdict, report: FuzzReport) -> None:
        if verdict.findings or report.cases % 20 == 0:
            typer.echo(f"{report.seconds:.0f} s, seed {case.seed}: {_counts(report)}", err=True)
        for finding in verdict.findings:
            typer.echo(f"  {finding}", err=True)

    place = keep or (_CASES if _CASES.parent.is_dir() else Path("fuzz-failures"))
    chosen = [kind.strip() for kind in kinds.split(",") if kind.strip()] or FUZZED_KINDS
    left_out = [name.strip() for name in without.split(",") if name.strip()]
    report = run_fuzz(seconds, seed, chosen, place, cases, left_out, tell)
    if json:
        print_json(report.as_json())
    else:
        typer.echo("\n".join(_in_words(report)))
    if not report.clean:
        raise typer.Exit(1)


def _counts(report: FuzzReport) -> str:
    names = ("cases", "views", "transactions", "comparisons", "wrong", "stopped", "refused")
    return ", ".join(f"{getattr(report, name)} {name}" for name in names)


def _in_words(report: FuzzReport) -> list[str]:
    last = report.seed + report.cases - 1
    verdict = f"seeds {report.seed} to {last} in {report.seconds:.0f} s: {_counts(report)}"
    refusals = [f"  refused {number} times: {why}" for why, number in report.reasons.most_common(5)]
    failures = [f"  seed {each.seed}: {each.told}\n    {each.file}" for each in report.failures]
    return [verdict, *refusals, *failures]
