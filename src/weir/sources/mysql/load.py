"""A first load in parts: ranges of a whole-number key, so that one part does not take too long; other tables are one
part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weir.algebra.quoting import backquoted
from weir.sources.mysql.changes import WatchedMysqlTable
from weir.sources.mysql.describe import Known
from weir.sources.mysql.lookup import select_from
from weir.sources.source import Partition

ROWS_PER_PART = 500_000


def partitions(connection: Any, table: WatchedMysqlTable, known: Known) -> Iterator[Partition]:
    """The parts together are the table, once: the first has no lower bound, the last no upper one."""
    bounds = _bounds(connection, table, known)
    for low, high in zip([None, *bounds], [*bounds, None], strict=True):
        yield Partition(table.relation, table.names, (known.key[0] if bounds else None, low, high))


def _bounds(connection: Any, table: WatchedMysqlTable, known: Known) -> list[int]:
    if len(known.key) != 1 or not known.columns[known.key[0]].kind.endswith("int"):
        return []
    key, name = backquoted(known.key[0]), backquoted(table.relation.table)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT MIN({key}), MAX({key}) FROM {name}")
        low, high = cursor.fetchone()
        cursor.execute(
            "SELECT table_rows FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s",
            (table.relation.table,),
        )
        estimate = int((cursor.fetchone() or [0])[0] or 0)
    parts = estimate // ROWS_PER_PART + 1
    if low is None or parts == 1:
        return []
    return sorted({low + (high - low) * part // parts + 1 for part in range(1, parts)})


def select(table: WatchedMysqlTable, partition: Partition) -> tuple[str, list[Any]]:
    """The part as a statement and its values."""
    key, low, high = partition.detail
    conditions = [(f"{backquoted(key)} >= ?", low)] if low is not None else []
    conditions += [(f"{backquoted(key)} < ?", high)] if high is not None else []
    where = " WHERE " + " AND ".join(text for text, _ in conditions) if conditions else ""
    return select_from(table) + where, [value for _, value in conditions]
