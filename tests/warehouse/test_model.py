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
from weir.warehouse.columns import ARRIVAL, HASH, WEIGHT
from weir.warehouse.record import AsOf
from weir.warehouse.row_hash import row_hashes
from weir.warehouse.store import ViewStore

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
@pytest.mark.parametrize(("seed", "hash_bits"), [(1, 64), (2, 1)])
def test_spark_reads_nets_and_folds_the_same(spark: SparkSession, tmp_path: Path, seed: int, hash_bits: int) -> None:
    """With files written by both engines, colliding hashes included, Spark shows what Arrow and the bags show."""
    store = ViewStore.create(tmp_path / "view", AB, hash_bits=hash_bits)
    dice = random.Random(seed)
    model = live(store, dice, 7, spark)
    for arrival in sorted({max(model), dice.choice(list(model))}):
        shown = store.read(spark, AsOf(arrival=arrival)).toArrow()
        assert bag_of(shown, AB) == model[arrival].positive() == bag_of(store.read_arrow(AsOf(arrival=arrival)), AB)
    for level in (store.net, store.fold):
        level(spark)
        assert bag_of(store.read(spark).toArrow(), AB) == model[max(model)].positive()


@pytest.mark.spark
@pytest.mark.parametrize(("hash_bits", "driver_bytes"), [(64, 1 << 20), (2, 1 << 20), (2, 0)])
def test_every_plan_reads_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hash_bits: int, driver_bytes: int
) -> None:
    """Sets (no weight is read, no row repeated), bags and counts below zero; netted by the driver and by Spark; with
    and without a tail; hashes that collide or do not: always what the bags say."""
    monkeypatch.setattr(spark_engine, "DRIVER_BYTES", driver_bytes)
    store, first = ViewStore.create(tmp_path / "view", AB, hash_bits=hash_bits), [((n, "x"), 1) for n in range(12)]
    deltas: list[list[tuple[tuple[int, str | None], int]]] = [
        [((1, "x"), -1), ((2, "x"), -1), ((20, "new"), 1), ((21, None), 1)],  # only takes away what is there once
        [((3, "x"), 2), ((20, "new"), -1), ((1, "x"), 1), ((30, "y"), -1)],  # counts above 1, back again, below zero
        [((30, "y"), 2), ((4, "x"), -3), ((3, "x"), -1), ((40, "z"), 1)],
    ]
    store.load(batch(AB, [(row, weight, 1) for row, weight in first]), {}, (1, 1), 1)
    bag = MemoryBag.weighted(AB, first)
    for number, delta in enumerate(deltas, start=2):
        store.append(batch(AB, [(row, weight, number) for row, weight in delta]), {}, (number, number), number)
        bag = bag + MemoryBag.weighted(AB, delta)
        for compact in (lambda _: None, store.net):
            compact(spark)
            assert bag_of(store.read(spark).toArrow(), AB) == bag.positive(), f"delta {number}"
    store.fold(spark)
    assert bag_of(store.read(spark).toArrow(), AB) == bag.positive() == bag_of(store.read_arrow(), AB)
    assert store.read(spark, counted=True).toArrow().num_rows == len(dict(bag.positive().items()))


@pytest.mark.spark
def test_a_query_reads_the_columns_that_it_asks_for(spark: SparkSession, tmp_path: Path) -> None:
    """A netted log of a set costs the hash beside the columns asked for; of a bag the weight, too; columns of the log
    are not compared."""
    store = ViewStore.create(tmp_path / "view", AB)
    store.load(ab((1, "x", 1), (2, "y", 1)), {}, (1, 1), 1)
    store.append(ab((1, "x", -1), (3, "z", 1), arrival=2), {}, (2, 2), 2)
    store.net(spark)
    assert scanned(store.read(spark).select("a")) == [{"a", HASH}, {HASH}]
    store.append(ab((2, "y", 1), arrival=3), {}, (3, 3), 3)
    store.net(spark)
    assert scanned(store.read(spark).select("a")) == [{"a", HASH, WEIGHT}, {HASH, WEIGHT}]
    store.fold(spark)
    assert scanned(store.read(spark).select("a")) == [{"a", WEIGHT}]


def scanned(frame: DataFrame) -> list[set[str]]:
    """The columns of every scan in the plan."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain()
    schemas = re.findall(r"ReadSchema: struct<(.*?)>", out.getvalue())
    return [{column.partition(":")[0] for column in schema.split(",")} for schema in schemas]


@pytest.mark.spark
def test_a_log_row_that_only_shares_a_hash_is_shown_beside_the_base_row(spark: SparkSession, tmp_path: Path) -> None:
    """A single log row and a single base row of one hash stay two tuples: appended, netted and folded, on Spark."""
    store = ViewStore.create(tmp_path / "view", AB, hash_bits=3)
    candidates = batch(AB, [((number, "x"), 1, 1) for number in range(40)])
    hashes = row_hashes(candidates.select(list(AB.names)), bits=3).to_pylist()
    twin = next(at for at in range(1, 40) if hashes[at] == hashes[0])
    store.load(candidates.slice(0, 1), {}, (1, 1), 1)
    store.append(candidates.slice(twin, 1).set_column(3, ARRIVAL, [[2]]), {}, (2, 2), 2)
    expected = MemoryBag.of(AB, [(0, "x"), (twin, "x")])
    for compact in (lambda _: None, store.net, store.fold):
        compact(spark)
        assert bag_of(store.read(spark).toArrow(), AB) == expected == bag_of(store.read_arrow(), AB)
    kept = [(record.kind, record.rows) for record in store.history()]
    assert kept == [("create", 0), ("load", 1), ("append", 1), ("net", 1), ("fold", 2)]
