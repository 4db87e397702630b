"""The exactness stress on real servers, and the naive ways that it must find out."""

from __future__ import annotations

import os

import pytest

from weir.proving.stress import find_workload, run_stress

SECONDS = float(os.environ.get("WEIR_STRESS_SECONDS", "60"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "postgres-triggers"])
def test_every_answer_equals_the_replay(kind: str) -> None:
    """Under writers, crashes, cut connections and fresh loads, not one answer or delivery is wrong."""
    report = run_stress(find_workload(kind), SECONDS)
    assert report.wrong == 0, report.failures
    assert report.answers > 0
    assert report.transactions > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "mutation"),
    [
        ("postgres", "log-position"),
        ("postgres", "fence"),
        ("postgres", "no-lock"),
        ("postgres-triggers", "sequence"),
    ],
)
def test_a_naive_way_is_found_out(kind: str, mutation: str) -> None:
    """Each planted naive way gives wrong answers, so the stress can tell."""
    assert run_stress(find_workload(kind, mutation), 600.0, until_wrong=True).wrong > 0
