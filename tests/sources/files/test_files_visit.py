"""Files as a source: snapshots delivered as differences, answers from the newest delivered, torn ones held back."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.sources.files.producer import ITEM, put, tear
from tests.sources.rounds import held_by
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.proving.oracle import ReplayedSource, ask
from weir.sources.files import FilesOptions, FilesSource, take_snapshot
from weir.sources.source import TRANSACTION, WEIGHT, LoadAgain, SchemaChanged, SourceError

pytestmark = pytest.mark.spark
THINGS, NOTES = Relation("lake", "things"), Relation("lake", "notes")
COLUMNS = {THINGS: ("id", "name", "price")}
NAN = float("nan")


@pytest.fixture
def options(tmp_path: Path) -> FilesOptions:
    return FilesOptions("lake", str(tmp_path))


@pytest.fixture
def source(options: FilesOptions, spark: SparkSession) -> Iterator[FilesSource]:
    made = FilesSource(options, spark)
    yield made
    made.close()


def changes_of(table: pa.Table) -> list[tuple[object, ...]]:
    """(id, weight, transaction), sorted."""
    return sorted(zip(*(table.column(name).to_pylist() for name in ("id", WEIGHT, TRANSACTION)), strict=True))


def test_the_difference_of_two_snapshots_is_one_transaction(source: FilesSource, tmp_path: Path) -> None:
    """Rows that came, went, changed or occur another number of times; NaN and NULL are equal to themselves."""
    put(tmp_path, "things", "2024-01-01", [(1, "a", 1.0), (2, None, NAN), (3, "x", 0.0), (3, "x", -0.0)], parts=2)
    follower = ReplayedSource(source, COLUMNS)
    put(
        tmp_path, "things", "2024-01-02", [(1, "b", 1.0), (2, None, NAN), (3, "x", 0.0), (4, "n", None), (4, "n", None)]
    )
    visit = follower.check()
    assert [transaction.identifier for transaction in visit.transactions] == ["2024-01-02/things"]
    assert changes_of(visit.changes[THINGS]) == [(1, -1, 0), (1, 1, 0), (3, -1, 0), (4, 1, 0), (4, 1, 0)]


def test_several_new_snapshots_are_as_many_transactions(source: FilesSource, tmp_path: Path) -> None:
    """In the order of their names; one that changes nothing is none."""
    put(tmp_path, "things", "1", [(1, "a", 1.0)])
    follower = ReplayedSource(source, COLUMNS)
    put(tmp_path, "things", "2", [(2, "a", 1.0)])
    put(tmp_path, "things", "3", [(2, "a", 1.0)])
    put(tmp_path, "things", "4", [(1, "a", 1.0)])
    visit = follower.check()
    assert [transaction.identifier for transaction in visit.transactions] == ["2/things", "4/things"]
    assert changes_of(visit.changes[THINGS]) == [(1, -1, 0), (1, 1, 1), (2, -1, 1), (2, 1, 0)]
    assert follower.check().transactions == ()


def torn_ways(folder: Path) -> Iterator[str]:
    """Puts a snapshot '2' in every way that is not complete, one after the other; yields what must be said."""
    rows = [(1, "a", 1.0), (2, "b", 2.0)]
    place = put(folder, "things", "2", rows, parts=2)
    (place / "_SUCCESS").unlink()
    yield "neither _SUCCESS nor _MANIFEST"
    (place / "_SUCCESS").touch()
    tear(place / "part-1.parquet")
    yield "part-1.parquet has no whole Parquet footer"
    (place / "part-1.parquet").unlink()
    names = ["part-0.parquet", "part-1.parquet"]
    (place / "_MANIFEST.json").write_text(json.dumps({"files": [{"name": name} for name in names]}))
    yield "part-1.parquet is in its _MANIFEST.json and not there"
    (place / "_MANIFEST.json").write_text(json.dumps({"files": [{"name": "part-0.parquet", "rows": 7}]}))
    yield "has 1 rows, its _MANIFEST.json says 7"
    (place / "_MANIFEST.json").write_text(json.dumps({"files": [{"name": "part-0.parquet", "bytes": 7}]}))
    yield "bytes, its _MANIFEST.json says 7"
    (place / "_MANIFEST.json").write_text('{"files": [{"na')
    yield "is no list of files"
    (place / "_MANIFEST.json").write_text('{"files": []}')
    yield "is there and not in its _MANIFEST"
    (place / "part-0.parquet").unlink()
    yield "lists no file"
    (place / "_MANIFEST.json").unlink()
    yield "a marker and no file"
    shutil.rmtree(place)
    (folder / "things" / "2.parquet").write_bytes(b"PAR1 half")
    yield "no whole Parquet footer"
    (folder / "things" / "2.parquet").unlink()
    (folder / "things" / "2.csv").write_text("id,name,price\n1,a,")
    yield "nothing tells whether a CSV file by itself is whole"


def test_a_snapshot_that_is_not_whole_deletes_nothing(source: FilesSource, tmp_path: Path) -> None:
    """It is held back with a reason, the answers come from the last one; a whole one then goes on."""
    put(tmp_path, "things", "1", [(number, "a", 1.0) for number in range(50)])
    follower = ReplayedSource(source, COLUMNS)
    for reason in torn_ways(tmp_path):
        visit = follower.check()
        assert visit.transactions == ()
        assert follower.answers[0].num_rows == 50
        assert reason in source.held_back[0].problem, source.held_back
        assert any(reason in finding.problem for finding in source.describe().findings)
    put(tmp_path, "things", "3", [(1, "a", 1.0)])
    assert len(follower.check().transactions) == 1
    assert source.held_back == ()


def test_a_first_load_waits_for_a_whole_snapshot(source: FilesSource, tmp_path: Path) -> None:
    """Without one there is nothing to load, and the message says why."""
    place = put(tmp_path, "things", "1", [(1, "a", 1.0)])
    (place / "_SUCCESS").unlink()
    with pytest.raises(SourceError, match=r"waits: it has neither _SUCCESS"):
        source.watch(COLUMNS)


def test_files_of_one_name_belong_together(source: FilesSource, tmp_path: Path) -> None:
    """A name is delivered once every watched table has it, as one transaction over all."""
    for table in ("things", "notes"):
        put(tmp_path, table, "1", [(1, table, 1.0)])
    follower = ReplayedSource(source, {**COLUMNS, NOTES: ("id",)})
    put(tmp_path, "things", "2", [(2, "a", 1.0)])
    assert follower.check().transactions == ()
    assert source.held_back[0].problem == "snapshot '2' waits for the same of notes"
    put(tmp_path, "notes", "2", [(2, "a", 1.0)])
    visit = follower.check()
    assert len(visit.transactions) == 1
    assert set(visit.changes) == {THINGS, NOTES}


def test_tables_may_go_their_own_way(options: FilesOptions, spark: SparkSession, tmp_path: Path) -> None:
    """With together = False each table has names of its own."""
    put(tmp_path, "things", "a", [(1, "a", 1.0)])
    put(tmp_path, "notes", "x", [(1, "a", 1.0)])
    source = FilesSource(replace(options, together=False), spark)
    follower = ReplayedSource(source, {**COLUMNS, NOTES: ("id",)})
    put(tmp_path, "notes", "y", [(2, "a", 1.0)])
    assert [transaction.identifier for transaction in follower.check().transactions] == ["y/notes"]
    put(tmp_path, "things", "b", [])
    assert [transaction.identifier for transaction in follower.check().transactions] == ["b/things"]


def test_resuming_goes_on_behind_the_position(
    source: FilesSource, options: FilesOptions, spark: SparkSession, tmp_path: Path
) -> None:
    """What was delivered and not committed comes again; what was committed does not."""
    put(tmp_path, "things", "1", [(1, "a", 1.0)])
    follower = ReplayedSource(source, COLUMNS)
    put(tmp_path, "things", "2", [(2, "a", 1.0)])
    source.visit()  # lost before its commit
    again = FilesSource(options, spark)
    resumed = ReplayedSource(again, COLUMNS, follower.replay)
    again.resume(follower.position)
    assert len(resumed.check().transactions) == 1
    again.resume(resumed.position)
    assert again.visit().transactions == ()


@pytest.mark.parametrize("damage", ["removed", "changed", "removed before resume", "changed before resume"])
def test_a_needed_snapshot_that_is_gone_means_load_again(
    source: FilesSource, options: FilesOptions, spark: SparkSession, tmp_path: Path, damage: str
) -> None:
    """Never a guess about what was in it."""
    place = put(tmp_path, "things", "1", [(1, "a", 1.0)])
    follower = ReplayedSource(source, COLUMNS)
    shutil.rmtree(place)
    put(tmp_path, "things", "2", [(2, "a", 1.0)])
    if damage.startswith("changed"):
        put(tmp_path, "things", "1", [(1, "other", 1.0)])
    again = FilesSource(options, spark)
    again.watch(COLUMNS)
    with pytest.raises(LoadAgain, match="load the views that use this source again"):
        again.resume(follower.position) if damage.endswith("resume") else source.visit()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (pa.schema([("id", pa.int64()), ("name", pa.string())]), "column 'price' is gone"),
        (ITEM.set(0, pa.field("id", pa.int32())), "column 'id' was bigint and is now int"),
        (ITEM.set(1, pa.field("name", pa.list_(pa.string()))), "column 'name' was string and is now list"),
    ],
)
def test_another_shape_stops_the_source(source: FilesSource, tmp_path: Path, schema: pa.Schema, message: str) -> None:
    """Before anything is delivered from it."""
    put(tmp_path, "things", "1", [(1, "a", 1.0)])
    ReplayedSource(source, COLUMNS)
    put(tmp_path, "things", "2", [], schema)
    for _ in range(2):
        with pytest.raises(SchemaChanged, match=message):
            source.visit()


def test_columns_that_no_view_uses_may_come_and_go(source: FilesSource, tmp_path: Path) -> None:
    """Only the watched ones matter."""
    put(tmp_path, "things", "1", [(1, "a", 1.0)])
    follower = ReplayedSource(source, COLUMNS)
    put(tmp_path, "things", "2", [(1, "a", 1.0)], pa.schema([*list(ITEM)[:3], ("more", pa.int8())]))
    assert follower.check().transactions == ()


def test_unmappable_columns_are_refused_by_name_when_used(source: FilesSource, tmp_path: Path) -> None:
    """A list has no place in a view; describe tells, watch refuses."""
    put(tmp_path, "things", "1", [(1, "a", 1.0)])
    assert source.describe().unmapped == {THINGS: {"unused": "list<element: int8>"}}
    with pytest.raises(SourceError, match=r"lake.things, column 'unused': the type list"):
        source.watch({THINGS: ("id", "unused")})
    with pytest.raises(SourceError, match="no column 'nmae'; it has id, name, price"):
        source.watch({THINGS: ("nmae",)})


def test_a_declared_key_is_checked(options: FilesOptions, spark: SparkSession, tmp_path: Path) -> None:
    """Algorithms rely on keys, so one that occurs twice or is NULL is refused."""
    put(tmp_path, "things", "1", [(1, "a", 1.0)])
    source = FilesSource(replace(options, keys={"things": ("id",)}), spark)
    assert source.describe().tables[0].key == ("id",)
    ReplayedSource(source, {THINGS: ("name",)})
    bad: list[list[tuple[object, ...]]] = [[(1, "a"), (1, "b")], [(None, "a")]]
    for at, rows in enumerate(bad):
        place = put(tmp_path, "things", f"2{at}", rows)
        with pytest.raises(SourceError, match=r"declared as the key of table lake.things, but \((1|None)\)"):
            source.visit()
        shutil.rmtree(place)
    assert source.visit().transactions == ()


def test_lookups_bring_the_rows_of_the_keys(source: FilesSource, tmp_path: Path) -> None:
    """Composite keys too, NULL and NaN as SQL has them, and nothing in a value is more than a value."""
    evil = "'; DROP TABLE things; -- `\\\""
    rows = [(1, "a", 0.0), (2, evil, NAN), (3, None, -0.0), (4, "a", 1.5), (None, "a", 2.5)]
    put(tmp_path, "things", "1", rows, parts=3)
    follower = ReplayedSource(source, COLUMNS)

    def lookup(schema: str, *keys: tuple[object, ...]) -> Lookup:
        parsed = Schema.parse(schema)
        return Lookup(THINGS, ("id", "name", "price"), parsed.names, MemoryBag.of(parsed, keys))

    questions = [
        lookup("id bigint", (1,), (4,), (99,)),
        lookup("name string", (evil,), (None,)),
        lookup("price double", (NAN,), (0.0,)),
        lookup("id bigint", (None,)),
    ]
    follower.check(questions)
    assert [answer.num_rows for answer in follower.answers[:4]] == [2, 1, 3, 0]
    _, (both,) = ask(source, [lookup("id bigint, name string", (1, "a"), (3, "a"), (4, "zz"))])
    assert {"id": 1, "name": "a", "price": 0.0} in both.to_pylist()


def test_a_held_snapshot_is_read_elsewhere(source: FilesSource, tmp_path: Path) -> None:
    """The token travels, and still shows the old state when a newer one was delivered."""
    put(tmp_path, "things", "1", [(1, "a", 1.0)])
    ReplayedSource(source, COLUMNS)
    held = held_by(source.visit(hold=True))
    token = pickle.loads(pickle.dumps(held.token))
    put(tmp_path, "things", "2", [])
    held.release()
    source.visit()
    (answer,) = token.reader().answer([Lookup(THINGS, ("id",))])
    assert answer.to_pylist() == [{"id": 1}]
    shutil.rmtree(tmp_path / "things" / "1")
    with pytest.raises(SourceError, match=r"cannot be read|changed or removed"):
        token.reader().answer([Lookup(THINGS, ("id",))])


def test_old_snapshots_are_deleted_only_when_asked(
    source: FilesSource, options: FilesOptions, spark: SparkSession, tmp_path: Path
) -> None:
    """By default acknowledging touches nothing of the user's."""
    put(tmp_path, "things", "1", [(1, "a", 1.0)])
    follower = ReplayedSource(source, COLUMNS)
    put(tmp_path, "things", "2", [(2, "a", 1.0)])
    position = follower.check().position
    source.acknowledge(position)
    assert sorted(p.name for p in (tmp_path / "things").iterdir()) == ["1", "2"]
    FilesSource(replace(options, delete_acknowledged=True), spark).acknowledge(position)
    assert [p.name for p in (tmp_path / "things").iterdir()] == ["2"]
    follower.check()


