"""The same tests, unchanged, where Spark is not in this process: behind Spark Connect, and on a standalone cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.servers import connect_server, standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
FILES = ["test_session.py", "test_frame_bag.py", "test_bags_agree.py", "test_sweep_on_bags.py"]
# Of the laws only those with fixed examples: the generated ones say nothing about a place.
CHOSEN = "not TestFrameBag or null or nan or zero"


def _run_tests(place: str) -> int:
    """Runs the Spark tests of this folder against a place, in a process of their own; the number that passed."""
    environment = {**os.environ, "WEIR_TEST_SPARK": place, "SPARK_LOCAL_IP": "127.0.0.1"}
    files = [f"tests/spark/{name}" for name in FILES]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "spark", "-k", CHOSEN, "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    return int(passed[1])


def test_behind_a_spark_connect_server(tmp_path: Path) -> None:
    """The bags and the session need nothing that Spark Connect does not have; the server is in PySpark's own jars."""
    with connect_server(tmp_path) as address:
        assert _run_tests(address) >= 15


def test_on_a_standalone_cluster_of_two_workers(tmp_path: Path) -> None:
    """The same on a master with two worker processes; both of them ran an executor."""
    with standalone_cluster(tmp_path, workers=2) as master:
        assert _run_tests(master) >= 15
    assert all(list((tmp_path / f"worker{number}").glob("app-*")) for number in range(2))
