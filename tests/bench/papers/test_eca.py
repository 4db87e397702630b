"""``weir bench eca``: the paper's formulas, data that has the stated numbers, and measurements that agree."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.algebra.errors import WeirError
from weir.algorithms.eca import Eca
from weir.bench.papers.eca import model
from weir.bench.papers.eca.data import R1, R2, R3, example_6
from weir.bench.papers.eca.meter import Laboratory
from weir.bench.papers.eca.model import ECA_BEST, ECA_WORST, RV_BEST, RV_WORST, SERIES, Parameters
from weir.bench.papers.eca.study import QUICK, EcaStudy
from weir.bench.papers.study import FigurePoint, agree
from weir.cli.bench import bench_app

FIGURES = ("6.2", "6.3", "6.4", "6.5")


@pytest.fixture(scope="module")
def study() -> EcaStudy:
    return EcaStudy(QUICK)


# -- formulas --------------------------------------------------------------------------------------------------------


def test_the_formulas_give_the_values_worked_out_by_hand() -> None:
    """With the defaults S sigma = 2, J = 4, I = 5 and I' = 3."""
    p = Parameters()
    assert (p.blocks, p.double_blocks) == (5, 3)
    assert [model.bytes_of_three_updates(s, p) for s in SERIES] == [3200, 9600, 96, 120]
    assert [model.bytes_of_k_updates(s, 30, p) for s in SERIES] == [3200, 96000, 960, 3280]
    assert [model.reads_with_indexes(s, 3, p) for s in SERIES] == [15, 45, 15, 17]
    assert [model.reads_without_indexes(s, 6, p) for s in SERIES] == [125, 750, 90, 140]


def test_messages_count_a_question_and_an_answer_each() -> None:
    """RV asks ceil(k / s) times, ECA k times."""
    assert [model.messages(s, 10) for s in SERIES] == [2, 20, 20, 20]
    assert model.messages("RV", 10, 4) == 6


# -- data ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cardinality", "join_factor"), [(4, 4), (100, 4), (96, 4), (60, 2), (48, 6)])
def test_the_data_has_exactly_the_stated_numbers(cardinality: int, join_factor: int) -> None:
    """C tuples a relation, J per join value in all four cases, and half of the joined tuples pass W > Z."""
    tables = example_6(cardinality, join_factor).rows
    assert [tables[r].cardinality for r in (R1, R2, R3)] == [cardinality] * 3
    for relation, column in ((R1, 1), (R2, 0), (R2, 1), (R3, 0)):
        factors: Counter[int] = Counter()
        for row, count in tables[relation].items():
            factors[row[column]] += count
        assert set(factors.values()) == {join_factor}
    r1, r2, r3 = (tables[r].rows() for r in (R1, R2, R3))
    joined = [(w, z) for w, x in r1 for x2, y in r2 if x == x2 for y2, z in r3 if y == y2]
    assert len(joined) == cardinality * join_factor**2
    assert sum(w > z for w, z in joined) * 2 == len(joined)


def test_the_updates_go_round_the_relations_and_undo_themselves() -> None:
    """Three after three reverse what the three before did: C and J come back after every six."""
    source = example_6(updates=48).sources["s"]
    assert [update.changes[0].relation for update in source.script] == [R1, R2, R3] * 16
    assert all(source.states[at] == source.states[0] for at in range(0, 49, 6))
    assert all(abs(state[r].cardinality - 100) <= 1 for state in source.states for r in (R1, R2, R3))


def test_numbers_that_cannot_be_laid_out_are_refused() -> None:
    """An odd join factor has no half."""
    with pytest.raises(WeirError, match="must be even and divide"):
        example_6(99, 3)


# -- measurements ----------------------------------------------------------------------------------------------------


def test_ecas_worst_case_of_three_updates_is_made_of_the_terms_the_paper_lists() -> None:
    """Three queries with one, two and three terms that need the source; the three further ones read a relation each."""
    laboratory = Laboratory(example_6(96))
    cost = laboratory.crowded(Eca, 3)
    assert cost.messages == 6
    assert cost.nested.inner == 3 * 5 * 3 + 3 * 5  # I I' each, and I for every compensating term
    assert cost.netted < cost.bytes  # what compensates cancels inside an answer, and the paper counts it


