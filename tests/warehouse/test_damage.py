"""Damaged tables, one by one: which file, what is the matter with it, and what is still known of the view."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.warehouse.batches import AB, ab, batch, rows_of
from tests.warehouse.test_bad_places import POWERLESS, run_limited
from weir.rounds.views import ViewTables
from weir.warehouse import delta_log
from weir.warehouse import store as store_module
from weir.warehouse.damage import last_known_arrival
from weir.warehouse.errors import CannotRead, Damaged, NotAView, StoreError
from weir.warehouse.feed import changes_of
from weir.warehouse.following import Follower
from weir.warehouse.place import Place
from weir.warehouse.record import LOAD, AsOf
from weir.warehouse.store import ViewStore

LAST = 23  # the newest version; version 20 has a checkpoint


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a commit per arrival and a checkpoint."""
    folder = tmp_path_factory.mktemp("whole") / "view"
    store = ViewStore.create(folder, AB)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_log, "AT_THE_LATEST", 20)
        for number in range(1, LAST + 1):
            store.append(ab((number, "x", 1), arrival=number), {"s": number}, (number, number), number)
    return folder


@pytest.fixture
def table(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "view"))


def commit(table: Path, version: int = LAST) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 2 // 3])


def lines(table: Path) -> list[bytes]:
    return commit(table).read_bytes().splitlines(keepends=True)


def checkpoint(table: Path) -> Path:
    return table / "_delta_log" / f"{20:020}.checkpoint.parquet"


def hint(table: Path) -> Path:
    return table / "_delta_log" / "_last_checkpoint"


OPENING: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut": (lambda table: cut(commit(table)), r"0023.json is cut off or overwritten: line 3 is no JSON object"),
    "empty": (lambda table: commit(table).write_bytes(b""), r"0023.json is empty"),
    "blank": (lambda table: commit(table).write_bytes(b"\n\n"), r"0023.json is empty"),
    "zeros": (lambda table: commit(table).write_bytes(bytes(4096)), r"0023.json is cut off or overwritten: line 1"),
    "no text": (lambda table: commit(table).write_bytes(b"\xff\xfe?"), r"0023.json is cut off or overwritten: line 1"),
    "no object": (lambda table: commit(table).write_bytes(b"[1]"), r"0023.json is cut off or overwritten: line 1"),
    "no action": (lambda table: commit(table).write_bytes(b'{"a": 1}'), r"0023.json holds no action that Delta knows"),
    "no rows": (
        lambda table: commit(table).write_bytes(lines(table)[0]),
        r"0023.json adds 0 bytes of rows and says \d+: lines of it are missing",
    ),
    "no head": (
        lambda table: commit(table).write_bytes(b"".join(lines(table)[1:])),
        r"0023.json has lost its line commitInfo",
    ),
    "cut before": (lambda table: cut(commit(table, 21)), r"0021.json is cut off or overwritten"),
    "hole": (lambda table: commit(table, 22).unlink(), r"0022.json is missing, and there are later commits"),
    "checkpoint": (lambda table: cut(checkpoint(table)), r"0020.checkpoint.parquet is no checkpoint any more"),
    "no checkpoint": (
        lambda table: checkpoint(forgotten(table)).unlink(),
        r"_last_checkpoint names the checkpoint of version 20, which is not there",
    ),
    "hint": (
        lambda table: hint(without_checkpoint(forgotten(table))).write_text('{"version": 40}'),
        r"_last_checkpoint names the checkpoint of version 40, which is not there",
    ),
    "no beginning": (lambda table: commit(without_checkpoint(table), 0).unlink(), r"0000.json is missing"),
    "no log": (
        lambda table: shutil.rmtree(table / "_delta_log"),
        r"its log, the folder _delta_log, is gone; 23 files of it",
    ),
}


def forgotten(table: Path) -> Path:
    """The commits before the checkpoint are gone, as after forgetting."""
    for version in range(20):
        commit(table, version).unlink()
    return table


def without_checkpoint(table: Path) -> Path:
    checkpoint(table).unlink()
    hint(table).unlink()
    return table


@pytest.mark.parametrize(
    "harm",
    [
        without_checkpoint,
        lambda table: checkpoint(table).unlink(),
        lambda table: hint(table).unlink(),
        lambda table: hint(table).write_text('{"version": 40, "size": 1}'),
        lambda table: hint(table).write_text("nothing"),
    ],
    ids=["neither", "no checkpoint", "no hint", "hint of none", "hint overwritten"],
)
def test_a_table_whose_commits_are_all_there(table: Path, harm: Callable[[Path], Any]) -> None:
    """A checkpoint saves time and nothing else: without it, or without the hint to it, nothing is lost. A hint to none,
    over which other clients stumble, is taken away."""
    harm(table)
    store = ViewStore.open(table)
    assert (store.head.version, store.read_arrow().num_rows) == (LAST, LAST)
    assert (DeltaTable(table).version(), len(DeltaTable(table).file_uris())) == (LAST, LAST)
    store.append(ab((1, "x", -1), arrival=24), {"s": 24}, (24, 24), 24)
    assert rows_of(ViewStore.open(table).read_arrow())[0] == (2, "x")


