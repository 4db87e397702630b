"""``weir spectrum`` and ``weir algorithms``: what they print and what the exit code says."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from weir.algorithms.registry import ALGORITHMS
from weir.cli.main import app


def weir(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def spectrum(*arguments: str) -> Result:
    return weir("spectrum", "--quick", "--processes", "1", *arguments)


def test_json_is_one_document() -> None:
    """Nothing else on the standard output: ``rows``, four per algorithm, with the keys promised and no other."""
    result = spectrum("--json", "-a", "sweep")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert list(document) == ["rows"]
    rows = document["rows"]
    keys = ["algorithm", "scenario", "claimed", "measured", "schedules", "counterexample"]
    assert [list(row) for row in rows] == [keys] * 4
    assert [row["scenario"] for row in rows] == ["single-source", "single-update", "source-local", "global"]
    assert [row["measured"] for row in rows] == ["complete", "complete", "complete", "convergence"]


def test_the_table_tells_level_claim_schedules_and_what_breaks_the_next_level() -> None:
    """One line per cell: claimed, measured, how many schedules, the next level and the length of its counterexample."""
    result = spectrum("-a", "eca")
    first = next(line for line in result.stdout.splitlines() if line.startswith("│"))
    name, scenario, claimed, measured, schedules, broken, example = (c.strip() for c in first.strip("│").split("│"))
    assert (name, scenario, claimed, measured) == ("eca", "single-source", "strong", "strong")
    assert int(schedules.replace(",", "")) > 1_000
    assert broken == "complete"
    assert example.startswith("8 steps: ")


def test_a_claim_that_fails_for_a_known_reason_is_told(tmp_path: Path) -> None:
    """T-Strobe's weak is the paper's: exit code 0, the reason printed, pictures and scenario files written."""
    result = spectrum("-a", "t-strobe", "--out", str(tmp_path))
    assert result.exit_code == 0
    assert "NOT AS CLAIMED: t-strobe, global: convergence, claimed weak: the paper's weak asks" in result.stdout
    assert {"spectrum.svg", "t-strobe-global.toml"} <= {path.name for path in tmp_path.iterdir()}
    shown = weir("simulate", str(tmp_path / "t-strobe-global.toml"), "--algorithm", "t-strobe")
    assert shown.exit_code == 0
    assert "level held  ✓ convergence" in shown.stdout


def test_only_a_whole_run_is_kept() -> None:
    """--write with a part of the table would leave the registry half old."""
    result = spectrum("--write")
    assert result.exit_code == 2
    assert "measured in full" in result.stderr


def test_a_wrong_name_is_told_before_anything_runs() -> None:
    """With the nearest name."""
    result = spectrum("-a", "swep")
    assert result.exit_code == 2
    assert "did you mean 'sweep'" in result.stderr


def test_the_list_of_algorithms() -> None:
    """All 24 in the order of the papers' table, each with needs, promised and measured levels."""
    result = weir("algorithms", "--json")
    rows = json.loads(result.stdout)["rows"]
    assert [row["number"] for row in rows] == list(range(1, 25))
    assert [row["name"] for row in rows] == list(ALGORITHMS)
    strobe = next(row for row in rows if row["name"] == "strobe")
    assert strobe["needs"] == ["keys of every table in the view"]
    assert strobe["claims"] == {"single-update": "strong", "source-local": "convergence"}
    assert strobe["measured"]["source-local"] == "convergence"
    assert "strong / strong" in weir("algorithms").stdout
