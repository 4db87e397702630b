"""``weir run``, ``status``, ``query``, ``verify``, ``compact``, ``publish`` on a project, read as a user reads them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from weir.cli.main import app
from weir.operation.warehouse import Warehouse
from weir.project.starter.writing import write_project

pytestmark = pytest.mark.usefixtures("spark", "own_logging")


def weir(folder: Path, command: str, *arguments: str) -> tuple[int, str]:
    """Exit code, and what stands on the terminal."""
    result = CliRunner().invoke(app, [command, "--project", str(folder), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout + result.stderr


def answer(folder: Path, command: str, *arguments: str) -> dict[str, object]:
    """The document that a command prints."""
    result = CliRunner().invoke(app, [command, "--project", str(folder), "--json", *arguments])
    assert result.exit_code == 0, result.stderr
    document: dict[str, object] = json.loads(result.stdout)
    return document


def execute(folder: Path, source: str, statement: str) -> None:
    with closing(sqlite3.connect(folder / "data" / f"{source}.db")) as database, database:
        database.execute(statement)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A project whose views have been loaded; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("project") / "shop"
    write_project(folder)
    with Warehouse.open(folder, spark) as warehouse:
        warehouse.run(until_caught_up=True)
    return folder


@pytest.fixture
def shop(loaded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(loaded, tmp_path / "shop"))


# -- before the first run ----------------------------------------------------------------------------------------------


def test_a_project_that_never_ran(tmp_path: Path) -> None:
    """Status says so and is well; a query and the care of a table name the command that is missing."""
    write_project(tmp_path / "shop")
    code, told = weir(tmp_path / "shop", "status")
    assert (code, told.count("not loaded")) == (0, 2)
    assert told.splitlines()[-1] == "no runner; start one: weir run"
    for command, lacks in (
        (["query", "SELECT 1 FROM order_lines"], "no view has been loaded yet"),
        (["compact", "order_lines"], "view order_lines has not been loaded yet"),
    ):
        code, told = weir(tmp_path / "shop", *command)
        assert code == 2
        assert f"{lacks}; run: weir run --until-caught-up" in " ".join(told.split())


def test_outside_a_project(tmp_path: Path) -> None:
    """Every command says what a project is and how to get one."""
    for command in (["run"], ["status"], ["query", "SELECT 1"], ["verify"], ["compact", "v"], ["publish", "v", "x"]):
        code, told = weir(tmp_path, *command)
        assert code == 2
        assert told.startswith(f"weir: there is no weir.toml in {tmp_path}; go to a project's folder")
        assert "weir init DIR" in told


# -- run ---------------------------------------------------------------------------------------------------------------


def test_run_follows_what_was_written(shop: Path) -> None:
    """One transaction at the source, one state of the view; the summary tells lag, transactions and what was asked."""
    execute(shop, "crm", "UPDATE customer SET city = 'Oslo' WHERE id = (SELECT min(id) FROM customer)")
    code, told = weir(shop, "run", "--until-caught-up")
    assert code == 0, told
    for words in ("order_lines", "pvm-cc", "complete", "strong", "running", "asked of the sources:"):
        assert words in told
    assert weir(shop, "verify")[0] == 0
    rows = answer(shop, "query", "SELECT DISTINCT city FROM order_lines WHERE city = 'Oslo'")
    assert rows == {"columns": ["city"], "rows": [["Oslo"]]}


def test_run_for_programs(shop: Path) -> None:
    """The status in the end, on standard output alone."""
    status = answer(shop, "run", "--until-caught-up")
    assert status["running"] is True
    views = status["views"]
    assert isinstance(views, list)
    assert [(view["name"], view["level"], view["state"]) for view in views] == [
        ("open_orders", "strong", "running"),
        ("order_lines", "complete", "running"),
    ]


WRONG_USE = {
    "an unknown level of logging": (["--log-level", "loud"], "--log-level loud does not exist; use one of debug, info"),
    "a view that is not there": (["--reload", "order_line"], "there is no view 'order_line'; did you mean"),
}


@pytest.mark.parametrize("mistake", WRONG_USE)
def test_run_used_wrongly(loaded: Path, mistake: str) -> None:
    """One message, exit code 2."""
    arguments, words = WRONG_USE[mistake]
    code, told = weir(loaded, "run", "--until-caught-up", *arguments)
    assert code == 2
    assert words in told


def test_run_without_a_source(shop: Path) -> None:
    """A batch job ends with the source's name and place."""
    (shop / "data" / "catalog.db").rename(shop / "data" / "elsewhere.db")
    code, told = weir(shop, "run", "--until-caught-up")
    assert code == 2
    assert "there is no SQLite database at" in told
    assert "catalog.db" in told


