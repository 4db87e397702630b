"""Held snapshots, and views at different positions of one folder."""

from __future__ import annotations

import pickle
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sources.files.producer import put
from tests.sources.rounds import (
    Content,
    check_begins_with_next_visit,
    check_held,
    check_redelivery,
    deliver,
    whole,
)
from weir.algebra.catalog import Relation
from weir.proving.oracle import Replay
from weir.sources.files import FilesOptions, FilesSource
from weir.sources.source import LoadAgain

pytestmark = pytest.mark.spark
THINGS, NOTES = Relation("lake", "things"), Relation("lake", "notes")
COLUMNS = {THINGS: ("id", "name"), NOTES: ("id",)}


@pytest.fixture
def options(tmp_path: Path) -> FilesOptions:
    return FilesOptions("lake", str(tmp_path))


@pytest.fixture
def reopen(options: FilesOptions, spark: SparkSession) -> Callable[..., FilesSource]:
    def open_source(columns: dict[Relation, tuple[str, ...]] = COLUMNS, together: bool = True) -> FilesSource:
        source = FilesSource(replace(options, together=together), spark)
        source.watch(columns)
        return source

    return open_source


def put_both(folder: Path, name: str, *things: int) -> None:
    put(folder, "things", name, [(number, f"name {number}") for number in things])
    put(folder, "notes", name, [(number,) for number in things])


def test_a_held_snapshot_stays(reopen: Callable[..., FilesSource], tmp_path: Path) -> None:
    """Also while newer ones come; the token answers the same elsewhere."""
    put_both(tmp_path, "1", 1, 1, 2)
    source, replay = reopen(), Replay(COLUMNS)
    replay.load(source)
    put_both(tmp_path, "2", 2, 3)
    token = check_held(source, replay, lambda: put_both(tmp_path, "3")).snapshot
    reader = pickle.loads(pickle.dumps(token)).reader()
    assert replay.compare(reader.answer(whole(COLUMNS)), whole(COLUMNS)) == []
    check_held(source, replay, lambda: None)
    assert replay.rows(THINGS) == []
    source.close()


def test_a_view_that_is_ahead_skips_what_it_has(reopen: Callable[..., FilesSource], tmp_path: Path) -> None:
    """Snapshots are never taken together across its position."""
    put_both(tmp_path, "1", 1)
    source = reopen()
    source.load().held.release()
    put_both(tmp_path, "2", 1, 2)
    first = source.visit().position
    put_both(tmp_path, "3", 2, 3)
    put_both(tmp_path, "4", 3, 4)
    second = source.visit().position
    source.close()
    put_both(tmp_path, "5", 4)
    names = {number: (number, f"name {number}") for number in range(6)}
    between: Content = {
        THINGS: Counter({names[1]: -1, names[2]: -1, names[3]: 1, names[4]: 1}),
        NOTES: Counter({(1,): -1, (2,): -1, (3,): 1, (4,): 1}),
    }
    assert len(check_redelivery(reopen, first, second, between)) == 3
    shutil.rmtree(tmp_path / "things" / "4")
    with pytest.raises(LoadAgain, match=r"'4' of table lake\.things, which was delivered"):
        reopen().resume(first, [second])


def test_tables_of_one_name_that_came_apart_are_delivered_apart(
    reopen: Callable[..., FilesSource], tmp_path: Path
) -> None:
    """A table's snapshot was late: the younger view has the one of its name, and not the other."""
    put_both(tmp_path, "1", 1)

    def open_apart() -> FilesSource:
        return reopen(together=False)

    source = open_apart()
    first = source.load().position
    source.end_load()
    put(tmp_path, "things", "2", [(1, "changed")])
    second = source.visit().position
    source.close()
    put(tmp_path, "notes", "2", [])
    put_both(tmp_path, "3", 7)
    between = {THINGS: Counter({(1, "name 1"): -1, (1, "changed"): 1})}
    again = check_redelivery(open_apart, first, second, between)
    assert [transaction.identifier for transaction, _ in again] == ["2/things", "2/notes", "3/notes/things"]


def test_a_table_that_a_later_view_brought_begins_there(reopen: Callable[..., FilesSource], tmp_path: Path) -> None:
    """Its snapshots from before the load are not needed, even where the others' of that name are."""
    things = {THINGS: COLUMNS[THINGS]}
    for name in ("1", "2", "3"):
        put(tmp_path, "things", name, [(int(name), "a")])
    source = reopen(things)
    first = source.load().position
    put_both(tmp_path, "4", 4)
    put_both(tmp_path, "5", 5)
    second = reopen().load().position
    put_both(tmp_path, "6", 6)
    both = reopen()
    both.resume(first, [second])
    again = [(transaction.identifier, both.holds(second, transaction)) for transaction, _ in deliver(both)]
    assert again == [("4/things", True), ("5/things", True), ("6/notes/things", False)]


@pytest.mark.parametrize("together", [True, False])
def test_a_table_that_no_position_covers_begins_with_the_next_visit(
    reopen: Callable[..., FilesSource], tmp_path: Path, together: bool
) -> None:
    """Beside the others, if their snapshots belong together."""
    put(tmp_path, "things", "1", [(1, "a")])
    old = reopen({THINGS: COLUMNS[THINGS]}, together)
    position = old.load().position
    old.close()
    for name in ("2", "3"):
        put_both(tmp_path, name, int(name))
    both = reopen(COLUMNS, together)
    both.resume(position)
    assert both._at is not None
    assert both._at[NOTES].name == ("2" if together else "3")
    both.close()
    numbers = iter(range(4, 9))

    def write() -> None:
        number = next(numbers)
        put_both(tmp_path, str(number), number, number + 1)

    put_both(tmp_path, "1.5", 1)
    position = _position_at(reopen, together)
    check_begins_with_next_visit(lambda: reopen(COLUMNS, together), position, NOTES, write)


def _position_at(reopen: Callable[..., FilesSource], together: bool) -> str:
    """The newest of the one table."""
    source = reopen({THINGS: COLUMNS[THINGS]}, together)
    return source.load().position


def test_parts_are_read_by_a_source_that_watches_nothing(
    reopen: Callable[..., FilesSource], options: FilesOptions, tmp_path: Path
) -> None:
    """As a task does: a part says all that is needed."""
    put_both(tmp_path, "1", 1, 2)
    source = reopen()
    source.load().held.release()
    source.visit(hold=True)
    parts = pickle.loads(pickle.dumps(source.parts()))
    elsewhere = FilesSource(options)
    rows = [row for part in parts if part.relation == NOTES for b in elsewhere.read(part) for row in b.to_pylist()]
    assert sorted(row["id"] for row in rows) == [1, 2]
    source.close()
