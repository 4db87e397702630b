"""Batched sweeps on Spark: one job per round, each task takes its slice of every view's batch through all hops.

A task (``task``) reads the held snapshots (``lookups``) and drives the algorithms' own ``sweep`` (``slices``). A view
with expressions that only Spark knows goes through a job of its own, in which Spark SQL applies them to the joined
rows (``spark_expressions``).
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weir.algebra.bag import WEIGHT
from weir.algebra.quoting import ddl
from weir.algebra.types import BIGINT, Column
from weir.algorithms.sweeping import ARRIVAL, width
from weir.sweeping.lookups import Access
from weir.sweeping.order import SweepOrder, SweptDelta
from weir.sweeping.slices import MOST_ROWS
from weir.sweeping.spark_expressions import RawTerm, finished, raw_terms
from weir.sweeping.task import ENVELOPE, RawRowsTask, StoringTask, SweepTask


def sweep_on_spark(
    spark: SparkSession,
    orders: Sequence[SweepOrder],
    access: Mapping[str, Access],
    tasks: int,
    most_rows: int = MOST_ROWS,
) -> list[SweptDelta]:
    """The change of every order's view; one job for all of them, and one for each that needs Spark's own functions."""
    plain = {number for number, order in enumerate(orders) if not order.view.spark_only}
    jobs = [sorted(plain)] if plain else []
    jobs += [[number] for number in range(len(orders)) if number not in plain]
    results = [SweptDelta() for _ in orders]
    for numbers in jobs:
        work = SweepTask({n: orders[n] for n in numbers}, access, most_rows, tasks)
        frame = _plain_job(spark, work) if set(numbers) <= plain else _raw_job(spark, work, numbers[0])
        _collect(frame, results)
    return results


def _plain_job(spark: SparkSession, work: SweepTask) -> DataFrame:
    return spark.range(0, work.task_count, 1, work.task_count).mapInArrow(work, ENVELOPE)


def _raw_job(spark: SparkSession, work: SweepTask, number: int) -> DataFrame:
    order = work.orders[number]
    parts = [_raw_rows(spark, work, number, term) for term in raw_terms(order.view)]
    rows = reduce(DataFrame.union, parts)
    # mapInArrow looks its columns up by their names as text, in which a point would ask for a field.
    numbered = rows.toDF(*(f"c{at}" for at in range(len(rows.columns))))
    return numbered.mapInArrow(StoringTask(number, order.stager, order.view.columns), ENVELOPE)


def _raw_rows(spark: SparkSession, work: SweepTask, number: int, term: RawTerm) -> DataFrame:
    """One term's joined rows, then Spark's own selection and select list."""
    order = work.orders[number]
    numbering = replace(order.numbering, width=width(term.view))
    raw = replace(work, orders={number: replace(order, view=term.view, numbering=numbering)})
    types = ddl((*term.schema, Column(ARRIVAL, BIGINT), Column(WEIGHT, BIGINT)))
    rows = spark.range(0, work.task_count, 1, work.task_count).mapInArrow(RawRowsTask(raw, number), types)
    return finished(rows, term, ARRIVAL, WEIGHT)


def _collect(frame: DataFrame, results: list[SweptDelta]) -> None:
    for row in frame.toArrow().to_pylist():
        delta = results[row["sweep"]]
        if row["rows"] is not None:
            delta.rows.append(pa.ipc.open_stream(row["rows"]).read_all())
        if row["staged"] is not None:
            delta.staged.append(pickle.loads(row["staged"]))
        if row["asked"] is not None:
            delta.asked += pickle.loads(row["asked"])