def test_a_view_that_was_changed(shop: Path) -> None:
    """Its table is another view's: nothing is mixed; --reload loads it, and it is right."""
    path = shop / "views" / "open_orders.sql"
    path.write_text(path.read_text().replace("o.status = 'open'", "o.status <> 'sent'"))
    code, told = weir(shop, "run", "--until-caught-up")
    assert code == 2
    assert "the table of view open_orders" in told
    assert "weir run --reload open_orders" in told
    assert weir(shop, "run", "--until-caught-up", "--reload", "open_orders")[0] == 0
    assert weir(shop, "verify", "open_orders")[0] == 0


def test_beside_a_runner(shop: Path, spark: SparkSession) -> None:
    """A second runner is refused with the first one's process; status and verify ask that one."""
    with Warehouse.open(shop, spark) as runner:
        runner.start()
        code, told = weir(shop, "run", "--until-caught-up")
        assert code == 2
        assert "is being run by process" in told
        code, told = weir(shop, "status")
        assert code == 0
        assert " runs, " in told.splitlines()[-1]
        code, told = weir(shop, "verify", "order_lines")
        assert (code, "0 missing, 0 extra" in told) == (0, True)


def test_interrupted_in_a_terminal(shop: Path) -> None:
    """Ctrl-C goes to every process of the terminal: the round is finished, the end is told, the exit code is 0."""
    program = [sys.executable, "-m", "weir", "run", "--project", str(shop)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, start_new_session=True) as runner:
        try:
            while " runs, " not in weir(shop, "status")[1]:
                assert runner.poll() is None
            execute(shop, "crm", "UPDATE customer SET city = 'Oslo'")
            while "'Oslo'" not in str(answer(shop, "query", "SELECT DISTINCT city FROM order_lines")["rows"]):
                assert runner.poll() is None
            os.killpg(runner.pid, signal.SIGINT)
            _, told = runner.communicate(timeout=120)
        finally:
            runner.kill()
    assert runner.returncode == 0, told
    assert "stopping: the round under way is finished first" in told
    assert "Traceback" not in told
    assert weir(shop, "status")[1].splitlines()[-1].startswith("no runner")


# -- status ------------------------------------------------------------------------------------------------------------


def test_status_at_rest(loaded: Path) -> None:
    """From the tables: strategy, level, last commit; nobody runs, and that is no error."""
    status = answer(loaded, "status")
    assert status["running"] is False
    views = status["views"]
    assert isinstance(views, list)
    assert {(view["name"], view["state"], view["strategy"]) for view in views} == {
        ("open_orders", "at rest", "pvm-cc"),
        ("order_lines", "at rest", "pvm-cc"),
    }
    assert set(views[1]["positions"]) == {"crm", "sales", "catalog"}


def test_a_damaged_table(shop: Path) -> None:
    """Every command that needs it says which file is wrong and what to do, on one line; the other view is maintained.
    A reload mends it.
    """
    commit = max((shop / "warehouse" / "order_lines" / "_delta_log").glob("*.json"))
    commit.write_bytes(commit.read_bytes()[:-20])
    wrong = f"view order_lines: the table at '{commit.parent.parent}' is damaged: _delta_log/{commit.name} is cut off"
    way_out = "load the view again from its sources: weir run --reload order_lines"
    code, told = weir(shop, "status")
    assert (code, wrong in told, way_out in told) == (1, True, True), told
    execute(shop, "sales", "UPDATE orders SET status = 'open' WHERE id = 1")
    for command in (["verify", "order_lines"], ["compact", "order_lines"], ["run", "--until-caught-up"]):
        code, told = weir(shop, *command)
        last = told.splitlines()[-1]
        assert (code, wrong in last, way_out in last, "<unknown>" in told) == (2, True, True, False), told
    code, told = weir(shop, "query", "SELECT * FROM order_lines")
    assert (code, wrong in told) == (2, True)
    assert weir(shop, "query", "SELECT * FROM open_orders")[0] == 0
    assert weir(shop, "verify", "open_orders")[0] == 0
    code, told = weir(shop, "run", "--until-caught-up", "--reload", "order_lines")
    assert code == 0, told
    assert weir(shop, "verify")[0] == 0
    assert weir(shop, "status")[0] == 0


# -- query -------------------------------------------------------------------------------------------------------------


def test_query_prints_rows(loaded: Path) -> None:
    """A table for people, NULL by name, the number of rows below."""
    code, told = weir(loaded, "query", "SELECT count(*) AS orders, NULL AS nothing FROM open_orders")
    assert code == 0
    lines = told.split("\n")
    assert "orders" in told
    assert "NULL" in told
    assert lines[-2] == "1 row"


