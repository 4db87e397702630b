"""The row index is a cache: whatever is missing, damaged or out of date, rows are found where the table has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.warehouse.batches import AB, ab, rows_of
from weir.warehouse import committing, index_runs, rewriting, row_index, staging
from weir.warehouse.errors import CannotWrite
from weir.warehouse.index_runs import INDEX, IndexRun, open_run, run_of, store_run
from weir.warehouse.place import Place
from weir.warehouse.row_index import RowIndex
from weir.warehouse.store import ViewStore


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of five rows are large ones."""
    for module in (staging, rewriting, row_index):
        monkeypatch.setattr(module, "LARGE", 5)


@pytest.fixture
def store(tmp_path: Path, large: None) -> ViewStore:
    """Three large files with a run each, and a small one."""
    store = ViewStore.create(tmp_path / "view", AB)
    for part in range(3):
        append(store, *((10 * part + number, "x", 1) for number in range(6)), (99, "every", 1))
    append(store, (77, "small", 1))
    return store


def append(store: ViewStore, *rows: tuple[int, str, int], exact: bool = False) -> None:
    number = store.head.transaction + 1
    store.append(ab(*rows, arrival=number), {"s": number}, (number, number), number, exact=exact)


def runs(store: ViewStore) -> list[Path]:
    return [Path(store.place.uri, name) for name in sorted(store.place.listing(INDEX))]


def take_and_check(store: ViewStore) -> None:
    """Takes a row of every file and of all; nothing is owed, nothing else is gone."""
    before = rows_of(store.read_arrow())
    gone = [(1, "x"), (11, "x"), (21, "x"), (77, "small"), (99, "every"), (99, "every")]
    append(store, *((*row, -1) for row in gone))
    for row in gone:
        before.remove(row)
    assert rows_of(store.read_arrow()) == before
    assert store.head.owed == ""
    store.check()


def overwrite(at: float) -> Callable[[Path], object]:
    def harm(file: Path) -> None:
        content = bytearray(file.read_bytes())
        place = int(len(content) * at)
        content[place : place + 16] = b"\xa5" * 16
        file.write_bytes(bytes(content))

    return harm


def cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 2 // 3])


def change_a_number(file: Path) -> None:
    """One row number is another one: the file is still a run, and its checksum is not its own."""
    run = open_run(Place.of(file.parents[2]), f"{INDEX}{file.name}")
    assert run is not None
    content, numbers = file.read_bytes(), run.row.tobytes()
    assert content.count(numbers) == 1
    file.write_bytes(content.replace(numbers, numbers[4:] + numbers[:4]))


