"""Commands on views that exist: ``weir status``, ``query``, ``verify``, ``compact``, ``publish``."""

from __future__ import annotations

import re
import time
from typing import Annotated, Any

import typer

from weir.algebra.errors import WeirError
from weir.cli.explain import AsJson, ProjectFolder
from weir.cli.run import open_console, plain_table, seconds_text, tables
from weir.cli.terminal import print_json, print_lines

ViewName = Annotated[str, typer.Argument(help="The view's name.", metavar="VIEW")]
AsOfText = Annotated[
    str, typer.Option("--as-of", help="A state: 'version 7', 'arrival 120', or 'crm=POSITION, sales=POSITION'.")
]


def status(project: ProjectFolder = ".", as_json: AsJson = False) -> None:
    """Tell how sources and views are: from the runner if one lives, else from the tables and its last word.

    Exits with 1 when a view has stopped or waits, or when a runner does not answer.
    """
    from weir.operation.status import status_from_outside
    from weir.project.folder import Project

    found = status_from_outside(Project.read(project))
    if as_json:
        print_json(found)
    else:
        open_console().print(tables(found))
        print_lines([found["runner"]["text"]])
    if not found["runner"]["well"]:
        raise typer.Exit(1)


def query(
    sql: Annotated[str, typer.Argument(help="Spark SQL over the views.", metavar="SQL")],
    project: ProjectFolder = ".",
    as_of: AsOfText = "",
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many rows.")] = 1000,
) -> None:
    """Query the views with Spark SQL, now or as of an earlier state."""
    from weir.operation.query import query_views
    from weir.operation.warehouse import Warehouse

    with Warehouse.open(project) as warehouse:
        rows = query_views(warehouse, sql, as_of_text(as_of), limit)
    if as_json:
        print_json({"columns": rows.column_names, "rows": [list(row.values()) for row in rows.to_pylist()]})
        return
    _print_rows(rows)


def _print_rows(rows: Any) -> None:
    table = plain_table(*rows.column_names)
    for row in rows.to_pylist():
        table.add_row(*("NULL" if value is None else str(value) for value in row.values()))
    open_console().print(table)
    print_lines(["1 row" if rows.num_rows == 1 else f"{rows.num_rows:,} rows"])


def verify(
    views: Annotated[list[str] | None, typer.Argument(help="The views; none: all.", metavar="VIEW")] = None,
    project: ProjectFolder = ".",
    as_json: AsJson = False,
) -> None:
    """Audit views online: compare each, row by row, with its definition over the sources at one known vector.

    The sources keep running, and so do the other views. Exits with 1 when a difference is found, with 2 when a view
    cannot be audited.
    """
    from weir.operation.audit import NotAudited
    from weir.operation.warehouse import Warehouse

    missed: NotAudited | None = None
    with Warehouse.open(project) as warehouse:
        try:
            audits = warehouse.verify_all(views or ())
        except NotAudited as problem:
            missed, audits = problem, list(problem.found)
    for each in audits:
        if as_json:
            print_json(each.document())
        else:
            print_lines([str(each)])
    if missed is not None:
        raise missed
    if not all(each.clean for each in audits):
        raise typer.Exit(1)


def compact(
    view: ViewName,
    project: ProjectFolder = ".",
) -> None:
    """Merge a view's small files and leave behind the rows that are gone; no visible row changes."""
    from weir.operation.warehouse import Warehouse

    with Warehouse.open(project) as warehouse:
        began = time.monotonic()
        version = warehouse.compact(view)
    made = "nothing to do" if version is None else f"version {version}"
    print_lines([f"view {view}: {made} ({seconds_text(time.monotonic() - began)})"])


def publish(
    view: ViewName,
    path: Annotated[str, typer.Argument(help="Where the plain Delta table shall be.", metavar="PATH")],
    project: ProjectFolder = ".",
    as_of: AsOfText = "",
) -> None:
    """Copy a view to a Delta table without deletion vectors, for tools that know none; again: only what has changed."""
    from weir.operation.warehouse import Warehouse

    with Warehouse.open(project) as warehouse:
        version = warehouse.publish(view, path, as_of_text(as_of))
    print_lines([f"view {view} is at {path}, version {version}"])


def as_of_text(text: str) -> Any:
    """A state as people write it.

    >>> as_of_text("arrival 12"), as_of_text("crm=4, sales=7:[1, 2]").positions
    (AsOf(version=None, arrival=12, positions=None), {'crm': '4', 'sales': '7:[1, 2]'})
    """
    from weir.warehouse.record import NOW, AsOf

    if not text.strip():
        return NOW
    if found := re.fullmatch(r"\s*(version|arrival)\s*[ =:]\s*(\d+)\s*", text):
        number = int(found[2])
        return AsOf(version=number) if found[1] == "version" else AsOf(arrival=number)
    parts = [part.partition("=") for part in re.split(r",\s*(?=\w+\s*=)", text)]
    if all(equals and name.strip() and position.strip() for name, equals, position in parts):
        return AsOf(positions={name.strip(): position.strip() for name, _, position in parts})
    raise WeirError(f"--as-of '{text}' is no state; write 'version 7', 'arrival 120' or 'crm=POSITION, sales=POSITION'")
