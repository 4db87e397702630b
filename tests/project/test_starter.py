"""``weir init``: the project is right as it is written, and its traffic is what an application would write."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.algebra.errors import WeirError
from weir.cli.main import app
from weir.operation.checks import check
from weir.planning.choice import ViewFacts, choose
from weir.project.folder import Project, ViewText
from weir.project.starter.data import table_sizes
from weir.project.starter.traffic import PASSWORD, WORK
from weir.project.starter.writing import write_project
from weir.project.survey import Survey
from weir.proving.demonstration import contrast_view, shop


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("starter") / "shop"
    write_project(made)
    return made


def count(folder: Path, source: str, table: str) -> int:
    with closing(sqlite3.connect(folder / "data" / f"{source}.db")) as database:
        (rows,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(rows)


def test_the_project_is_right(folder: Path) -> None:
    """Every source is there and captured, every view can be kept at the level it asks for."""
    project = Project.read(folder)
    survey = Survey.of(project.sources)
    assert set(survey.descriptions) == {"crm", "sales", "catalog"}
    assert all(description.findings == () for description in survey.descriptions.values())
    views = [survey.view(text) for text in project.views.values()]
    choices = [choose(view, ViewFacts.of(survey, view)) for view in views]
    assert [(view.name, choice.asked, choice.strategy) for view, choice in zip(views, choices, strict=True)] == [
        ("open_orders", "strong", "pvm-cc"),
        ("order_lines", "complete", "pvm-cc"),
    ]


def test_the_contrast_is_the_same_query(folder: Path) -> None:
    """Only the name and the options differ, so that its rows can be compared."""
    project = Project.read(folder)
    survey = Survey.of(project.sources)
    wrong, right = survey.view(ViewText.read(contrast_view(folder))), survey.view(project.view("order_lines"))
    assert wrong.name == "order_lines_basic"
    assert wrong.terms[0].output == right.terms[0].output
    assert choose(wrong, ViewFacts.of(survey, wrong)).strategy == "basic"


def test_a_used_folder_is_left_alone(tmp_path: Path) -> None:
    """Nothing is overwritten."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(WeirError, match="is not empty; name a new or empty folder"):
        write_project(tmp_path)
    with pytest.raises(WeirError, match="is a file"):
        write_project(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_command(tmp_path: Path) -> None:
    """Tells what it made and what to do next; the README names the same commands."""
    result = CliRunner().invoke(app, ["init", str(tmp_path / "new")])
    assert result.exit_code == 0
    assert "weir run --until-caught-up" in result.stdout
    assert "weir verify order_lines" in (tmp_path / "new" / "README.md").read_text()
    assert CliRunner().invoke(app, ["init", str(tmp_path / "new")]).exit_code == 2


def test_traffic_runs_by_itself(folder: Path) -> None:
    """As a script, without weir in reach; every database is written to, and all of it is captured."""
    before = count(folder, "sales", "weir_log")
    program = [sys.executable, "-I", str(folder / "traffic.py"), "--seconds", "0.5", "--rate", "300"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == list(WORK)
    assert all(int(line.split()[1]) > 0 for line in done.stdout.splitlines())
    assert count(folder, "sales", "weir_log") > before


def test_the_shop_on_servers(tmp_path: Path) -> None:
    """Customers in PostgreSQL and sales in MariaDB: the project is ready for Weir, and the same traffic runs there."""
    folder = tmp_path / "shop"
    with shop(folder, "servers") as places:
        before = table_sizes(places)
        report = check(Project.read(folder))
        assert [text for severity, text in report.lines() if severity == "error"] == []
        at = [option for source in ("crm", "sales") for option in ("--at", f"{source}={places[source]}")]
        program = [sys.executable, str(folder / "traffic.py"), "--seconds", "1", "--rate", "200", *at]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        assert all(int(line.split()[1]) > 0 for line in done.stdout.splitlines())
        after = table_sizes(places)
        assert os.environ[PASSWORD] not in (folder / "weir.toml").read_text()
    assert set(after) == {"crm.customer", "sales.orders", "sales.line_item", "catalog.product"}
    assert after["sales.orders"] != before["sales.orders"]
    assert PASSWORD not in os.environ
