"""Spark servers for tests, from PySpark's own jars: a Connect server, and a standalone master with workers.

All listen on loopback only and are stopped by their process ids.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

import weir

HOME = Path(pyspark.__file__).parent
PATIENCE = 120  # seconds


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server; gives its address."""
    port = _free_port()
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    arguments = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit, service = "org.apache.spark.deploy.SparkSubmit", "org.apache.spark.sql.connect.service.SparkConnectServer"
    with _process(folder / "connect", submit, *arguments, "--class", service, "spark-internal"):
        _wait_for(port, folder / "connect")
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def standalone_cluster(folder: Path, workers: int) -> Iterator[str]:
    """A master and its workers, one core each; gives the master's address. A worker's folder is ``worker<number>``."""
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    loopback = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as running:
        master = "org.apache.spark.deploy.master.Master"
        running.enter_context(_process(folder / "master", master, *loopback, "--port", str(port)))
        _wait_for(port, folder / "master")
        for number in range(workers):
            home = folder / f"worker{number}"
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(home))
            worker = "org.apache.spark.deploy.worker.Worker"
            running.enter_context(_process(home, worker, *loopback, *size, address))
        yield address


@contextmanager
def _process(folder: Path, *command: str) -> Iterator[None]:
    """A JVM that runs a class of Spark's until the block ends; its output goes to ``folder/log``."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(weir.__file__).parents[1]),  # tasks there use this very copy of Weir
    }
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *command], stdout=log, stderr=log, env=environment, cwd=folder
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, folder: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"nothing listens on port {port}:\n{(folder / 'log').read_text()[-2000:]}")
