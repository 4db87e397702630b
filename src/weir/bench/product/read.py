"""What reading a maintained view costs, whatever state its table is in: a plain table of the same rows beside it."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.table import Table

from weir.algebra.types import Schema
from weir.warehouse.columns import WEIGHT
from weir.warehouse.store import ViewStore

SCHEMA = Schema.parse("k bigint, a int, name string, price decimal(12,2), day date")
WARMING = 3  # turns until Java has compiled what is read again and again
EVERY_COLUMN = ("count(*)", "sum(k)", "sum(a)", "max(name)", "sum(price)", "max(day)")
QUESTION = f"SELECT {', '.join(EVERY_COLUMN)} FROM t"
SMALL_COMMITS = 40
PLAIN = "plain table"
TableQuestion = Callable[[], tuple[Any, ...]]


@dataclass(frozen=True)
class Reading:
    """One client on one state of the table: seconds of the fastest and of the middle run, and the latter against the
    same client on a plain table.
    """

    client: str
    state: str
    rows: int
    fastest: float
    seconds: float
    against_plain: float


def measure(spark: SparkSession, rows: int = 1_000_000, log_share: float = 0.08, runs: int = 15) -> list[Reading]:
    """Half the changes take rows away, half bring new ones, so all tables show as many rows."""
    folder = Path(tempfile.mkdtemp(prefix="weir-bench-"))
    try:
        states = _states(spark, folder, rows, int(rows * log_share / 2))
        return [
            reading
            for client, asks in _clients(spark, states).items()
            for reading in _compare(client, asks, runs if client == "weir on Spark" else max(runs // 3, 1))
        ]
    finally:
        shutil.rmtree(folder)


def _states(spark: SparkSession, folder: Path, rows: int, half: int) -> dict[str, Path]:
    """The plain table, and the view's: as loaded; after one large change; after many small ones; merged."""
    _rows(spark, half, rows + half).write.parquet(str(folder / "files"))
    plain = ViewStore.create(folder / "plain", SCHEMA)
    plain.load(spark.read.parquet(str(folder / "files")), {}, (1, 1), 1)
    store = ViewStore.create(folder / "changed", SCHEMA)
    store.load(_rows(spark, 0, rows), {"s": 1}, (1, 1), 1)
    shutil.copytree(folder / "changed", folder / "small")
    store.append(_change(spark, 0, half, rows).coalesce(1), {"s": 2}, (2, 2), 2, exact=True)
    _many_changes(spark, ViewStore.open(folder / "small"), half, rows)
    shutil.copytree(folder / "small", folder / "merged")
    ViewStore.open(folder / "merged").compact()
    names = {PLAIN: "plain", "one large change": "changed", "many small changes": "small", "compacted": "merged"}
    return {state: folder / name for state, name in names.items()}


def _many_changes(spark: SparkSession, store: ViewStore, half: int, rows: int) -> None:
    step = -(-half // SMALL_COMMITS)
    for number, first in enumerate(range(0, half, step), 2):
        end = min(first + step, half)
        store.append(_change(spark, first, end, rows).toArrow(), {"s": number}, (number, number), number, exact=True)
        store.care()


def _change(spark: SparkSession, first: int, end: int, rows: int) -> DataFrame:
    gone = _rows(spark, first, end).withColumn(WEIGHT, F.lit(-1))
    return gone.unionByName(_rows(spark, rows + first, rows + end).withColumn(WEIGHT, F.lit(1)))


def _rows(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end).selectExpr(
        "id AS k",
        "CAST(id * 7 % 1000 AS int) AS a",
        "concat('name ', id % 5000) AS name",
        "CAST(id % 100000 / 100 AS decimal(12,2)) AS price",
        "date_add(DATE '2020-01-01', CAST(id % 2000 AS int)) AS day",
    )


# -- clients -----------------------------------------------------------------------------------------------------------


def _clients(spark: SparkSession, states: dict[str, Path]) -> dict[str, dict[str, TableQuestion]]:
    files = str(states[PLAIN].parent / "files")
    ours: dict[str, TableQuestion] = {PLAIN: lambda: _spark(spark.read.parquet(files))}
    ours |= {state: partial(_ours, spark, ViewStore.open(path)) for state, path in states.items() if state != PLAIN}
    others = {"deltalake": _deltalake} | ({"polars": _polars} if find_spec("polars") else {})
    return {"weir on Spark": ours} | {
        client: {state: partial(ask, str(path)) for state, path in states.items()} for client, ask in others.items()
    }


def _ours(spark: SparkSession, store: ViewStore) -> tuple[Any, ...]:
    return _spark(store.read(spark))


def _spark(frame: DataFrame) -> tuple[Any, ...]:
    return tuple(frame.selectExpr(*EVERY_COLUMN).first() or ())


def _deltalake(path: str) -> tuple[Any, ...]:
    found = pa.table(QueryBuilder().register("t", DeltaTable(path)).execute(QUESTION).read_all())
    return tuple(column[0].as_py() for column in found.columns)


def _polars(path: str) -> tuple[Any, ...]:
    import polars

    c = polars.col
    kept = [polars.len(), c("k").sum(), c("a").cast(polars.Int64).sum().alias("sum"), c("name").max()]
    found = polars.scan_delta(path).select(*kept, c("price").sum(), c("day").max().alias("last")).collect()
    return tuple(found.row(0))


def _compare(client: str, asks: dict[str, TableQuestion], runs: int) -> list[Reading]:
    """In turns, so that a busy minute of the machine hits all of them alike; the first turns warm up."""
    seconds: dict[str, list[float]] = {state: [] for state in asks}
    shown: dict[str, Any] = {}
    for turn in range(runs + WARMING):
        for state, ask in asks.items():
            start = time.perf_counter()
            shown[state] = ask()
            seconds[state] += [time.perf_counter() - start] if turn >= WARMING else []
    assert len(set(shown.values())) == 1, f"the ways to read disagree: {shown}"
    medians = {state: statistics.median(times) for state, times in seconds.items()}
    plain = medians[PLAIN]
    return [
        Reading(client, state, shown[state][0], min(seconds[state]), medians[state], medians[state] / plain)
        for state in asks
    ]


def document(readings: list[Reading]) -> dict[str, Any]:
    return {"bench": "read", "rows": [asdict(reading) for reading in readings]}


def table(readings: list[Reading]) -> Table:
    shown = Table(title="reading all rows of a view, in seconds")
    for heading in ("client", "state of the table", "rows", "fastest", "median", "against plain"):
        shown.add_column(heading, justify="left" if heading in ("client", "state of the table") else "right")
    for r in readings:
        shown.add_row(
            r.client, r.state, f"{r.rows:,}", f"{r.fastest:.2f}", f"{r.seconds:.2f}", f"{r.against_plain:.2f}"
        )
    return shown
