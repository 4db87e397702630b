"""The view store: appends exactly once, states stay addressable, compaction changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.warehouse.batches import AB, ab, batch, rows_of
from weir.algebra.types import Schema
from weir.warehouse.delta_log import DeltaLog
from weir.warehouse.errors import BadColumns, NoSuchState, StoreError, WriterConflict
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


STATES = {
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


@pytest.mark.parametrize("compacted", ["", "net", "fold", "net fold"])
def test_every_state_is_addressable(store: ViewStore, compacted: str) -> None:
    """By version, by arrival (also inside a batch) and by position, before and after compaction."""
    three_batches(store)
    for level in compacted.split():
        assert getattr(store, level)() is not None
    for arrival, rows in STATES.items():
        assert rows_of_sorted(store, AsOf(arrival=arrival)) == rows
    assert [rows_of_sorted(store, AsOf(version=v)) for v in range(4)] == [STATES[a] for a in (0, 1, 2, 4)]
    assert rows_of_sorted(store, AsOf(positions={"s": 10})) == STATES[1]
    assert rows_of_sorted(store, AsOf(positions={"s": 12})) == STATES[3]
    assert rows_of_sorted(store, AsOf(positions={"s": 12, "t": "p2"})) == STATES[4] == rows_of_sorted(store, AsOf())


def rows_of_sorted(store: ViewStore, as_of: AsOf) -> list[tuple[object, ...]]:
    rows = [tuple(row.values()) for row in store.read_arrow(as_of).to_pylist()]
    return sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize("level", ["net", "fold"])
def test_compaction_changes_no_visible_row(store: ViewStore, level: str) -> None:
    """Netting and folding keep rows, positions, arrivals and the transaction, and have nothing to do twice."""
    three_batches(store)
    before, rows = store.head, rows_of_sorted(store, AsOf())
    assert getattr(store, level)() == 4
    after = store.head
    assert (after.kind, after.positions, after.last_arrival, after.transaction) == (
        level, before.positions, before.last_arrival, before.transaction,
    )  # fmt: skip
    assert rows_of_sorted(store, AsOf()) == rows
    assert getattr(store, level)() is None


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


def test_counts_below_zero_are_kept_and_not_shown(store: ViewStore) -> None:
    """What is deleted before it is inserted leaves nothing behind, through netting and folding."""
    store.append(ab((1, "x", -2)), {}, (1, 1), 1)
    store.fold()
    assert rows_of(store.read_arrow()) == []
    store.append(ab((1, "x", 1), arrival=2), {}, (2, 2), 2)
    store.net()
    assert rows_of(store.read_arrow()) == []
    store.append(ab((1, "x", 2), arrival=3), {}, (3, 3), 3)
    assert rows_of(store.read_arrow()) == [(1, "x")]
    assert store.read_arrow(counted=True).to_pylist() == [{"a": 1, "b": "x", "_weir_weight": 1}]


def test_a_load_replaces_the_view(store: ViewStore) -> None:
    """A recomputed view is one commit; the states before it stay."""
    three_batches(store)
    store.load(ab((7, "q", 1), (7, "q", 1)), {"s": 20}, (5, 5), 4)
    assert rows_of(store.read_arrow()) == [(7, "q"), (7, "q")]
    assert rows_of_sorted(store, AsOf(arrival=4)) == STATES[4]


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
    stage = store._files_of

    def overtaken(*arguments: object) -> object:
        files = stage(*arguments)  # type: ignore[arg-type]
        other.append(ab((5, "o", 1)), {"s": 5}, (1, 1), 1)
        return files

    monkeypatch.setattr(store, "_files_of", overtaken)
    with pytest.raises(WriterConflict):
        store.append(ab((1, "x", 1)), {"s": 1}, (1, 1), 1)
    assert rows_of(other.read_arrow()) == [(5, "o")]
    assert len([name for name in store.place.listing("log") if name.endswith(".parquet")]) == 1


@pytest.mark.parametrize("level", ["net", "fold"])
def test_compaction_goes_on_top_of_an_append_that_came_meanwhile(
    store: ViewStore, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """The compaction's commit carries the append's positions, and the appended rows stay."""
    three_batches(store)
    beside = ViewStore.open(store.place.uri)
    commit = DeltaLog.commit
    calls: list[int] = []

    def late(log: DeltaLog, *arguments: object) -> int:
        if log is beside.log and not calls:
            calls.append(1)
            store.append(ab((8, "w", 1), (1, "x", -1), arrival=5), {"s": 30}, (5, 5), 4)
        return commit(log, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaLog, "commit", late)
    assert getattr(beside, level)() == 5
    assert (store.positions(), store.head.last_arrival, store.head.transaction) == ({"s": 30, "t": "p2"}, 5, 4)
    assert rows_of_sorted(store, AsOf()) == [(3, None), (4, "z"), (8, "w")]


def test_of_two_compactions_one_wins_and_the_other_does_nothing(
    store: ViewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are exchanged once only."""
    three_batches(store)
    beside = ViewStore.open(store.place.uri)
    write = store._rewrite

    def first_the_other(kind: str, folders: tuple[str, ...], engine: object) -> int | None:
        def slow(state: object, arrival: int) -> object:
            written = engine(state, arrival)  # type: ignore[operator]
            assert beside.fold() == 4
            return written

        return write(kind, folders, slow)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "_rewrite", first_the_other)
    assert store.net() is None
    assert rows_of_sorted(store, AsOf()) == STATES[4]


def test_what_is_forgotten_is_refused_by_name(store: ViewStore) -> None:
    """Older states name the oldest one left; the kept ones read as before, and their files are all there."""
    three_batches(store)
    store.fold()
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
    """Versions, kinds, positions, arrivals, rows and bytes."""
    three_batches(store)
    store.net()
    told = [(r.version, r.kind, r.arrivals, r.rows, r.bytes > 0) for r in store.history()]
    assert told == [
        (0, "create", None, 0, False), (1, "append", (1, 1), 2, True), (2, "append", (2, 2), 2, True),
        (3, "append", (3, 4), 2, True), (4, "net", None, 3, True),
    ]  # fmt: skip


def test_opening_stays_cheap_with_many_versions(store: ViewStore) -> None:
    """Checkpoints are made on the way, and a table that has lost the commits before one opens from it."""
    for number in range(1, 64):
        store.append(None, {"s": number}, (number, number), number)
    store.forget(AsOf(version=60))
    assert [p.name[:20] for p in Path(store.place.uri, "_delta_log").glob("*.checkpoint.parquet")] == [f"{60:020}"]
    fresh = ViewStore.open(store.place.uri)
    assert (fresh.head.version, fresh.positions(), fresh.log.versions()) == (63, {"s": 63}, [60, 61, 62, 63])


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
    store.net()
    told = [dict(record.notes) for record in ViewStore.open(store.place.uri).history()]
    assert told == [{}, {"strategy": "recompute", "reason": "first load"}, {"strategy": "sweep"}, {"strategy": "sweep"}]


def test_a_table_exists_or_not(store: ViewStore, tmp_path: Path) -> None:
    """A missing folder, an empty one and one with other files hold no table."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    assert ViewStore.exists(store.place.uri)
    assert not any(ViewStore.exists(tmp_path / name) for name in ("nothing", "empty", "full"))
