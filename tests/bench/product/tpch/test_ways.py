"""The floor and recomputation against each other and against plain SQL, on real databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.bench.product.tpch.worlds import World, counted, join, open_world
from weir.bench.product.tpch.changes import ChangeBatch, RowChange
from weir.bench.product.tpch.data import Data
from weir.bench.product.tpch.floor import Floor
from weir.bench.product.tpch.places import addresses
from weir.bench.product.tpch.recompute import RecomputedView
from weir.bench.product.tpch.tables import TABLES, WEIGHT
from weir.bench.product.tpch.writer import TpchWriter

KINDS = ("sqlite", "postgres", "mariadb")


def shown(way: RecomputedView | Floor) -> pa.Table:
    """What its Delta table shows."""
    rows = pa.concat_tables(pq.read_table(file) for file in way.table.files())
    return rows if WEIGHT in rows.column_names else rows.append_column(WEIGHT, pa.array([1] * rows.num_rows))


@pytest.mark.parametrize("kind", KINDS)
def test_the_floor_does_what_it_says(kind: str, data: Data, tmp_path: Path) -> None:
    """Every table's delta joined with the other tables as they are now: as plain SQL computes it."""
    with open_world(kind, data, tmp_path) as world:
        for size in (1, 100, 1000):
            batch = world.change(size)
            found = world.floor.change(world.deltas(batch))
            expected = join({name: world.table(name) for name in TABLES}, world.deltas(batch))
            assert counted(found) == counted(expected) != {}


def recompute(world: World, spark: SparkSession, folder: Path) -> RecomputedView:
    """Spark's processes are older than the sources' passwords, so they are told."""
    servers = [place.database.servers for place in world.places.values()]
    spark.sparkContext.environment.update({each.variable: each.secret for each in servers})
    return RecomputedView(spark, addresses(world.places), folder / "recompute", {"lineitem": 2})


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mixed"])
def test_recomputation_is_the_view(kind: str, data: Data, tmp_path: Path, spark: SparkSession) -> None:
    """Before and after changes it finds what plain SQL finds in the base tables."""
    with open_world(kind, data, tmp_path) as world:
        way = recompute(world, spark, tmp_path)
        for size in (0, 500):
            if size:
                world.change(size)
            turn = way.run()
            expected = join({name: world.table(name) for name in TABLES})
            assert counted(shown(way)) == counted(expected)
            assert turn.rows == expected.num_rows > 4_000
            assert turn.received > 100_000


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_where_one_table_changes_the_floor_is_exact(kind: str, data: Data, tmp_path: Path, spark: SparkSession) -> None:
    """Recomputed before, plus the floor's change, is recomputed after: only changes that meet need compensation."""
    with open_world(kind, data, tmp_path) as world:
        way = recompute(world, spark, tmp_path)
        way.run()
        batch = ChangeBatch(tuple(t for t in world.workload.batch(300).transactions if t[0].table == "customer"))
        TpchWriter(world.bare).apply(batch)
        assert world.floor.run(world.deltas(batch)).rows > 0
        way.run()
        assert way.differences_after(world.floor.files()) == 0


def test_without_compensation_the_floor_is_wrong(data: Data, tmp_path: Path, spark: SparkSession) -> None:
    """A new order is found from its lines, and its lines are found from the order: each line counts twice."""
    with open_world("sqlite", data, tmp_path) as world:
        way = recompute(world, spark, tmp_path)
        way.run()
        orders = [t for t in world.workload.batch(100).transactions if t[0].table == "orders" and t[0].old is None]
        batch = ChangeBatch(tuple(orders))
        TpchWriter(world.bare).apply(batch)
        turn = world.floor.run(world.deltas(batch))
        lines = [c for c in batch.changes if c.table == "lineitem" and c.new and c.new["l_quantity"] > 10]
        way.run()
        assert turn.rows == 2 * len(lines) > 0
        assert way.differences_after(world.floor.files()) == len(lines)


@pytest.fixture(scope="module")
def quiet(data: Data, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[RecomputedView]:
    """A world in which nothing happens, recomputed three times."""
    folder = tmp_path_factory.mktemp("quiet")
    with open_world("sqlite", data, folder) as world:
        way = recompute(world, spark, folder)
        for _ in range(3):
            way.run()
        yield way


def test_every_difference_counts(quiet: RecomputedView, spark: SparkSession) -> None:
    """A row that is missing, one that is too many and one that differs: one, one and two."""
    right = spark.read.parquet(*quiet.table.files()).localCheckpoint()
    first = right.limit(1).localCheckpoint()
    without = right.exceptAll(first)
    assert quiet.differences(right) == 0
    assert quiet.differences(without) == 1
    assert quiet.differences(right.unionByName(first)) == 1
    assert quiet.differences(without.unionByName(first.withColumn("c_name", first["p_name"]))) == 2


def test_old_runs_do_not_pile_up(quiet: RecomputedView) -> None:
    """The first run's files are kept for comparing, the last one's are shown, others are gone."""
    folders = {path.name for path in quiet.folder.iterdir() if path.name.startswith("run-")}
    assert folders == {"run-1", "run-3"}
    assert {Path(file).parent.name for file in quiet.table.files()} == {"run-3"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_scan_in_parts_is_the_table_once(kind: str, data: Data, tmp_path: Path) -> None:
    """Whatever the number of parts, with every value as it was generated."""
    with open_world(kind, data, tmp_path) as world:
        for name, table in TABLES.items():
            order = [(column, "ascending") for column in table.key]
            schema = data.schema(name)
            with closing(world.places[table.source].address.open()) as bare:
                parts = [rows for c in bare.parts(name, 3) for rows in bare.scan(name, schema.names, c)]
            expected = pa.concat_tables(data.batches(name)).sort_by(order)
            assert pa.concat_tables(parts).sort_by(order).equals(expected)


def test_an_empty_delta_asks_nothing(data: Data, tmp_path: Path) -> None:
    """A line below the view's condition leads nowhere, and is still a committed version."""
    with open_world("sqlite", data, tmp_path) as world:
        line = {**world.table("lineitem").slice(0, 1).to_pylist()[0], "l_linenumber": 9, "l_quantity": 3}
        batch = ChangeBatch(((RowChange("lineitem", new=line),),))
        turn = world.floor.run(world.deltas(batch))
        assert (turn.rows, turn.received, turn.version) == (0, 0, 1)
