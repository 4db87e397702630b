"""One life of a process that maintains views: it starts Spark, says that it is ready, and does what it is told.

``python -m tests.runtime.recovery_life FOLDER`` reads one line: ``{"point": P, "times": N, "loaded": L}`` lets it run
and kills it (SIGKILL, by its own hand) when it reaches P for the N-th time (L: since all views are loaded, so that none
of them is behind for ever); ``{}`` lets it catch up, audit, and end in good order.
Compactions come all the time, so that they are met everywhere.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from weir import Warehouse, points
from weir.operation import upkeep as care
from weir.project.folder import RunKeys
from weir.rounds.units import RUNNING
from weir.warehouse.care import Limits

SPARK = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2", "spark.log.level": "OFF"}


def open_warehouse(folder: Path) -> Warehouse:
    """What ``project.json`` says."""
    project = json.loads((folder / "project.json").read_text())
    keys = RunKeys(poll=0.02, max_age=0.1)
    warehouse = Warehouse(folder / "warehouse", master=project["spark"], settings=SPARK, run=keys)
    for name, (kind, options) in project["sources"].items():
        warehouse.source(name, kind, **options)
    for text in project["views"]:
        warehouse.view(text)
    return warehouse


def kill_at(point: str, times: int, counts: Callable[[], bool]) -> None:
    reached = count(1)

    def watch(at: str) -> None:
        if at == point and counts() and next(reached) == times:
            print(json.dumps({"killed": point}), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    points.watch(watch)


def are_loaded(warehouse: Warehouse) -> bool:
    return warehouse.engine is not None and all(unit.state == RUNNING for unit in warehouse.engine.units)


def compact_eagerly() -> None:
    care.LIMITS, care.LOOK, care.REST = Limits(few=20, files=2), 0.05, 0.5


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    compact_eagerly()
    warehouse = open_warehouse(Path(sys.argv[1]))
    assert warehouse.spark.range(1).count() == 1  # whatever is slow to start has started
    print(json.dumps({"ready": os.getpid()}), flush=True)
    told = json.loads(sys.stdin.readline() or "null")
    if told:
        kill_at(told["point"], told["times"], partial(are_loaded, warehouse) if told["loaded"] else lambda: True)
        warehouse.run()
    elif told is not None:
        warehouse.run(until_caught_up=True)
        audits = [warehouse.verify(name).document() for name in warehouse.views]
        print(json.dumps({"audits": audits, "status": warehouse.status()}), flush=True)
    warehouse.close()


if __name__ == "__main__":
    main()
