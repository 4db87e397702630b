"""Reading, netting and folding on Spark.

Base and netted log are read in one scan and one join on the hash, of which nothing but the hash and the change of
weight is needed: a row of ``net/old`` is known to be the base row of its hash, so other columns need not be compared,
and a query reads only the columns it asks for. Where the files' bounds say that every weight is 1 and every change -1,
the weight is not read either; and rows are repeated only where a weight may be above 1.

What was appended since is joined by hash and all columns, so that tuples that share a hash are never mixed up. Which of
it is new, a second scan must say.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from weir.algebra.quoting import backquoted, ddl
from weir.algebra.types import Column as StoredColumn
from weir.spark.frame_bag import added_up
from weir.spark.frames import frame_of
from weir.warehouse.arrow_engine import ArrowEngine, greatest
from weir.warehouse.columns import ARRIVAL, HASH, WEIGHT, missing_columns, stored_schema
from weir.warehouse.delta_log import DeltaLog, State
from weir.warehouse.place import Place
from weir.warehouse.row_hash import spark_hash
from weir.warehouse.statistics import BASE, NET_NEW, NET_OLD, TAIL, DataFile, describe_file

TURN, CHANGE, KNOWN, IN_BASE = "_weir_turn", "_weir_change", "_weir_known", "_weir_in_base"
OURS = (WEIGHT, ARRIVAL, HASH, TURN)
COPIES = f"explode(CASE WHEN {WEIGHT} = 1 THEN array(1) ELSE array_repeat(1, CAST({WEIGHT} AS int)) END)"
LOG_FOLDERS = (NET_OLD, NET_NEW, TAIL)
DRIVER_BYTES = 16 << 20  # of Parquet; a log up to this size is summed on the driver
BROADCAST_BYTES = 256 << 20  # of Parquet; a longer log is joined as Spark thinks best, and wants folding
REFUSALS = ("No space left", "Permission denied", "Mkdirs failed", "File too large", "Read-only file system", "quota")
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True)
class Weighted:
    """Tuples with their weights, and bounds of these."""

    frame: DataFrame
    low: float
    high: float


class SparkEngine:
    """The view store's work on DataFrames."""

    def __init__(self, log: DeltaLog, spark: SparkSession) -> None:
        self.log, self.place, self.schema, self.spark = log, log.place, log.schema, spark
        self.names = [backquoted(name) for name in self.schema.names]

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, state: State, counted: bool) -> DataFrame:
        """The visible rows: those of positive weight, repeated, or once with their count."""
        rows = self._rows(state)
        visible = rows.frame if rows.low > 0 else rows.frame.filter(f"{WEIGHT} > 0")
        if counted:
            return visible.select(*self.names, WEIGHT)
        repeated = visible.withColumn(TURN, F.expr(COPIES)) if rows.high > 1 else visible
        return repeated.drop(*OURS)  # which is one call to Spark's process, where a select is one per column

    def _rows(self, state: State, hidden: bool = False) -> Weighted:
        """Every tuple once, with its weight; ``hidden``: those that are not visible, too."""
        if not state.files_in(TAIL):
            return self._compacted(state)
        tail, highest = self._netted_tail(state)
        under = self._with_net(state)
        changed = under.frame.alias("b").join(self._small(state, tail).alias("n"), self._same(), "left")
        frame = self._changed(changed.selectExpr("b.*", f"n.{CHANGE}"))
        if hidden or highest > 0:
            frame = frame.unionByName(self._new(state, tail if hidden else tail.filter(f"{CHANGE} > 0")))
        return Weighted(frame, -inf, max(under.high, 0) + max(highest, 0))

    def _new(self, state: State, tail: DataFrame) -> DataFrame:
        """Those rows of the tail that are neither in the base nor in the netted log."""
        stored, small = self._files(state, BASE, NET_NEW).alias("b"), self._small(state, tail).alias("n")
        found = stored.join(small, self._same(), "left_semi")
        new = tail.alias("n").join(self._small(state, found).alias("b"), self._same(), "left_anti")
        return new.withColumnRenamed(CHANGE, WEIGHT)

    def _compacted(self, state: State) -> Weighted:
        """Without a tail. When every change takes away the only copy of a row, those rows are left out."""
        if state.weights(BASE, NET_NEW) == (1, 1) and state.weights(NET_OLD) == (-1, -1):
            gone = self._small(state, self._files(state, NET_OLD))
            return Weighted(self._files(state, BASE, NET_NEW).join(gone, HASH, "left_anti"), 1, 1)
        return self._with_net(state)

    def _with_net(self, state: State) -> Weighted:
        """Base and netted log; rows that the log takes away stay, with weight 0 or less."""
        kept, (low, high) = self._files(state, BASE, NET_NEW), state.weights(BASE, NET_NEW)
        if not state.files_in(NET_OLD):
            return Weighted(kept.drop(ARRIVAL), low, high)
        old = self._files(state, NET_OLD).selectExpr(HASH, f"{WEIGHT} AS {CHANGE}")
        least, most = state.weights(NET_OLD)
        changed = self._changed(kept.join(self._small(state, old), HASH, "left"))
        return Weighted(changed, low + min(least, 0), high + max(most, 0))

    def _changed(self, joined: DataFrame) -> DataFrame:
        return joined.withColumn(WEIGHT, F.expr(f"{WEIGHT} + coalesce({CHANGE}, 0L)")).drop(CHANGE, ARRIVAL)

    def _same(self) -> Column:
        """The same tuple on both sides. Spark is to look up the hash and to compare the columns of what it finds: a
        plain equality would make all columns part of the key."""
        pairs = " AND ".join(f"b.{name} <=> n.{name}" for name in self.names)
        return F.expr(f"b.{HASH} = n.{HASH} AND ({pairs}) = (n.{CHANGE} IS NOT NULL)")

    def _small(self, state: State, log: DataFrame) -> DataFrame:
        return F.broadcast(log) if state.bytes(*LOG_FOLDERS) <= BROADCAST_BYTES else log

    # -- the log ----------------------------------------------------------------------------------------------------

    def _netted_tail(self, state: State) -> tuple[DataFrame, float]:
        """What was appended, one row per tuple, its weight as CHANGE; and the greatest.

        A small tail is looked at here: where no two rows share a hash there is nothing to add up, and where some do it
        is quicker done here than by Spark.
        """
        engine = ArrowEngine(self.log)
        if state.bytes(TAIL) > DRIVER_BYTES:
            netted, highest = self._summed(self._files(state, TAIL)), inf
        elif (numbers := engine.tail_without_twins(state)) is not None:
            netted, highest = self._files(state, TAIL).drop(ARRIVAL), greatest(numbers)
        else:
            rows = engine.netted_tail(state)
            netted, highest = self._local(rows), greatest(rows)
        return netted.withColumnRenamed(WEIGHT, CHANGE), highest

    def _local(self, rows: pa.Table) -> DataFrame:
        types = f"{ddl(self.schema)}, {HASH} bigint, {WEIGHT} bigint"
        return frame_of(self.spark, rows, types)

    def _summed(self, rows: DataFrame) -> DataFrame:
        return added_up(rows, [*self.names, HASH], WEIGHT)

    def _files(self, state: State, *folders: str) -> DataFrame:
        """Some of the state's files, in one scan."""
        types = ddl(stored_schema(self.schema))
        paths = [self.place.spark_path(name) for name in state.names(*folders)]
        frame = self.spark.read.schema(types).parquet(*paths) if paths else self.spark.createDataFrame([], types)
        if state.arrival is not None and TAIL in folders:
            frame = frame.filter(F.col(ARRIVAL) <= state.arrival)
        return frame

    # -- writing ----------------------------------------------------------------------------------------------------

    def stage(self, batch: DataFrame, arrival: int) -> list[DataFile]:
        """A delta as files of the log, one per task that has rows."""
        return self._write(self._stored(batch, arrival).filter(F.col(WEIGHT) != 0), TAIL)

    def load(self, batch: DataFrame, arrival: int) -> list[DataFile]:
        """A whole view as a base."""
        return self._write(self._at(self._summed(self._stored(batch, arrival)), arrival), BASE)

    def fold(self, state: State, arrival: int) -> list[DataFile]:
        """The log worked into the base, as a read would."""
        rows = self._rows(state, hidden=True).frame.filter(F.col(WEIGHT) != 0)
        return self._write(self._at(rows, arrival), BASE)

    def net(self, state: State, arrival: int) -> list[DataFile]:
        """The log as one row per tuple, split by what it is to the base. A small one is split on the driver."""
        base = self._files(state, BASE)
        if state.bytes(*LOG_FOLDERS) <= DRIVER_BYTES:
            engine = ArrowEngine(self.log)
            log = engine.netted(state)
            hashes = self._local(log).select(HASH)
            found = base.join(F.broadcast(hashes), HASH, "left_semi").select(*self.names, HASH).toArrow()
            types = pa.schema([self.log.arrow.field(name) for name in found.column_names])
            return engine.split(log, found.cast(types), arrival)
        return self._split(self._summed(self._files(state, *LOG_FOLDERS)), base, arrival)

    def _split(self, log: DataFrame, base: DataFrame, arrival: int) -> list[DataFile]:
        """As on the driver: a row is known when no other of the log, and no other of the base, has its hash."""
        found = base.drop(ARRIVAL).join(log.select(HASH), HASH, "left_semi").withColumn(WEIGHT, F.lit(0).cast("bigint"))
        marked = log.withColumn(IN_BASE, F.lit(0)).unionByName(found.withColumn(IN_BASE, F.lit(1)))
        tuples = marked.groupBy(HASH, *self.names).agg(F.sum(WEIGHT).alias(WEIGHT), F.max(IN_BASE).alias(IN_BASE))
        logs, bases = (
            f"{number} OVER (PARTITION BY {HASH})" for number in (f"count_if({WEIGHT} != 0)", f"sum({IN_BASE})")
        )
        known = f"{logs} = 1 AND ({IN_BASE} = 0 OR {bases} = 1)"
        rows = tuples.withColumn(KNOWN, F.expr(known)).filter(F.col(WEIGHT) != 0).persist()
        parts = {NET_OLD: f"{KNOWN} AND {IN_BASE} = 1", NET_NEW: f"{KNOWN} AND {IN_BASE} = 0", TAIL: f"NOT {KNOWN}"}
        try:
            written = [self._write(self._at(rows.filter(part), arrival), folder) for folder, part in parts.items()]
        finally:
            rows.unpersist()
        return [file for files in written for file in files]

    def _stored(self, batch: DataFrame, arrival: int) -> DataFrame:
        missing = [name for name in self.schema.names if name not in batch.columns]
        if missing:
            raise missing_columns(missing, batch.columns)
        columns = [_fitted(column).alias(column.name) for column in self.schema]
        weight = F.col(WEIGHT).cast("bigint") if WEIGHT in batch.columns else F.lit(1).cast("bigint")
        when = F.col(ARRIVAL).cast("bigint") if ARRIVAL in batch.columns else F.lit(arrival).cast("bigint")
        rows = batch.select(*columns, weight.alias(WEIGHT), when.alias(ARRIVAL))
        hashed = F.expr(spark_hash(self.schema))
        bits = self.log.hash_bits
        return rows.withColumn(HASH, hashed if bits == 64 else hashed.bitwiseAND(F.lit((1 << bits) - 1)))

    def _at(self, rows: DataFrame, arrival: int, *more: str) -> DataFrame:
        return rows.select(*self.names, WEIGHT, F.lit(arrival).cast("bigint").alias(ARRIVAL), HASH, *more)

    def _write(self, frame: DataFrame, folder: str) -> list[DataFile]:
        return write_frame(self.place, frame, folder)


