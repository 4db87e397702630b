"""``weir demo``: the anomaly and its cure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.cli.main import app


def test_the_demo_shows_wrong_then_right() -> None:
    """Both drawings, the explanation between them, the two levels and what to try next, in this order."""
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0
    told = [
        "✗ no source state looks like this",
        "What went wrong: the source answered the first question after the second insert.",
        "What was done about it:",
        "basic ends with {(1), 2*(4)}, the true view is {(1), (4)}; level held: none",
        "eca   ends with {(1), (4)}, the true view is {(1), (4)}; level held: strong",
        "Try next:",
    ]
    places = [result.stdout.find(text) for text in told]
    assert -1 not in places
    assert places == sorted(places)


def test_the_demo_for_programs() -> None:
    """One line with both outcomes."""
    result = CliRunner().invoke(app, ["demo", "--json"])
    outcome = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert {name: (each["level"], each["final"]) for name, each in outcome.items()} == {
        "basic": ("none", "(1), 2*(4)"),
        "eca": ("strong", "(1), (4)"),
    }


def test_what_the_demo_proposes_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command under "Try next" runs."""
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["demo"]).stdout.partition("Try next:\n")[2]
    proposed = [line.strip().split("  ")[0].split()[1:] for line in shown.splitlines()]
    assert len(proposed) == 3
    for command in proposed:
        assert CliRunner().invoke(app, command).exit_code == 0, command
    assert (tmp_path / "run.svg").exists()
