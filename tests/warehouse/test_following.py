"""One commit for several tables: killed anywhere, they are all at the same transaction afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.warehouse.batches import AB, ab, rows_of
from weir.warehouse import rewriting
from weir.warehouse.columns import WEIGHT
from weir.warehouse.committing import Committer
from weir.warehouse.delta_log import DeltaLog
from weir.warehouse.errors import StoreError, Unsettled, WriterConflict
from weir.warehouse.feed import changes_of
from weir.warehouse.following import Follower
from weir.warehouse.place import Place
from weir.warehouse.record import LOAD, AsOf
from weir.warehouse.store import Applied, ViewStore

NAMES = ("view", "other", "auxiliary")
BEFORE = {"view": [(1, "x")], "other": [(1, "o")], "auxiliary": [(1, "first"), (2, "first")]}
AFTER = {"view": [(1, "x"), (2, "y")], "other": [(3, "o")], "auxiliary": [(7, "second")]}
NOW_ALL = timedelta(0)

Tables = dict[str, ViewStore]


def first_transaction(tables: Tables) -> Applied:
    """Two views and an auxiliary view that is replaced as a whole."""
    auxiliary = Follower(tables["auxiliary"], ab((1, "first", 1), (2, "first", 1)), LOAD)
    followers = [Follower(tables["other"], ab((1, "o", 1))), auxiliary]
    return tables["view"].append(ab((1, "x", 1)), {"s": 1}, (1, 1), 1, followers=followers)


def second_transaction(tables: Tables) -> Applied:
    other = Follower(tables["other"], ab((1, "o", -1), (3, "o", 1), arrival=2))
    auxiliary = Follower(tables["auxiliary"], ab((7, "second", 1), arrival=2), LOAD)
    return tables["view"].append(ab((2, "y", 1), arrival=2), {"s": 2}, (2, 2), 2, followers=[other, auxiliary])


DIE = """
import os, signal, sys
from pathlib import Path
from tests.warehouse.test_following import opened, second_transaction
from weir.warehouse.delta_log import DeltaLog
from weir.warehouse.place import Place

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def die_instead(owner, name, calls):
    original, left = getattr(owner, name), [calls]
    def counted(*arguments):
        left[0] -= 1
        return die() if left[0] < 0 else original(*arguments)
    setattr(owner, name, counted)

folder, point = sys.argv[1:]
match point:
    case "while staging": die_instead(Place, "write_parquet", 2)
    case "after the last file": die_instead(Place, "put_if_absent", 0)
    case "after staging": die_instead(DeltaLog, "commit", 0)
    case "after the decision": die_instead(DeltaLog, "commit", 1)
    case "between followers": die_instead(DeltaLog, "commit", 2)
