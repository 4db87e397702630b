"""The floor: what the same lookups cost with bare drivers, and nothing else.

It is handed the changed rows, as if a log cost nothing, and takes them hop by hop through the sources: the same tables
in the same order with the same keys and columns as a batched sweep (see ``weir.algorithms.sweeping``), joined with
Arrow, written by pyarrow, committed by deltalake. It does not compensate: a row that came together with its partner is
found from both sides and counted twice. So its table is wrong, and nobody could do it much faster.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from weir.bench.product.tpch.bare import Address, Bare
from weir.bench.product.tpch.delta import PlainTable
from weir.bench.product.tpch.tables import LEAST_QUANTITY, OUTPUT, TABLES, WEIGHT
from weir.bench.product.tpch.turn import Turn

Partials: TypeAlias = dict[frozenset[str], pa.Table]  # by the tables that are joined


class FloorHop(NamedTuple):
    """The next table, found by its ``key`` from a column of a table that is joined already."""

    table: str
    key: str
    origin: str
    column: str


HOPS = (  # up the tree of joins, whose root is lineitem, then down
    FloorHop("lineitem", "l_partkey", "part", "p_partkey"),
    FloorHop("orders", "o_custkey", "customer", "c_custkey"),
    FloorHop("lineitem", "l_orderkey", "orders", "o_orderkey"),
    FloorHop("orders", "o_orderkey", "lineitem", "l_orderkey"),
    FloorHop("customer", "c_custkey", "orders", "o_custkey"),
    FloorHop("nation", "n_nationkey", "customer", "c_nationkey"),
    FloorHop("part", "p_partkey", "lineitem", "l_partkey"),
)


class Floor:
    """Holds its connections and its table from batch to batch."""

    def __init__(self, addresses: Mapping[str, Address], folder: Path) -> None:
        by_source = {TABLES[table].source: address for table, address in addresses.items()}
        self._opened = {source: address.open() for source, address in by_source.items()}
        self.bare: dict[str, Bare] = {name: self._opened[table.source] for name, table in TABLES.items()}
        fields = [addresses[table].schemas[table].field(name) for table in TABLES for name in TABLES[table].needed]
        by_name = {field.name: field for field in fields}
        self.schema = pa.schema([*(by_name[name] for name in OUTPUT), (WEIGHT, pa.int64())])
        self.table = PlainTable(folder, self.schema)

    def run(self, deltas: Mapping[str, pa.Table]) -> Turn:
        """From the changed rows to a committed version."""
        before, start = self._traffic(), time.perf_counter()
        rows = self.change(deltas)
        self.table.append(rows)
        ms = (time.perf_counter() - start) * 1000
        sent, received = (now - then for now, then in zip(self._traffic(), before, strict=True))
        return Turn(ms, rows.num_rows, sent, received, self.table.version)

    def change(self, deltas: Mapping[str, pa.Table]) -> pa.Table:
        """Every table's delta joined with all other tables as they are now."""
        partials = {frozenset([table]): _above(table, rows) for table, rows in deltas.items() if rows.num_rows}
        for hop in HOPS:
            waiting = [joined for joined in partials if hop.table not in joined and hop.origin in joined]
            if waiting:
                self._hop(hop, {joined: partials.pop(joined) for joined in waiting}, partials)
        (rows,) = partials.values() or [self.schema.empty_table()]
        return rows.select(self.schema.names)

    def files(self) -> list[str]:
        return self.table.files()

    def close(self) -> None:
        for bare in self._opened.values():
            bare.close()

    def _hop(self, hop: FloorHop, waiting: Partials, partials: Partials) -> None:
        """One lookup for all that wait for the table."""
        chunks = [chunk for rows in waiting.values() for chunk in rows[hop.column].chunks]
        keys = pc.unique(pa.chunked_array(chunks, pa.int64()))
        found = self.bare[hop.table].look(hop.table, TABLES[hop.table].needed, hop.key, keys.to_pylist())
        found = _above(hop.table, found)
        for joined, rows in waiting.items():
            longer = rows.join(found, hop.column, hop.key, "inner", coalesce_keys=False)
            both = joined | {hop.table}
            known = partials.get(both)
            partials[both] = longer if known is None else pa.concat_tables([known, longer.select(known.column_names)])

    def _traffic(self) -> tuple[int, int]:
        bares = self._opened.values()
        return sum(bare.sent for bare in bares), sum(bare.received for bare in bares)


def _above(table: str, rows: pa.Table) -> pa.Table:
    """The view's condition."""
    if table != "lineitem":
        return rows
    quantity = rows["l_quantity"]
    return rows.filter(pc.greater(quantity, pa.scalar(Decimal(LEAST_QUANTITY), quantity.type)))
