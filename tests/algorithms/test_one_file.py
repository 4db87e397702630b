"""An algorithm is one file and one line of the registry: what others must know of it is in its facts."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import weir
from tests.planning.test_choice import CATALOG, KEYLESS, MANY, THREE, chosen, refusal, view
from weir.algorithms.base import AUXILIARY, SINGLE_SOURCE, SOURCE_LOCAL, Algorithm, Facts
from weir.algorithms.measured import measured
from weir.algorithms.questions import once
from weir.algorithms.registry import ALGORITHMS
from weir.algorithms.sweeping import sweep
from weir.cli.main import app
from weir.messages import Effect, Update
from weir.planning.choice import ViewFacts
from weir.planning.explanation import Explanation
from weir.project.starter.writing import write_project

WEIR = Path(str(weir.__file__)).parent
ROOMS = ("planning", "rounds", "sweeping", "operation", "project", "warehouse", "sources", "spark", "proving", "cli")
PREFERS = "planning/automatic.py"  # what auto prefers must be said somewhere
OTHER_THINGS = {("sweeping/job.py", "sweep"), ("sweeping/task.py", "sweep")}  # a column of what tasks hand back


class Toy(Algorithm):
    """Shows nothing, honestly."""

    facts = Facts(
        25, "toy", "none", {SINGLE_SOURCE: "strong", SOURCE_LOCAL: "strong"}, "1 a day", questions=once,
        stores=AUXILIARY, space="a few thoughts", gathers="patience", merges=True, delegates=(sweep,),
    )  # fmt: skip

    def __init__(self, *arguments: Any, patience: int = 3, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.patience = patience

    def on_update(self, update: Update) -> Iterator[Effect]:
        yield self.commit()


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setitem(ALGORITHMS, "toy", Toy)
    return monkeypatch


@pytest.fixture
def measured_toy(toy: pytest.MonkeyPatch) -> None:
    toy.setitem(measured(), "toy", {SOURCE_LOCAL: "convergence"})


def test_it_is_chosen_by_name(toy: None) -> None:
    """Its options are its constructor's, its questions and what it gathers are its facts'."""
    choice = chosen(THREE, strategy="toy", consistency="none", changes="50")
    assert (choice.strategy, choice.algorithm, choice.estimate.questions) == ("toy", Toy, 1)
    assert choice.options == {"patience": 10_000}
    assert chosen(THREE, strategy="toy", consistency="none", patience="7").options == {"patience": 7}
    assert "strategy toy has no option 'batch'" in refusal(THREE, strategy="toy", consistency="none", batch="7")
    assert "unknown algorithm 'toi'; did you mean 'toy'?" in refusal(THREE, strategy="toi")


def test_it_promises_what_was_measured(toy: pytest.MonkeyPatch) -> None:
    """Nothing at first, whatever it claims; then what exploration found."""
    assert "it promises 'none' over several sources" in refusal(KEYLESS, strategy="toy", consistency="convergence")
    toy.setitem(measured(), "toy", {SOURCE_LOCAL: "convergence"})
    assert chosen(KEYLESS, strategy="toy", consistency="convergence").level == "convergence"


@pytest.mark.usefixtures("measured_toy")
def test_its_facts_decide_where_it_may_be_used() -> None:
    """It stores something, so that must be allowed; it delegates, so Spark evaluates what only Spark can."""
    asked: dict[str, Any] = {"strategy": "toy", "consistency": "convergence"}
    assert "it stores a few thoughts; allow it by space = 'auxiliary'" in refusal(KEYLESS, **asked, space="none")
    spark = "SELECT c.id, o.id AS o, soundex(c.name) AS s FROM crm.customer c JOIN sales.orders o ON o.customer = c.id"
    assert chosen(spark, **asked).strategy == "toy"
    assert "toy" in chosen(KEYLESS, consistency="convergence", space="auxiliary").possible
    assert chosen(KEYLESS, consistency="convergence").rejected["toy"].startswith("it stores a few thoughts")


@pytest.mark.usefixtures("measured_toy")
def test_it_is_explained() -> None:
    """By name where the view names it, among the others where it does not."""
    told = str(Explanation.of(view(KEYLESS, strategy="toy", consistency="none"), ViewFacts(CATALOG, MANY)))
    assert told.startswith("view v: toy (named by the view), promises 'convergence', asked for 'none'")
    others = str(Explanation.of(view(KEYLESS, consistency="none", space="auxiliary"), ViewFacts(CATALOG, MANY)))
    assert re.search(r"possible at 'none': .*\btoy\b", others)


def test_the_command_line_knows_it(toy: None, tmp_path: Path) -> None:
    """``weir explain`` and ``weir algorithms``, for people and for programs."""
    write_project(tmp_path / "shop")
    head = "CREATE MATERIALIZED VIEW extra WITH (strategy = 'toy', consistency = 'none') AS"
    (tmp_path / "shop" / "views" / "extra.sql").write_text(f"{head} SELECT c.name FROM crm.customer c")
    run = CliRunner()
    explained = run.invoke(app, ["explain", "extra", "--project", str(tmp_path / "shop")])
    assert "view extra: toy (named by the view), promises 'none'" in explained.stdout, explained.output
    assert "1 a day" in run.invoke(app, ["algorithms"]).stdout
    row = json.loads(run.invoke(app, ["algorithms", "--json"]).stdout)["rows"][-1]
    assert (row["name"], row["space"], row["measured"]) == ("toy", "a few thoughts", {})


def test_nobody_else_knows_an_algorithm_by_name() -> None:
    """No text of the code outside the algorithms is one's name, or has it in quotes."""
    named = [
        (str(file.relative_to(WEIR)), found)
        for room in ROOMS
        for file in sorted((WEIR / room).rglob("*.py"))
        for text in texts(file)
        for found in names_in(text)
    ]
    assert {each for each in named if each[0] != PREFERS} <= OTHER_THINGS
    assert names_in("strategy = 'basic'") == names_in("basic") == ["basic"]


def names_in(text: str) -> list[str]:
    quoted = re.findall(r"['\"`]([a-z-]+)['\"`]", text)
    return [name for name in (text, *quoted) if name in ALGORITHMS]


def texts(file: Path) -> Iterator[str]:
    """Every string of the code; what only documents it does not count."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value
