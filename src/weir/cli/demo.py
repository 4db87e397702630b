"""``weir demo``: views over three databases under traffic, kept right and, for contrast, kept wrong; then the audit."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from weir.algebra.errors import WeirError
from weir.cli.run import open_console, plain_table, progress, start_logging
from weir.cli.terminal import print_json

if TYPE_CHECKING:
    from weir.proving.demonstration import Outcome

_KINDS = {
    "sqlite": "three SQLite databases (crm, sales, catalog)",
    "servers": "a PostgreSQL server (crm), a MariaDB server (sales) and a SQLite file (catalog)",
}
_VIEWS = """\
  order_lines        complete  order lines with customer and product, from all three databases
  open_orders        strong    open orders with their customers, from two
  order_lines_basic  none      the query of order_lines again, kept without compensation"""
_SHOWN = 3  # wrong rows
_QUERY = "SELECT city, count(*) AS orders FROM open_orders GROUP BY city ORDER BY orders DESC"


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="A new or empty folder for the project; otherwise a temporary one, which stays.")
    ] = None,
    sources: Annotated[
        str, typer.Option(help="sqlite: three files; servers: PostgreSQL and MariaDB servers of its own, and a file.")
    ] = "sqlite",
    seconds: Annotated[float, typer.Option(min=1, help="How long the writers write.")] = 8.0,
    rate: Annotated[float, typer.Option(min=1, help="Transactions a second, all writers together.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="In the end one line for programs.")] = False,
) -> None:
    """Keep views over three databases while processes write to them, then compare every row with the databases.

    Exits with 1 if a view that promises a level is wrong. The project stays, to be looked at.
    """
    if sources not in _KINDS:
        raise WeirError(f"--sources {sources} does not exist; use one of {', '.join(_KINDS)}")
    began = time.monotonic()
    console = open_console(stderr=as_json)
    start_logging(console, "warning" if console.is_terminal else "info")
    place = folder or Path(tempfile.mkdtemp(prefix="weir-demo-"))
    found, written = _run(console, place, sources, seconds, rate)
    _tell(console, found, place, sources)
    if as_json:
        views = [each.document() for each in found]
        took = round(time.monotonic() - began, 1)
        print_json({"views": views, "written": written, "folder": str(place), "sources": sources, "seconds": took})
    if not all(each.audit.clean for each in found if each.ours):
        raise typer.Exit(1)


def _run(
    console: Console, folder: Path, sources: str, seconds: float, rate: float
) -> tuple[list[Outcome], dict[str, int]]:
    from weir.operation.warehouse import Warehouse
    from weir.proving.demonstration import maintain_under_traffic, outcomes, shop

    console.print(f"[bold]1. A project[/] in {folder}: {_KINDS[sources]}, and three views\n{_VIEWS}")
    with shop(folder, sources) as places, Warehouse.open(folder) as warehouse:
        console.print("[bold]2. The first load[/]: Spark starts, every view is computed once")
        with progress(warehouse, console) as shown:
            warehouse.run(until_caught_up=True, on_round=shown)
        console.print(f"[bold]3. Traffic[/]: {seconds:g} s, about {rate:g} transactions a second; the views follow")
        with progress(warehouse, console) as shown:
            written = maintain_under_traffic(warehouse, folder, places, seconds, rate, shown)
        told = ", ".join(f"{name} {transactions:,}" for name, transactions in written.items())
        console.print(f"   written and followed: {told} transactions")
        console.print("[bold]4. The audit[/]: each view against its query over the whole databases, row by row")
        return outcomes(warehouse, places), written


# -- what is told ------------------------------------------------------------------------------------------------------


def _tell(console: Console, found: list[Outcome], folder: Path, sources: str) -> None:
    _tell_audit(console, found)
    _tell_cost(console, found)
    weir, project = _command(), shlex.quote(str(folder))
    console.print(f"[bold]6. The views[/] are Delta tables in {folder / 'warehouse'}. Try:")
    commands = [
        f'{weir} query --project {project} "{_QUERY}"',
        f'{weir} query --project {project} --as-of "arrival 10" "SELECT count(*) FROM order_lines"',
    ]
    if sources == "sqlite":
        commands.append(f"{weir} verify --project {project} order_lines open_orders")
    for command in commands:
        console.print(f"   {command}", soft_wrap=True, markup=False)
    if sources == "servers":
        console.print("   The servers are stopped and gone; the views stay as they were last.")


def _tell_audit(console: Console, found: list[Outcome]) -> None:
    table = plain_table("view", "strategy", "level", "transactions", "commits", "rows", "missing", "extra", "")
    for each in found:
        audit = each.audit
        verdict = "[green]exact[/]" if audit.clean else "[red]wrong[/]"
        counts = [each.transactions, each.commits, audit.rows, audit.missing, audit.extra]
        table.add_row(each.name, each.strategy, each.level, *(f"{count:,}" for count in counts), verdict)
    console.print(table)
    for each in (each for each in found if not each.audit.clean):
        console.print(f"   some rows that {each.name} has too often (+) or too seldom (-):")
        for row in each.audit.samples[:_SHOWN]:
            values = json.dumps(list(row["row"].values()), default=str)
            console.print(f"   {row['too many']:+d} {values}", soft_wrap=True, markup=False)
    if lucky := [each.name for each in found if not each.ours and each.audit.clean]:
        console.print(f"   {lucky[0]} was lucky: no two transactions met. Try again, with more of them: --rate 200")


def _tell_cost(console: Console, found: list[Outcome]) -> None:
    console.print("[bold]5. The cost[/]: what the databases were asked, against reading the tables at every commit")
    table = plain_table("view", "commits", "questions", "rows fetched", "recomputing: questions", "rows read")
    for each in (each for each in found if each.ours):
        counts = [each.commits, each.questions, each.rows_fetched, *each.recomputing]
        table.add_row(each.name, *(f"{count:,}" for count in counts))
    console.print(table)


def _command() -> str:
    """The command as it was called, so that what is proposed can be pasted."""
    called = Path(sys.argv[0])
    return shlex.quote(sys.argv[0]) if called.name == "weir" else f"{shlex.quote(sys.executable)} -m weir"
