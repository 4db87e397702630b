"""``weir run``: maintains a project's views until stopped, with live progress."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from weir.algebra.errors import WeirError
from weir.cli.explain import AsJson, ProjectFolder
from weir.cli.terminal import print_json

if TYPE_CHECKING:
    from weir.operation.warehouse import Warehouse
    from weir.rounds.engine import RoundReport

LEVELS = ("debug", "info", "warning", "error")


def run(
    project: ProjectFolder = ".",
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop when all that was visible at the start is committed.")
    ] = False,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after so many seconds.")] = None,
    reload: Annotated[
        list[str] | None, typer.Option("--reload", help="Load this view again from the sources; repeat for several.")
    ] = None,
    as_json: AsJson = False,
    log_level: Annotated[str, typer.Option(help=f"How much to tell: {', '.join(LEVELS)}.")] = "info",
) -> None:
    """Maintain the project's views, until stopped by Ctrl-C: the round under way is finished first."""
    from weir.operation.warehouse import Warehouse

    console = open_console(stderr=True)
    start_logging(console, log_level)
    with Warehouse.open(project) as warehouse, stopped_by_signals(warehouse), progress(warehouse, console) as shown:
        warehouse.run(until_caught_up, seconds, reload or (), shown)
        status = warehouse.status()
    if as_json:
        print_json(status)
    else:
        console.print(summary(status))
    if stuck := [view for view in status["views"] if view["state"] in ("failed", "waiting")]:
        raise WeirError("; ".join(f"view {view['name']}: {view['problem']}" for view in stuck))


def open_console(stderr: bool = False) -> Console:
    """A pipe or a file has no width: lines are not folded at that of some terminal."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=160)


def start_logging(console: Console, level: str) -> None:
    if level.lower() not in LEVELS:
        raise WeirError(f"--log-level {level} does not exist; use one of {', '.join(LEVELS)}")
    handler = RichHandler(console=console, show_path=False) if console.is_terminal else logging.StreamHandler()
    if not console.is_terminal:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    own = logging.getLogger("weir")
    own.handlers, own.propagate = [handler], False
    own.setLevel(level.upper())
    others = logging.StreamHandler()
    others.addFilter(lambda record: "py4j" not in record.pathname)  # its stack traces: whom they hit says it better
    logging.getLogger().handlers = [others]


@contextmanager
def stopped_by_signals(warehouse: Warehouse) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the run after the round under way, a second one at once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: Any) -> None:
        logging.getLogger("weir").info("stopping: the round under way is finished first")
        warehouse.request_stop()
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def progress(warehouse: Warehouse, console: Console) -> Iterator[Any]:
    """What to call after every round: a live table on a terminal, a line now and then elsewhere."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda report: live.update(tables(warehouse.status()))
        return
    last = [0.0]

    def tell(report: RoundReport) -> None:
        if report.busy and time.monotonic() - last[0] > 1:
            last[0] = time.monotonic()
            logging.getLogger("weir").info("%s", line(warehouse.status()))

    yield tell


def line(status: dict[str, Any]) -> str:
    views = (
        f"{view['name']} {view['state']}, {view['transactions']} transactions, {view['queue']} in the queue, "
        f"lag {seconds_text(view.get('lag'))}"
        for view in status["views"]
    )
    return "; ".join(views)


def tables(status: dict[str, Any]) -> Group:
    """Two tables: the views, and the sources."""
    views = plain_table("view", "strategy", "level", "state", "transactions", "queue", "commits", "lag", "last commit")
    elapsed = max(status["time"] - status["started"], 1e-9) if status["running"] else 0.0
    for view in status["views"]:
        views.add_row(
            view["name"], view.get("strategy", ""), view.get("level", ""), _state(view), _counted(view, elapsed),
            str(view.get("queue", "")), str(view.get("commits", "")), seconds_text(view.get("lag")),
            _moment(view.get("last_commit")),
        )  # fmt: skip
    sources = plain_table("source", "kind", "place", "reachable", "transactions", "lag")
    for each in status["sources"]:
        reachable = "yes" if each["reachable"] else Text(each["problem"], style="red")
        counted = f"{each['transactions']:,}"
        sources.add_row(each["name"], each["kind"], each["place"], reachable, counted, seconds_text(each["lag"]))
    return Group(views, sources) if status["sources"] else Group(views)


def plain_table(first: str, *columns: str) -> Table:
    """Without lines between; the first column, the thing's name, is never cut."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _counted(view: dict[str, Any], elapsed: float) -> str:
    """How many this runner has seen, and how many a second."""
    return f"{view['transactions']:,} ({view['transactions'] / elapsed:,.0f}/s)" if elapsed else ""


def _moment(time_: float | None) -> str:
    """A clock time, with the day if that is another one."""
    if not time_:
        return "never"
    at, today = time.localtime(time_), time.localtime()
    return time.strftime("%H:%M:%S" if at[:3] == today[:3] else "%Y-%m-%d %H:%M:%S", at)


def _state(view: dict[str, Any]) -> Text:
    styles = {"running": "green", "waiting": "yellow", "failed": "red"}
    problem = f": {view['problem']}" if view.get("problem") else ""
    return Text(f"{view['state']}{problem}", style=styles.get(view["state"], ""))


def summary(status: dict[str, Any]) -> Group:
    asked = status.get("asked", {})
    told = f"asked of the sources: {asked.get('lookups', 0):,} lookups, {asked.get('rows', 0):,} rows"
    return Group(tables(status), Text(told))


def seconds_text(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"