second_transaction(opened(Path(folder)))
die()
"""
FILES_LEFT = {
    "while staging": 2,
    "after staging": 5,
    "after the last file": 5,
    "after the decision": 0,
    "between followers": 0,
    "after all": 0,
}  # rows of every table, and what is taken from the followers


def opened(folder: Path) -> Tables:
    return {name: ViewStore.open(folder / name) for name in NAMES}


def shown(tables: Tables) -> dict[str, list[tuple[object, ...]]]:
    return {name: rows_of(table.read_arrow()) for name, table in tables.items()}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    made = {name: ViewStore.create(tmp_path / "all" / name, AB) for name in NAMES}
    first_transaction(made)
    return made


def kill_at(tables: Tables, point: str) -> Tables:
    """Commits the second transaction in a process that is killed there, and opens the tables anew."""
    folder = Path(tables["view"].place.uri).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", DIE, str(folder), point]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return opened(folder)


def test_all_tables_move_together(tables: Tables) -> None:
    """Positions, arrivals and transaction are the same everywhere; every older state stays addressable everywhere."""
    assert second_transaction(tables).fresh
    assert shown(tables) == AFTER
    heads = [table.head for table in tables.values()]
    assert {(head.transaction, head.last_arrival, head.positions["s"]) for head in heads} == {(2, 2, 2)}
    assert [head.kind for head in heads] == ["append", "append", "load"]
    for name, table in tables.items():
        assert rows_of(table.read_arrow(AsOf(arrival=1))) == BEFORE[name]
        assert rows_of(table.read_arrow(AsOf(positions={"s": 1}))) == BEFORE[name]
    assert tables["view"].settle() == []
    assert second_transaction(tables) == Applied(tables["view"].head.version, fresh=False)
    assert shown(tables) == AFTER


@pytest.mark.parametrize("point", FILES_LEFT)
def test_killed_anywhere_all_tables_are_at_one_transaction(tables: Tables, point: str) -> None:
    """After settling, all or none have the transaction; repeated, it is there once; no file is left over."""
    again = kill_at(tables, point)
    decided = not FILES_LEFT[point]
    moved = again["view"].settle()
    assert len(moved) == {"after the decision": 2, "between followers": 1}.get(point, 0)
    assert shown(again) == (AFTER if decided else BEFORE)
    assert {table.head.transaction for table in again.values()} == {2 if decided else 1}
    assert second_transaction(again).fresh is not decided
    assert shown(again) == AFTER
    assert sum(len(table.clean_orphans(NOW_ALL)) for table in again.values()) == FILES_LEFT[point]
    assert shown(again) == AFTER == shown(opened(Path(again["view"].place.uri).parent))
    assert all(table.clean_orphans(NOW_ALL) == [] for table in again.values())
    assert all(set(parquet_files(table)) == referenced(table) for table in again.values())


def parquet_files(table: ViewStore) -> list[str]:
    return [name for name in table.place.listing() if name.endswith(".parquet") and "_delta_log" not in name]


def referenced(table: ViewStore) -> set[str]:
    versions = table.log.versions()
    rows = {name for version in versions for name in table.log.state(version).files}
    feed = [action["cdc"]["path"] for version in versions for action in table.log.actions(version) if "cdc" in action]
    return rows.union(feed)


def test_the_next_append_settles_first(tables: Tables) -> None:
    """Whoever goes on after a crash need not know of it: with the same handles, and with one more table."""
    again = kill_at(tables, "after the decision")
    late = ViewStore.create(Path(again["view"].place.uri).parent / "late", AB)
    more = [Follower(again["other"], ab((4, "o", 1), arrival=3)), Follower(late, ab((9, "l", 1), arrival=3))]
    assert again["view"].append(None, {"s": 3}, (3, 3), 3, followers=more).fresh
    assert shown(again) == {**AFTER, "other": [(3, "o"), (4, "o")]}
    assert (again["auxiliary"].head.transaction, rows_of(late.read_arrow())) == (2, [(9, "l")])


def test_cleaning_a_follower_keeps_the_files_that_wait_there(tables: Tables) -> None:
    """A follower knows who decides for it: it is settled before anything of it is deleted."""
    again = kill_at(tables, "after the decision")
    assert again["auxiliary"].clean_orphans(NOW_ALL) == []
    assert shown(again) == AFTER


def test_appending_to_a_follower_alone_settles_first(tables: Tables) -> None:
    """Its own next delta comes after the one that waited; then it follows nobody."""
    again = kill_at(tables, "after the decision")
    assert again["other"].append(ab((5, "o", 1), arrival=3), {"s": 3}, (3, 3), 3).fresh
    assert rows_of(again["other"].read_arrow()) == [(3, "o"), (5, "o")]
    assert again["other"].head.leader == ""
    assert shown(again)["auxiliary"] == AFTER["auxiliary"]


@pytest.mark.parametrize("settled_by", NAMES)
def test_a_compaction_carries_the_decision_on(tables: Tables, settled_by: str) -> None:
    """Rewritten and forgotten before anybody settled, the deciding table and the followers: nothing is lost. The rows
    that were to be taken lie elsewhere now, and are found there."""
    again = kill_at(tables, "after the decision")
    for name in NAMES:
        (before, *_) = again[name].log.state().files.values()
        assert rewriting.rewrite(Committer(again[name].log), again[name].log.state(), [before]) is not None
        again[name].forget(AsOf(version=again[name].head.version))
        assert before.name not in again[name].place.listing()
    assert len(ViewStore.open(again[settled_by].place.uri).settle()) == 2
    assert shown(again) == AFTER
    assert all(table.clean_orphans(NOW_ALL) == [] for table in again.values())
    told = changes_of(again["other"].log, again["other"].head.version).to_pylist()
    assert {row["a"]: row[WEIGHT] for row in told} == {1: -1, 3: 1}


def test_rows_that_were_rewritten_while_their_table_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows in several files, merged by another tool and by us between the decision and the follower's commit."""
    view, other = ViewStore.create(tmp_path / "view", AB), ViewStore.create(tmp_path / "other", AB)
    for number in (1, 2, 3):
        rows = ab(*((n, str(number), 1) for n in range(100)), (0, "twice", 2), arrival=number)
        view.append(None, {"s": number}, (number, number), number, followers=[Follower(other, rows)])
    commit = DeltaLog.commit

    def rewritten_before(log: DeltaLog, *arguments: object) -> int:
        if log is other.log:
            monkeypatch.setattr(DeltaLog, "commit", commit)
            DeltaTable(log.place.uri).optimize.compact()
            fresh = DeltaLog.open(log.place)
            files = list(fresh.state().files.values())
            assert len(files) == 1
            assert rewriting.rewrite(Committer(fresh), fresh.state(), files) is not None
        return commit(log, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaLog, "commit", rewritten_before)
    taken = [(n, str(number), -1) for n in range(0, 100, 3) for number in (1, 2, 3)]
    gone = ab(*taken, (0, "twice", -4), (7, "owed", -1), arrival=4)
    view.append(None, {"s": 4}, (4, 4), 4, followers=[Follower(other, gone)])
    expected = [(n, str(number)) for n in range(100) for number in (1, 2, 3) if n % 3]
    assert rows_of(other.read_arrow()) == sorted([(0, "twice"), (0, "twice"), *expected])
    assert [record.kind for record in other.history()][-3:] == ["rewrite", "rewrite", "append"]
    assert other.head.owed != ""
    assert other.clean_orphans(NOW_ALL) == []


