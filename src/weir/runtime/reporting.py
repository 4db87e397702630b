"""What is going on, as a document: lag per source, queues, rates, last commits. Also left in a file for others to read.

The file is the runner's last word; who reads it compares its time and process with the present (``weir status``), so a
runner that is stuck or dead is not believed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weir.runtime.absent import Absent
from weir.runtime.locking import FOLDER
from weir.runtime.rounds import Engine
from weir.runtime.units import WAITING, Tables, Unit

STATUS = "status.json"


def status_of(engine: Engine | None, path: str, names: Sequence[str], tables: Tables, started: float) -> dict[str, Any]:
    """``lag``: seconds since everything then visible at a view's sources was committed. ``queue``: transactions that
    were received and are not committed yet.
    """
    now = time.time()
    document: dict[str, Any] = {"warehouse": path, "process": os.getpid(), "time": now, "started": started}
    if engine is None:
        return {**document, "running": False, "views": [_resting(name, tables) for name in names], "sources": []}
    costs = engine.costs
    asked = asdict(costs)
    return {
        **document,
        "running": True,
        "rounds": engine.rounds,
        "asked": asked,
        "views": [entry for unit in engine.units for entry in _views(unit, now)],
        "sources": [_source(engine, name, now) for name in engine.channels],
    }


def _views(unit: Unit, now: float) -> list[dict[str, Any]]:
    shared = {
        "state": unit.state,
        "problem": unit.problem,
        "transactions": unit.transactions,
        "queue": unit.queue,
        "commits": unit.commits,
        "lag": now - unit.caught_up_at if unit.caught_up_at else None,
        "last_commit": unit.committed_at or None,
        "positions": dict(unit.durable),
        "asked": asdict(unit.costs),
    }
    return [
        {
            "name": view.name,
            "group": unit.name if len(unit.views) > 1 else "",
            "strategy": view.choice.strategy,
            "level": view.level,
            "arrival": view.last_arrival,
            **shared,
        }
        for view in unit.views
    ]


def _source(engine: Engine, name: str, now: float) -> dict[str, Any]:
    channel = engine.channels[name]
    units = [unit for unit in engine.units if name in unit.sources]
    behind = [now - unit.caught_up_at for unit in units if unit.caught_up_at]
    return {
        "name": name,
        "kind": channel.spec.kind,
        "place": channel.spec.place,
        "reachable": channel.problem is None,
        "problem": str(channel.problem or ""),
        "lag": max(behind, default=None),
        "transactions": channel.transactions,
    }


def with_absent(document: dict[str, Any], absent: Absent, tables: Tables) -> dict[str, Any]:
    """Beside what the engine knows: views that wait outside it, and the sources that do not answer."""
    unknown = {"strategy": "", "level": "", "lag": None, "transactions": 0, "queue": 0, "commits": 0, "arrival": 0}
    views = [
        {**unknown, **_resting(name, tables), "state": WAITING, "problem": problem}
        for name, problem in absent.problems.items()
    ]
    known = {source["name"] for source in document["sources"]}
    sources = [
        {"name": name, "kind": spec.kind, "place": spec.place, "reachable": False, "problem": str(problem), "lag": None,
         "transactions": 0}
        for name, problem in absent.survey.problems.items() if name not in known for spec in [absent.survey.specs[name]]
    ]  # fmt: skip
    return {**document, "views": [*document["views"], *views], "sources": [*document["sources"], *sources]}


def _resting(name: str, tables: Tables) -> dict[str, Any]:
    """A view of a warehouse that nobody runs: what its table says."""
    store = tables.open(name)
    if store is None or not store.head.transaction:
        return {"name": name, "state": "not loaded"}
    head = store.head
    return {
        "name": name,
        "state": "at rest",
        "strategy": head.notes.get("strategy", ""),
        "level": head.notes.get("level", ""),
        "arrival": head.last_arrival,
        "version": head.version,
        "last_commit": head.timestamp / 1000,
        "positions": dict(head.positions),
    }


def write_status(path: str, status: Callable[[], dict[str, Any]]) -> None:
    """Replaces the status file, at most a few times a second. Nothing depends on it."""
    if "://" in path:
        return
    file = Path(path) / FOLDER / STATUS
    with contextlib.suppress(OSError):
        if file.exists() and time.time() - file.stat().st_mtime < 0.2:
            return
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(status()), encoding="utf-8")
        fresh.replace(file)
