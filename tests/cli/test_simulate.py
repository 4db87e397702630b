"""``weir simulate``: one run drawn, every schedule explored, and what the exit code says."""

from __future__ import annotations

import json
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from weir.algorithms.registry import algorithm
from weir.cli.main import app
from weir.simulator.builtin import FOLDER, find, names
from weir.simulator.run import run
from weir.simulator.scenario import parse


def weir(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def simulate(*arguments: str) -> Result:
    return weir("simulate", *arguments)


def test_the_first_listed_schedule_is_drawn() -> None:
    """Without more, the paper's own order of events, exit code 0."""
    result = simulate("eca_example_2", "--algorithm", "basic")
    assert result.exit_code == 0
    assert "│      ├──────▶✗   state 2: {(1), 2*(4)}   ✗ no source state looks like this" in result.stdout
    assert "level held  ✗ none" in result.stdout


def test_a_listed_schedule_by_name_and_one_written_out() -> None:
    """Both ways to say the same order give the same drawing; another order another."""
    by_name = simulate("eca_example_2", "-a", "eca", "--schedule", "both inserts before either answer")
    written = simulate("eca_example_2", "-a", "eca", "--schedule", "U1; deliver s; U2; deliver s")
    one_by_one = simulate("eca_example_2", "-a", "eca", "--schedule", "U1; deliver s; answer s; deliver s; U2")
    assert by_name.stdout == written.stdout
    assert "level held  ✓ strong" in written.stdout
    assert "level held  ✓ complete" in one_by_one.stdout


def test_a_seed_reproduces_its_run() -> None:
    """The same seed draws the same run, and some seed draws another."""
    drawn = [simulate("eca_example_5", "-a", "eca", "--seed", str(seed)).stdout for seed in (1, 1, 2, 3, 4, 5)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


def test_a_run_for_programs() -> None:
    """``--json`` prints one line with states, places, level, views and counters."""
    result = simulate("eca_example_2", "-a", "basic", "--json")
    outcome = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert outcome["states"] == [
        {"rows": "", "places": ["s@0"]},
        {"rows": "(1), (4)", "places": ["s@2"]},
        {"rows": "(1), 2*(4)", "places": []},
    ]
    assert (outcome["level"], outcome["final"], outcome["expected"]) == ("none", "(1), 2*(4)", "(1), (4)")
    assert (outcome["messages"], outcome["counters"]["commits"], outcome["failures"]) == (4, 2, [])


def test_every_schedule() -> None:
    """``--all`` counts, tells the level of all, a shortest schedule per level, and draws how the next level fails."""
    result = simulate("eca_example_2", "-a", "basic", "--all")
    assert result.exit_code == 0
    assert "10 schedules, 19 states visited, 2 different histories" in result.stdout
    assert "level held on all of them: none (expected: none)" in result.stdout
    assert "  none         U1; deliver s; U2; deliver s; answer s; deliver s; answer s; deliver s" in result.stdout
    assert "  complete     U1; deliver s; answer s; deliver s; U2; deliver s; answer s; deliver s" in result.stdout
    assert "Shortest schedule that is not convergence:" in result.stdout
    assert "no source state looks like this" in result.stdout


def test_every_schedule_for_programs() -> None:
    """The same facts as one line; a complete algorithm has no counterexample."""
    outcome = json.loads(simulate("eca_example_2", "-a", "lca", "--all", "--json").stdout)
    assert (outcome["level"], outcome["schedules"], outcome["met"]) == ("complete", 10, True)
    assert list(outcome["levels"]) == ["complete"]


def test_many_random_schedules() -> None:
    """``--seed --count`` runs that many and finds what they hold."""
    outcome = json.loads(simulate("eca_example_2", "-a", "eca", "--seed", "7", "--count", "30", "--json").stdout)
    assert (outcome["schedules"], outcome["level"]) == (30, "strong")


def write_with(tmp_path: Path, name: str, old: str, new: str) -> str:
    """A built-in scenario's file with one thing changed."""
    text = (FOLDER / f"{name}.toml").read_text()
    assert old in text
    (tmp_path / "changed.toml").write_text(text.replace(old, new))
    return str(tmp_path / "changed.toml")


def test_a_level_that_is_not_held_exits_with_1_and_prints_a_scenario(tmp_path: Path) -> None:
    """The printed file is a scenario on which the failure happens again."""
    path = write_with(tmp_path, "eca_example_2", 'basic = "none"', 'basic = "strong"')
    result = simulate(path, "-a", "basic", "--all")
    assert result.exit_code == 1
    assert "NOT AS EXPECTED: basic holds none, the scenario expects strong." in result.stdout
    printed = parse(tomllib.loads(result.stdout.partition("This scenario file shows it:\n")[2]))
    (listed,) = printed.schedules
    done = run(printed, algorithm("basic"), listed.steps)
    assert done.failures(listed.expect["basic"]) == [
        "the view ends as {(1), 2*(4)}, expected {(1), (4)}",
        "the level is none, expected strong",
    ]


def test_more_than_expected_is_not_as_expected_either(tmp_path: Path) -> None:
    """A file that says basic fails must be able to show it."""
    path = write_with(tmp_path, "eca_example_9", 'basic = "complete"', 'basic = "weak"')
    result = simulate(path, "-a", "basic", "--all")
    assert result.exit_code == 1
    assert "NOT AS EXPECTED: basic holds complete, the scenario expects weak." in result.stdout


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('end = "(1) 2*(4)"', 'end = "(1)"', "the view ends as {(1), 2*(4)}, expected {(1)}"),
        ('states = ["", "(1) (4)", "(1) 2*(4)"]', 'states = [""]', "the states are {}, {(1), (4)}, {(1), 2*(4)}"),
        ('level = "none"', 'level = "weak"', "the level is none, expected weak"),
        ('basic = "none"', 'basic = "weak"', "the level is none, and the scenario expects weak on every schedule"),
    ],
)
def test_a_run_that_ends_otherwise_exits_with_1(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    """End, states, level of the listed schedule, and the level of every schedule."""
    result = simulate(write_with(tmp_path, "eca_example_2", old, new), "-a", "basic")
    assert result.exit_code == 1
    assert complaint in result.stdout


def test_an_algorithm_outside_its_needs_runs_unchecked() -> None:
    """Example 1 has no keys and a duplicate: refused, and with ``--unchecked`` shown to go wrong."""
    assert simulate("eca_example_1", "-a", "eca-key").exit_code == 2
    shown = simulate("eca_example_1", "-a", "eca-key", "--unchecked")
    assert shown.exit_code == 0
    assert "final view  ✗ {(1)}" in shown.stdout


@pytest.mark.parametrize("how", [(), ("--all",)])
def test_the_drawing_as_svg(tmp_path: Path, how: tuple[str, ...]) -> None:
    """``--svg`` writes a well-formed picture of the run, or of the shortest counterexample."""
    path = tmp_path / "run.svg"
    assert simulate("eca_example_2", "-a", "basic", "--svg", str(path), *how).exit_code == 0
    assert ElementTree.parse(path).getroot().findtext("{http://www.w3.org/2000/svg}title") == (
        "ECA Example 2: an insert anomaly · basic"
    )


def test_the_list_of_scenarios() -> None:
    """Every built-in scenario with its title, one a line."""
    lines = simulate("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == names()
    assert all(find(name).title in line for name, line in zip(names(), lines, strict=True))


def test_the_version_and_the_commands() -> None:
    """``weir --version`` and the help name what there is."""
    assert weir("--version").stdout == "weir 0.1.0\n"
    shown = weir("--help").stdout
    assert all(command in shown for command in ("demo", "simulate", "bench"))
