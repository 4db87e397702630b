"""Bags into a view's table and out of it. A bag's rows are its columns and behind them the weight; in the table the
weight has another name, and the columns have the table's, position by position.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from weir.algebra.bag import WEIGHT
from weir.algebra.types import Schema
from weir.spark.arrow_bag import ArrowBag
from weir.warehouse.columns import WEIGHT as STORED_WEIGHT


def batch_of(rows: Any, names: Iterable[str]) -> Any:
    """A bag's rows, an Arrow table or a DataFrame, as the table with these columns takes them."""
    stored = [*names, STORED_WEIGHT]
    return rows.rename_columns(stored) if isinstance(rows, pa.Table) else rows.toDF(*stored)


def bag_of(counted: pa.Table, schema: Schema) -> ArrowBag:
    """What was read from a table, with counts, as a bag with these columns."""
    return ArrowBag.from_table(schema, counted.rename_columns([*schema.names, WEIGHT]))
