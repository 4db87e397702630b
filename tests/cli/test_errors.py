"""Wrong use: one clear message on standard error, exit code 2, no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.cli.main import app

SCENARIO = """
title = "a scenario with a mistake"
view = "{view}"
[tables."s.r1"]
columns = "W int, X int"
[tables."s.r2"]
columns = "X int, Y int"
[[transactions]]
name = "U1"
source = "s"
changes = "+r1(1, 2)"
"""

BAD_VIEWS = {
    "bad SQL": ("SELEKT r1.W FROM s.r1", "SELEKT"),
    "no SQL at all": ("SELECT r1.W FROM s.r1 WHERE (", "WHERE ("),
    "unknown table": ("SELECT r9.W FROM s.r9", "s.r9"),
    "unknown column": ("SELECT r1.Q FROM s.r1", "Q"),
    "ambiguous name": ("SELECT X FROM s.r1, s.r2", "X"),
    "duplicate alias": ("SELECT a.W FROM s.r1 AS a JOIN s.r2 AS a ON TRUE", "a"),
    "outside": ("SELECT DISTINCT r1.W FROM s.r1", "DISTINCT"),
}


def run_weir(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr


def assert_refused(outcome: tuple[int, str, str], *words: str) -> None:
    """Exit code 2, nothing on standard output, and one message with these words."""
    code, output, message = outcome
    assert (code, output) == (2, "")
    assert message.startswith("weir: ")
    assert message.count("weir: ") == 1
    assert "Traceback" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize("mistake", BAD_VIEWS)
def test_a_view_that_is_wrong(tmp_path: Path, mistake: str) -> None:
    """The message names the file and points at the place in the definition."""
    select, word = BAD_VIEWS[mistake]
    path = tmp_path / "wrong.toml"
    path.write_text(SCENARIO.format(view=f"CREATE MATERIALIZED VIEW v AS {select}"))
    outcome = run_weir("simulate", str(path), "-a", "eca")
    assert_refused(outcome, "wrong.toml", word, "^")


USES = {
    "a key missing for a keyed algorithm": (["eca_example_2", "-a", "eca-key"], "table s.r1 has no key; declare one"),
    "unknown algorithm": (["eca_example_2", "-a", "ecca"], "unknown algorithm 'ecca'; did you mean 'eca'?"),
    "unknown scenario": (["eca_exampel_2", "-a", "eca"], "unknown scenario 'eca_exampel_2'; did you mean"),
    "missing file": (["nowhere/at_all.toml", "-a", "eca"], "cannot read the scenario nowhere/at_all.toml"),
    "unknown step": (["eca_example_2", "-a", "eca", "--schedule", "U1; fly"], "'fly' is no step of a schedule"),
    "unknown transaction": (["eca_example_2", "-a", "eca", "--schedule", "U7"], "write a transaction's name (U1, U2)"),
    "impossible answer": (
        ["eca_example_2", "-a", "eca", "--schedule", "U1; answer s"],
        "step 2, 'answer s', is not possible: source s has no question",
    ),
    "impossible delivery": (
        ["eca_example_2", "-a", "eca", "--schedule", "deliver s"],
        "step 1, 'deliver s', is not possible: there is no message",
    ),
    "impossible transaction": (
        ["eca_example_2", "-a", "eca", "--schedule", "U2"],
        "step 1, 'U2', is not possible: transaction U2 cannot run now",
    ),
    "unknown source": (["eca_example_2", "-a", "eca", "--schedule", "answer q"], "there is no source 'q'; known: s"),
    "two ways at once": (["eca_example_2", "-a", "eca", "--all", "--seed", "1"], "exclude each other"),
    "count without a seed": (["eca_example_2", "-a", "eca", "--count", "5"], "--count needs --seed"),
    "unchecked, and still impossible": (
        ["eca_example_3", "-a", "eca-key", "--unchecked"],
        "eca-key cannot run on this view even unchecked: the view does not carry the key of s.r1",
    ),
    "drawing into nowhere": (["eca_example_2", "-a", "eca", "--svg", "nowhere/run.svg"], "cannot write the drawing"),
}


@pytest.mark.parametrize("mistake", USES)
def test_wrong_use(mistake: str) -> None:
    """Each mistake has one message that says what is wrong and what would be right."""
    arguments, words = USES[mistake]
    assert_refused(run_weir("simulate", *arguments), words)


def test_a_view_over_several_sources_is_refused_by_the_single_source_family(tmp_path: Path) -> None:
    """Eca asks one source for everything."""
    path = tmp_path / "two.toml"
    view = "CREATE MATERIALIZED VIEW v AS SELECT r1.W FROM s.r1 JOIN t.r2 USING (X)"
    path.write_text(SCENARIO.replace("s.r2", "t.r2").format(view=view))
    assert_refused(run_weir("simulate", str(path), "-a", "eca"), "it spans the sources s, t")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["simulate", "eca_example_2", "--algorithm", "eca"], 0),
        (["simulate", "eca_example_2", "--algorithm", "eca-key"], 2),
        (["simulate", "eca_example_2"], 2),
        (["simulate"], 2),
        (["fly"], 2),
    ],
)
def test_exit_codes_of_the_real_command(arguments: list[str], code: int) -> None:
    """A process of its own: exit code, and no traceback."""
    program = "import sys; sys.argv[0] = 'weir'; from weir.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert bool(done.stderr) == (code != 0)
