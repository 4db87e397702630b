"""The command ``weir``: a list of its commands, and what becomes of errors.

Exit codes: 0 fine, 1 a check failed (a level not held, a difference found), 2 wrong use or configuration, 3 Spark has
ended.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from weir import __version__
from weir.algebra.errors import WeirError
from weir.cli.algorithms import algorithms
from weir.cli.bench import bench_app
from weir.cli.capture import capture_app
from weir.cli.check import check
from weir.cli.demo import demo
from weir.cli.explain import explain
from weir.cli.fuzz import fuzz
from weir.cli.init import init
from weir.cli.run import run
from weir.cli.simulate import simulate
from weir.cli.spectrum import spectrum
from weir.cli.stress import stress
from weir.cli.views import compact, publish, query, status, verify


class _Commands(TyperGroup):
    """The group of all commands: an error that the user can mend is one message, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except WeirError as problem:
            typer.echo(f"weir: {problem}", err=True)
            raise typer.Exit(problem.exit_code) from None


_EPILOG = "New here? weir demo shows it at work; weir init DIR writes a project to play with. Exit codes: 0 fine, "
_EPILOG += "1 a check failed, 2 wrong use or configuration, 3 Spark has ended."

app = typer.Typer(
    cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, epilog=_EPILOG
)
PANELS = {
    "Begin": (demo, init),
    "A project": (check, explain, run, status, query, verify, compact, publish),
    "The laboratory": (algorithms, simulate, spectrum, stress, fuzz),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(capture_app, name="capture", rich_help_panel="A project")
app.add_typer(bench_app, name="bench", rich_help_panel="The laboratory")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"weir {__version__}")
        raise typer.Exit


@app.callback()
def _weir(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Materialized views over several autonomous databases, at a consistency level declared, held and checked."""


def main() -> None:
    app()
