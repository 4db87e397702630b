"""The view store: appends exactly once, states stay addressable, compaction changes nothing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.warehouse.batches import AB, ab, batch, rows_of
from weir.algebra.types import Schema
from weir.warehouse import delta_log
from weir.warehouse.errors import BadColumns, CannotWrite, NoSuchState, StoreError, WriterConflict
from weir.warehouse.feed import changes_of
from weir.warehouse.place import Place
from weir.warehouse.record import AsOf
from weir.warehouse.store import Applied, ViewStore


@pytest.fixture
def store(tmp_path: Path) -> ViewStore:
    return ViewStore.create(tmp_path / "view", AB)


def three_batches(store: ViewStore) -> None:
    """Versions 1 to 3; the last one covers arrivals 3 and 4."""
    store.append(ab((1, "x", 2), (2, "y", 1)), {"s": 10}, (1, 1), 1)
    store.append(ab((1, "x", -1), (3, None, 1), arrival=2), {"t": "p1"}, (2, 2), 2)
    last = batch(AB, [((2, "y"), -1, 3), ((4, "z"), 1, 4)])
    store.append(last, {"s": 12, "t": "p2"}, (3, 4), 3, steps=[(3, "s", 12), (4, "t", "p2")])


STATES: dict[int, list[tuple[object, ...]]] = {
    0: [],
    1: [(1, "x"), (1, "x"), (2, "y")],
    2: [(1, "x"), (2, "y"), (3, None)],
    3: [(1, "x"), (3, None)],
    4: [(1, "x"), (3, None), (4, "z")],
}


def test_a_commit_carries_positions_and_arrivals(store: ViewStore) -> None:
    """The newest commit alone says where every source stands, also to a process that opens the table afresh."""
    three_batches(store)
    head = ViewStore.open(store.place.uri).head
    assert (head.kind, head.positions, head.arrivals, head.last_arrival) == ("append", {"s": 12, "t": "p2"}, (3, 4), 4)
    assert DeltaTable(store.place.uri).transaction_version("weir") == head.transaction == 3


@pytest.mark.parametrize("compacted", [False, True])
def test_every_state_is_addressable(store: ViewStore, compacted: bool) -> None:
    """By version, by arrival (also inside a batch) and by position, before and after compaction."""
    three_batches(store)
    if compacted:
        assert store.compact() is not None
    for arrival, rows in STATES.items():
        assert rows_of_sorted(store, AsOf(arrival=arrival)) == rows
    assert [rows_of_sorted(store, AsOf(version=v)) for v in range(4)] == [STATES[a] for a in (0, 1, 2, 4)]
    assert rows_of_sorted(store, AsOf(positions={"s": 10})) == STATES[1]
    assert rows_of_sorted(store, AsOf(positions={"s": 12})) == STATES[3]
    assert rows_of_sorted(store, AsOf(positions={"s": 12, "t": "p2"})) == STATES[4] == rows_of_sorted(store, AsOf())


def rows_of_sorted(store: ViewStore, as_of: AsOf) -> list[tuple[object, ...]]:
    rows = [tuple(row.values()) for row in store.read_arrow(as_of).to_pylist()]
    return sorted(rows, key=lambda row: row[0])


def test_compaction_changes_no_visible_row(store: ViewStore) -> None:
    """It keeps rows, positions, arrivals, the transaction and the count of rows, and has nothing to do twice."""
    three_batches(store)
    before, rows = store.head, rows_of_sorted(store, AsOf())
    assert store.compact() == 4
    after = store.head
    assert (after.kind, after.positions, after.last_arrival, after.transaction, after.live) == (
        "rewrite", before.positions, before.last_arrival, before.transaction, 3,
    )  # fmt: skip
    assert rows_of_sorted(store, AsOf()) == rows
    (file,) = store.log.state().files.values()
    assert (file.rows, file.vector) == (3, None)
    assert (store.compact(), changes_of(store.log, 4).num_rows) == (None, 0)
    store.check()


def test_a_replayed_batch_is_not_applied_twice(store: ViewStore) -> None:
    """The same or an older transaction id changes nothing, for this writer and for one that opens the table anew."""
    three_batches(store)
    again = ViewStore.open(store.place.uri)
    for transaction in (1, 3):
        assert again.append(ab((9, "n", 1)), {"s": 99}, (5, 5), transaction) == Applied(3, fresh=False)
    assert rows_of_sorted(again, AsOf()) == STATES[4]
    assert again.append(ab((9, "n", 1), arrival=5), {"s": 13}, (5, 5), 4) == Applied(4, fresh=True)


def test_an_empty_delta_still_moves_positions(store: ViewStore) -> None:
    """A transaction that leaves the view as it is makes a version without files."""
    three_batches(store)
    files = store.log.state().files
    assert store.append(None, {"s": 13}, (5, 5), 4).fresh
    assert store.append(ab(arrival=6), {"s": 14}, (6, 6), 5).fresh
    assert store.append(None, {"t": "p3"}, None, 6).fresh
    assert (store.positions(), store.head.last_arrival) == ({"s": 14, "t": "p3"}, 6)
    assert store.log.state().files == files


def test_a_load_replaces_the_view(store: ViewStore) -> None:
    """A recomputed view is one commit; the states before it stay."""
    three_batches(store)
    store.load(ab((7, "q", 1), (7, "q", 1)), {"s": 20}, (5, 5), 4)
    assert rows_of(store.read_arrow()) == [(7, "q"), (7, "q")]
    assert rows_of_sorted(store, AsOf(arrival=4)) == STATES[4]


def test_a_load_writes_only_what_is_different(store: ViewStore) -> None:
    """Rows that stay are where they were; the change feed tells the difference, also when nothing is left."""
    store.load(ab((1, "x", 2), (2, "y", 1), (3, "z", 1)), {"s": 1}, (1, 1), 1)
    (before,) = store.log.state().files
    store.load(ab((1, "x", 1), (3, "z", 1), (4, "w", 1), arrival=2), {"s": 2}, (2, 2), 2)
    assert rows_of(changes_of(store.log, 2)) == [(1, "x", -1), (2, "y", -1), (4, "w", 1)]
    assert (before in store.log.state().files, store.head.rows, store.head.live) == (True, 5, 3)
    same = store.log.state().files
    store.load(ab((1, "x", 1), (3, "z", 1), (4, "w", 1), arrival=3), {"s": 3}, (3, 3), 3)
    assert (store.log.state().files, changes_of(store.log, 3).num_rows) == (same, 0)
    store.load(None, {"s": 4}, (4, 4), 4)
    assert (store.read_arrow().num_rows, store.log.state().files, store.head.live) == (0, {}, 0)


def test_a_load_of_waiting_files_replaces_the_view(store: ViewStore) -> None:
    """Rows that a Spark job has staged are put in place of those that are there, not beside them."""
    three_batches(store)
    staged = store.stage(ab((1, "x", 1), (7, "q", 1)), 5)
    store.load(staged, {"s": 20}, (5, 5), 4)
    assert rows_of(store.read_arrow()) == [(1, "x"), (7, "q")]
    told = {(row["a"], row["_weir_weight"]) for row in changes_of(store.log, 4).to_pylist()}
    assert told == {(3, -1), (4, -1), (7, 1)}


def test_a_load_of_several_arrivals_has_no_states_between(store: ViewStore) -> None:
    """Rows put in place of others are one state; what it would have been on the way is not invented."""
    three_batches(store)
    store.load(ab((7, "q", 1)), {"s": 20}, (5, 8), 4)
    assert rows_of(store.read_arrow(AsOf(arrival=8))) == [(7, "q")]
    told = "no state as of arrival 6: arrivals 5 to 8 came together.*nearest states are arrival 4 and arrival 8"
    with pytest.raises(NoSuchState, match=told):
        store.read_arrow(AsOf(arrival=6))


def test_a_load_in_place_of_rows_is_an_arrival(store: ViewStore) -> None:
    """Without a number of its own a reader who asks for the last one would be shown the rows before it."""
    three_batches(store)
    with pytest.raises(StoreError, match="number their load after arrival 4 of the view at"):
        store.load(ab((7, "q", 1)), {"s": 20}, None, 4)
    assert rows_of_sorted(store, AsOf()) == STATES[4]


def test_a_second_writer_is_told(store: ViewStore) -> None:
    """Of two writers that both opened the view, the one that comes second writes nothing and says why."""
    other = ViewStore.open(store.place.uri)
    store.append(ab((1, "x", 1)), {"s": 1}, (1, 1), 1)
    with pytest.raises(WriterConflict, match="transaction 1 is there"):
        other.append(ab((1, "x", 1)), {"s": 1}, (1, 1), 1)
    assert rows_of(store.read_arrow()) == [(1, "x")]


def test_an_append_between_the_look_and_the_commit_is_noticed(
    store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that is overtaken after it has written its files gives up and leaves no file behind."""
    other = ViewStore.open(store.place.uri)
    stage = store._staged

    def overtaken(*arguments: object) -> object:
        files = stage(*arguments)  # type: ignore[arg-type]
        other.append(ab((5, "o", 1)), {"s": 5}, (1, 1), 1)
        return files

    monkeypatch.setattr(store, "_staged", overtaken)
    with pytest.raises(WriterConflict):
        store.append(ab((1, "x", 1), (6, "y", -1)), {"s": 1}, (1, 1), 1)
    assert rows_of(other.read_arrow()) == [(5, "o")]
    assert data_files(store) == list(other.log.state().files)


