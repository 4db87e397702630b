"""``weir demo``: the real thing, small: three databases, writers, views, the audit."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from weir.cli.main import app

pytestmark = pytest.mark.usefixtures("own_logging")
TITLES = ("1. A project", "2. The first load", "3. Traffic", "4. The audit", "5. The cost", "6. The views")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "shop"


@pytest.fixture(scope="module")
def shown(folder: Path, spark: SparkSession) -> Result:
    """One short run for all tests here, in the session that runs already."""
    arguments = ["demo", "--folder", str(folder), "--seconds", "2", "--rate", "150", "--json"]
    return CliRunner().invoke(app, arguments)


def views(shown: Result) -> dict[str, dict[str, Any]]:
    document = json.loads(shown.stdout.splitlines()[-1])
    return {view["name"]: view for view in document["views"]}


def test_ours_are_exact_and_basic_is_not(shown: Result) -> None:
    """The last line says it for programs; transactions were written at all three databases."""
    assert shown.exit_code == 0, shown.stderr
    found = views(shown)
    levels = {name: (view["strategy"], view["level"]) for name, view in found.items()}
    assert levels == {
        "open_orders": ("pvm-cc", "strong"),
        "order_lines": ("pvm-cc", "complete"),
        "order_lines_basic": ("basic", "none"),
    }
    off = {name: view["missing"] + view["extra"] for name, view in found.items()}
    assert (off["open_orders"], off["order_lines"]) == (0, 0)
    assert off["order_lines_basic"] > 0
    assert all(view["transactions"] and view["commits"] for view in found.values())
    assert all(json.loads(shown.stdout.splitlines()[-1])["written"].values())


def test_it_is_cheaper_than_recomputing(shown: Result) -> None:
    """Rows fetched against rows read, per view that is ours."""
    found = views(shown)
    for name in ("open_orders", "order_lines"):
        assert 0 < found[name]["asked"]["rows"] < found[name]["recomputing"]["rows"]


def test_it_tells_step_by_step(shown: Result) -> None:
    """In this order, with wrong rows of basic shown."""
    places = [shown.stderr.find(title) for title in TITLES]
    assert -1 not in places
    assert places == sorted(places)
    assert "some rows that order_lines_basic has too often (+)" in shown.stderr


def test_what_it_proposes_works(shown: Result, folder: Path) -> None:
    """Every command at the end, as it stands there."""
    lines = [line for line in shown.stderr.partition(TITLES[-1])[2].splitlines() if " --project " in line]
    assert len(lines) == 3
    for line in lines:
        arguments = shlex.split(line)
        start = next(at for at, word in enumerate(arguments) if word in ("query", "verify"))
        done = CliRunner().invoke(app, arguments[start:])
        assert done.exit_code == 0, done.stderr
        assert done.stdout


def test_used_wrongly(tmp_path: Path) -> None:
    """A kind that does not exist, a folder that is used."""
    done = CliRunner().invoke(app, ["demo", "--sources", "oracle"])
    assert (done.exit_code, "use one of sqlite, servers" in done.stderr) == (2, True)
    (tmp_path / "mine.txt").write_text("mine")
    done = CliRunner().invoke(app, ["demo", "--folder", str(tmp_path)])
    assert (done.exit_code, "is not empty; name a new or empty folder" in done.stderr) == (2, True)
