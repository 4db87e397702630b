"""``weir bench pvm``: the paper's model, its tick table exactly, and measurements that agree or say why not."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.bench.papers.pvm import model
from weir.bench.papers.pvm.report import cells
from weir.bench.papers.pvm.study import PVM, QUICK, SWEEP, PvmStudy
from weir.bench.papers.pvm.world import chain, measure, runs_of
from weir.bench.papers.study import FigurePoint, agree
from weir.cli.bench import bench_app

# Figure 22 as printed: tick -> what IS1, IS2 and IS3 do; a query is worked on in one tick and answered in the next.
SWEEP_TICKS = {1: " SQ1,2 ", 3: "  SQ1,3", 5: "SQ2,1  ", 7: "  SQ2,3", 9: " SQ3,2 ", 11: "SQ3,1  "}
PVM_2_TICKS = {1: "SQ2,1 SQ1,2 ", 3: "  SQ1,3", 5: " SQ3,2 SQ2,3", 7: "SQ3,1  "}
PVM_3_TICKS = {1: "SQ2,1 SQ1,2 ", 3: " SQ3,2 SQ1,3", 5: "SQ3,1  SQ2,3"}


@pytest.fixture(scope="module")
def study() -> PvmStudy:
    return PvmStudy(QUICK)


def test_the_model_gives_the_values_worked_out_by_hand() -> None:
    """Sixty updates of four sources: 180 queries in a row, 45 with four at a time; the counts of the paper's matrix."""
    t = model.time_of_update(4)
    assert (t, model.sweep_time(60, t)) == (3, 180)
    assert [model.pvm_time(60, p, 4, t) for p in (1, 2, 3, 4, 10)] == [180, 90, 60, 45, 45]
    assert model.pvm_time(4, 2, 4, 10.0, a=1.0) == 21  # the fourth waits t + a
    assert (model.remote_queries(12, 3), model.local_compensations(12, 3)) == (24, 48)
    assert [model.spaced_time(32, 40, i, 0.8) for i in (0.0, 1.0)] == [32, 39.8]


@pytest.mark.parametrize(("parallel", "printed"), [(0, SWEEP_TICKS), (2, PVM_2_TICKS), (3, PVM_3_TICKS)])
def test_figure_22_tick_by_tick(study: PvmStudy, parallel: int, printed: dict[int, str]) -> None:
    """Every cell of the paper's table, and no other: 12, 8 and 6 ticks."""
    expected = {}
    for tick, line in printed.items():
        for source, cell in zip(("IS1", "IS2", "IS3"), line.split(" "), strict=True):
            if cell:
                expected[tick, source], expected[tick + 1, source] = cell, cell.replace("SQ", "SQR")
    assert cells(study.ticks[parallel]) == expected
    assert study.ticks[parallel].time == max(printed) + 1


def test_every_maintenance_query_finds_partners() -> None:
    """As the paper demands: every update changes the view, and none inserts a row that was there."""
    given = chain(runs_of(1, 24, 4))
    for source in given.sources.values():
        (relation,) = source.states[-1]
        assert all(weight == 1 for _, weight in source.states[-1][relation].items())
    states = [given.lattice.value(tuple(6 if at < done else 0 for at in range(4))) for done in range(5)]
    assert all(after.cardinality > before.cardinality for before, after in pairwise(states))


def test_whose_turn_it_is() -> None:
    """Runs of c updates of one source."""
    assert runs_of(1, 6, 3) == [1, 2, 3, 1, 2, 3]
    assert runs_of(2, 8, 3) == [1, 1, 2, 2, 3, 3, 1, 1]


def test_queries_and_compensations_are_exact(study: PvmStudy) -> None:
    """n(m - 1) questions, and n^2 (m - 1) / 2m younger updates taken out of answers, in SWEEP and in PVM."""
    rows = [row for row in study.rows if row.figure in ("queries", "compensations")]
    assert len(rows) == 12
    assert all(row.measured == row.formula for row in rows)


def test_no_compensation_where_updates_are_far_apart() -> None:
    """The counter counts what interferes, not what happens."""
    given = chain(runs_of(1, 6, 3))
    assert measure(given, 0, interval=10.0).local == 0
    assert measure(given, 0).local == model.local_compensations(6, 3)


def test_measured_is_within_a_tenth_or_explained(study: PvmStudy) -> None:
    """Every row; SWEEP and Figures 22, 25 and 26 without exception."""
    assert all(agree(row.formula, row.measured) != bool(row.explained) for row in study.rows)
    assert not any(row.explained for row in study.rows if row.series == SWEEP or row.figure in ("22", "25", "26"))


def test_more_in_flight_is_faster_until_the_sources_are_busy(study: PvmStudy) -> None:
    """Figure 21: three times at p = 4 (the paper measured 3.3), close to four with more in flight, never beyond."""
    times = {row.x: row.measured for row in study.rows if row.figure == "21" and row.series == PVM}
    assert times[1] / times[4] == 3
    assert 3.5 < times[1] / times[8] < 4


def test_with_time_on_the_way_more_than_m_in_flight_help(study: PvmStudy) -> None:
    """Why the paper's curve goes on falling beyond p = 4: a source is not busy while messages travel."""
    times = {
        row.x: row.measured for row in study.rows if row.figure == "21" and row.series == f"{PVM}, half on the way"
    }
    assert times[8] < 0.6 * times[4]


def test_long_runs_of_one_source_cost_pvm_and_not_sweep(study: PvmStudy) -> None:
    """Figure 24: PVM is slower by some, still twice as fast as SWEEP."""
    pvm = {row.x: row.measured for row in study.rows if row.figure == "24" and row.series == PVM}
    sweep = {row.measured for row in study.rows if row.figure == "24" and row.series == SWEEP}
    assert pvm[1] < pvm[5] < pvm[10]
    assert sweep == {60}
    assert pvm[10] * 2 < 60


def test_json_is_one_document_and_nothing_else(study: PvmStudy) -> None:
    """Rows with exactly the promised fields; a second run measures what the first did."""
    document = json.loads(CliRunner().invoke(bench_app, ["pvm", "--json", "--quick"]).stdout)
    assert list(document) == ["rows"]
    assert all(set(row) == {"figure", "series", "x", "formula", "measured", "explained"} for row in document["rows"])
    assert [FigurePoint(**row) for row in document["rows"]] == study.rows


def test_without_json_it_prints_tables_and_draws_a_picture_per_figure(tmp_path: Path) -> None:
    """Six SVG files, and the tick table."""
    result = CliRunner().invoke(bench_app, ["pvm", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "tick by tick" in result.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"pvm-figure-{n}.svg" for n in range(21, 27)]
    assert all(b"<svg" in p.read_bytes() and p.stat().st_size < 100_000 for p in tmp_path.iterdir())
