"""A warehouse seen from outside its runner: status that stays truthful, and queries over the views."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from weir.algebra.errors import WeirError
from weir.runtime.control import NoRunner, ask_runner
from weir.runtime.keys import near
from weir.runtime.locking import FOLDER, RunnerLock
from weir.runtime.project import Project
from weir.runtime.reporting import STATUS, status_of
from weir.runtime.units import Tables
from weir.runtime.warehouse import Warehouse
from weir.warehouse.record import AsOf


def status_from_outside(project: Project) -> dict[str, Any]:
    """The runner's own words if it answers; otherwise the tables', and what can be said of the runner."""
    path = project.warehouse_path
    tables = Tables(path, project.storage_options())
    try:
        live: dict[str, Any] = ask_runner(path, "status")
    except NoRunner:
        at_rest = status_of(None, path, list(project.views), tables, time.time())
        return {**at_rest, "runner": _runner_at_rest(path)}
    oldest = max((view["lag"] or 0.0 for view in live["views"]), default=0.0)
    ill = [f"view {view['name']} is {view['state']}: {view['problem']}" for view in live["views"] if view["problem"]]
    told = f"process {live['process']} runs, {live['rounds']} rounds, oldest lag {oldest:.1f} s"
    return {**live, "runner": {"alive": True, "well": not ill, "text": "\n".join([told, *ill])}}


def _runner_at_rest(path: str) -> dict[str, Any]:
    """Nobody answers. A runner that holds the lock all the same is stuck."""
    last = _last_word(path)
    if (holder := _holder(path)) is not None:
        since = f", its last word is {time.time() - last['time']:.0f} s old" if last else ""
        text = f"process {holder} holds the warehouse but does not answer{since}; look at it, or stop it: kill {holder}"
        return {"alive": True, "well": False, "text": text}
    if last and last.get("running"):
        ago = time.time() - last["time"]
        text = f"no runner: process {last['process']} was last heard {ago:.0f} s ago; start one: weir run"
        return {"alive": False, "well": True, "text": text}
    return {"alive": False, "well": True, "text": "no runner; start one: weir run"}


def _last_word(path: str) -> dict[str, Any] | None:
    try:
        word: dict[str, Any] = json.loads((Path(path) / FOLDER / STATUS).read_text(encoding="utf-8"))
        return word
    except (OSError, ValueError):
        return None


def _holder(path: str) -> int | None:
    """The process that holds the runner's lock, if one does."""
    lock = RunnerLock(path)
    if "://" in path or not os.path.isdir(os.path.join(path, FOLDER)):
        return None
    try:
        lock.take()
    except WeirError as held:
        found = re.search(r"process (\d+)", str(held))
        return int(found[1]) if found else None
    lock.release()
    return None


def query_views(warehouse: Warehouse, sql: str, as_of: AsOf, limit: int) -> pa.Table:
    """Spark SQL over the views that have been loaded, all at one state."""
    loaded = [name for name in warehouse.views if warehouse.is_loaded(name)]
    if not loaded:
        raise WeirError("no view has been loaded yet; run: weir run --until-caught-up")
    mentioned = [name for name in loaded if re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)]
    if as_of != AsOf() and len(mentioned) > 1:
        raise WeirError("--as-of names a state of one view; query one view at a time, or the views as they are now")
    for name in mentioned:
        warehouse.read(name, as_of).createOrReplaceTempView(name)
    logging.getLogger("SQLQueryContextLogger").disabled = True  # PySpark's: the same error again, as JSON
    try:
        rows: pa.Table = warehouse.spark.sql(sql).limit(limit).toArrow()
        return rows
    except Exception as problem:  # Spark's own, classic and Connect differently
        raise WeirError(_told(str(problem), loaded)) from None


def _told(problem: str, views: list[str]) -> str:
    first = next((line.strip() for line in problem.splitlines() if line.strip()), problem)
    if found := re.search(r"TABLE_OR_VIEW_NOT_FOUND.*?`([^`]+)`", problem, re.DOTALL):
        return f"there is no view '{found[1]}'; {near(found[1], views, 'the views are')}"
    return f"Spark cannot run the query: {first}"
