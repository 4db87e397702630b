"""``python -m tests.faults.spark_life PROJECT POINT TIMES``: ``weir run``, whose Spark is killed (SIGKILL to its Java
process) when POINT is reached for so many times; without a point, when all views have been at rest for a moment.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from itertools import count

from pyspark import SparkContext

from weir import points
from weir.cli.main import app
from weir.operation.control import NoRunner, ask_runner


def kill_spark() -> None:
    gateway = SparkContext._gateway
    os.kill(gateway.proc.pid, signal.SIGKILL)


def kill_at(point: str, times: int) -> None:
    reached = count(1)
    points.watch(lambda at: kill_spark() if at == point and next(reached) == times else None)


def kill_when_idle(warehouse: str) -> None:
    def wait() -> None:
        while not _rests(warehouse):
            time.sleep(0.2)
        time.sleep(0.5)
        kill_spark()

    threading.Thread(target=wait, daemon=True).start()


def _rests(warehouse: str) -> bool:
    try:
        views = ask_runner(warehouse, "status")["views"]
    except NoRunner:
        return False
    return all(view["lag"] is not None and not view["queue"] for view in views)


if __name__ == "__main__":
    project, point, times = sys.argv[1:4]
    if point:
        kill_at(point, int(times))
    else:
        kill_when_idle(os.path.join(project, "warehouse"))
    app(["run", "--project", project])
