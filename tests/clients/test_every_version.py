"""A view's table as everybody else sees it: every version right, and the change feed leads from each to the next.

Random lives of a store, as in ``tests/warehouse/test_model.py``, read by clients that are not ours against a bag in
memory, which knows nothing of files.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from tests.clients.foreign import DuckDBClient, ReferenceClient
from tests.warehouse.batches import AB, EVERY_TYPE, batch
from tests.warehouse.test_model import live
from weir.algebra.memory import MemoryBag
from weir.warehouse import vectors
from weir.warehouse.store import ViewStore

Found = Counter[tuple[Any, ...]]
Reader = Callable[[str, int], pa.Table]
LIVES = [(1, 64, 512), (2, 2, 0), (3, 1, 512), (4, 64, 0), (5, 2, 40)]  # seed, bits of a hash, bytes of a tiny vector


def by_polars(path: str, version: int) -> pa.Table:
    return polars.scan_delta(path, version=version).collect().to_arrow()


def by_deltalake(path: str, version: int) -> pa.Table:
    query = QueryBuilder().register("t", DeltaTable(path, version=version)).execute("SELECT * FROM t")
    return pa.table(query.read_all())


def by_duckdb_over_deltalake(path: str, version: int) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("handed", by_deltalake(path, version))
        return connection.sql("SELECT * FROM handed").to_arrow_table()


def rows(table: pa.Table) -> Found:
    return Counter(zip(*(table.column(name).to_pylist() for name in AB.names), strict=True))


def states(store: ViewStore, model: dict[int, MemoryBag]) -> Iterator[tuple[int, Found]]:
    """Every version, with what it must show."""
    for record in store.history():
        shown = model[record.last_arrival].positive()
        yield record.version, Counter(dict(shown.items()))


@pytest.fixture(params=LIVES, ids=str)
def lived(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ViewStore, Any]:
    seed, bits, tiny = request.param
    monkeypatch.setattr(vectors, "TINY", tiny)
    store = ViewStore.create(tmp_path / "view", AB, hash_bits=bits)
    return store, live(store, random.Random(seed), 30)


@pytest.mark.parametrize("read", [by_polars, by_deltalake, by_duckdb_over_deltalake])
def test_every_version_is_a_state_of_the_view(lived: tuple[ViewStore, Any], read: Reader) -> None:
    """Whoever reads; each row as often as it counts, and the view's columns and nothing else."""
    store, model = lived
    seen = 0
    for version, expected in states(store, model):
        table = read(store.place.uri, version)
        assert table.column_names == list(AB.names)
        assert rows(table) == expected, f"version {version}"
        seen += bool(expected)
    assert seen > 10


def test_the_feed_leads_from_each_version_to_the_next(lived: tuple[ViewStore, Any]) -> None:
    """Replayed from version 0; and where nothing has changed it is silent, also while files are rewritten."""
    store, model = lived
    feed = pa.table(DeltaTable(store.place.uri).load_cdf(starting_version=0).read_all())
    assert_replays(feed, states(store, model))


def assert_replays(feed: pa.Table, expected: Iterator[tuple[int, Found]]) -> None:
    signs = {"insert": 1, "delete": -1}
    changes: dict[int, Found] = {}
    kinds, numbers = (feed.column(name).to_pylist() for name in ("_change_type", "_commit_version"))
    columns = (feed.column(name).to_pylist() for name in AB.names)
    for row, kind, version in zip(zip(*columns, strict=True), kinds, numbers, strict=True):
        changes.setdefault(version, Counter())[row] += signs[kind]
    shown: Found = Counter()
    for version, state in expected:
        change = changes.get(version, Counter())
        assert all(change.values()), f"version {version} brings and takes the same row"
        shown.update(change)
        shown = Counter({row: count for row, count in shown.items() if count})
        assert shown == state, f"version {version}"


def test_duckdbs_own_extension_reads_every_version(lived: tuple[ViewStore, Any]) -> None:
    store, model = lived
    with DuckDBClient() as client:
        for version, expected in states(store, model):
            assert rows(client.rows(store.place.uri, version)) == expected, f"version {version}"


@pytest.mark.slow
@pytest.mark.spark
def test_the_reference_reads_versions_and_feed(tmp_path: Path) -> None:
    """Delta Lake's own implementation, on a Spark of its own."""
    store = ViewStore.create(tmp_path / "view", AB, hash_bits=2)
    model = live(store, random.Random(7), 30)
    last = store.head.version
    with ReferenceClient() as client:
        for version, expected in states(store, model):
            assert rows(client.rows(store.place.uri, version)) == expected, f"version {version}"
        assert_replays(client.changes(store.place.uri, 0, last), states(store, model))


def test_every_type_comes_back(tmp_path: Path) -> None:
    """Also those that need a feature of their own."""
    row = [1, 2, 3, 4, 0.5, 0.25, "t", b"raw", True, *([None] * 5)]
    store = ViewStore.create(tmp_path / "view", EVERY_TYPE)
    store.load(batch(EVERY_TYPE, [(row, 1, 1), ([None] * len(row), 1, 1)]), {}, (1, 1), 1)
    store.append(batch(EVERY_TYPE, [([None] * len(row), -1, 2)]), {}, (2, 2), 2)
    for read in (by_polars, by_deltalake):
        (found,) = read(store.place.uri, 2).to_pylist()
        assert list(found.values()) == row
    with DuckDBClient() as client:
        (found,) = client.rows(store.place.uri).to_pylist()
        assert list(found.values()) == row
