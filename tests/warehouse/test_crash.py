"""kill -9 at every step of a commit and of a compaction: the table is as before or as after, never between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tests.warehouse.batches import AB, ab, rows_of
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore

DIE = """
import os, signal, sys
from tests.warehouse.batches import ab
from weir.warehouse import retention
from weir.warehouse.delta_log import DeltaLog
from weir.warehouse.place import Place
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def die_after(owner, name, calls=1):
    original, left = getattr(owner, name), [calls]
    def wrapped(*arguments):
        result = original(*arguments)
        left[0] -= 1
        return result if left[0] else die()
    setattr(owner, name, wrapped)

path, point, action = sys.argv[1:]
store = ViewStore.open(path)
match point:
    case "before the data file": Place.write_parquet = die
    case "after the data file": die_after(Place, "write_parquet")
    case "before the commit": DeltaLog._write = die
    case "after the commit": die_after(DeltaLog, "_write")
    case "before the data is deleted": Place.discard = die
match action:
    case "append": store.append(ab((1, "x", -1), (7, "new", 1), arrival=3), {"s": 3}, (3, 3), 3)
    case "net": store.net()
    case "fold": store.fold()
    case "forget": store.forget(AsOf(version=3))
"""
BEFORE = [(1, "x"), (2, "y"), (3, "z")]
AFTER = [(2, "y"), (3, "z"), (7, "new")]
POINTS = ["before the data file", "after the data file", "before the commit", "after the commit"]


@pytest.fixture
def store(tmp_path: Path) -> ViewStore:
    store = ViewStore.create(tmp_path / "view", AB)
    store.load(ab((1, "x", 1), (2, "y", 1)), {"s": 1}, (1, 1), 1)
    store.append(ab((3, "z", 1), arrival=2), {"s": 2}, (2, 2), 2)
    return store


def kill_at(store: ViewStore, point: str, action: str) -> ViewStore:
    """Runs the action in a process that is killed there, and opens the table anew."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", DIE, store.place.uri, point, action]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return ViewStore.open(store.place.uri)


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_append_is_replayed_once(store: ViewStore, point: str) -> None:
    """The batch is repeated after the restart, and the view has it exactly once wherever the process died."""
    again = kill_at(store, point, "append")
    committed = point == "after the commit"
    assert rows_of(again.read_arrow()) == (AFTER if committed else BEFORE)
    assert again.positions() == ({"s": 3} if committed else {"s": 2})
    applied = again.append(ab((1, "x", -1), (7, "new", 1), arrival=3), {"s": 3}, (3, 3), 3)
    assert applied.fresh is not committed
    assert rows_of(again.read_arrow()) == AFTER
    orphans = again.clean_orphans(older_than=timedelta(0))
    assert len(orphans) == (point in ("after the data file", "before the commit"))
    assert rows_of(again.read_arrow()) == AFTER


@pytest.mark.parametrize("action", ["net", "fold"])
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_compaction_changes_nothing(store: ViewStore, point: str, action: str) -> None:
    """All states read as before, what was half written is cleaned, and the compaction can be run again."""
    again = kill_at(store, point, action)
    assert rows_of(again.read_arrow()) == BEFORE
    assert rows_of(again.read_arrow(AsOf(arrival=1))) == BEFORE[:2]
    again.clean_orphans(older_than=timedelta(0))
    getattr(again, action)()
    assert (rows_of(again.read_arrow()), again.positions()) == (BEFORE, {"s": 2})
    assert again.clean_orphans(older_than=timedelta(0)) == []


def test_a_killed_forget_leaves_orphans_only(store: ViewStore) -> None:
    """The commits were gone, the files not yet: they are cleaned, and what is kept reads."""
    store.fold()
    again = kill_at(store, "before the data is deleted", "forget")
    assert again.log.versions() == [3]
    assert len(again.clean_orphans(older_than=timedelta(0))) == 2
    assert rows_of(again.read_arrow()) == BEFORE


def test_young_files_are_not_orphans(store: ViewStore) -> None:
    """A file that a living writer has just written is not taken from it."""
    staged = store.stage(ab((9, "s", 1), arrival=3), 3)
    assert store.clean_orphans() == []
    assert store.append(staged, {"s": 3}, (3, 3), 3).fresh
    assert rows_of(store.read_arrow()) == [*BEFORE, (9, "s")]


def test_a_table_whose_creation_was_killed_can_be_created(tmp_path: Path) -> None:
    """Half of the first log entry, under the name it had while it was written, is not in the way."""
    log = tmp_path / "view" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json#1").write_text('{"protocol":')
    store = ViewStore.create(tmp_path / "view", AB)
    store.load(ab((1, "x", 1)), {"s": 1}, (1, 1), 1)
    assert rows_of(ViewStore.open(tmp_path / "view").read_arrow()) == [(1, "x")]
