"""Reading a state on Spark: a plain scan of the files, less the rows that are gone.

Spark reads Parquet here and knows nothing of deletion vectors. The rows that are gone are left out by their number in
their file, which Spark knows without reading a column: the vectors of a scan go into its plan as one array of 64-bit
words, and one bit of it is looked at per row. Which part of the array is a file's own is told by the file's size, where
that is enough to tell it from the others, because numbers are compared sooner than names.

Tiny files of which rows are gone are read by the driver.
"""

from __future__ import annotations

import json
from collections import Counter
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
MOST_VECTORS = 16  # in one scan
TURN = "_weir_turn"
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
        tiny, others = _split(files)
        parts = [self._scan(group) for group in _scans(others)] or ([] if tiny else [self._scan([])])
        if tiny:
            parts.append(frame_of(self._spark, pa.concat_tables(map(self._arrow.visible, tiny)), self._types))
        return reduce(DataFrame.unionByName, parts)

    def _scan(self, files: Sequence[DataFile]) -> DataFrame:
        paths = [self._place.spark_path(file.name) for file in files]
        if not paths:
            return self._spark.createDataFrame([], self._types)
        rows = self._spark.read.schema(self._types).parquet(*paths)
        return self._less_gone(rows, files) if any(file.vector for file in files) else rows

    def _less_gone(self, rows: DataFrame, files: Sequence[DataFile]) -> DataFrame:
        about = rows.metadataColumn("_metadata")
        by_size = self._place.is_local and _told_by_size(files)
        which = about.getField("file_size" if by_size else "file_name")
        words, first = list[NumberArray](), F.lit(None).cast("bigint")
        for file in files:
            if file.vector is not None:
                mine = which == (self._size(file) if by_size else file.name.rpartition("/")[2])
                first = F.when(mine, sum(map(len, words))).otherwise(first)
                words.append(bit_words(as_numbers(read_vector(self._place, file.vector)), file.rows))
        gone = F.from_json(F.lit(json.dumps(np.concatenate(words).tolist())), "array<bigint>")
        row = about.getField("row_index")
        bit = F.bit_get(F.get(gone, (first + F.shiftright(row, 6)).cast("int")), row.bitwiseAND(63).cast("int"))
        return rows.filter(F.coalesce(bit, F.lit(0)) == 0)

    def _size(self, file: DataFile) -> int:
        """Of a file that is as it was written: of another one, nobody knows which rows are gone."""
        if self._place.sizes([file.name]) != {file.name: file.size}:
            raise self._place.damaged(f"{file.name} is missing, or is not the file that was written")
        return file.size


def _told_by_size(files: Sequence[DataFile]) -> bool:
    """Whether each file of which rows are gone has a size of its own."""
    times = Counter(file.size for file in files)
    return all(times[file.size] == 1 for file in files if file.vector is not None)


def _scans(files: Sequence[DataFile]) -> list[Sequence[DataFile]]:
    """All files at once; where many have a vector, some of these at a time, and the others by themselves."""
    marked = [file for file in files if file.vector is not None]
    if len(marked) <= MOST_VECTORS:
        return [files] if files else []
    whole = [file for file in files if file.vector is None]
    groups: list[Sequence[DataFile]] = [marked[at : at + MOST_VECTORS] for at in range(0, len(marked), MOST_VECTORS)]
    return [whole, *groups] if whole else groups


def bit_words(numbers: NumberArray, size: int) -> NumberArray:
    """A set of numbers below ``size`` as bits, 64 in a word."""
    bits = np.zeros(-(-size // 64) * 64, np.uint8)
    bits[numbers] = 1
    return np.packbits(bits, bitorder="little").view(np.int64)


def _split(files: Sequence[DataFile]) -> tuple[list[DataFile], list[DataFile]]:
    """Of those with a vector the tinyest, as many as the driver reads; and all others."""
    tiny, size = list[DataFile](), 0
    for file in sorted((file for file in files if file.vector is not None), key=lambda file: file.size):
        size += file.size
        if size > DRIVER_BYTES:
            break
        tiny.append(file)
    return tiny, [file for file in files if file not in tiny]
