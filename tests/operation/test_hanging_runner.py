"""A runner that hangs: who asks it is told so after a moment, and never hangs with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.test_spark_gone import start, write_project
from tests.faults.ward import TABLES
from tests.runtime.databases import Database
from tests.runtime.shop import wait_until
from weir.operation.control import NoRunner, ask_runner
from weir.proving.databases import Servers

pytestmark = pytest.mark.spark
DEADLINE = 60.0  # seconds; the channel's own is shorter


def weir(project: Path, *arguments: str) -> tuple[int, str, float]:
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "weir", *arguments, "--project", str(project)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr, time.monotonic() - began


def test_status_and_verify_say_that_it_does_not_answer(servers: Servers, tmp_path: Path) -> None:
    database = Database(servers, "sqlite")
    database.create(("head", "line"), TABLES)
    write_project(tmp_path, {"at_sqlite": database})
    runner = start("weir", "run", "--project", str(tmp_path))
    try:
        wait_until(lambda: _is_loaded(tmp_path / "warehouse"), 120)
        os.kill(runner.pid, signal.SIGSTOP)
        code, told, seconds = weir(tmp_path, "status")
        assert code == 1, told
        assert f"process {runner.pid} holds the warehouse but does not answer" in " ".join(told.split())
        assert seconds < DEADLINE
        code, told, seconds = weir(tmp_path, "verify", "at_sqlite")
        assert code == 2, told
        assert "does not answer" in " ".join(told.split())
        assert seconds < DEADLINE
    finally:
        os.kill(runner.pid, signal.SIGCONT)
        runner.terminate()
        runner.communicate(timeout=120)
    assert runner.returncode == 0
    database.close()


def _is_loaded(warehouse: Path) -> bool:
    try:
        return all(view["lag"] is not None for view in ask_runner(str(warehouse), "status")["views"])
    except NoRunner:
        return False
