"""Arrow tables handed to Spark."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def frame_of(session: SparkSession, table: pa.Table, types: str) -> DataFrame:
    """The table as a DataFrame of these types; unasked, Spark would take a time without zone for an instant.

    In one chunk: Spark takes an empty chunk for the end of the table, and a filter leaves such chunks.
    """
    return session.createDataFrame(table.combine_chunks(), types)
