"""Forgetting states and cleaning orphans: all that a kept version names stays, whatever kind of file; the rest goes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.warehouse.batches import AB, ab, batch, rows_of
from weir.algebra.types import Row
from weir.warehouse import rewriting, row_index, staging
from weir.warehouse.feed import changes_of
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore

NOW_ALL = timedelta(0)
KINDS = ("rows/", "_change_data/", "_weir/steps/", "_weir/owed/", "_weir/index/", "_weir/deletion_vector_")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ViewStore:
    """Five versions with files of every kind, none of which the next version has made needless for its own state."""
    for module in (staging, rewriting, row_index):
        monkeypatch.setattr(module, "LARGE", 1000)
    store = ViewStore.create(tmp_path / "view", AB)
    store.append(ab(*((number, "x", 1) for number in range(3000))), {"s": 1}, (1, 1), 1)
    store.append(ab(*((number, "x", -1) for number in range(0, 3000, 2)), (-1, "owed", -2), arrival=2), {}, (2, 2), 2)
    store.append(batch(AB, [((1, "x"), -1, 3), ((5, "y"), 1, 3), ((5, "y"), -1, 4), ((6, "y"), 1, 4)]), {}, (3, 4), 3)
    store.append(ab(*((number, "x", -1) for number in range(3, 3000, 6)), (-1, "owed", 1), arrival=5), {}, (5, 5), 4)
    store.compact()
    return store


def everything(store: ViewStore, oldest: int = 0) -> dict[str, list[Row]]:
    """All that can be asked of the kept versions."""
    found = {}
    for version in (version for version in store.log.versions() if version >= oldest):
        found[f"version {version}"] = rows_of(store.read_arrow(AsOf(version=version)))
        found[f"feed {version}"] = rows_of(changes_of(store.log, version))
        owed = store.log.record(version).owed
        found[f"owed {version}"] = rows_of(store.place.read_parquet([owed] if owed else [], store.read_arrow().schema))
    if oldest < 3:
        found["inside"] = rows_of(store.read_arrow(AsOf(arrival=3)))
    return found


def kinds(store: ViewStore) -> dict[str, int]:
    names = list(store.place.listing())
    return {kind: sum(name.startswith(kind) for name in names) for kind in KINDS}


def test_nothing_of_a_kept_version_is_an_orphan(store: ViewStore) -> None:
    """Of every kind there is something; only the run of a file that the newest version has no more goes."""
    before = everything(store)
    assert kinds(store) == dict(zip(KINDS, (3, 3, 1, 2, 2, 3), strict=True))
    (run,) = store.clean_orphans(NOW_ALL)
    assert run.startswith("_weir/index/")
    assert kinds(store) == dict(zip(KINDS, (3, 3, 1, 2, 1, 3), strict=True))
    assert everything(ViewStore.open(store.place.uri)) == before


def test_every_other_file_is_one(store: ViewStore) -> None:
    """Of whatever kind, and whatever its name, as soon as it is old enough."""
    store.clean_orphans(NOW_ALL)
    before, kept = everything(store), store.place.listing().keys()
    staged = store.stage(batch(AB, [((7, "n"), 1, 6), ((3, "x"), -1, 7), *(((n, "z"), 1, 7) for n in range(2000))]), 7)
    assert len(staged.names) == 4
    left = [*staged.names, "_weir/owed/left.parquet", "_weir/deletion_vector_left.bin", "_weir/index/left.arrow"]
    for name in left[4:]:
        store.place.write_bytes(b"left", name)
    assert store.clean_orphans() == []
    assert store.clean_orphans(NOW_ALL) == sorted(left)
    assert store.place.listing().keys() == kept
    assert everything(store) == before


@pytest.mark.parametrize("oldest", [1, 2, 3, 4, 5])
def test_forgetting_takes_the_files_of_the_forgotten(store: ViewStore, oldest: int) -> None:
    """And none that a kept version names, by an earlier commit or by its own."""
    store.clean_orphans(NOW_ALL)
    before = everything(store, oldest)
    gone = store.forget(AsOf(version=oldest))
    again = ViewStore.open(store.place.uri)
    assert everything(again, oldest) == before
    assert (again.log.versions()[0], again.clean_orphans(NOW_ALL)) == (oldest, [])
    assert not set(gone).intersection(again.place.listing())
    assert {name.partition("/")[0] for name in gone} >= ({"rows", "_change_data", "_weir"} if oldest == 5 else set())
    again.append(ab((5, "x", -1), (-1, "owed", 2), arrival=6), {}, (6, 6), 5)
    assert rows_of(again.read_arrow())[0] == (-1, "owed")
    assert (5, "x") not in rows_of(again.read_arrow())


def test_a_run_that_waits_is_no_hindrance_when_it_is_cleaned(store: ViewStore) -> None:
    """A large delta that waits so long that its run is taken for an orphan, but not its rows, is committed whole."""
    staged = store.stage(ab(*((n, "z", 1) for n in range(2000)), arrival=6), 6)
    (run,) = [part.run for part in staged.parts]
    store.place.discard([run])
    store.append(staged, {}, (6, 6), 5)
    store.append(ab(*((n, "z", -1) for n in range(2000)), arrival=7), {}, (7, 7), 6)
    assert "z" not in {text for _, text in rows_of(store.read_arrow())}
    assert store.head.owed == store.log.record(4).owed
