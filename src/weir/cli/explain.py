"""``weir explain``: how a view will be kept, before it is."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from weir.cli.terminal import print_json, print_lines

ProjectFolder = Annotated[str, typer.Option("--project", help="The project's folder.", metavar="DIR")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document for programs.")]


def explain(
    view: Annotated[str, typer.Argument(help="The view's name.", metavar="VIEW")],
    project: ProjectFolder = ".",
    as_json: AsJson = False,
) -> None:
    """Show a view's normal form, what each source will be asked, the algorithm and why, its level and cost."""
    from weir.planning import explanation
    from weir.project.folder import Project
    from weir.project.survey import Survey, sources_of

    read = Project.read(project)
    text = read.view(view)
    survey = Survey.of(read.sources, sources_of(text, read.sources))
    explained = explanation.explain(survey, survey.view(text), read.run.max_batch)
    if as_json:
        print_json(explained.as_json())
    else:
        print_lines(heading(line) for line in explained.lines())


def heading(line: str) -> Text:
    """Lines at the margin stand out on a terminal."""
    return Text(line, style="" if line.startswith(" ") else "bold")