def test_waiting_files_are_no_orphans_of_a_compacted_follower(tables: Tables) -> None:
    """Compacting and cleaning a follower in another process settles it first, whoever does it."""
    again = kill_at(tables, "after the decision")
    again["other"].compact()
    again["other"].care()
    assert again["other"].clean_orphans(NOW_ALL) == []
    assert shown(again) == AFTER


def test_a_warehouse_can_be_moved_before_it_is_settled(tables: Tables, tmp_path: Path) -> None:
    """Tables name each other by the way between them; a copy settles itself and not the original."""
    again = kill_at(tables, "after the decision")
    shutil.copytree(tmp_path / "all", tmp_path / "elsewhere")
    copy = opened(tmp_path / "elsewhere")
    assert len(copy["other"].settle()) == 2
    assert shown(copy) == AFTER
    assert shown(again) == {**BEFORE, "view": AFTER["view"]}


def test_a_follower_that_was_dropped_or_made_anew_is_left_alone(tables: Tables) -> None:
    """Nobody waits for a dropped table, and the decision was not for the new one at its path."""
    again = kill_at(tables, "after the decision")
    for name in ("other", "auxiliary"):
        shutil.rmtree(again[name].place.uri)
    anew = ViewStore.create(again["other"].place.uri, AB)
    assert again["view"].settle() == []
    assert (anew.head.version, ViewStore.exists(again["auxiliary"].place.uri)) == (0, False)


