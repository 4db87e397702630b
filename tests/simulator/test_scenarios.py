"""Every built-in scenario does what its file says, on its listed schedules and on all schedules."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.algebra.errors import WeirError
from weir.algorithms.base import NeedNotMet
from weir.algorithms.registry import algorithm
from weir.simulator.builtin import find, names
from weir.simulator.explore import every_schedule
from weir.simulator.run import run
from weir.simulator.scenario import ListedSchedule, Scenario, load, parse, write

SINGLE_SOURCE_FAMILY = ("basic", "recompute", "copies", "eca", "eca-local", "lca")
SCENARIOS = {name: find(name) for name in names()}


def listed() -> Iterator[tuple[str, ListedSchedule, str]]:
    for name, scenario in SCENARIOS.items():
        for schedule in scenario.schedules:
            for algorithm_name in schedule.expect:
                yield name, schedule, algorithm_name


def expected_levels() -> Iterator[tuple[str, str, str]]:
    for name, scenario in SCENARIOS.items():
        for algorithm_name, level in scenario.expect.items():
            yield name, algorithm_name, level


@pytest.mark.parametrize(("name", "schedule", "algorithm_name"), listed(), ids=lambda value: str(value)[:30])
def test_a_listed_schedule_ends_as_expected(name: str, schedule: ListedSchedule, algorithm_name: str) -> None:
    """End, states on the way and level are the file's."""
    done = run(SCENARIOS[name], algorithm(algorithm_name), schedule.steps)
    assert done.failures(schedule.expect[algorithm_name]) == []


@pytest.mark.parametrize(("name", "algorithm_name", "level"), expected_levels())
def test_every_schedule_together_holds_the_expected_level(name: str, algorithm_name: str, level: str) -> None:
    """Neither less nor more than the file says."""
    scenario = SCENARIOS[name]
    found = every_schedule(scenario, lambda: scenario.begin(algorithm(algorithm_name)))
    print(f"{name} {algorithm_name}: {found.schedules} schedules, {found.states} states")
    assert found.held == level


@pytest.mark.parametrize("name", names())
def test_a_written_scenario_reads_back_the_same(name: str) -> None:
    """``write`` and ``parse`` are inverse to each other."""
    assert parse(tomllib.loads(write(SCENARIOS[name]))) == SCENARIOS[name]


def test_values_of_every_type_are_written_as_they_are_read() -> None:
    """Quotes, NULL, decimals, dates, bytes and booleans, in rows, changes, expected ends and states."""
    scenario = parse(
        tomllib.loads("""
title = "a \\"quoted\\" title"
note = "a note"
view = "CREATE MATERIALIZED VIEW v AS SELECT * FROM s.t"
channels = "reorder"
[tables."s.t"]
columns = "a int, b string, c decimal(5,2), d date, e binary, f boolean, g double, h timestamp_ntz"
key = ["a"]
indexes = [["b", "c"]]
foreign_keys = [{columns = ["a"], table = "t", references = ["a"]}]
rows = \"\"\"
(1, 'it''s', 1.50, '2024-02-29', '00ff', TRUE, 0.5, '2024-02-29 12:00:00')
(2, NULL, NULL, NULL, NULL, FALSE, 1e300, NULL)\"\"\"
[[transactions]]
name = "U1"
source = "s"
changes = "+t(3, 'x) -t(', -0.25, NULL, '', NULL, NULL, NULL) -t(2, NULL, NULL, NULL, NULL, FALSE, 1e300, NULL)"
global = "G"
[[schedules]]
name = "n"
steps = ["U1", "deliver s", "read"]
[schedules.expect.basic]
states = ["", "(1, 'it''s', 1.50, '2024-02-29', '00ff', TRUE, 0.5, '2024-02-29 12:00:00')"]
level = "weak"
[expect]
basic = "weak"
""")
    )
    assert parse(tomllib.loads(write(scenario))) == scenario
    assert len(scenario.rows[next(iter(scenario.rows))]) == 2


def test_the_papers_ends() -> None:
    """The ends printed in the paper's examples, by hand: wrong under basic, right under the compensating algorithms."""
    ends = {
        ("eca_example_1", "basic"): "2*(1)",
        ("eca_example_2", "basic"): "(1), 2*(4)",
        ("eca_example_2", "eca"): "(1), (4)",
        ("eca_example_3", "basic"): "(1, 3)",
        ("eca_example_3", "eca"): "",
        ("eca_example_4", "eca"): "(1), (4)",
        ("eca_example_5", "eca-key"): "(3, 3), (3, 4)",
        ("eca_example_7", "eca"): "(1), (4)",
        ("eca_example_8", "eca"): "",
        ("eca_example_9", "eca"): "(1)",
        ("eca_key_insert_then_delete", "eca-key"): "(1, 3)",
    }
    for (name, algorithm_name), end in ends.items():
        assert str(run(SCENARIOS[name], algorithm(algorithm_name), SCENARIOS[name].schedules[0].steps).final) == end


