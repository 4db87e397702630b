"""``weir init``: a project that runs as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weir.cli.terminal import print_lines


def init(folder: Annotated[Path, typer.Argument(help="A new or empty folder.", metavar="DIR")]) -> None:
    """Write a project that runs as it is: three SQLite databases with data, two views, and a script that writes."""
    from weir.project.starter.writing import write_project

    names = write_project(folder)
    following = ("weir check", "weir explain order_lines", "weir run --until-caught-up")
    print_lines([f"made {folder}", *(f"  {name}" for name in names), "", "next", f"  cd {folder}"])
    print_lines([*(f"  {command}" for command in following), "  README.md goes on from there"])