def write_frame(place: Place, frame: DataFrame, folder: str) -> list[DataFile]:
    """Runs one job that writes Parquet files below ``folder``; files without rows are dropped."""
    target = place.new_name(folder, suffix="")
    try:
        with _instants_in_microseconds(frame.sparkSession):
            quiet = frame.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            quiet.parquet(place.spark_path(target))
    except Exception as problem:  # Spark wraps what its tasks met in its own errors, classic and Connect differently
        refused = next((line for line in str(problem).splitlines() if any(s in line for s in REFUSALS)), None)
        if refused is None:
            raise
        raise place.cannot_write(refused.strip()) from problem
    files = [describe_file(place, name) for name in place.listing(target) if name.endswith(".parquet")]
    place.discard(file.name for file in files if not file.rows)
    return [file for file in files if file.rows]


def _fitted(column: StoredColumn) -> Column:
    """A column in the declared type, with one representative per value (no -0.0, one NaN)."""
    value = F.col(backquoted(column.name)).cast(str(column.type))
    if column.type.is_fraction:
        return (F.nanvl(value, F.lit(float("nan"))) + F.lit(0.0)).cast(str(column.type))
    return value


@contextmanager
def _instants_in_microseconds(spark: SparkSession) -> Iterator[None]:
    """Delta knows instants in microseconds only; older settings of Spark write 96-bit ones."""
    before = spark.conf.get(TIMESTAMPS, None)
    if before == "TIMESTAMP_MICROS":
        yield
        return
    spark.conf.set(TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.unset(TIMESTAMPS) if before is None else spark.conf.set(TIMESTAMPS, before)
