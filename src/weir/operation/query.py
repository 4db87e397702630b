"""Spark SQL over the views of a warehouse."""

from __future__ import annotations

import logging
import re

import pyarrow as pa

from weir.algebra.errors import WeirError
from weir.algebra.suggestion import did_you_mean
from weir.operation.warehouse import Warehouse
from weir.warehouse.errors import StoreError
from weir.warehouse.record import AsOf


def query_views(warehouse: Warehouse, sql: str, as_of: AsOf, limit: int) -> pa.Table:
    """Spark SQL over the views that have been loaded, all at one state."""
    loaded = [name for name in warehouse.views if _is_there(warehouse, name)]
    if not loaded:
        raise WeirError("no view has been loaded yet; run: weir run --until-caught-up")
    mentioned = [name for name in loaded if re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)]
    if as_of != AsOf() and len(mentioned) > 1:
        raise WeirError("--as-of names a state of one view; query one view at a time, or the views as they are now")
    for name in mentioned:
        warehouse.read(name, as_of).createOrReplaceTempView(name)
    logging.getLogger("SQLQueryContextLogger").disabled = True  # PySpark's: the same error again, as JSON
    try:
        rows: pa.Table = warehouse.spark.sql(sql).limit(limit).toArrow()
        return rows
    except Exception as problem:  # Spark's own, classic and Connect differently
        raise WeirError(_told(str(problem), loaded)) from None


def _is_there(warehouse: Warehouse, name: str) -> bool:
    """A damaged one too: only who reads it is told so."""
    try:
        return warehouse.is_loaded(name)
    except StoreError:
        return True


def _told(problem: str, views: list[str]) -> str:
    first = next((line.strip() for line in problem.splitlines() if line.strip()), problem)
    if found := re.search(r"TABLE_OR_VIEW_NOT_FOUND.*?`([^`]+)`", problem, re.DOTALL):
        return f"there is no view '{found[1]}'; {did_you_mean(found[1], views, 'the views are')}"
    return f"Spark cannot run the query: {first}"