def of_other_hashes(file: Path) -> None:
    """As another Weir has written it, whose rows had other hashes."""
    place, name = Place.of(file.parents[2]), f"{INDEX}{file.name}"
    run = open_run(place, name)
    assert run is not None
    other = replace(run, hash=np.sort(run.hash ^ 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_runs, "HASHING", "1")
        Path(place.uri, store_run(place, other).stored).replace(file)


HARMS: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "no run": lambda file: file.write_bytes(b"a letter"),
    "cut": cut,
    "begin": overwrite(0),
    "middle": overwrite(0.5),
    "end": overwrite(0.95),
    "number": change_a_number,
    "other hashes": of_other_hashes,
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("which", [slice(0, 1), slice(0, 3)], ids=["one", "all"])
def test_a_harmed_run_is_made_again(store: ViewStore, harm: str, which: slice) -> None:
    """The rows are found; the run is there again for the next one who opens the table, and what was harmed is not."""
    assert len(runs(store)) == 3
    for file in runs(store)[which]:
        HARMS[harm](file)
    take_and_check(ViewStore.open(store.place.uri))
    assert len(runs(store)) == 3
    covered = {name for file in runs(store) for name in opened(store, file).names}
    assert covered == {file.name for file in store.log.state().files.values() if file.rows >= 5}


@pytest.mark.spark
def test_the_index_can_be_asked_from_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Two tasks find each its half of the rows, in the files that the driver finds them in."""
    store = ViewStore.create(tmp_path / "view", AB)
    append(store, *((number, "x", 1) for number in range(60_000)))
    append(store, *((number, "x", 1) for number in range(60_000, 60_010)))
    append(store, (7, "x", -1))
    stager, state = store.stager(), store.log.state()
    rows = ab(*((number, "x", 1) for number in (5, 7, 59_999, 60_003, 99_999)))
    wanted = stager.hashes(rows.select(["a", "b"]))

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = RowIndex(stager)
        index.follow(state)
        for batch in batches:
            mine = np.sort(wanted[batch.column(0)[0].as_py() :: 2])
            found = index.search(mine, []).more(np.arange(len(mine)), np.full(len(mine), 9))
            hashes, rows = pa.array(mine[found.asked]), pa.array(found.row)
            yield pa.RecordBatch.from_arrays([hashes, rows], names=["hash", "row"])

    places = spark.range(0, 2, 1, 2).mapInArrow(find, "hash bigint, row bigint").collect()
    assert {(place.hash, place.row) for place in places} == {
        (wanted[0], 5), (wanted[2], 59_999), (wanted[3], 3),
    }  # fmt: skip


def opened(store: ViewStore, file: Path) -> IndexRun:
    run = open_run(store.place, f"{INDEX}{file.name}")
    assert run is not None
    return run


def test_a_whole_index_is_only_opened(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large files nothing is read to find their rows, but the rows that are compared."""
    hashed: list[str] = []
    original = staging.Stager.hashes_of

    def noted(stager: staging.Stager, name: str) -> staging.Hashes:
        hashed.append(name)
        return original(stager, name)

    monkeypatch.setattr(staging.Stager, "hashes_of", noted)
    again = ViewStore.open(store.place.uri)
    take_and_check(again)
    small = [file.name for file in store.log.state(4).files.values() if file.rows < 5]
    assert hashed == small
    append(again, (2, "x", -1), (3, "new", 1))
    append(again, (3, "x", -1), (3, "new", -1))
    assert hashed == small


def test_runs_of_files_that_are_no_more(store: ViewStore) -> None:
    """They are not asked, and go when orphans are cleaned; nor does the file that they were made for come back."""
    assert store.compact() == 5
    assert len(runs(store)) == 4
    take_and_check(ViewStore.open(store.place.uri))
    cleaned = store.clean_orphans(timedelta(0))
    assert (len(cleaned), len(runs(store))) == (3, 1)
    assert all(name.startswith(INDEX) for name in cleaned)
    append(ViewStore.open(store.place.uri), (2, "x", -1), (12, "x", -1))
    assert (2, "x") not in rows_of(store.read_arrow())


def test_a_table_that_another_tool_has_rewritten(store: ViewStore) -> None:
    """The index follows the table, of a handle that was open and of a new one."""
    append(store, (0, "x", -1), (10, "x", -1))
    DeltaTable(store.place.uri).optimize.compact()
    for again in (store, ViewStore.open(store.place.uri)):
        again.settle()
    take_and_check(store)
    append(ViewStore.open(store.place.uri), (2, "x", -1), (12, "x", -1), (99, "every", -1), exact=True)
    assert rows_of(store.read_arrow()) == [(number, "x") for number in (3, 4, 5, 13, 14, 15, 20, 22, 23, 24, 25)]


def test_a_rewriting_of_another_process_is_followed(store: ViewStore) -> None:
    """With its run where it has written one, and by reading the new file where it has not."""
    append(store, (0, "x", -1))
    assert ViewStore.open(store.place.uri).compact() is not None
    take_and_check(store)
    append(store, (0, "z", 1), (1, "z", 1))
    assert ViewStore.open(store.place.uri).compact() is not None
    for file in runs(store):
        file.unlink()
    append(store, (0, "z", -1), (2, "x", -1), (12, "x", -1))
    assert store.head.owed == ""


def test_many_runs_are_merged(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into one that lies in a file; the old ones go; every row is found where it was."""
    for module in (row_index, committing):
        monkeypatch.setattr(module, "MOST_RUNS", 3)
    assert store.care() == []
    append(store, *((30 + number, "x", 1) for number in range(6)))
    beside = ViewStore.open(store.place.uri)
    assert beside.care() == ["index"]
    (merged,) = runs(store)
    assert len(opened(store, merged)) == 27
    assert beside.care() == []
    take_and_check(store)
    append(ViewStore.open(store.place.uri), (2, "x", -1), (12, "x", -1), (99, "every", -1), (35, "x", -1))
    assert store.head.owed == ""
    assert rows_of(store.read_arrow())[-1] == (34, "x")


def test_a_row_is_found_once_however_many_runs_tell_of_it(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and what they were merged into lie side by side after a crash: also when all of these are merged again."""
    for module in (row_index, committing):
        monkeypatch.setattr(module, "MOST_RUNS", 2)
    names = sorted(name for name, file in store.log.state().files.items() if file.rows >= 5)
    store.place.discard(store.place.listing(INDEX))
    for number in range(3):  # in the order in which they are looked at, none makes the next one needless
        run = store_run(store.place, run_of({name: store.stager().hashes_of(name) for name in names[: number + 1]}))
        Path(store.place.uri, run.stored).rename(Path(store.place.uri, INDEX, f"{number}.arrow"))
    again = ViewStore.open(store.place.uri)
    append(again, (0, "x", -1))
    assert again.care() == ["index"]
    take_and_check(again)
    append(again, (99, "every", -1))
    assert rows_of(again.read_arrow())[-1] == (25, "x")


def test_many_small_runs_are_merged_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And go to a file when they are many entries in all; every row is found through all of it."""
    monkeypatch.setattr(row_index, "MOST_RUNS", 2)
    monkeypatch.setattr(row_index, "MOST_IN_MEMORY", 8)
    store = ViewStore.create(tmp_path / "view", AB)
    for number in range(12):
        append(store, (number, "x", 1), (number, "y", 1), (number - 1, "y", -1 if number else 0))
    assert rows_of(store.read_arrow()) == sorted([*((number, "x") for number in range(12)), (11, "y")])
    assert runs(store)
    append(store, *((number, "x", -1) for number in range(12)))
    assert rows_of(store.read_arrow()) == [(11, "y")]


def test_a_commit_stands_when_the_index_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full just after the commit: the rows are there, no file of theirs is taken back."""
    monkeypatch.setattr(row_index, "MOST_RUNS", 1)
    monkeypatch.setattr(row_index, "MOST_IN_MEMORY", 1)
    store = ViewStore.create(tmp_path / "view", AB)
    append(store, (1, "x", 1), (2, "x", 1))

    def full(place: Place, run: IndexRun) -> IndexRun:
        raise place.cannot_write("No space left on device")

    monkeypatch.setattr(row_index, "store_run", full)
    append(store, (1, "x", -1), (3, "x", 1))
    append(store, (2, "x", -1), (4, "x", 1))
    store.check()
    assert rows_of(store.read_arrow()) == [(3, "x"), (4, "x")]
    monkeypatch.undo()
    append(store, (3, "x", -1))
    assert rows_of(store.read_arrow()) == [(4, "x")]


def test_an_index_that_cannot_be_removed_is_no_hindrance(store: ViewStore) -> None:
    """A damaged run in a folder that is no more, or a folder in place of a run, does not stop a writer."""
    runs(store)[0].unlink()
    os.mkdir(Path(store.place.uri, INDEX, "folder.arrow"))
    take_and_check(ViewStore.open(store.place.uri))


def test_a_large_delta_that_the_disk_refuses_leaves_no_file(
    store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows were written and their run was not."""
    before = store.place.listing().keys()

    def full(place: Place, hashes: object) -> str:
        raise place.cannot_write("No space left on device")

    monkeypatch.setattr(staging, "write_run", full)
    with pytest.raises(CannotWrite, match="No space left"):
        append(store, *((number, "n", 1) for number in range(9)), (1, "x", -1))
    assert store.place.listing().keys() == before
