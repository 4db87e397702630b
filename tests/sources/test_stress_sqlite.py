"""The exactness stress on SQLite: nothing wrong under concurrent writers, and each naive way is caught."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import pytest
import typer
from typer.testing import CliRunner

from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.cli.stress import stress
from weir.proving.stress import find_workload, run_stress
from weir.proving.workloads.sqlite import SqliteWorkload
from weir.sources.source import Answers, SourceError
from weir.sources.sqlite.snapshot import HeldSqliteSnapshot

SECONDS = float(os.environ.get("WEIR_STRESS_SECONDS", "60"))


@pytest.mark.slow
def test_every_answer_is_exact_under_concurrent_writers() -> None:
    """Every answer equals the replay of what was delivered before it, and no transaction is lost, doubled, split or
    merged.
    """
    report = run_stress(SqliteWorkload(), SECONDS, loads=12)
    assert report.wrong == 0, report.failures
    assert report.answers > 0
    assert report.transactions > 0


@pytest.mark.parametrize("mutation", SqliteWorkload.mutations)
def test_naive_ways_are_caught(mutation: str) -> None:
    """A log read outside the tables' snapshot, or cut at the wrong places, comes out as wrong."""
    report = run_stress(SqliteWorkload(mutation), 600, loads=1, until_wrong=True)
    assert report.wrong > 0
    assert report.failures


def refusing_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lets the first lookup fail as a deadlock does; gives the list that tells whether it has."""
    failed: list[str] = []
    look = HeldSqliteSnapshot.look

    def failing(held: HeldSqliteSnapshot, lookups: Sequence[Lookup]) -> Answers:
        if not failed:
            failed.append(held.source)
            raise SourceError("deadlock detected")
        return look(held, lookups)

    monkeypatch.setattr(HeldSqliteSnapshot, "look", failing)
    return failed


def test_a_naive_way_that_fails_goes_on_until_it_answers_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its locks a source can deadlock: an error, but no wrong answer, so the stress begins anew."""
    workload = SqliteWorkload("transactions cut anywhere")
    failed = refusing_once(monkeypatch)
    report = run_stress(workload, 600, loads=1, until_wrong=True)
    assert failed
    assert report.wrong > 0


def test_an_exact_way_that_fails_ends_the_stress(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proved exact may not fail either."""
    workload = SqliteWorkload()
    refusing_once(monkeypatch)
    with pytest.raises(SourceError, match="deadlock"):
        run_stress(workload, 60, loads=1)


def test_the_command_prints_the_verdict() -> None:
    """``weir stress sqlite --json`` prints the five facts."""
    app = typer.Typer()
    app.command()(stress)
    result = CliRunner().invoke(app, ["sqlite", "--seconds", "2", "--json", "--seed", "3"])
    assert result.exit_code == 0, result.output
    verdict = json.loads(result.stdout)
    assert set(verdict) == {"kind", "answers", "wrong", "transactions", "seconds"}
    assert verdict["kind"] == "sqlite"
    assert verdict["wrong"] == 0


def test_the_command_fails_when_something_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """An inexact source makes it exit with 1 and say what was wrong first."""
    naive = SqliteWorkload.mutations[-1]
    monkeypatch.setattr("weir.cli.stress.find_workload", lambda kind: find_workload(kind, naive))
    app = typer.Typer()
    app.command()(stress)
    result = CliRunner().invoke(app, ["sqlite", "--seconds", "3"])
    assert result.exit_code == 1
    assert "wrong" in result.stdout
    assert "not one" in result.stdout


def test_unknown_kinds_and_mutations_are_named() -> None:
    """A name that does not exist is answered with those that do."""
    with pytest.raises(WeirError, match=r"unknown kind 'oracle'.*mariadb-locks"):
        find_workload("oracle")
    with pytest.raises(WeirError, match="no mutation 'x'"):
        SqliteWorkload("x")
