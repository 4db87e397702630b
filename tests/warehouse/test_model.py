"""Random lives of a store against a bag in memory: every state it ever had, on Arrow and on Spark."""

from __future__ import annotations

import contextlib
import io
import random
import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.warehouse.batches import AB, ab, bag_of, batch
from weir.algebra.memory import MemoryBag
from weir.warehouse import spark_reading
from weir.warehouse.care import Limits
from weir.warehouse.columns import ARRIVAL
from weir.warehouse.record import AsOf
from weir.warehouse.row_hash import row_hashes
from weir.warehouse.store import ViewStore

ROW_NUMBER = "_tmp_metadata_row_index"  # Spark counts the rows itself and calls it so
Model = dict[int, MemoryBag]  # arrival number to the view's signed bag


def some_row(dice: random.Random) -> tuple[int, str | None]:
    return dice.randint(0, 6), dice.choice(["p", "q", None])


def live(store: ViewStore, dice: random.Random, steps: int, spark: SparkSession | None = None) -> Model:
    """Random appends, nets and folds; with Spark, each goes through one engine or the other."""
    model, arrival, transaction = {0: MemoryBag.of(AB)}, 0, 0
    for _ in range(steps):
        engine = spark if spark and dice.random() < 0.5 else None
        match dice.choice(["append"] * 4 + ["compact", "care", "reopen", "load"]):
            case "append":
                transaction += 1
                first, arrival, signed = arrival + 1, arrival + dice.randint(1, 3), []
                for number in range(first, arrival + 1):
                    rows = [(some_row(dice), dice.choice([-1, 1, 1, 2])) for _ in range(dice.randint(0, 4))]
                    signed += [(row, weight, number) for row, weight in rows]
                    model[number] = model[number - 1] + MemoryBag.weighted(AB, rows)
                delta = engine.createDataFrame(batch(AB, signed)) if engine else batch(AB, signed)
                store.append(delta, {"s": arrival}, (first, arrival), transaction)
            case "load":
                transaction, arrival = transaction + 1, arrival + 1
                rows = [(some_row(dice), dice.choice([1, 1, 2])) for _ in range(dice.randint(0, 6))]
                model[arrival] = MemoryBag.weighted(AB, rows)
                whole = batch(AB, [(row, weight, arrival) for row, weight in rows])
                store.load(engine.createDataFrame(whole) if engine else whole, {}, (arrival, arrival), transaction)
            case "compact":
                store.compact()
            case "care":
                store.care(Limits(files=2, gone=0.1, few=0))
            case "reopen":
                store = ViewStore.open(store.place.uri)
    return model


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("hash_bits", [64, 2])
def test_every_state_is_what_the_bags_say(tmp_path: Path, seed: int, hash_bits: int) -> None:
    """All arrivals, after a random life, also when nearly every pair of rows shares its hash."""
    store = ViewStore.create(tmp_path / "view", AB, hash_bits=hash_bits)
    model = live(store, random.Random(seed), 14)
    for arrival, bag in model.items():
        assert bag_of(store.read_arrow(AsOf(arrival=arrival)), AB) == bag.positive(), f"arrival {arrival}"
    assert bag_of(store.read_arrow(), AB) == model[max(model)].positive()


@pytest.mark.spark
@pytest.mark.parametrize(("seed", "hash_bits", "driver_bytes"), [(1, 64, 0), (2, 1, 0), (3, 2, 1 << 20)])
def test_spark_writes_and_reads_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, hash_bits: int, driver_bytes: int
) -> None:
    """With files written by tasks and by the driver, colliding hashes included, Spark shows what Arrow and the bags
    show; rows that are gone are left out by Spark, or by the driver."""
    monkeypatch.setattr(spark_reading, "DRIVER_BYTES", driver_bytes)
    store = ViewStore.create(tmp_path / "view", AB, hash_bits=hash_bits)
    dice = random.Random(seed)
    model = live(store, dice, 9, spark)
    for arrival in sorted({max(model), *dice.sample(list(model), 3)}):
        shown = store.read(spark, AsOf(arrival=arrival)).toArrow()
        assert bag_of(shown, AB) == model[arrival].positive() == bag_of(store.read_arrow(AsOf(arrival=arrival)), AB)
    store.compact()
    assert bag_of(store.read(spark).toArrow(), AB) == model[max(model)].positive()
    assert store.read(spark, counted=True).toArrow().num_rows == len(dict(model[max(model)].positive().items()))


@pytest.mark.spark
def test_a_query_reads_the_columns_that_it_asks_for(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where rows are gone: a plain scan of the columns asked for, and the rows' numbers, which are in no file."""
    monkeypatch.setattr(spark_reading, "DRIVER_BYTES", 0)
    store = ViewStore.create(tmp_path / "view", AB)
    store.load(ab((1, "x", 1), (2, "y", 1)), {}, (1, 1), 1)
    store.append(ab((1, "x", -1), (3, "z", 1), arrival=2), {}, (2, 2), 2)
    assert all(columns - {ROW_NUMBER} == {"a"} for columns in scanned(store.read(spark).select("a")))


def scanned(frame: DataFrame) -> list[set[str]]:
    """The columns of every scan in the plan."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain()
    schemas = re.findall(r"ReadSchema: struct<(.*?)>", out.getvalue())
    assert schemas
    return [{column.partition(":")[0] for column in schema.split(",")} for schema in schemas]


def test_rows_that_only_share_a_hash_stay_two_rows(tmp_path: Path) -> None:
    """Each goes when it is taken, and never the other one; whoever the writer is."""
    candidates = batch(AB, [((number, "x"), 1, 1) for number in range(40)])
    hashes = row_hashes(candidates.select(list(AB.names)), bits=3).to_pylist()
    twin = next(at for at in range(1, 40) if hashes[at] == hashes[0])
    for exact in (True, False):
        store = ViewStore.create(tmp_path / str(exact), AB, hash_bits=3)
        store.load(candidates.slice(0, 1), {}, (1, 1), 1)
        store.append(candidates.slice(twin, 1).set_column(3, ARRIVAL, [[2]]), {}, (2, 2), 2)
        assert bag_of(store.read_arrow(), AB) == MemoryBag.of(AB, [(0, "x"), (twin, "x")])
        taken = batch(AB, [((twin, "x"), -1, 3)])
        ViewStore.open(store.place.uri).append(taken, {}, (3, 3), 3, exact=exact)
        assert bag_of(store.read_arrow(), AB) == MemoryBag.of(AB, [(0, "x")])