def test_a_table_without_a_log_becomes_snapshots(source: FilesSource, spark: SparkSession, tmp_path: Path) -> None:
    """take_snapshot writes what any DataFrame holds, and refuses to write over one."""
    frame = spark.sql("SELECT 1L id, 'a' name, 1.5D price, timestamp'2024-01-01 00:00:00' seen")
    assert take_snapshot(frame, str(tmp_path), "things") < take_snapshot(frame, str(tmp_path), "things")
    follower = ReplayedSource(source, {THINGS: ("id", "seen")})
    take_snapshot(frame.union(frame), str(tmp_path), "things", "9")
    visit = follower.check()
    assert visit.changes[THINGS].num_rows == 1
    assert str(visit.changes[THINGS].schema.field("seen").type) == "timestamp[us, tz=UTC]"
    with pytest.raises(SourceError, match="already: give another name"):
        take_snapshot(frame, str(tmp_path), "things", "9")


@pytest.mark.parametrize("name", ["a b", "x[1]", "2024-01-01T10:00:00", "é{}*?", "per%20cent", "back\\slash", "#hash"])
def test_odd_names_are_just_names(source: FilesSource, tmp_path: Path, name: str) -> None:
    """Of snapshots: no pattern, no escape."""
    put(tmp_path, "things", "!", [(1, "a", 1.0)])
    follower = ReplayedSource(source, COLUMNS)
    put(tmp_path, "things", name, [(2, "a", 1.0)])
    assert len(follower.check().transactions) == 1


def test_a_missing_folder_is_named(options: FilesOptions, tmp_path: Path) -> None:
    """With what the system says of it."""
    with pytest.raises(SourceError, match="nowhere cannot be read: No such file"):
        FilesSource(replace(options, folder=str(tmp_path / "nowhere"))).describe()


def test_positions_of_others_are_refused(source: FilesSource, tmp_path: Path) -> None:
    """By name."""
    put(tmp_path, "things", "1", [(1, "a", 1.0)])
    source.watch(COLUMNS)
    with pytest.raises(SourceError, match="'0/16B' is not a position of a source of files"):
        source.resume("0/16B")
    with pytest.raises(SourceError, match="call load or resume"):
        source.visit()
