"""The five tables, where each lives, what the view needs of them, and the view itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class BaseTable:
    """One base table. Its columns and their types are those of the generated Parquet file."""

    name: str
    source: str
    key: tuple[str, ...]
    needed: tuple[str, ...]  # the columns that the view reads, join columns too
    indexes: tuple[str, ...] = ()  # the join columns that the key does not serve


WEIGHT = "weight"  # of a changed row, +1 or -1; no column of TPC-H is called so

TABLES: Mapping[str, BaseTable] = {
    table.name: table
    for table in (
        BaseTable(
            "lineitem", "sales", ("l_orderkey", "l_linenumber"),
            ("l_orderkey", "l_linenumber", "l_partkey", "l_quantity", "l_extendedprice", "l_discount", "l_shipdate"),
            ("l_partkey",),
        ),
        BaseTable("orders", "sales", ("o_orderkey",),
                  ("o_orderkey", "o_custkey", "o_orderdate", "o_orderpriority"), ("o_custkey",)),
        BaseTable("customer", "crm", ("c_custkey",),
                  ("c_custkey", "c_nationkey", "c_name", "c_mktsegment", "c_acctbal"), ("c_nationkey",)),
        BaseTable("nation", "crm", ("n_nationkey",), ("n_nationkey", "n_name")),
        BaseTable("part", "catalog", ("p_partkey",), ("p_partkey", "p_name", "p_brand", "p_retailprice")),
    )
}  # fmt: skip
SOURCES = ("crm", "sales", "catalog")
VIEW = "order_lines"
LEAST_QUANTITY = 10  # the view shows what is above
OUTPUT = (
    "l_orderkey", "l_linenumber", "l_quantity", "l_extendedprice", "l_discount", "l_shipdate",
    "o_orderdate", "o_orderpriority", "c_custkey", "c_name", "c_mktsegment", "c_acctbal", "n_name",
    "p_partkey", "p_name", "p_brand", "p_retailprice",
)  # fmt: skip
DEFINITION = f"""
CREATE MATERIALIZED VIEW {VIEW} WITH (consistency = 'complete') AS
SELECT {", ".join(OUTPUT)}
FROM sales.lineitem
JOIN sales.orders ON l_orderkey = o_orderkey
JOIN crm.customer ON o_custkey = c_custkey
JOIN crm.nation ON c_nationkey = n_nationkey
JOIN catalog.part ON l_partkey = p_partkey
WHERE l_quantity > {LEAST_QUANTITY}
"""


def tables_of(source: str) -> tuple[BaseTable, ...]:
    return tuple(table for table in TABLES.values() if table.source == source)
