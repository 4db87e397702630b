"""The engine where Spark is not in this process: behind Spark Connect, and on a standalone cluster of two workers.

The same end-to-end tests, unchanged: tasks there read shared snapshots themselves, and ask this driver for the others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime import databases  # noqa: F401  # sets the servers' password before Spark's processes start
from tests.spark.servers import connect_server, standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
TESTS = [
    "runtime/test_every_algorithm.py::test_holds_its_level_over_real_sources[pvm-cc]",  # swept by tasks, restarted
    "runtime/test_every_algorithm.py::test_holds_its_level_over_real_sources[t-strobe]",  # looks at the view's keys
    "sweeping/test_sweeps.py::test_functions_that_only_spark_knows",
    "operation/test_watching.py::test_a_damaged_view_is_found_out",
]


def _run_tests(place: str) -> int:
    """Runs them against a place, in a process of their own; the number that passed."""
    environment = {**os.environ, "WEIR_TEST_SPARK": place, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"tests/{t}" for t in TESTS)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    return int(passed[1])


def test_behind_a_spark_connect_server(tmp_path: Path) -> None:
    """The engine needs nothing that Spark Connect does not have."""
    with connect_server(tmp_path) as address:
        assert _run_tests(address) == len(TESTS)


def test_on_a_standalone_cluster_of_two_workers(tmp_path: Path) -> None:
    """The same on a master with two worker processes; both of them ran an executor."""
    with standalone_cluster(tmp_path, workers=2) as master:
        assert _run_tests(master) == len(TESTS)
    assert all(list((tmp_path / f"worker{number}").glob("app-*")) for number in range(2))
