"""``weir check``: is everything there that the project needs?"""

from __future__ import annotations

import typer
from rich.text import Text

from weir.cli.explain import AsJson, ProjectFolder
from weir.cli.terminal import print_json, print_lines

_STYLES = {"": "bold", "ok": "green", "warning": "yellow", "error": "red"}


def check(project: ProjectFolder = ".", as_json: AsJson = False) -> None:
    """Connect to every source, read every view, look at warehouse and Spark; say what is missing and what mends it.

    Exits with 0 if all is ready (warnings are allowed), with 2 if the project or a source is not, with 1 if this
    machine is not (Java, the warehouse's place).
    """
    from weir.operation.checks import check as check_project
    from weir.project.folder import Project

    report = check_project(Project.read(project))
    if as_json:
        print_json(report.as_json())
    else:
        print_lines(Text(text, style=_STYLES[severity]) for severity, text in report.lines())
    if report.exit_code:
        raise typer.Exit(report.exit_code)
