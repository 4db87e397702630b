"""``weir explain`` on a real project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.cli.main import app
from weir.project.starter.writing import write_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("explain") / "shop"
    write_project(made)
    return made


def run(project: Path, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["explain", *arguments, "--project", str(project)])
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


def with_view(project: Path, text: str) -> str:
    (project / "views" / "extra.sql").write_text(text)
    try:
        return run(project, "extra", code=2)
    finally:
        (project / "views" / "extra.sql").unlink()


def test_everything_is_told(project: Path) -> None:
    """The algorithm and why, the normal form, the questions with their indexes, the keys, the cost."""
    told = run(project, "order_lines")
    for words in (
        "view order_lines: pvm-cc (chosen by auto), promises 'complete', asked for 'complete'",
        "  - 3 sources (sales, crm, catalog)",
        "    join c.id = o.customer",
        "when rows of crm.customer change (as c)",
        "  1. sales: SELECT id, customer, day, status FROM orders WHERE customer IN (values of c.id)",
        "[index customer]",
        "  crm.customer (c): no, the select list lacks c.id",
        "12 messages",
        "it pays from about",
    ):
        assert words in told


def test_for_programs(project: Path) -> None:
    """The same facts as one document."""
    told = json.loads(run(project, "open_orders", "--json"))
    assert (told["strategy"], told["level"], told["asked"]) == ("pvm-cc", "complete", "strong")
    (hop,) = told["routes"][1]["hops"]
    assert (hop["table"], hop["key_columns"], hop["selection"]) == ("orders", ["customer"], "status = 'open'")
    assert told["expected"]["messages"] == 4
    assert told["crossover"] > 10


WRONG = {
    "unknown view": (None, "there is no view 'extra'"),
    "unknown source": ("SELECT c.id FROM crn.customer c", "views/extra.sql: unknown source crn", "Did you mean crm?"),
    "unknown table": ("SELECT c.id FROM crm.custommer c", "unknown table in source crm: custommer", "mean customer?"),
    "unknown column": ("SELECT c.nam FROM crm.customer c", "table c has no column nam", "Did you mean name?", "^^^"),
    "no source": ("SELECT c.id FROM customer c", "customer is not written as source.table", "crm.customer"),
    "type": ("SELECT c.id FROM crm.customer c WHERE c.name", "view extra: a condition must be boolean"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_typo_is_pointed_at(mistake: str, project: Path) -> None:
    """By file and place, with the near miss, exit code 2."""
    query, *words = WRONG[mistake]
    told = with_view(project, f"CREATE MATERIALIZED VIEW extra AS {query}") if query else run(project, "extra", code=2)
    assert [word for word in words if word is not None and word not in told] == [], told


def test_a_column_of_a_type_without_a_place(tmp_path: Path) -> None:
    """It is there, so 'unknown' would mislead."""
    import sqlite3

    write_project(tmp_path / "shop")
    database = sqlite3.connect(tmp_path / "shop" / "data" / "crm.db")
    database.execute("ALTER TABLE customer ADD COLUMN anything")
    database.close()
    told = with_view(tmp_path / "shop", "CREATE MATERIALIZED VIEW extra AS SELECT c.anything FROM crm.customer c")
    assert "column crm.customer.anything cannot be used in a view: its type is not declared" in told


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    """Only the sources of the view are asked: one that is away does not keep others from being explained."""
    write_project(tmp_path / "shop")
    (tmp_path / "shop" / "data" / "catalog.db").unlink()
    assert "there is no SQLite database" in run(tmp_path / "shop", "order_lines", code=2)
    assert "pvm-cc" in run(tmp_path / "shop", "open_orders")
