"""``weir bench tpch`` as a user runs it: every way in a process of its own, the view kept by a real Warehouse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.cli.main import app


@pytest.mark.slow
def test_the_view_is_kept_and_the_document_says_so(tmp_path: Path) -> None:
    """Exit code 0: neither the comparison with recomputation nor the audit finds a difference."""
    arguments = ["--scale", "0.001", "--sources", "sqlite", "--repeats", "1", "--changes", "1,40", "--json"]
    result = CliRunner().invoke(app, ["bench", "tpch", *arguments, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [(row["changes"], row["differences"]) for row in document["rows"]] == [(1, 0), (40, 0)]
    for row in document["rows"]:
        assert min(row["weir_ms"], row["recompute_ms"], row["floor_ms"]) > 0
        assert min(row["weir_received_bytes"], row["floor_received_bytes"]) > 0
    assert Path(document["picture"]).read_text().count("weir, scale 0.001") == 1
    (run,) = document["runs"]
    assert (run["audit"], run["floor_differences"] > 0, run["stored_bytes"] > 0) == (0, True, True)
    assert run["peak_memory"]["weir"]["jvm"] > run["peak_memory"]["floor"]["jvm"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sources", "oracle", "--scale", "0.001"], "unknown sources 'oracle'"),
        (["--scales", "0.1;1"], "--scales '0.1;1': give numbers above 0"),
        (["--changes", "0,100"], "--changes '0,100': give numbers above 0"),
    ],
)
def test_wrong_use_is_named(arguments: list[str], message: str) -> None:
    """With the way out, before anything is started."""
    result = CliRunner().invoke(app, ["bench", "tpch", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
