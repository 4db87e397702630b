"""Held snapshots, and views at different positions of one folder."""

from __future__ import annotations

import itertools
import pickle
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sources.connections import open_files
from tests.sources.files.producer import put, put_csv
from tests.sources.rounds import (
    Content,
    assert_shows,
    check_begins_with_next_visit,
    check_held,
    check_redelivery,
    content_of,
    deliver,
    held_by,
    loaded_position,
    whole,
)
from weir.algebra.catalog import Relation
from weir.proving.oracle import Replay
from weir.sources.files import FilesOptions, FilesSource
from weir.sources.source import LoadAgain, SourceError

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
    numbers = itertools.count(3)

    def write() -> None:
        number = next(numbers)
        put_both(tmp_path, str(number), number, number, 2)

    first, second = check_held(source, replay, write)
    assert (len(first.transactions), len(second.transactions)) == (1, 1)
    assert replay.tables[NOTES] == Counter([(2,), (6,), (6,)])
    visit = source.visit(hold=True)
    reader = pickle.loads(pickle.dumps(held_by(visit).token)).reader()
    assert replay.compare(reader.answer(whole(COLUMNS)), whole(COLUMNS)) == []
    held_by(visit).release()
    source.close()


def test_nothing_is_open(reopen: Callable[..., FilesSource], tmp_path: Path) -> None:
    """Not even while a snapshot is held."""
    put_both(tmp_path, "100", 1)
    source, numbers = reopen(), itertools.count(101)
    source.load().held.release()
    held = [held_by(source.visit(hold=True)) for _ in range(3)]
    for one in held:
        put_both(tmp_path, str(next(numbers)), 1)
        content_of(one)
        assert open_files(tmp_path) == set()
        one.release()
    source.close()


def test_a_held_snapshot_that_is_removed_says_so(reopen: Callable[..., FilesSource], tmp_path: Path) -> None:
    """However often it is asked; the newer one stays, and visits go on."""
    put_both(tmp_path, "1", 1)
    source, replay = reopen(), Replay(COLUMNS)
    replay.load(source)
    older = held_by(source.visit(hold=True))
    put_both(tmp_path, "2", 2)
    visit = source.visit(hold=True)
    assert replay.apply(visit) == []
    parts = older.parts()
    shutil.rmtree(tmp_path / "things" / "1")
    for _ in range(2):
        with pytest.raises(SourceError, match=r"cannot be read|changed or removed"):
            older.look(whole(COLUMNS))
    with pytest.raises(SourceError, match=r"cannot be read|changed or removed"):
        [list(older.read(part)) for part in parts]
    assert_shows(held_by(visit), replay)
    put_both(tmp_path, "3", 3)
    assert replay.apply(source.visit()) == []
    for one in (older, held_by(visit)):
        one.release()
    source.close()


def test_what_is_held_is_not_deleted(options: FilesOptions, spark: SparkSession, tmp_path: Path) -> None:
    """Acknowledging passes over snapshots that are held, until the next time; the copies of CSV files too."""
    source = FilesSource(replace(options, schemas={"sale": "id bigint"}, delete_acknowledged=True), spark)
    sale = Relation("lake", "sale")
    put_csv(tmp_path, "sale", "1", "id\n1\n")
    source.watch({sale: ("id",)})
    load = source.load()
    put_csv(tmp_path, "sale", "2", "id\n2\n")
    visit = source.visit(hold=True)
    source.acknowledge(visit.position)
    assert content_of(load.held) == {sale: Counter([(1,)])}
    load.held.release()
    source.acknowledge(visit.position)
    assert [path.name for path in (tmp_path / "sale").iterdir()] == ["2"]
    work = source._work
    assert work is not None
    assert [path.name for path in (work.path / "sale").iterdir()] == ["2"]
    source.close()
    assert content_of(held_by(visit)) == {sale: Counter([(2,)])}
    held_by(visit).release()
    assert not work.path.exists()


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
    first = loaded_position(source)
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
    first = loaded_position(source)
    put_both(tmp_path, "4", 4)
    put_both(tmp_path, "5", 5)
    second = loaded_position(reopen())
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
    position = loaded_position(old)
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
    return loaded_position(source)


def test_parts_are_read_by_a_token_alone(reopen: Callable[..., FilesSource], tmp_path: Path) -> None:
    """As a task does: token and part say all that is needed."""
    put_both(tmp_path, "1", 1, 2)
    source = reopen()
    source.load().held.release()
    held = held_by(source.visit(hold=True))
    token, parts = pickle.loads(pickle.dumps((held.token, held.parts())))
    reader = token.reader()
    rows = [row for part in parts if part.relation == NOTES for b in reader.read(part) for row in b.to_pylist()]
    held.release()
    assert sorted(row["id"] for row in rows) == [1, 2]
    source.close()