def test_measured_is_within_a_tenth_or_explained(study: EcaStudy) -> None:
    """Every row; and most rows of the paper's own series need no explanation."""
    assert all(agree(row.formula, row.measured) != bool(row.explained) for row in study.rows)
    own = [row for row in study.rows if row.figure in FIGURES and row.series in SERIES]
    assert sum(not row.explained for row in own) >= 0.75 * len(own)


def test_there_are_enough_points_in_every_figure(study: EcaStudy) -> None:
    """All four series in each of the four figures, more than twenty points together, and the messages."""
    for figure in FIGURES:
        assert {row.series for row in study.rows if row.figure == figure} >= set(SERIES)
    assert sum(row.figure in FIGURES and row.series in SERIES for row in study.rows) >= 20
    messages = [row for row in study.rows if row.figure == "messages"]
    assert messages
    assert all(row.measured == row.formula for row in messages)


def test_the_sixth_block_explains_the_reads_without_indexes(study: EcaStudy) -> None:
    """With room in the last block (C = 96, I still 5) RV and ECA's best case read exactly what the formulas say."""
    roomy = [row for row in study.rows if row.series.endswith("C = 96") and not row.series.startswith(ECA_WORST)]
    assert roomy
    assert all(row.measured == row.formula for row in roomy)


def test_the_crossovers_are_where_the_paper_sees_them(study: EcaStudy) -> None:
    """Bytes about 100 and 30, reads about 3 with indexes and 5 to 8 (8.3 by its own formula) without."""
    measured = {(found.cost, found.series): found.measured for found in study.crossovers}
    assert 95 <= measured["bytes", ECA_BEST] <= 105
    assert 28 <= measured["bytes", ECA_WORST] <= 32
    assert {measured["reads with indexes", series] for series in (ECA_BEST, ECA_WORST)} <= {3, 4}
    assert 5 <= measured["reads without indexes", ECA_WORST] <= measured["reads without indexes", ECA_BEST] <= 10
    roomy = {(found.cost, found.series): found.roomy for found in study.crossovers}
    assert roomy["reads without indexes", ECA_WORST] == 6
    assert roomy["reads without indexes", ECA_BEST] == 9


def test_best_is_never_dearer_than_worst(study: EcaStudy) -> None:
    """For every cost and number of updates measured."""
    points = {(row.figure, row.series, row.x): row.measured for row in study.rows if row.figure in FIGURES}
    worst_of = {RV_BEST: RV_WORST, ECA_BEST: ECA_WORST}
    pairs = {
        (figure, series, x): (measured, points[figure, worst_of[series], x])
        for (figure, series, x), measured in points.items()
        if series in worst_of
    }
    assert {(figure, series) for figure, series, _ in pairs} == {(f, s) for f in FIGURES for s in worst_of}
    assert [at for at, (best, worst) in pairs.items() if best > worst] == []


# -- the command -----------------------------------------------------------------------------------------------------


def test_json_is_one_document_and_nothing_else(study: EcaStudy) -> None:
    """Rows with exactly the promised fields, and a second run measures what the first did."""
    document = json.loads(CliRunner().invoke(bench_app, ["eca", "--json", "--quick"]).stdout)
    assert list(document) == ["rows"]
    assert all(set(row) == {"figure", "series", "x", "formula", "measured", "explained"} for row in document["rows"])
    assert [FigurePoint(**row) for row in document["rows"]] == study.rows


def test_without_json_it_prints_tables_and_draws_a_picture_per_figure(tmp_path: Path) -> None:
    """Four SVG files, small enough to keep beside the documentation."""
    result = CliRunner().invoke(bench_app, ["eca", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "Crossovers" in result.stdout
    pictures = sorted(tmp_path.iterdir())
    assert [p.name for p in pictures] == [f"eca-figure-6-{n}.svg" for n in (2, 3, 4, 5)]
    assert all(b"<svg" in p.read_bytes() and p.stat().st_size < 100_000 for p in pictures)
