"""``weir bench partition``: the paper's formulas, and measurements in virtual time that agree or say why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.algebra.memory import MemoryBag
from weir.algorithms.equal_partition import EqualPartition
from weir.bench.papers.partition import model
from weir.bench.papers.partition.data import chain
from weir.bench.papers.partition.meter import auxiliary_rows
from weir.bench.papers.partition.report import pictures, tables
from weir.bench.papers.partition.study import CasePoint, PartitionStudy
from weir.bench.papers.study import agree
from weir.cli.bench import bench_app
from weir.simulator.counters import size


@pytest.fixture(scope="module")
def study() -> PartitionStudy:
    return PartitionStudy()


@pytest.fixture
def rows(study: PartitionStudy) -> list[CasePoint]:
    return study.rows


def test_the_formulas_give_the_values_worked_out_by_hand() -> None:
    """Refresh times in units of t: 2(n-1), max(2 mu^(n-2), 2n-2), 2(p-1), 2(p-1)r, and the weighted average."""
    assert [model.sweep(5), model.equal(3), model.serial(3, 4)] == [8, 4, 16]
    assert [model.c_strobe(4, 1), model.c_strobe(4, 2), model.c_strobe(4, 5)] == [6, 8, 50]
    assert model.weighted({1: 1, 2: 3}, {1: 3, 2: 1}) == 1.0
    assert model.equal_sizes(8, 3) == [3, 3, 2]
    assert model.equal_sizes(8, 4) == [4, 4]
    assert model.auxiliary_rows([3, 3, 2], 12, 2) == 48 + 48 + 24


def test_every_difference_is_explained(rows: list[CasePoint]) -> None:
    """Formula and measurement agree within a tenth, or the row says why they do not."""
    assert [row for row in rows if not agree(row.formula, row.measured) and not row.explained] == []


def test_refresh_times_are_exactly_the_papers(rows: list[CasePoint]) -> None:
    """In virtual time SWEEP, equal groups, F_Parti as printed and parallel groups match to the tick."""
    exact = ("SWEEP", "equal groups", "r updates", "keyed", "space", "rows", "skew, equal", "shift, groups kept")
    chosen = [row for row in rows if row.case.startswith(exact) or row.case == "skew, F_Parti with K = 4"]
    assert len(chosen) > 60
    assert all(row.measured == pytest.approx(row.formula) for row in chosen)


def test_what_the_study_shows(rows: list[CasePoint]) -> None:
    """Parallel groups take the time of one; groups that follow a shift beat those that do not."""
    found = {(row.case, row.x): row.measured for row in rows}
    assert found["r updates, in r groups, parallel", 4] == 2
    assert found["r updates, in r groups, one at a time", 4] == 8
    assert found["shift, groups after x updates", 4] < found["shift, groups kept", 0]
    assert found["skew, F_Parti with K = 4", 2] < found["skew, equal groups of 2", 2]
    assert found["skew, F_Parti with K = 4", 0] > found["skew, equal groups of 2", 0]  # F_Parti overfills its groups


def test_space_is_told_per_auxiliary_view() -> None:
    """Rows and bytes: a group of two chain tables of 12 rows with 2 partners each holds 24 rows."""
    world = chain(3, fanout=2).begin(EqualPartition)
    assert isinstance(world.algorithm, EqualPartition)
    bags = world.algorithm.auxiliary.items()
    held = {name: (bag.cardinality, size(bag)) for name, bag in bags if isinstance(bag, MemoryBag)}
    assert held == {"0:0+1": (24, 24 * 8), "0:2": (12, 12 * 8)}
    assert auxiliary_rows(world) == 24 + 12


def test_the_command_prints_json_and_draws(study: PartitionStudy, tmp_path: Path) -> None:
    """``--json`` has the five fields of every row; the report has a table per family and four pictures."""
    result = CliRunner().invoke(bench_app, ["partition", "--json"])
    assert result.exit_code == 0
    printed = json.loads(result.output)["rows"]
    assert [CasePoint(**row) for row in printed] == study.rows
    drawn = pictures(study, tmp_path)
    names = [path.stem for path in drawn]
    assert names == ["partition-refresh", "partition-parallel", "partition-skew", "partition-space"]
    assert all(path.stat().st_size > 1000 for path in drawn)
    assert len(list(tables(study))) == 9
