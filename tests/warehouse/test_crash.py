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
from weir.warehouse import rewriting, row_index, staging
from weir.warehouse.errors import NoSuchState
from weir.warehouse.feed import changes_of
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore

DIE = """
import os, signal, sys
from tests.warehouse.batches import ab
from weir import points
from weir.warehouse import changing, delta_log, retention, rewriting, row_index
from weir.warehouse.care import Limits
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

def die_before(owner, name, calls=0):
    original, left = getattr(owner, name), [calls]
    def wrapped(*arguments):
        left[0] -= 1
        return die() if left[0] < 0 else original(*arguments)
    setattr(owner, name, wrapped)

path, point, action = sys.argv[1:]
store = ViewStore.open(path)
writer = "parquet_writer" if action in ("compact", "care") else "write_parquet"
if action == "tidy":
    row_index.MOST_RUNS = sys.modules["weir.warehouse.committing"].MOST_RUNS = 1
match point:
    case "before the data file": die_before(Place, writer)
    case "after the data file":
        die_after(rewriting if writer == "parquet_writer" else sys.modules["weir.warehouse.staging"], "describe_file")
    case "after the change file": die_after(Place, "write_parquet", 2)
    case "after the vectors": die_after(changing, "write_vectors")
    case "before the commit": die_before(Place, "put_if_absent")
    case "after the commit": die_after(Place, "put_if_absent")
    case "before the checkpoint": die_before(retention, "_checkpoint")
    case "before the commits go": die_before(retention, "commit_name")
    case "between the commits": die_before(retention, "commit_name", 2)
    case "before the data is deleted": die_before(Place, "discard", 1)
    case "before a run": die_before(row_index, "store_run")
    case "after a run": die_after(row_index, "store_run")
match action:
    case "append": store.append(ab((1, "x", -1), (7, "new", 1), arrival=3), {"s": 3}, (3, 3), 3)
    case "compact": store.compact()
    case "care": store.care(Limits(gone=0.1, few=0))
    case "forget": store.forget(AsOf(version=3))
    case "tidy": store.care()
"""
BEFORE = [(1, "x"), (2, "y"), (3, "z")]
AFTER = [(2, "y"), (3, "z"), (7, "new")]
APPENDING = {
    "before the data file": 0,
    "after the data file": 1,
    "after the change file": 2,
    "after the vectors": 2,
    "before the commit": 2,
    "after the commit": 0,
}  # and how many files are left over
REWRITING = ["before the data file", "after the data file", "before the commit", "after the commit"]
NOW_ALL = timedelta(0)


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


@pytest.mark.parametrize("point", APPENDING)
def test_a_killed_append_is_replayed_once(store: ViewStore, point: str) -> None:
    """The batch is repeated after the restart, and the view has it exactly once wherever the process died."""
    again = kill_at(store, point, "append")
    committed = point == "after the commit"
    assert rows_of(again.read_arrow()) == (AFTER if committed else BEFORE)
    assert again.positions() == ({"s": 3} if committed else {"s": 2})
    applied = again.append(ab((1, "x", -1), (7, "new", 1), arrival=3), {"s": 3}, (3, 3), 3)
    assert applied.fresh is not committed
    assert rows_of(again.read_arrow()) == AFTER
    assert rows_of(changes_of(again.log, 3)) == [(1, "x", -1), (7, "new", 1)]
    assert len(again.clean_orphans(NOW_ALL)) == APPENDING[point]
    assert rows_of(again.read_arrow()) == AFTER
    again.check()


@pytest.mark.parametrize("action", ["compact", "care"])
@pytest.mark.parametrize("point", REWRITING)
def test_a_killed_rewriting_changes_nothing(store: ViewStore, point: str, action: str) -> None:
    """All states read as before, what was half written is cleaned, and it can be run again."""
    store.append(ab((2, "y", -1), (4, "t", 1), arrival=3), {"s": 3}, (3, 3), 3)
    rows = [(1, "x"), (3, "z"), (4, "t")]
    again = kill_at(store, point, action)
    assert rows_of(again.read_arrow()) == rows
    assert [rows_of(again.read_arrow(AsOf(arrival=number))) for number in (1, 2)] == [BEFORE[:2], BEFORE]
    assert again.head.kind == ("rewrite" if point == "after the commit" else "append")
    assert len(again.clean_orphans(NOW_ALL)) == (point in ("after the data file", "before the commit"))
    again.compact()
    assert (rows_of(again.read_arrow()), again.positions()) == (rows, {"s": 3})
    assert again.clean_orphans(NOW_ALL) == []
    assert again.append(ab((1, "x", -1), (7, "new", 1), arrival=4), {"s": 4}, (4, 4), 4).fresh
    assert rows_of(again.read_arrow()) == [(3, "z"), (4, "t"), (7, "new")]


@pytest.mark.parametrize(
    ("point", "kept", "files"),
    [
        ("before the checkpoint", [0, 1, 2, 3], 0),
        ("before the commits go", [0, 1, 2, 3], 0),
        ("between the commits", [3], 2),
        ("before the data is deleted", [3], 2),
    ],
)
def test_a_killed_forget_leaves_orphans_only(store: ViewStore, point: str, kept: list[int], files: int) -> None:
    """Every state that is still told of can be read; the files of the others are cleaned, and it can be run again."""
    store.compact()
    again = kill_at(store, point, "forget")
    assert again.log.versions() == kept
    if len(kept) == 1:
        with pytest.raises(NoSuchState, match="kept are versions 3 to 3"):
            again.read_arrow(AsOf(version=2))
    assert len(again.clean_orphans(NOW_ALL)) == files
    assert rows_of(again.read_arrow()) == BEFORE
    again.append(ab((1, "x", -1), (7, "new", 1), arrival=3), {"s": 3}, (3, 3), 3)
    again.forget(AsOf(version=4))
    assert ([record.version for record in again.history()], rows_of(again.read_arrow())) == ([4], AFTER)
    assert sorted(again.place.listing("_delta_log")) == [
        f"_delta_log/{4:020}.checkpoint.parquet", f"_delta_log/{4:020}.json", "_delta_log/_last_checkpoint",
    ]  # fmt: skip


@pytest.mark.parametrize("point", ["before a run", "after a run"])
def test_a_killed_merging_of_the_index(store: ViewStore, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """Runs and what they were merged into may lie there side by side: every row is found once."""
    for module in (staging, rewriting, row_index):
        monkeypatch.setattr(module, "LARGE", 1)
    store.append(ab((1, "x", 1), (5, "v", 1), arrival=3), {"s": 3}, (3, 3), 3)
    store.append(ab((1, "x", 1), (6, "v", 1), arrival=4), {"s": 4}, (4, 4), 4)
    again = kill_at(store, point, "tidy")
    again.append(ab((1, "x", -2), (5, "v", -1), arrival=5), {"s": 5}, (5, 5), 5)
    assert rows_of(again.read_arrow()) == [*BEFORE, (6, "v")]
    assert again.head.owed == ""


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