@pytest.mark.parametrize("damage", OPENING)
def test_a_table_that_cannot_be_opened(table: Path, damage: str) -> None:
    """The text names the table, the file and the fault, on one line; nothing of Delta's own words is in it. One made
    anew in its place goes on after the last arrival number, whichever file still tells it.
    """
    harm, wrong = OPENING[damage]
    harm(table)
    with pytest.raises(Damaged, match=rf"^the table at '{table}' is damaged: .*{wrong}") as told:
        ViewStore.open(table)
    assert "\n" not in str(told.value)
    assert ViewStore.exists(table)
    made = ViewTables(str(table.parent), {}).made_anew(AB, "view")
    assert (made.head.last_arrival, made.head.transaction, made.read_arrow().num_rows) == (LAST, 0, 0)
    assert [file.name for file in table.rglob("*") if file.is_file()] == [f"{0:020}.json"]
    made.load(ab((1, "y", 1), arrival=LAST + 1), {"s": 30}, (LAST + 1, LAST + 1), 1)
    assert rows_of(ViewStore.open(table).read_arrow(AsOf(arrival=LAST + 1))) == [(1, "y")]
    with pytest.raises(StoreError, match=rf"kept are versions 1 to 1, arrivals {LAST + 1} to {LAST + 1}"):
        made.read_arrow(AsOf(arrival=LAST))


@pytest.mark.parametrize(
    ("harm", "wrong"),
    [(Path.unlink, r"rows/\w+.parquet is missing"), (cut, r"rows/\w+.parquet has \d+ bytes, its commit says \d+")],
    ids=["missing", "cut"],
)
def test_a_file_with_rows(table: Path, harm: Callable[[Path], Any], wrong: str) -> None:
    """The log is whole, so the table opens; a check finds the file, whoever needs it names it, a load mends it."""
    harm(sorted((table / "rows").iterdir())[0])
    store = ViewStore.open(table)
    with pytest.raises(Damaged, match=wrong):
        store.check()
    taken = ab((3, "x", -1), (99, "n", 1), arrival=24)
    for act in (
        store.read_arrow,
        store.compact,
        lambda: store.append(taken, {"s": 24}, (24, 24), 24),
    ):
        with pytest.raises(Damaged, match=r"rows/\w+.parquet (is missing|cannot be read)"):
            act()
    assert store.head.version == LAST
    assert store.clean_orphans(timedelta(0)) == []
    assert_mended_by_a_load(store, 24)


def assert_mended_by_a_load(store: ViewStore, number: int) -> None:
    """What was there cannot be compared: all of it goes. What has changed then is not told, for nobody knows."""
    store.load(ab((1, "y", 1), arrival=number), {"s": 30}, (number, number), number)
    store.check()
    assert (rows_of(store.read_arrow()), store.head.live, store.head.owed) == ([(1, "y")], 1, "")
    with pytest.raises(Damaged, match=r"is missing|cannot be read|is cut off or overwritten"):
        changes_of(store.log, store.head.version)
    store.append(ab((1, "y", -1), (2, "z", 1), arrival=number + 1), {}, (number + 1, number + 1), number + 1)
    assert rows_of(store.read_arrow()) == [(2, "z")]
    assert rows_of(changes_of(store.log, store.head.version)) == [(1, "y", -1), (2, "z", 1)]


def test_what_a_mending_load_has_changed_is_told_while_it_is_known(tmp_path: Path) -> None:
    """The files that went are read for it, without the rows that were gone before: with the file back, it is known."""
    store = ViewStore.create(tmp_path / "view", AB)
    store.append(ab((1, "x", 1), (2, "x", 1)), {}, (1, 1), 1)
    store.append(ab((1, "x", -1), (3, "x", 1), (4, "x", 1), arrival=2), {}, (2, 2), 2)
    store.append(ab((3, "x", -1), arrival=3), {}, (3, 3), 3)
    lost = Path(store.place.uri, list(store.log.state().files)[-1])
    lost.rename(tmp_path / "aside")
    store.load(ab((4, "x", 1), (5, "y", 1), arrival=4), {}, (4, 4), 4)
    with pytest.raises(Damaged, match="is missing"):
        changes_of(store.log, 4)
    (tmp_path / "aside").rename(lost)
    assert rows_of(changes_of(store.log, 4)) == [(2, "x", -1), (4, "x", -1), (4, "x", 1), (5, "y", 1)]