def test_of_two_writers_at_the_last_moment_one_commits(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is put where none is yet: who comes second has written nothing, and leaves no file behind."""
    store.append(ab((1, "x", 1)), {"s": 1}, (1, 1), 1)
    other, put = ViewStore.open(store.place.uri), Place.put_if_absent

    def first_the_other(place: Place, content: bytes, name: str) -> bool:
        monkeypatch.setattr(Place, "put_if_absent", put)
        other.append(ab((5, "o", 1), arrival=2), {"s": 5}, (2, 2), 2)
        return put(place, content, name)

    monkeypatch.setattr(Place, "put_if_absent", first_the_other)
    with pytest.raises(WriterConflict, match="transaction 2 is there, this one had last seen 1"):
        store.append(ab((1, "x", -1), (2, "y", 1), arrival=2), {"s": 2}, (2, 2), 2)
    assert rows_of(other.read_arrow()) == [(1, "x"), (5, "o")]
    assert sorted(data_files(store)) == sorted(other.log.state().files)


@pytest.mark.parametrize("answer", ["an error", "that there is one"])
def test_a_commit_whose_answer_is_lost_stands(store: ViewStore, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """The log itself says what happened: it is there once, by this writer and no other, and its files stay."""
    put = Place.put_if_absent

    def lost(place: Place, content: bytes, name: str) -> bool:
        assert put(place, content, name)
        if answer == "an error":
            raise OSError("connection reset")
        return False  # a client that tries again by itself meets its own first try

    three_batches(store)
    monkeypatch.setattr(Place, "put_if_absent", lost)
    assert store.append(ab((1, "x", -1), (5, "v", 1), arrival=5), {"s": 5}, (5, 5), 4) == Applied(4, fresh=True)
    assert store.compact() == 5
    monkeypatch.undo()
    assert rows_of_sorted(store, AsOf()) == [(3, None), (4, "z"), (5, "v")]
    assert store.clean_orphans(timedelta(0)) == []
    store.check()


def test_a_commit_that_did_not_come_to_be_takes_its_files_back(
    store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, steps, feed, vectors and debts: nothing is left, and the same batch can be written afterwards."""
    store.append(ab(*((number, "x", 1) for number in range(3000))), {"s": 1}, (1, 1), 1)
    before, rows = store.place.listing().keys(), [((number, "x"), -1, 2) for number in range(0, 3000, 2)]
    delta = batch(AB, [*rows, ((9999, "owed"), -1, 2), ((7, "n"), 1, 3)])

    def refused(place: Place, content: bytes, name: str) -> bool:
        raise OSError("No space left on device")

    monkeypatch.setattr(Place, "put_if_absent", refused)
    with pytest.raises(CannotWrite, match="No space left"):
        store.append(delta, {"s": 3}, (2, 3), 2)
    assert store.place.listing().keys() == before
    monkeypatch.undo()
    assert store.append(delta, {"s": 3}, (2, 3), 2).fresh
    assert (store.head.live, store.head.owed != "") == (1501, True)


def test_a_handle_that_has_slept(store: ViewStore) -> None:
    """Others have come far meanwhile, and what was between is forgotten: it reads and goes on from where they are."""
    three_batches(store)
    asleep = ViewStore.open(store.place.uri)
    for number in range(5, 12):
        store.append(ab((number, "n", 1), (number - 1, "n", -(number > 5)), arrival=number), {}, None, number)
    store.compact()
    store.forget(AsOf(version=store.head.version))
    assert rows_of_sorted(asleep, AsOf()) == STATES[4] + [(11, "n")]
    assert asleep.head == store.head
    with pytest.raises(WriterConflict, match="transaction 11 is there, this one had last seen 3"):
        asleep.append(ab((1, "x", -1), arrival=12), {}, (12, 12), 12)


def data_files(store: ViewStore) -> list[str]:
    return [name for name in store.place.listing() if not name.startswith("_delta_log/")]


def test_what_is_forgotten_is_refused_by_name(store: ViewStore) -> None:
    """Older states name the oldest one left; the kept ones read as before, and their files are all there."""
    three_batches(store)
    store.compact()
    store.append(ab((5, "v", 1), arrival=5), {"s": 40}, (5, 5), 4)
    assert store.forget(AsOf(version=4)) != []
    for gone in (AsOf(version=3), AsOf(arrival=3), AsOf(positions={"s": 10})):
        with pytest.raises(NoSuchState, match="versions 4 to 5, arrivals 4 to 5"):
            store.read_arrow(gone)
    fresh = ViewStore.open(store.place.uri)
    assert rows_of_sorted(fresh, AsOf(arrival=4)) == STATES[4]
    assert rows_of_sorted(fresh, AsOf(version=5)) == [*STATES[4], (5, "v")]
    assert fresh.forget(AsOf(version=4)) == []
    assert [record.version for record in fresh.history()] == [4, 5]


def test_history_tells_each_version(store: ViewStore) -> None:
    """Versions, kinds, positions, arrivals, visible rows, and the rows of the files that each has added: also of those
    of which only some are gone."""
    three_batches(store)
    store.compact()
    told = [(r.version, r.kind, r.arrivals, r.live, r.rows, r.bytes > 0) for r in store.history()]
    assert told == [
        (0, "create", None, 0, 0, False), (1, "append", (1, 1), 3, 3, True), (2, "append", (2, 2), 3, 4, True),
        (3, "append", (3, 4), 3, 4, True), (4, "rewrite", None, 3, 3, True),
    ]  # fmt: skip


def test_opening_stays_cheap_with_many_versions(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are made on the way, and a table that has lost the commits before one opens from it."""
    monkeypatch.setattr(delta_log, "AT_THE_LATEST", 20)
    for number in range(1, 64):
        store.append(None, {"s": number}, (number, number), number)
    assert checkpoints(store) == [20, 40, 60]
    store.forget(AsOf(version=60))
    assert checkpoints(store) == [60]
    fresh = ViewStore.open(store.place.uri)
    assert (fresh.head.version, fresh.positions(), fresh.log.versions()) == (63, {"s": 63}, [60, 61, 62, 63])


def test_who_cares_for_a_table_writes_its_checkpoints(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the writer need not; and none before it is due."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_EVERY", 10)
    for number in range(1, 26):
        store.append(None, {"s": number}, (number, number), number)
        assert ("checkpoint" in ViewStore.open(store.place.uri).care()) == (number in (10, 20))
    assert checkpoints(store) == [10, 20]


def test_a_checkpoint_keeps_the_vectors(store: ViewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is gone stays gone, and what is brought and taken after it is right: tiny vectors and large ones."""
    monkeypatch.setattr(delta_log, "AT_THE_LATEST", 3)
    odd = [(number, "x", -1) for number in range(1, 2000, 2)]
    store.append(ab(*((number, "x", 1) for number in range(2000))), {}, (1, 1), 1)
    store.append(ab((5000, "y", 1), (5001, "y", 1), arrival=2), {}, (2, 2), 2)
    store.append(ab(*odd, (5000, "y", -1), arrival=3), {}, (3, 3), 3)
    store.forget(AsOf(version=3))
    fresh = ViewStore.open(store.place.uri)
    assert (fresh.log.versions(), checkpoints(store)) == ([3], [3])
    assert fresh.log.state() == store.log.state()
    assert sorted(file.gone for file in fresh.log.state().files.values()) == [1, 1000]
    fresh.append(ab((0, "x", -1), (5001, "y", -1), arrival=4), {}, (4, 4), 4)
    assert rows_of(fresh.read_arrow()) == [(number, "x") for number in range(2, 2000, 2)]


def checkpoints(store: ViewStore) -> list[int]:
    return sorted(int(path.name[:20]) for path in Path(store.place.uri, "_delta_log").glob("*.checkpoint.parquet"))


def test_arrivals_only_go_forward(store: ViewStore) -> None:
    """A range that overlaps what is there is refused."""
    three_batches(store)
    with pytest.raises(StoreError, match="cannot follow arrival 4"):
        store.append(None, {}, (4, 5), 4)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([("total price", "int")], "AS total_price"),
        ([("a;b", "int")], "AS a_b"),
        ([("a", "int"), ("A", "int")], "ignores case"),
        ([("_weir_hash", "int")], "Weir's own"),
        ([("n", "void")], r"CAST\(NULL AS int\)"),
        ([], "at least one"),
    ],
)
def test_columns_that_delta_cannot_hold_are_refused_by_name(
    tmp_path: Path, columns: list[tuple[str, str]], message: str
) -> None:
    """The error says which column and what to write instead."""
    from weir.algebra.types import Column, parse_type

    schema = Schema(Column(name, parse_type(type_)) for name, type_ in columns)
    with pytest.raises(BadColumns, match=message):
        ViewStore.create(tmp_path / "view", schema)