def test_every_example_speaks_of_the_whole_family() -> None:
    """Each of the paper's examples says what every algorithm of the single-source family holds on it."""
    examples = {name: scenario for name, scenario in SCENARIOS.items() if name.startswith("eca_")}
    assert len(examples) == 9
    for name, scenario in examples.items():
        keyed = {"eca-key"} if scenario.view.keyed else set()
        assert set(scenario.expect) == {*SINGLE_SOURCE_FAMILY, *keyed}, name


def test_the_gap_in_the_papers_eca_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """As printed in the paper, without the memory of deletes, a deleted tuple stays for good and nothing converges."""
    monkeypatch.setattr("weir.algorithms.eca_key.without", lambda answer, deleted: answer)
    scenario = SCENARIOS["eca_key_insert_then_delete"]
    done = run(scenario, algorithm("eca-key"), scenario.schedules[0].steps)
    assert (str(done.final), str(done.expected), done.level) == ("(1, 3), (5, 3)", "(1, 3)", "none")


def test_a_keyed_algorithm_needs_keys() -> None:
    """Example 2's tables have none."""
    with pytest.raises(NeedNotMet, match=r"table s\.r1 has no key"):
        SCENARIOS["eca_example_2"].begin(algorithm("eca-key"))


def test_the_shortest_anomaly_is_what_exploration_finds() -> None:
    """The kept schedule is the first of the shortest on which basic does not converge."""
    scenario = SCENARIOS["basic_shortest_anomaly"]
    found = every_schedule(scenario, lambda: scenario.begin(algorithm("basic")))
    assert found.counterexample("convergence") == scenario.schedules[0].steps


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": None}, "a scenario needs 'title'"),
        ({"channels": "pigeon"}, "channels = 'pigeon' is unknown"),
        ({"expect": {"eca": "perfect"}}, "unknown consistency level 'perfect'"),
        ({"schedules": [{"steps": ["fly"]}]}, "'fly' is no step of a schedule"),
        ({"tables": {"r1": {"columns": "W int"}}}, "must be written source.table"),
        ({"tables": {"s.r1": {}}}, "needs columns"),
        ({"transactions": [{"name": "U1", "source": "s"}]}, "a transaction needs 'changes'"),
        ({"transactions": [{"name": "U1", "source": "s", "changes": "+q(1)"}]}, "changes s.q, which is not among"),
        ({"transactions": [{"name": "U1", "source": "s", "changes": "+r1(1)"}]}, "has 1 values"),
        ({"transactions": [{"name": "U1", "global": "G", "changes": ""}]}, "a transaction needs 'source'"),
        ({"transactions": 3}, "'transactions' must be"),
        ({"schedules": {"name": "x"}}, "'schedules' must be"),
        ({"expect": "strong"}, "'expect' must be"),
    ],
)
def test_a_mistake_in_a_file_is_named(change: dict[str, object], message: str) -> None:
    """One error that names the thing."""
    good = {"title": "t", "view": "CREATE MATERIALIZED VIEW v AS SELECT W FROM s.r1", "tables": TABLES}
    with pytest.raises(WeirError, match=message):
        parse({**good, **change})


TABLES = {"s.r1": {"columns": "W int, X int", "rows": "(1, 2)"}}


def test_a_transaction_name_may_have_blanks() -> None:
    """It is a step as any other, so a printed schedule can be read back."""
    entries = [{"name": "first one", "source": "s", "changes": "+r1(1, 2)"}]
    data = {"title": "t", "view": "CREATE MATERIALIZED VIEW v AS SELECT W FROM s.r1", "tables": TABLES}
    scenario = parse({**data, "transactions": entries, "schedules": [{"steps": ["first one", "deliver s"]}]})
    assert parse(tomllib.loads(write(scenario))) == scenario
    assert run(scenario, algorithm("basic"), scenario.schedules[0].steps).level == "complete"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, and not TOML."""
    with pytest.raises(WeirError, match=r"cannot read the scenario .*missing.toml"):
        load(tmp_path / "missing.toml")
    (tmp_path / "bad.toml").write_text("title = ")
    with pytest.raises(WeirError, match=r"bad.toml is not a TOML file"):
        load(tmp_path / "bad.toml")


def test_names_find_files_and_built_in_scenarios(tmp_path: Path) -> None:
    """A path is read as a file, a name among the built-in ones, and a near miss is answered with a guess."""
    path = tmp_path / "mine.toml"
    path.write_text(write(SCENARIOS["eca_example_1"]))
    assert isinstance(find(str(path)), Scenario)
    with pytest.raises(WeirError, match="did you mean 'eca_example_1'"):
        find("eca_exmple_1")