def test_query_an_earlier_state(shop: Path) -> None:
    """By version, arrival and position: as it was before the change."""
    before = answer(shop, "status")["views"]
    assert isinstance(before, list)
    view = next(each for each in before if each["name"] == "order_lines")
    execute(shop, "catalog", "UPDATE product SET title = 'New' WHERE id = 1")
    assert weir(shop, "run", "--until-caught-up")[0] == 0
    count = "SELECT count(*) AS c FROM order_lines WHERE title = 'New'"
    whole = "SELECT count(*) > 900 AS b FROM order_lines"
    now = answer(shop, "query", count)["rows"]
    positions = ", ".join(f"{source}={position}" for source, position in view["positions"].items())
    for state in (f"version {view['version']}", f"arrival {view['arrival']}", positions):
        assert answer(shop, "query", "--as-of", state, count)["rows"] == [[0]]
        assert answer(shop, "query", "--as-of", state, whole)["rows"] == [[True]]
    assert isinstance(now, list)
    assert now[0][0] > 0


WRONG_QUERIES = {
    "a view that is not there": (["SELECT * FROM order_line"], "there is no view 'order_line'; did you mean"),
    "no SQL": (["SELEKT 1"], "Spark cannot run the query"),
    "no state": (["--as-of", "yesterday", "SELECT * FROM order_lines"], "--as-of 'yesterday' is no state; write"),
    "a state that never was": (["--as-of", "version 999", "SELECT * FROM order_lines"], "999"),
    "a state of two views": (
        ["--as-of", "version 1", "SELECT * FROM order_lines, open_orders"], "--as-of names a state of one view",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG_QUERIES)
def test_a_query_that_is_wrong(loaded: Path, mistake: str) -> None:
    """One message, no traceback, exit code 2."""
    arguments, words = WRONG_QUERIES[mistake]
    code, told = weir(loaded, "query", *arguments)
    assert code == 2
    assert told.startswith("weir: ")
    assert words in told


# -- verify ------------------------------------------------------------------------------------------------------------


def test_verify_for_programs(loaded: Path) -> None:
    """The document that the issue of this command fixes."""
    found = answer(loaded, "verify", "open_orders")
    assert (found["view"], found["missing"], found["extra"]) == ("open_orders", 0, 0)
    assert set(found) == {"view", "positions", "rows", "missing", "extra"}


def test_verify_finds_a_wrong_row(shop: Path) -> None:
    """A row that no query gave is shown with its values; exit code 1."""
    with Warehouse.open(shop) as warehouse:
        store = warehouse.store("open_orders")
        head = store.head
        extra = store.read_arrow(counted=True).slice(0, 1)
        batch = extra.set_column(extra.num_columns - 1, "_weir_weight", pa.array([1], pa.int64()))
        arrival = head.last_arrival + 1
        store.append(batch, head.positions, (arrival, arrival), head.transaction + 1, notes=head.notes)
    code, told = weir(shop, "verify", "open_orders")
    assert code == 1
    assert "0 missing, 1 extra" in told
    assert '+1 {"id":' in told


def test_verify_an_unknown_view(loaded: Path) -> None:
    """Named, with the near one."""
    code, told = weir(loaded, "verify", "order_line")
    assert code == 2
    assert "there is no view 'order_line'; did you mean 'order_lines'?" in told


# -- compact, publish --------------------------------------------------------------------------------------------------


def test_compact_changes_no_row(shop: Path) -> None:
    """A new version, the same rows; a second time there is nothing to do."""
    execute(shop, "crm", "UPDATE customer SET city = 'Oslo' WHERE id % 2 = 0")
    assert weir(shop, "run", "--until-caught-up")[0] == 0
    query = "SELECT city, count(*) FROM order_lines GROUP BY city ORDER BY city"
    before = answer(shop, "query", query)
    code, told = weir(shop, "compact", "order_lines")
    assert code == 0
    assert told.startswith("view order_lines: version ")
    assert answer(shop, "query", query) == before
    assert "nothing to do" in weir(shop, "compact", "order_lines")[1]


def test_publish_for_other_tools(loaded: Path, tmp_path: Path) -> None:
    """A plain Delta table without our columns, readable by any client."""
    code, told = weir(loaded, "publish", "open_orders", str(tmp_path / "plain"))
    assert (code, told.strip()) == (0, f"view open_orders is at {tmp_path / 'plain'}, version 0")
    rows = DeltaTable(tmp_path / "plain").to_pyarrow_table()
    assert rows.column_names == ["id", "day", "customer", "name", "city"]
    assert rows.num_rows == 400