def test_a_batch_of_other_columns_is_refused(store: ViewStore) -> None:
    """A missing column and a value that does not fit are named."""
    with pytest.raises(BadColumns, match="no column 'b'"):
        store.append(ab((1, "x", 1)).drop_columns(["b"]), {}, (1, 1), 1)
    with pytest.raises(BadColumns, match="column 'a'"):
        store.append(ab((1, "x", 1)).set_column(0, "a", [[2**40]]), {}, (1, 1), 1)
    assert store.head.version == 0


def test_a_commit_carries_notes(store: ViewStore) -> None:
    """The writer's own words about a state are in the history; a compaction, which leaves it as it is, keeps them."""
    store.load(ab((1, "x", 1)), {"s": 1}, (1, 1), 1, notes={"strategy": "recompute", "reason": "first load"})
    store.append(ab((1, "x", 1), arrival=2), {"s": 2}, (2, 2), 2, notes={"strategy": "sweep"})
    store.compact()
    told = [dict(record.notes) for record in ViewStore.open(store.place.uri).history()]
    assert told == [{}, {"strategy": "recompute", "reason": "first load"}, {"strategy": "sweep"}, {"strategy": "sweep"}]


def test_a_table_exists_or_not(store: ViewStore, tmp_path: Path) -> None:
    """A missing folder, an empty one and one with other files hold no table."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    assert ViewStore.exists(store.place.uri)
    assert not any(ViewStore.exists(tmp_path / name) for name in ("nothing", "empty", "full"))
