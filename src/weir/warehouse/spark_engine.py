"""Reading, netting and folding on Spark, in one scan of the base.

The base has one row per hash. So one broadcast left join on the hash brings to every base row the log rows that may be
the same tuple; their columns are compared. A log row that only shares the hash is given out beside the base row (an
``explode`` over one number, nearly free for the rows without such a partner). Log rows whose hash is not in the base
are new. A netted log says which those are; for what was appended since, the base's hash column alone is scanned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from weir.algebra.types import Column as StoredColumn
from weir.algebra.types import Schema
from weir.warehouse.arrow_engine import IN_BASE, ArrowEngine, first_of_each_hash
from weir.warehouse.columns import ARRIVAL, HASH, WEIGHT, missing_columns, stored_schema
from weir.warehouse.delta_log import DeltaLog, State
from weir.warehouse.place import Place
from weir.warehouse.statistics import BASE, NET_NEW, NET_OLD, TAIL, DataFile, describe_file

REST, TURN, SPARE = "_weir_rest", "_weir_turn", "_weir_spare"
LOG_FOLDERS = (NET_OLD, NET_NEW, TAIL)
DRIVER_BYTES = 16 << 20  # of Parquet; a log up to this size is summed on the driver
BROADCAST_BYTES = 256 << 20  # of Parquet; a longer log is joined as Spark thinks best, and wants folding
REFUSALS = ("No space left", "Permission denied", "Mkdirs failed", "File too large", "Read-only file system", "quota")
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"



class SparkEngine:
    """The view store's work on DataFrames."""

    def __init__(self, log: DeltaLog, spark: SparkSession) -> None:
        self.log, self.place, self.schema, self.spark = log, log.place, log.schema, spark
        self.names = [quoted(name) for name in self.schema.names]

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, state: State, counted: bool) -> DataFrame:
        """The visible rows: those of positive weight, repeated, or once with their count."""
        visible = self._rows(state).filter(F.col(WEIGHT) > 0)
        if counted:
            return visible.select(*self.names, WEIGHT)
        more = F.array_repeat(F.lit(1), F.col(WEIGHT).cast("int"))
        copies = F.when(F.col(WEIGHT) == 1, F.array(F.lit(1))).otherwise(more)
        return visible.withColumn(TURN, F.explode(copies)).select(*self.names)

    def _rows(self, state: State) -> DataFrame:
        """All rows with their weights; SPARE marks those that share their hash with another row given out."""
        base = self._files(state, BASE)
        if len(state.only(BASE)) == len(state.files):
            return base.withColumn(SPARE, F.lit(False))
        old, new = self._log_by_hash(state, base)
        crowded = REST in old.columns
        if state.bytes(*LOG_FOLDERS) <= BROADCAST_BYTES:
            old = F.broadcast(old)
        found = new.select(*self.names, WEIGHT, HASH, F.lit(False).alias(SPARE))
        if crowded:
            each = new.select(HASH, F.posexplode(self._candidates()).alias(TURN, "row"))
            found = each.select("row.*", HASH, (F.col(TURN) > 0).alias(SPARE))
        return self._with_log(base, old, crowded).unionByName(found)

    def _with_log(self, base: DataFrame, old: DataFrame, crowded: bool) -> DataFrame:
        """Every base row with what the log adds to it, and the log rows that only share its hash.

        Spark compiles all of it while the log has one row per hash; only for a crowded log it must interpret lambdas.
        """
        joined = base.alias("b").join(old.alias("n"), F.col(f"b.{HASH}") == F.col(f"n.{HASH}"), "left")
        missing, same = F.col(f"n.{HASH}").isNull(), self._is_base_row(lambda name: F.col(f"n.{quoted(name)}"))
        usual, others, total = missing | same, F.array(self._first("n.")), F.lit(0).cast("bigint")
        if crowded:
            twins = F.filter(self._candidates("n."), lambda row: self._is_base_row(lambda name: row[name]))
            others = F.filter(self._candidates("n."), lambda row: ~self._is_base_row(lambda name: row[name]))
            total = F.aggregate(twins, total, lambda sum_, row: sum_ + row[WEIGHT])
            usual = missing | (same & F.col(f"n.{REST}").isNull())
        added = F.when(missing, F.lit(0)).when(usual, F.col(f"n.{WEIGHT}")).otherwise(total)
        each = joined.select(
            *[F.col(f"b.{name}") for name in self.names],
            (F.col(f"b.{WEIGHT}") + added).alias(WEIGHT),
            F.col(f"b.{HASH}").alias(HASH),
            F.when(~usual, others).alias(REST),
            F.explode(F.when(usual, F.array(F.lit(0))).otherwise(F.sequence(F.lit(0), F.size(others)))).alias(TURN),
        )
        return self._one_row_per_turn(each)

    def _one_row_per_turn(self, each: DataFrame) -> DataFrame:
        """Turn 0 gives the base row, the later turns the log rows that only share its hash."""
        base_row, other = F.col(TURN) == 0, F.get(F.col(REST), F.col(TURN) - 1)
        columns = [F.when(base_row, F.col(quoted(n))).otherwise(other[n]).alias(n) for n in self.schema.names]
        weight = F.when(base_row, F.col(WEIGHT)).otherwise(other[WEIGHT]).alias(WEIGHT)
        return each.select(*columns, weight, HASH, (~base_row).alias(SPARE)).filter(F.col(WEIGHT) != 0)

    def _is_base_row(self, value: Callable[[str], Column]) -> Column:
        pairs = (F.col(f"b.{quoted(name)}").eqNullSafe(value(name)) for name in self.schema.names)
        return reduce(lambda a, b: a & b, pairs)

    # -- the log ----------------------------------------------------------------------------------------------------

    def _log_by_hash(self, state: State, base: DataFrame) -> tuple[DataFrame, DataFrame]:
        """The netted log, a row per hash, as what is in the base and what is not. REST only when hashes collide."""
        if not state.only(TAIL):
            return self._files(state, NET_OLD), self._files(state, NET_NEW)
        groups = self._small_groups(state) if state.bytes(*LOG_FOLDERS) <= DRIVER_BYTES else None
        groups = self._groups(state) if groups is None else groups
        unknown = groups.filter(F.col(IN_BASE).isNull()).select(HASH)
        present = base.select(HASH).join(F.broadcast(unknown), HASH, "left_semi").withColumn("found", F.lit(True))
        known = groups.join(F.broadcast(present), HASH, "left")
        known = known.withColumn(IN_BASE, F.coalesce(IN_BASE, "found", F.lit(False))).drop("found")
        return known.filter(IN_BASE), known.filter(~F.col(IN_BASE))

    def _small_groups(self, state: State) -> DataFrame | None:
        """A small log is summed on the driver, which is quicker than a shuffle; None when hashes collide in it."""
        rows = ArrowEngine(self.log).netted(state)
        if not pc.all(first_of_each_hash(rows, alone=True), min_count=0).as_py():
            return None
        types = f"{_ddl(self.schema)}, {HASH} bigint, {WEIGHT} bigint, {IN_BASE} tinyint"
        frame = self.spark.createDataFrame(rows, types)  # unasked, Spark would take a time without zone for an instant
        return frame.select(*self.names, WEIGHT, HASH, F.col(IN_BASE).cast("boolean").alias(IN_BASE))

    def _groups(self, state: State) -> DataFrame:
        """One row per hash: one tuple of it in the view's columns, any others in REST (hashes seldom collide)."""
        netted = self._netted(state)
        items = F.collect_list(F.struct(*self.names, WEIGHT)).alias("items")
        grouped = netted.groupBy(HASH).agg(F.max(IN_BASE).alias(IN_BASE), items)
        first, size = F.get("items", F.lit(0)), F.size("items")
        columns = [first[name].alias(name) for name in (*self.schema.names, WEIGHT)]
        return grouped.select(*columns, HASH, IN_BASE, F.when(size > 1, F.slice("items", 2, size)).alias(REST))

    def _netted(self, state: State) -> DataFrame:
        parts = [(TAIL, None), (NET_OLD, True), (NET_NEW, False)]
        flagged = [self._files(state, f).withColumn(IN_BASE, F.lit(flag).cast("boolean")) for f, flag in parts]
        both = reduce(DataFrame.unionByName, flagged).repartition(F.col(HASH))  # one shuffle for both groupings
        summed = both.groupBy(HASH, *self.names).agg(F.sum(WEIGHT).alias(WEIGHT), F.max(IN_BASE).alias(IN_BASE))
        return summed.filter(F.col(WEIGHT) != 0)

    def _first(self, side: str = "") -> Column:
        return F.struct(*[F.col(f"{side}{name}") for name in self.names], F.col(f"{side}{WEIGHT}"))

    def _candidates(self, side: str = "") -> Column:
        """All tuples of a log row's hash, as an array."""
        first, rest = F.array(self._first(side)), F.col(f"{side}{REST}")
        return F.when(rest.isNull(), first).otherwise(F.concat(first, rest))

    def _files(self, state: State, folder: str) -> DataFrame:
        """Columns, weight and hash of some of the state's files."""
        ddl = _ddl(stored_schema(self.schema))
        paths = [self.place.spark_path(name) for name in state.names(folder)]
        frame = self.spark.read.schema(ddl).parquet(*paths) if paths else self.spark.createDataFrame([], ddl)
        if state.arrival is not None:
            frame = frame.filter(F.col(ARRIVAL) <= state.arrival)
        return frame.select(*self.names, WEIGHT, HASH)

    # -- writing ----------------------------------------------------------------------------------------------------

    def stage(self, batch: DataFrame, arrival: int) -> list[DataFile]:
        """A delta as files of the log, one per task that has rows."""
        return self._write(self._stored(batch, arrival).filter(F.col(WEIGHT) != 0), TAIL)

    def load(self, batch: DataFrame, arrival: int) -> list[DataFile]:
        """A whole view as a base. Rows that share a hash are looked for in what was written, by the hash alone."""
        stored = self._stored(batch, arrival)
        summed = stored.groupBy(*self.names, HASH).agg(F.sum(WEIGHT).alias(WEIGHT)).filter(F.col(WEIGHT) != 0)
        files = self._write(self._at(summed, arrival), BASE)
        state = State(0, tuple(files))
        doubled = self._files(state, BASE).groupBy(HASH).count().filter("count > 1").limit(1).count()
        return self._spread(state, arrival) if doubled else files

    def _spread(self, state: State, arrival: int) -> list[DataFile]:
        """Of the rows that share a hash, one goes to the base and the others to the log."""
        order = Window.partitionBy(HASH).orderBy(*self.names)
        ranked = self._at(self._files(state, BASE).withColumn(TURN, F.row_number().over(order)), arrival, TURN)
        base = self._write(ranked.filter(F.col(TURN) == 1).drop(TURN), BASE)
        return [*base, *self._write(ranked.filter(F.col(TURN) > 1).drop(TURN), TAIL)]

    def net(self, state: State, arrival: int) -> list[DataFile]:
        """The log as one row per tuple, split by whether the hash is in the base. Never reads the base's columns."""
        old, new = self._log_by_hash(state, self._files(state, BASE))
        if REST not in old.columns:
            return [*self._write(self._at(old, arrival), NET_OLD), *self._write(self._at(new, arrival), NET_NEW)]
        written = self._write(self._at(old.filter(F.col(REST).isNull()), arrival), NET_OLD)
        written += self._write(self._at(new.filter(F.col(REST).isNull()), arrival), NET_NEW)
        crowded = old.unionByName(new).filter(F.col(REST).isNotNull())
        spare = crowded.select(HASH, F.explode(self._candidates()).alias("row")).select("row.*", HASH)
        return written + self._write(self._at(spare, arrival), TAIL)

    def fold(self, state: State, arrival: int) -> list[DataFile]:
        """The log worked into the base, in the one scan that a read takes."""
        rows, seen = self._rows(state), Observation()
        counted = rows.observe(seen, F.count_if(F.col(SPARE)).alias("spare")).filter(~F.col(SPARE))
        written = self._write(self._at(counted.filter(F.col(WEIGHT) != 0), arrival), BASE)
        if seen.get["spare"]:
            written += self._write(self._at(rows.filter(SPARE), arrival), TAIL)
        return written

    def _stored(self, batch: DataFrame, arrival: int) -> DataFrame:
        missing = [name for name in self.schema.names if name not in batch.columns]
        if missing:
            raise missing_columns(missing, batch.columns)
        columns = [_fitted(column).alias(column.name) for column in self.schema]
        weight = F.col(WEIGHT).cast("bigint") if WEIGHT in batch.columns else F.lit(1).cast("bigint")
        when = F.col(ARRIVAL).cast("bigint") if ARRIVAL in batch.columns else F.lit(arrival).cast("bigint")
        rows = batch.select(*columns, weight.alias(WEIGHT), when.alias(ARRIVAL))
        hashed = F.xxhash64(*self.names)
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


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _ddl(schema: Schema) -> str:
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in schema)


def _fitted(column: StoredColumn) -> Column:
    """A column in the declared type, with one representative per value (no -0.0, one NaN)."""
    value = F.col(quoted(column.name)).cast(str(column.type))
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
