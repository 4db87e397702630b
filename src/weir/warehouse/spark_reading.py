"""Reading a state on Spark: a plain scan of the files, less the rows that are gone.

Spark reads Parquet here and knows nothing of deletion vectors. Files without one are scanned together. A file with one
is scanned by itself, and the rows that are gone are left out by their number in the file, which Spark knows without
reading a column: the vector goes into the plan as an array of 64-bit words, and one bit of it is looked at per row.
Tiny files with one are read by the driver.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from weir.algebra.quoting import backquoted, ddl
from weir.algebra.types import Schema
from weir.spark.frame_bag import added_up
from weir.spark.frames import frame_of
from weir.warehouse.addressing import ShownState
from weir.warehouse.columns import WEIGHT
from weir.warehouse.index_runs import NumberArray
from weir.warehouse.place import Place
from weir.warehouse.reading import ArrowReader
from weir.warehouse.row_index import as_numbers
from weir.warehouse.statistics import DataFile
from weir.warehouse.vectors import read_vector

DRIVER_BYTES = 256 << 10  # of Parquet; files with vectors up to this size in all are read by the driver
ROW, TURN = "_weir_row", "_weir_turn"
COPIES = f"explode(CASE WHEN {WEIGHT} = 1 THEN array(1) ELSE array_repeat(1, CAST({WEIGHT} AS int)) END)"


class SparkReader:
    """The rows of one table's states, as DataFrames."""

    def __init__(self, place: Place, schema: Schema, spark: SparkSession) -> None:
        self._place, self._schema, self._spark = place, schema, spark
        self._names, self._types = [backquoted(name) for name in schema.names], ddl(schema)
        self._arrow = ArrowReader(place, schema)

    def read(self, shown: ShownState, counted: bool = False) -> DataFrame:
        """The visible rows: each as often as it counts, or once with its count."""
        rows = self.rows(shown)
        if shown.arrival is None and not counted:
            return rows
        weighted = rows.withColumn(WEIGHT, F.lit(1).cast("bigint"))
        for table in self._arrow.signed(shown):
            weighted = weighted.unionByName(frame_of(self._spark, table, f"{self._types}, {WEIGHT} bigint"))
        total = added_up(weighted, self._names, WEIGHT).filter(f"{WEIGHT} > 0").select(*self._names, WEIGHT)
        return total if counted else total.withColumn(TURN, F.expr(COPIES)).drop(TURN, WEIGHT)

    def rows(self, shown: ShownState) -> DataFrame:
        """The visible rows of the version."""
        files = list(shown.state.files.values())
        whole = [file for file in files if file.vector is None]
        small, large = _split([file for file in files if file.vector is not None])
        parts = [self._scan(whole)] if whole or not files else []
        parts += [self._left_over(file) for file in large]
        if small:
            parts.append(frame_of(self._spark, pa.concat_tables(map(self._arrow.visible, small)), self._types))
        return reduce(DataFrame.unionByName, parts)

    def _scan(self, files: Sequence[DataFile]) -> DataFrame:
        paths = [self._place.spark_path(file.name) for file in files]
        if not paths:
            return self._spark.createDataFrame([], self._types)
        return self._spark.read.schema(self._types).parquet(*paths)

    def _left_over(self, file: DataFile) -> DataFrame:
        assert file.vector is not None
        words = bit_words(as_numbers(read_vector(self._place, file.vector)), file.rows)
        gone = f"from_json('{json.dumps(words.tolist(), separators=(',', ':'))}', 'array<bigint>')"
        word = f"get({gone}, CAST({ROW} DIV 64 AS int))"
        rows = self._scan([file]).select("*", F.col("_metadata.row_index").alias(ROW))
        return rows.filter(f"bit_get({word}, CAST({ROW} % 64 AS int)) = 0").drop(ROW)


def bit_words(numbers: NumberArray, size: int) -> NumberArray:
    """A set of numbers below ``size`` as bits, 64 in a word."""
    bits = np.zeros(-(-size // 64) * 64, np.uint8)
    bits[numbers] = 1
    return np.packbits(bits, bitorder="little").view(np.int64)


def _split(files: Sequence[DataFile]) -> tuple[list[DataFile], list[DataFile]]:
    """The smallest, as many as the driver reads, and the others."""
    small, size = list[DataFile](), 0
    ordered = sorted(files, key=lambda file: file.size)
    for file in ordered:
        size += file.size
        if size > DRIVER_BYTES:
            break
        small.append(file)
    return small, ordered[len(small) :]
