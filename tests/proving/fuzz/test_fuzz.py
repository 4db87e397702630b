"""The fuzz: cases of fixed seeds are right, kept cases stay right, and planted errors are found and made small."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from weir.cli.main import app
from weir.proving.fuzz.case import FuzzCase
from weir.proving.fuzz.drawing import FUZZED_KINDS, draw_case
from weir.proving.fuzz.places import FuzzPlaces
from weir.proving.fuzz.run import kept_case
from weir.proving.fuzz.trial import FuzzFinding, run_trial
from weir.rounds import deltas

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
QUICK, SLOW = range(6), range(1000, 1020)

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("file", CASES, ids=lambda file: str(file.stem))
def test_what_once_failed_is_right(file: Path, places: FuzzPlaces, spark: SparkSession) -> None:
    """Cases that showed a fault: each is kept whole, none of its views refused, wrong or stopped."""
    case = FuzzCase.parse(file.read_text(encoding="utf-8"))
    verdict = run_trial(case, places, spark)
    assert verdict.findings == []
    assert len(verdict.case.views) == len(case.views), verdict.refused


@pytest.mark.parametrize("seed", QUICK)
def test_drawn_cases_are_right(seed: int, places: FuzzPlaces, spark: SparkSession) -> None:
    verdict = run_trial(draw_case(seed), places, spark)
    assert [str(finding) for finding in verdict.findings] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW)
def test_more_drawn_cases_are_right(seed: int, places: FuzzPlaces, spark: SparkSession) -> None:
    verdict = run_trial(draw_case(seed), places, spark)
    assert [str(finding) for finding in verdict.findings] == []


def test_a_seed_draws_the_same_case_again() -> None:
    """And a case survives its file."""
    for seed in range(50):
        case = draw_case(seed)
        assert case == draw_case(seed)
        assert FuzzCase.parse(case.to_json()) == case


def test_every_kind_is_drawn() -> None:
    assert {kind for seed in range(50) for kind in draw_case(seed).sources.values()} == set(FUZZED_KINDS)


@pytest.mark.slow
def test_a_planted_error_is_found_and_made_small(
    places: FuzzPlaces, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows that go are forgotten: some seed shows it, and what is kept of it is a page that fails alone."""
    original = deltas._batch

    def forgetful(store: object, tables: list[pa.Table], found: object) -> object:
        kept = [table.filter(pa.compute.greater(table.column("_weir_weight"), 0)) for table in tables]
        return original(store, kept, found)  # type: ignore[arg-type]

    monkeypatch.setattr(deltas, "_batch", forgetful)
    case, finding = first_failure(places, spark)
    file = Path(kept_case(case, finding, tmp_path, places, spark, attempts=30))
    small = FuzzCase.parse(file.read_text(encoding="utf-8"))
    assert small.size < case.size
    assert len(small.views) == 1
    assert "not expected" in small.note
    assert run_trial(small, places, spark).findings
    monkeypatch.undo()
    assert run_trial(small, places, spark).findings == []


def first_failure(places: FuzzPlaces, spark: SparkSession) -> tuple[FuzzCase, FuzzFinding]:
    for seed in range(11, 31):
        verdict = run_trial(draw_case(seed, ["sqlite"]), places, spark)
        for finding in verdict.findings:
            if "not expected" in finding.told:
                return verdict.case, finding
    raise AssertionError("nothing was found")


@pytest.mark.slow
def test_the_command_tells_what_it_did(tmp_path: Path) -> None:
    arguments = ["fuzz", "--cases", "2", "--seed", "0", "--kinds", "sqlite", "--keep", str(tmp_path), "--json"]
    done = CliRunner().invoke(app, arguments)
    told = json.loads(done.stdout.splitlines()[-1])
    assert done.exit_code == 0, told
    assert (told["cases"], told["wrong"], told["stopped"], told["failures"]) == (2, 0, 0, [])
    assert told["comparisons"] > told["views"] > 0


def test_an_unknown_kind_is_answered_with_a_known_one() -> None:
    done = CliRunner().invoke(app, ["fuzz", "--kinds", "sqlit"])
    assert done.exit_code == 2
    assert "sqlite" in done.stderr