def test_a_follower_that_is_damaged_is_mended_by_its_load(table: Path) -> None:
    """Also when another table decides for it, and a crash comes before its own commit."""
    leader, follower = ViewStore.create(table.parent / "leader", AB), ViewStore.open(table)
    next((table / "rows").iterdir()).unlink()
    part = Follower(follower, ab((1, "y", 1), arrival=24), LOAD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "bring_forward", lambda *_: False)
        leader.append(None, {"s": 24}, (24, 24), 24, followers=[part])
    assert ViewStore.open(table).head.version == LAST + 1  # it says who decides for it
    assert leader_settled(leader) == 1
    assert rows_of(ViewStore.open(table).read_arrow()) == [(1, "y")]
    ViewStore.open(table).check()


def leader_settled(leader: ViewStore) -> int:
    return len(ViewStore.open(leader.place.uri).settle())


@pytest.fixture
def losing(tmp_path: Path) -> ViewStore:
    """Rows gone by a vector in a file, a batch of two arrivals, and a debt."""
    store = ViewStore.create(tmp_path / "losing", AB)
    store.append(ab(*((number, "x", 1) for number in range(3000))), {"s": 1}, (1, 1), 1)
    store.append(ab(*((number, "x", -1) for number in range(0, 3000, 2)), arrival=2), {"s": 2}, (2, 2), 2)
    last = batch(AB, [((1, "x"), -1, 3), ((7777, "owed"), -1, 3), ((8, "y"), 1, 4)])
    store.append(last, {"s": 4}, (3, 4), 3)
    return store


def only_file(store: ViewStore, start: str) -> Path:
    (found,) = [name for name in store.place.listing() if name.startswith(start)]
    return Path(store.place.uri, found)


def vectors_of_version(store: ViewStore, version: int) -> Path:
    (file,) = [file for file in store.log.state(version).files.values() if file.vector is not None]
    assert file.vector is not None
    assert file.vector.file is not None
    return Path(store.place.uri, file.vector.file)


def overwrite(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:40] + bytes(8) + content[48:])


@pytest.mark.parametrize(
    ("harm", "checked", "wrong"),
    [
        (Path.unlink, "is missing", "is missing"),
        (cut, r"is cut off: it has \d+ bytes", "is cut off or overwritten"),
        (overwrite, "", "is cut off or overwritten: a deletion vector in it has another checksum"),
    ],
    ids=["missing", "cut", "overwritten"],
)
def test_a_file_of_vectors(losing: ViewStore, harm: Callable[[Path], Any], checked: str, wrong: str) -> None:
    """Without it nobody knows which rows are gone: no row is shown, taken or compacted; older states read on."""
    harm(vectors_of_version(losing, 3))
    store = ViewStore.open(losing.place.uri)
    if checked:
        with pytest.raises(Damaged, match=rf"_weir/deletion_vector_[\w-]+.bin {checked}"):
            store.check()
    for act in (
        store.read_arrow,
        store.compact,
        lambda: store.append(ab((3, "x", -1), arrival=5), {"s": 5}, (5, 5), 4),
        lambda: store.publish(Path(store.place.uri).parent / "plain"),
    ):
        with pytest.raises(Damaged, match=rf"_weir/deletion_vector_[\w-]+.bin {wrong}"):
            act()
    assert (store.head.version, store.read_arrow(AsOf(version=2)).num_rows) == (3, 1500)
    assert_mended_by_a_load(store, 5)


def test_files_that_only_some_states_need(losing: ViewStore) -> None:
    """Steps of a batch, what is owed, the change feed: named by whoever asks for them; the newest rows read on."""
    shown = rows_of(losing.read_arrow())
    only_file(losing, "_weir/steps/").unlink()
    with pytest.raises(Damaged, match=r"_weir/steps/\w+.parquet is missing"):
        losing.read_arrow(AsOf(arrival=3))
    feed = losing.log.actions(3)[-1]["cdc"]["path"]
    cut(Path(losing.place.uri, feed))
    with pytest.raises(Damaged, match=rf"{feed} cannot be read"):
        changes_of(losing.log, 3)
    cut(only_file(losing, "_weir/owed/"))
    again = ViewStore.open(losing.place.uri)
    with pytest.raises(Damaged, match=r"_weir/owed/\w+.parquet cannot be read"):
        again.append(ab((5, "n", 1), arrival=5), {"s": 5}, (5, 5), 4)
    assert (rows_of(again.read_arrow()), again.head.version) == (shown, 3)


def test_other_rows_than_the_commit_says(losing: ViewStore) -> None:
    """A commit that was changed by hand is found by a check."""
    file = commit(Path(losing.place.uri), 3)
    file.write_text(file.read_text().replace('"live":1500', '"live":1499'))
    with pytest.raises(Damaged, match="its files hold 1500 rows, its newest commit says 1499"):
        ViewStore.open(losing.place.uri).check()


