"""What is going on, as a document: lag per source, queues, rates, last commits. Also left in a file for others to read.

The file is the runner's last word; who reads it compares its time and process with the present (``weir status``), so a
runner that is stuck or dead is not believed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weir.algebra.errors import WeirError
from weir.operation.admission import Absent
from weir.operation.control import NoRunner, ask_runner
from weir.operation.locking import FOLDER, RunnerLock, does_not_answer
from weir.project.folder import Project
from weir.rounds.channels import Channel
from weir.rounds.engine import Engine
from weir.rounds.units import FAILED, WAITING, Unit
from weir.rounds.views import Gap, MaintainedView, ViewTables, gaps_of
from weir.warehouse.errors import StoreError

STATUS = "status.json"


def status_of(
    engine: Engine | None, path: str, names: Sequence[str], tables: ViewTables, started: float
) -> dict[str, Any]:
    """``lag``: seconds since everything then visible at a view's sources was committed. ``transactions``: how many are
    committed; ``queue``: how many were received and are not committed yet.
    """
    now = time.time()
    document: dict[str, Any] = {"warehouse": path, "process": os.getpid(), "time": now, "started": started}
    if engine is None:
        return {**document, "running": False, "views": [_resting(name, tables) for name in names], "sources": []}
    return {
        **document,
        "running": True,
        "rounds": engine.rounds,
        "asked": asdict(engine.asked),
        "views": [entry for unit in engine.units for entry in _views(engine, unit, now)],
        "sources": [_source(engine, name, now) for name in engine.channels],
    }


def _views(engine: Engine, unit: Unit, now: float) -> list[dict[str, Any]]:
    state, problem = _state(engine, unit)
    shared = {
        "state": state,
        "problem": problem,
        "transactions": unit.written,
        "queue": unit.queue,
        "commits": unit.commits,
        "lag": now - unit.caught_up_at if unit.caught_up_at else None,
        "last_commit": unit.committed_at or None,
        "positions": dict(unit.durable),
        "asked": asdict(unit.asked),
    }
    return [
        {
            "name": view.name,
            "group": unit.name if len(unit.views) > 1 else "",
            "strategy": view.choice.strategy,
            "level": view.level,
            "arrival": _arrival(view),
            "gaps": [asdict(gap) for gap in view.gaps],
            **shared,
        }
        for view in unit.views
    ]


def _state(engine: Engine, unit: Unit) -> tuple[str, str]:
    """A view of a source that was asked and says nothing waits, whatever it could do itself."""
    state, problem = unit.told
    silent = [channel for name in unit.sources if (channel := engine.channels[name]).silent]
    if state == FAILED or not silent:
        return state, problem
    return WAITING, silent[0].awaited


def _arrival(view: MaintainedView) -> int | None:
    """None: its table cannot tell."""
    try:
        return view.last_arrival if view.problem is None else None
    except StoreError:  # damaged since it was opened; whoever writes there next says so
        return None


def _source(engine: Engine, name: str, now: float) -> dict[str, Any]:
    channel = engine.channels[name]
    units = [unit for unit in engine.units if name in unit.sources]
    behind = [now - unit.caught_up_at for unit in units if unit.caught_up_at]
    held_since = engine.answering.holds.since(name)
    return {
        "name": name,
        "kind": channel.spec.kind,
        "place": channel.spec.place,
        "reachable": channel.problem is None and not channel.silent,
        "problem": _source_problem(channel),
        "last_heard": channel.heard_at or None,
        "waiting": channel.silent_for or None,
        "snapshot_held_for": None if held_since is None else now - held_since,
        "retained": [{"view": name, "log": log} for name, log in channel.retained.items()],
        "lag": max(behind, default=None),
        "transactions": channel.transactions,
    }


def _source_problem(channel: Channel) -> str:
    """Also silence: it was asked, and nothing comes."""
    if channel.problem is None and channel.silent:
        return channel.silence
    return str(channel.problem or "")


def with_outsiders(
    document: dict[str, Any], absent: Absent, refused: Mapping[str, WeirError], tables: ViewTables
) -> dict[str, Any]:
    """Beside what the engine knows: views that are refused or wait outside it, and the sources that do not answer."""
    unknown: dict[str, Any] = {"strategy": "", "level": "", "lag": None, "arrival": 0, "gaps": []}
    unknown |= dict.fromkeys(("transactions", "queue", "commits"), 0)
    outside = {name: (WAITING, problem) for name, problem in absent.problems.items()}
    outside |= {name: (FAILED, str(problem)) for name, problem in refused.items()}
    views = [
        {**unknown, **_resting(name, tables), "state": state, "problem": problem}
        for name, (state, problem) in outside.items()
    ]
    known = {source["name"] for source in document["sources"]}
    sources = [
        {"name": name, "kind": spec.kind, "place": spec.place, "reachable": False, "problem": str(problem), "lag": None,
         "transactions": 0}
        for name, problem in absent.survey.problems.items() if name not in known for spec in [absent.survey.specs[name]]
    ]  # fmt: skip
    return {**document, "views": [*document["views"], *views], "sources": [*document["sources"], *sources]}


def _resting(name: str, tables: ViewTables) -> dict[str, Any]:
    """A view of a warehouse that nobody runs: what its table says, or what is wrong with that."""
    try:
        return _read(name, tables)
    except StoreError as problem:
        return {"name": name, "state": FAILED, "problem": str(problem)}


def _read(name: str, tables: ViewTables) -> dict[str, Any]:
    store = tables.open_whole(name)
    if store is None or not store.head.transaction:
        return {"name": name, "state": "not loaded"}
    head = store.head
    return {
        "name": name,
        "state": "at rest",
        "strategy": head.notes.get("strategy", ""),
        "level": head.notes.get("level", ""),
        "arrival": head.last_arrival,
        "gaps": [asdict(gap) for gap in gaps_of(store)],
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


# -- seen from another process -----------------------------------------------------------------------------------------


def status_from_outside(project: Project) -> dict[str, Any]:
    """The runner's own words if it answers; otherwise the tables', and what can be said of the runner."""
    path = project.warehouse_path
    tables = ViewTables(path, project.storage_options())
    try:
        live: dict[str, Any] = ask_runner(path, "status")
    except NoRunner:
        at_rest = status_of(None, path, list(project.views), tables, time.time())
        return {**at_rest, "runner": _with_views(_runner_at_rest(path), at_rest["views"])}
    oldest = max((view["lag"] or 0.0 for view in live["views"]), default=0.0)
    told = f"process {live['process']} runs, {live['rounds']} rounds, oldest lag {oldest:.1f} s"
    return {**live, "runner": _with_views({"alive": True, "well": True, "text": told}, live["views"])}


def _with_views(runner: dict[str, Any], views: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Beside what the runner says of itself: every view that is not well, and what could not be kept."""
    ill = [f"view {view['name']} is {view['state']}: {view['problem']}" for view in views if view.get("problem")]
    well = runner["well"] and not ill
    return _with_gaps({**runner, "well": well, "text": "\n".join([runner["text"], *ill])}, views)


def _with_gaps(runner: dict[str, Any], views: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Beside what the runner says of itself: the newest gap of every view that could not keep all its states."""
    gaps = [(view["name"], view["gaps"]) for view in views if view.get("gaps")]
    more = [f"; {len(all_) - 1} more before: weir status --json" if len(all_) > 1 else "" for _, all_ in gaps]
    told = [f"view {name}: {Gap(**all_[-1])}{rest}" for (name, all_), rest in zip(gaps, more, strict=True)]
    return {**runner, "text": "\n".join([runner["text"], *told])}


def _runner_at_rest(path: str) -> dict[str, Any]:
    """Nobody answers. A runner that holds the lock all the same is stuck."""
    last = _last_word(path)
    if (holder := RunnerLock(path).holder()) is not None:
        since = f", its last word is {time.time() - last['time']:.0f} s old" if last else ""
        text = does_not_answer(holder, since)
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
