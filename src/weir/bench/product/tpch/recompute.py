"""Full recomputation on Spark: the needed columns of all five tables read in parallel, joined, written, committed.

As strong as it can be made without a JDBC jar: tasks read ranges of the tables through the bare drivers (``COPY`` at
PostgreSQL), the view's condition goes to the source, and the small tables are broadcast.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from weir.bench.product.tpch.bare import Address
from weir.bench.product.tpch.delta import PlainTable
from weir.bench.product.tpch.tables import LEAST_QUANTITY, OUTPUT, TABLES, WEIGHT
from weir.bench.product.tpch.turn import Turn
from weir.spark.frame_bag import added_up
from weir.warehouse.store import ViewStore

PARTS = {"lineitem": 8, "orders": 4}  # the others are read in one
ReadBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class RecomputedView:
    """Its table always shows what the last run found; ``first`` keeps the files of the first run."""

    def __init__(
        self,
        spark: SparkSession,
        addresses: Mapping[str, Address],
        folder: Path,
        parts: Mapping[str, int] = PARTS,
    ) -> None:
        self.spark, self.addresses, self.folder, self.parts = spark, addresses, folder, parts
        fields = [addresses[table].schemas[table].field(name) for table in TABLES for name in TABLES[table].needed]
        by_name = {field.name: field for field in fields}
        self.table = PlainTable(folder, pa.schema([by_name[name] for name in OUTPUT]))
        self.runs = 0
        self.first: list[str] = []
        self._traffic: tuple[int, int] | None = None

    def run(self) -> Turn:
        """From the sources to a committed version."""
        start = time.perf_counter()
        self.runs += 1
        name = f"run-{self.runs}"
        self.joined().write.parquet(str(self.folder / name))
        old = self.table.files()
        self.table.replace(name)
        ms = (time.perf_counter() - start) * 1000
        self._forget(old)
        return Turn(ms, self.table.rows(), *self.traffic(), self.table.version)

    def joined(self) -> DataFrame:
        """The view from the base tables."""
        rows = self.read("lineitem").join(self.read("orders"), F.expr("l_orderkey = o_orderkey"))
        rows = rows.join(self.read("customer").hint("broadcast"), F.expr("o_custkey = c_custkey"))
        rows = rows.join(self.read("nation").hint("broadcast"), F.expr("c_nationkey = n_nationkey"))
        return rows.join(self.read("part").hint("broadcast"), F.expr("l_partkey = p_partkey")).select(*OUTPUT)

    def read(self, table: str) -> DataFrame:
        schema = pa.schema([self.addresses[table].schemas[table].field(name) for name in TABLES[table].needed])
        return self._over_parts(table, _spark_schema(schema))

    def traffic(self) -> tuple[int, int]:
        """Bytes to and from the sources of a run; the first time all is read once more, to count them."""
        if self._traffic is None:
            self._traffic = self._count_traffic()
        return self._traffic

    def _count_traffic(self) -> tuple[int, int]:
        sent = received = 0
        for table in TABLES:
            counted = self._over_parts(table, "sent long, got long", counting=True)
            row = counted.selectExpr("sum(sent)", "sum(got)").first()
            assert row is not None
            sent, received = sent + row[0], received + row[1]
        return sent, received

    # -- comparing --------------------------------------------------------------------------------------------------

    def differences_at(self, path: str) -> int:
        """How many rows a view's table lacks or has too many, as a reader finds it now, against the last run."""
        return self.differences(ViewStore.open(path).read(self.spark))

    def differences(self, shown: DataFrame) -> int:
        expected = self.spark.read.parquet(*self.table.files()).withColumn(WEIGHT, F.lit(-1))
        return count_differences(shown.select(*OUTPUT).withColumn(WEIGHT, F.lit(1)), expected)

    def differences_after(self, deltas: Sequence[str]) -> int:
        """The same for the first run's rows and all that these files of weighted rows add to them."""
        expected = self.spark.read.parquet(*self.table.files()).withColumn(WEIGHT, F.lit(-1))
        begun = self.spark.read.parquet(*self.first).withColumn(WEIGHT, F.lit(1))
        return count_differences(begun, self.spark.read.parquet(*deltas), expected) if deltas else 0

    def close(self) -> None:
        """Nothing to do: the session belongs to whoever opened it."""

    # -- how --------------------------------------------------------------------------------------------------------

    def _parts(self, table: str) -> list[str]:
        with closing(self.addresses[table].open()) as bare:
            conditions = bare.parts(table, self.parts.get(table, 1))
        extra = f" AND l_quantity > {LEAST_QUANTITY}" if table == "lineitem" else ""
        return [condition + extra for condition in conditions]

    def _over_parts(self, table: str, schema: str, counting: bool = False) -> DataFrame:
        parts = self.parts.get(table, 1)
        reading = _reader(self.addresses[table], table, self._parts(table), counting)
        return self.spark.range(0, parts, 1, parts).mapInArrow(reading, schema)

    def _forget(self, old: list[str]) -> None:
        if not self.first:
            self.first = self.table.files()
        for folder in {Path(file).parent for file in old} - {Path(file).parent for file in self.first}:
            shutil.rmtree(folder)


def _reader(address: Address, table: str, conditions: Sequence[str], counting: bool) -> ReadBatches:
    """Reads the parts and gives the rows; ``counting``, only how many bytes went each way."""
    columns = TABLES[table].needed

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with closing(address.open()) as bare:
            for condition in _chosen(batches, conditions):
                for rows in bare.scan(table, columns, condition):
                    yield from () if counting else rows.to_batches()
            if counting:
                yield pa.RecordBatch.from_pydict({"sent": [bare.sent], "got": [bare.received]})

    return read


def _chosen(batches: Iterator[pa.RecordBatch], conditions: Sequence[str]) -> Iterator[str]:
    """The conditions whose numbers came; a small table may have fewer parts than numbers."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            if number < len(conditions):
                yield conditions[number]


def _spark_schema(schema: pa.Schema) -> str:
    names = {pa.int64(): "bigint", pa.int32(): "int", pa.date32(): "date", pa.string(): "string"}
    return ", ".join(
        f"{field.name} {names.get(field.type) or f'decimal({field.type.precision},{field.type.scale})'}"
        for field in schema
    )


def count_differences(*weighted: DataFrame) -> int:
    """Rows whose weights over all frames do not sum up to 0, each as often as it is off."""
    rows = weighted[0]
    for more in weighted[1:]:
        rows = rows.unionByName(more)
    off = added_up(rows, OUTPUT, WEIGHT).selectExpr(f"sum(abs({WEIGHT})) AS off").first()
    return int(off[0] or 0) if off is not None else 0
