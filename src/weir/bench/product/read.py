"""What reading a maintained view costs: a plain table against the view store with a log, on Spark, side by side."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.table import Table

from weir.algebra.types import Schema
from weir.warehouse.columns import ARRIVAL, WEIGHT
from weir.warehouse.store import ViewStore

SCHEMA = Schema.parse("k bigint, a int, name string, price decimal(12,2), day date")

WARMING = 3  # turns until Java has compiled what is read again and again
EVERY_COLUMN = ("count(*)", "sum(k)", "sum(a)", "max(name)", "sum(price)", "max(day)")


@dataclass(frozen=True)
class Reading:
    """One way to read all rows: seconds of the fastest and of the middle run, and the middle run against plain."""

    way: str
    rows: int
    fastest: float
    median: float
    ratio: float


def measure(spark: SparkSession, rows: int = 1_000_000, log_share: float = 0.08, runs: int = 15) -> list[Reading]:
    """Half the log deletes rows of the base, half brings new ones, so both tables show as many rows."""
    folder = Path(tempfile.mkdtemp(prefix="weir-bench-"))
    try:
        return _compare(_ways(spark, folder, rows, int(rows * log_share / 2)), runs)
    finally:
        shutil.rmtree(folder)


def _ways(spark: SparkSession, folder: Path, rows: int, half: int) -> dict[str, Callable[[], DataFrame]]:
    """The stores are copies of one: after the append, after netting, after folding."""
    plain = str(folder / "plain")
    _rows(spark, half, rows + half).write.parquet(plain)
    log = _rows(spark, 0, half).withColumn(WEIGHT, F.lit(-1))
    log = log.unionByName(_rows(spark, rows, rows + half).withColumn(WEIGHT, F.lit(1))).withColumn(ARRIVAL, F.lit(2))
    store = ViewStore.create(folder / "appended", SCHEMA)
    store.load(_rows(spark, 0, rows), {"s": 1}, (1, 1), 1)
    shutil.copytree(store.place.uri, folder / "mixed")
    store.append(log.coalesce(1), {"s": 2}, (2, 2), 2)
    stores = {"log appended": store, "log netted but an eighth": _mixed(spark, folder / "mixed", log)}
    for way, level in (("log netted", "net"), ("log folded", "fold")):
        shutil.copytree(store.place.uri, folder / level)
        stores[way] = ViewStore.open(folder / level)
        getattr(stores[way], level)(spark)
    ways: dict[str, Callable[[], DataFrame]] = {"plain table": lambda: spark.read.parquet(plain)}
    return ways | {way: lambda kept=kept: kept.read(spark) for way, kept in stores.items()}


def _mixed(spark: SparkSession, folder: Path, log: DataFrame) -> ViewStore:
    """As a view that is cared for: most of the log is netted, the newest deltas are not."""
    store = ViewStore.open(folder)
    store.append(log.filter("k % 8 != 0").coalesce(1), {"s": 2}, (2, 2), 2)
    store.net(spark)
    newest = log.filter("k % 8 = 0").withColumn(ARRIVAL, F.lit(3))
    store.append(newest.coalesce(1), {"s": 3}, (3, 3), 3)
    return store


def _rows(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end).selectExpr(
        "id AS k",
        "CAST(id * 7 % 1000 AS int) AS a",
        "concat('name ', id % 5000) AS name",
        "CAST(id % 100000 / 100 AS decimal(12,2)) AS price",
        "date_add(DATE '2020-01-01', CAST(id % 2000 AS int)) AS day",
    )


def _compare(ways: dict[str, Callable[[], DataFrame]], runs: int) -> list[Reading]:
    """In turns, so that a busy minute of the machine hits all of them alike; the first turns warm up."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    shown: dict[str, Any] = {}
    for turn in range(runs + WARMING):
        for way, read in ways.items():
            start = time.perf_counter()
            shown[way] = read().selectExpr(*EVERY_COLUMN).first()
            seconds[way] += [time.perf_counter() - start] if turn >= WARMING else []
    assert len(set(shown.values())) == 1, f"the ways to read disagree: {shown}"
    medians = {way: statistics.median(times) for way, times in seconds.items()}
    plain = medians[next(iter(ways))]
    return [Reading(way, shown[way][0], min(seconds[way]), medians[way], medians[way] / plain) for way in ways]


def document(readings: list[Reading]) -> dict[str, Any]:
    return {"bench": "read", "readings": [asdict(reading) for reading in readings]}


def table(readings: list[Reading]) -> Table:
    shown = Table(title="reading all rows of a view, in seconds")
    for heading in ("way", "rows", "fastest", "median", "against plain"):
        shown.add_column(heading, justify="left" if heading == "way" else "right")
    for r in readings:
        shown.add_row(r.way, f"{r.rows:,}", f"{r.fastest:.2f}", f"{r.median:.2f}", f"{r.ratio:.2f}")
    return shown