def test_a_table_of_an_earlier_layout(table: Path) -> None:
    """It is not read as if it were one of today's, and its arrivals are gone on with when it is made anew."""
    first = commit(table, 0)
    for file in (first, *table.glob("_delta_log/*.json")):
        file.write_text(file.read_text().replace('"weir.layout":"3"', '"weir.layout":"2"'))
    without_checkpoint(table)
    told = r"was made by another version of Weir \(its layout is 2, this one's is 3\) and cannot be gone on with"
    with pytest.raises(Damaged, match=told):
        ViewStore.open(table)
    assert ViewStore.exists(table)
    assert ViewTables(str(table.parent), {}).made_anew(AB, "view").head.last_arrival == LAST


def test_what_a_table_without_its_log_still_tells(losing: ViewStore) -> None:
    """The last arrival is in the files: in those with rows, in what was taken, and in what was rewritten of them."""
    place = losing.place
    losing.append(ab((3, "x", -1), arrival=9), {"s": 9}, (5, 9), 4)
    shutil.copytree(place.uri, f"{place.uri}-compacted")
    compacted = ViewStore.open(f"{place.uri}-compacted")
    compacted.compact()
    compacted.forget(AsOf(version=compacted.head.version))
    assert len(compacted.log.state().files) == 1
    for store in (losing, compacted):
        shutil.rmtree(Path(store.place.uri, "_delta_log"))
        assert last_known_arrival(store.place) == 9


def test_a_hole_before_the_checkpoint_costs_no_file(table: Path) -> None:
    """The newest state is whole and goes on. What the lost commit has added is unknown, so nothing is deleted."""
    commit(table, 5).unlink()
    store = ViewStore.open(table)
    with pytest.raises(Damaged, match=r"0005.json is missing, so no file is deleted"):
        store.clean_orphans(timedelta(0))
    with pytest.raises(Damaged, match=r"0005.json is missing, so no file is deleted"):
        store.forget(AsOf(version=4))
    store.check()
    assert store.read_arrow().num_rows == LAST
    with pytest.raises(Damaged, match=r"0005.json is missing"):
        store.read_arrow(AsOf(version=6))


def test_a_commit_that_is_harmed_under_a_writer(table: Path) -> None:
    """A handle that was opened before says the same."""
    store = ViewStore.open(table)
    cut(commit(table))
    with pytest.raises(Damaged, match=r"0023.json is cut off"):
        store.append(ab((1, "y", 1), arrival=24), {"s": 30}, (24, 24), 24)
    shutil.rmtree(table)
    with pytest.raises(StoreError, match=r"0023.json is missing|is not a Delta table"):
        store.append(ab((1, "y", 1), arrival=24), {"s": 30}, (24, 24), 24)


def test_what_is_not_ours_is_left(table: Path) -> None:
    """A damaged table is made anew only in a folder that holds nothing else."""
    cut(commit(table))
    (table / "letter.txt").write_text("keep me")
    with pytest.raises(NotAView, match=r"letter.txt"):
        ViewTables(str(table.parent), {}).made_anew(AB, "view")
    assert (table / "letter.txt").read_text() == "keep me"
    assert last_known_arrival(Place.of(table)) == 0


def test_a_decision_for_a_damaged_table(table: Path) -> None:
    """Whoever decides for it, or is decided for by it, can still be read."""
    leader, follower = ViewStore.open(table), ViewStore.create(table.parent / "other", AB)
    part = Follower(follower, ab((1, "y", 1), arrival=24))
    leader.append(ab((1, "y", 1), arrival=24), {"s": 30}, (24, 24), 24, followers=[part])
    cut(commit(table, 24))
    behind = ViewStore.open(table.parent / "other")
    assert behind.settle() == []
    assert rows_of(behind.read_arrow()) == [(1, "y")]
    with pytest.raises(Damaged):
        ViewStore.open(table)


def test_a_folder_that_may_not_be_read(table: Path) -> None:
    """It is not called damaged: the way out is the right to read it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shut = Path(shutil.copytree(table, f"{folder}/shut"))
        shut.chmod(0)
        said = run_limited(POWERLESS + "attempt(lambda: ViewStore.exists(sys.argv[1]))", str(shut))
        shut.chmod(0o755)
        assert said.startswith(f"CannotRead the table at '{shut}' cannot be read: "), said
        assert "ermission denied" in said
    shutil.move(table, table.parent / "elsewhere")
    table.symlink_to(table)
    with pytest.raises(CannotRead, match=r"cannot be read: .*; give this account the right to read and write there"):
        ViewStore.exists(table)