def test_a_follower_that_cannot_be_written_is_settled_later(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says that the transaction stands; repeated when there is room again, it is complete and not doubled."""
    put = Place.put_if_absent

    def full(place: Place, *arguments: object) -> bool:
        if place.uri.endswith("auxiliary"):
            raise OSError("No space left on device")
        return put(place, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Place, "put_if_absent", full)
    with pytest.raises(Unsettled, match=r"transaction 2 is committed at .*view.*auxiliary.*No space left"):
        second_transaction(tables)
    monkeypatch.undo()
    assert shown(tables) == {**AFTER, "auxiliary": BEFORE["auxiliary"]}
    assert not second_transaction(tables).fresh
    assert shown(tables) == AFTER


def test_somebody_may_settle_while_the_writer_is_at_it(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the decision and the followers' commits another process brings them forward: applied once."""
    commit = DeltaLog.commit

    def settled_beside(log: DeltaLog, *arguments: object) -> int:
        version = commit(log, *arguments)  # type: ignore[arg-type]
        if log is tables["view"].log:
            assert len(ViewStore.open(log.place.uri).settle()) == 2
        return version

    monkeypatch.setattr(DeltaLog, "commit", settled_beside)
    assert second_transaction(tables).fresh
    assert shown(tables) == AFTER
    assert [record.kind for record in tables["other"].history()] == ["create", "follow", "append", "append"]


def test_what_cannot_be_decided_is_refused_before_anything_is_written(tables: Tables) -> None:
    """The same table twice, a table that is ahead, a part that does not fit: no table moves, no file stays."""
    view, other = tables["view"], tables["other"]
    twice = [Follower(other, None), Follower(ViewStore.open(other.place.uri), None)]
    with pytest.raises(StoreError, match="named twice in one commit"):
        view.append(None, {}, None, 2, followers=twice)
    unfit = [Follower(other, ab((3, "o", 1), arrival=2)), Follower(tables["auxiliary"], ab().drop_columns(["b"]))]
    with pytest.raises(StoreError, match="no column 'b'"):
        view.append(ab((2, "y", 1), arrival=2), {"s": 2}, (2, 2), 2, followers=unfit)
    other.append(None, {"s": 9}, None, 9)
    with pytest.raises(StoreError, match=r"is at transaction 9, so .* number on"):
        view.append(None, {}, None, 2, followers=[Follower(other, None)])
    assert shown(tables) == BEFORE
    assert all(set(parquet_files(table)) == referenced(table) for table in tables.values())


def test_two_writers_of_a_group_are_told(tables: Tables) -> None:
    """The deciding table tells them apart; the second one's parts are written nowhere."""
    beside = opened(Path(tables["view"].place.uri).parent)
    assert second_transaction(tables).fresh
    with pytest.raises(WriterConflict):
        second_transaction(beside)
    assert shown(beside) == AFTER


@pytest.mark.spark
def test_parts_that_spark_writes(tables: Tables, spark: SparkSession) -> None:
    """Deltas staged by Spark and by tasks' stagers decide together, with positions and arrivals of their own."""
    staged = tables["other"].stager().write(ab((1, "o", -1), (3, "o", 1), arrival=5))
    auxiliary = Follower(tables["auxiliary"], spark.createDataFrame(ab((7, "second", 1), arrival=2)), LOAD)
    other = Follower(tables["other"], staged, positions={"t": 1}, arrivals=(5, 5), notes={"why": "test"})
    frame = spark.createDataFrame(ab((2, "y", 1), arrival=2))
    assert tables["view"].append(frame, {"s": 2}, (2, 2), 2, followers=[other, auxiliary]).fresh
    assert shown(tables) == AFTER
    head = tables["other"].head
    assert (head.positions, head.arrivals, head.notes) == ({"s": 1, "t": 1}, (5, 5), {"why": "test"})


@pytest.mark.parametrize(
    ("here", "there", "way"),
    [
        ("/data/views/a", "/data/views/b", "../b"),
        ("/data/views/a#1", "/data/aux/b", "../../aux/b"),
        ("s3://lake/views/a", "s3://lake/views/b", "../b"),
        ("s3://lake/views/a", "s3://other/b", "s3://other/b"),
        ("/data/a", "s3://lake/b", "s3://lake/b"),
        ("s3://lake/a", "/data/b", "/data/b"),
    ],
)
def test_the_way_between_two_tables(here: str, there: str, way: str) -> None:
    """Relative where both lie below one root, and it leads back to the same place."""
    start, end = Place(here, {"key": "k"}), Place(there)
    assert start.path_to(end) == way
    assert start.at(way) == Place(there, {"key": "k"})
