"""Spark's Java process is killed, or its server: the runner ends with its own exit code and one message, in every phase
of a batch; the next one goes on, and nothing is lost.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.faults.matrix import SPARK_KILLED
from tests.faults.ward import LOAD, PHASES, TABLES
from tests.runtime.databases import Database
from tests.spark.servers import connect_server
from weir import Warehouse
from weir.proving.databases import Servers
from weir.spark.session import SparkGone

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PATIENCE = 120  # seconds
REPOSITORY = Path(__file__).parents[2]
VIEW = (
    "CREATE MATERIALIZED VIEW {0} WITH (consistency = 'complete', strategy = 'sweep') AS "
    "SELECT l.id, h.name, l.amount FROM {0}.line l JOIN {0}.head h ON h.id = l.head"
)


@pytest.fixture
def databases(servers: Servers) -> Iterator[dict[str, Database]]:
    made = {f"at_{kind}": Database(servers, kind) for kind in SPARK_KILLED.kinds}
    for database in made.values():
        database.create(("head", "line"), TABLES)
    yield made
    for database in made.values():
        database.close()


def write_project(folder: Path, databases: Mapping[str, Database]) -> None:
    lines = ["[warehouse]", 'path = "warehouse"', "[spark]", 'master = "local[2]"']
    (folder / "views").mkdir()
    for name, database in databases.items():
        lines += [f"[sources.{name}]", f'kind = "{database.kind}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in database.options.items()]
        (folder / "views" / f"{name}.sql").write_text(VIEW.format(name))
    (folder / "weir.toml").write_text("\n".join(lines))


def start(module: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-X", "faulthandler", "-m", module, *arguments]
    return subprocess.Popen(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> None:
    """By itself, with the right code and the right last words; where it hangs, it is said where."""
    try:
        _, told = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        _, told = process.communicate()
    assert process.returncode == SparkGone.exit_code, told
    last = told.strip().splitlines()[-1]
    assert re.fullmatch(f"weir: {SPARK_KILLED.rule.reads}", last), told


def test_in_every_phase(databases: dict[str, Database], tmp_path: Path, spark: SparkSession) -> None:
    write_project(tmp_path, databases)
    for number, (phase, point) in enumerate(PHASES.items(), 100):
        if phase != LOAD:
            assert_exact(tmp_path, spark)  # whatever the last one had to leave
            for database in databases.values():
                database.transact([f"INSERT INTO line VALUES ({number}, 1, 1)"])
        ended(start("tests.faults.spark_life", str(tmp_path), point or "", "2"))
    assert_exact(tmp_path, spark)


def assert_exact(project: Path, spark: SparkSession) -> None:
    with Warehouse.open(project, spark) as warehouse:
        warehouse.run(until_caught_up=True)
        found = {audit.view: (audit.missing, audit.extra) for audit in warehouse.verify_all()}
    assert found == dict.fromkeys(found, (0, 0))
    assert len(found) == len(SPARK_KILLED.kinds)


def test_a_server_that_ends(databases: dict[str, Database], tmp_path: Path) -> None:
    """A Spark Connect server: the client would try for ten minutes."""
    write_project(tmp_path, databases)
    with connect_server(tmp_path) as address:
        toml = (tmp_path / "weir.toml").read_text().replace('master = "local[2]"', f'remote = "{address}"')
        (tmp_path / "weir.toml").write_text(toml)
        running = start("weir", "run", "--project", str(tmp_path))
        assert running.stderr is not None
        for line in running.stderr:
            if "rounds" in line or "loading" in line:
                break
    ended(running)
