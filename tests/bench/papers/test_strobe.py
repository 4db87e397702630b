"""``weir bench strobe``: C-Strobe's queries against the paper's bounds and against our count."""

from __future__ import annotations

import json
from math import comb, perm
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.algorithms.c_strobe import CStrobe
from weir.bench.papers.strobe.study import (
    QUICK,
    StrobeStudy,
    TooFew,
    chain,
    questions_of_insert,
    stream,
    ungrouped_bound,
)
from weir.bench.papers.study import FigurePoint, agree
from weir.cli.bench import bench_app


@pytest.fixture(scope="module")
def study() -> StrobeStudy:
    return StrobeStudy(QUICK)


def burst_count(n: int, k: int) -> int:
    """Compensating queries of one burst of K deletes: one per choice of one to n-2 tables and of a delete in each."""
    each = k // (n - 1)
    return sum(comb(n - 1, level) * each**level for level in range(1, n - 1))


def grouped_levels(n: int) -> int:
    """All levels of grouped queries: n-1 tables, then n-2 others, and so on down to one table left to ask."""
    return sum(perm(n - 1, level) for level in range(1, n - 1))


def test_the_counts_for_a_few_tables() -> None:
    """Worked out by hand, so that what is measured is not compared with a slip."""
    assert [burst_count(3, 4), burst_count(4, 3), burst_count(4, 6)] == [4, 6, 18]
    assert [grouped_levels(n) for n in (3, 4, 5)] == [2, 9, 40]


@pytest.mark.parametrize(("n", "k"), [(3, 2), (3, 6), (4, 3), (4, 6), (5, 4)])
def test_a_burst_costs_exactly_what_we_count(n: int, k: int) -> None:
    """One query per choice of tables and of a delete in each; never more than the paper's bound."""
    measured = questions_of_insert(chain(n, k), CStrobe, k, 0) - 1
    assert measured == burst_count(n, k) <= ungrouped_bound(n, k)


def test_without_deletes_there_is_nothing_to_compensate_for() -> None:
    """One query."""
    assert questions_of_insert(chain(4, 0), CStrobe, 0, 0) == 1


@pytest.mark.parametrize("n", [3, 4])
def test_grouped_queries_are_those_of_all_levels(n: int) -> None:
    """However many deletes come; for four tables nine, where the paper's (n-1)! says six."""
    assert {stream(n, k, grouped=True) for k in (n - 1, 2 * (n - 1))} == {grouped_levels(n)}


def test_a_stream_goes_beyond_the_papers_bound() -> None:
    """Four tables, three deletes during every query: eighteen compensating queries for nine."""
    assert (stream(4, 3), ungrouped_bound(4, 3)) == (18, 9)


def test_a_stream_that_ends_too_early_is_told() -> None:
    """Its count would be too small."""
    with pytest.raises(TooFew, match="too few for 3 during every question"):
        questions_of_insert(chain(4, 5), CStrobe, 3, 3)


def test_sweep_always_asks_n_minus_1(study: StrobeStudy) -> None:
    """Whatever comes; and C-Strobe's questions over n sources are our count."""
    rows = [row for row in study.rows if row.figure in ("sweep", "questions")]
    assert len(rows) == 8
    assert all(row.measured == row.formula for row in rows)


def test_measured_is_within_a_tenth_or_explained(study: StrobeStudy) -> None:
    """Every row."""
    assert all(agree(row.formula, row.measured) != bool(row.explained) for row in study.rows)


def test_json_is_one_document_and_nothing_else(study: StrobeStudy) -> None:
    """Rows with exactly the promised fields."""
    document = json.loads(CliRunner().invoke(bench_app, ["strobe", "--json", "--quick"]).stdout)
    assert list(document) == ["rows"]
    assert [FigurePoint(**row) for row in document["rows"]] == study.rows


def test_without_json_it_prints_tables_and_draws_pictures(tmp_path: Path) -> None:
    """One SVG per number of tables."""
    result = CliRunner().invoke(bench_app, ["strobe", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "SWEEP" in result.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["strobe-queries-3.svg", "strobe-queries-4.svg"]
