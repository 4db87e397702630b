"""Sources with TPC-H data, and what the tests do with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from weir.bench.product.tpch.bare import Bare
from weir.bench.product.tpch.changes import ChangeBatch, TpchWorkload
from weir.bench.product.tpch.data import Data
from weir.bench.product.tpch.floor import Floor
from weir.bench.product.tpch.memory import MemoryUse, peak
from weir.bench.product.tpch.places import TpchDatabase, addresses, open_places
from weir.bench.product.tpch.tables import LEAST_QUANTITY, OUTPUT, TABLES, WEIGHT
from weir.bench.product.tpch.writer import TpchWriter

JOIN = f"""
    SELECT {", ".join(OUTPUT)}, {{weight}} AS {WEIGHT}
    FROM {{lineitem}} AS lineitem JOIN {{orders}} AS orders ON l_orderkey = o_orderkey
    JOIN {{customer}} AS customer ON o_custkey = c_custkey JOIN {{nation}} AS nation ON c_nationkey = n_nationkey
    JOIN {{part}} AS part ON l_partkey = p_partkey WHERE l_quantity > {LEAST_QUANTITY}
"""


class Here:
    """An object of this process, called as ``Apart`` is."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self.made, method)(*arguments)

    def peak(self) -> MemoryUse:
        return peak(os.getpid())

    def close(self) -> None:
        self.made.close()


@dataclass
class World:
    """Three sources, a floor, and a workload that changes them."""

    data: Data
    places: Mapping[str, TpchDatabase]
    floor: Floor
    workload: TpchWorkload

    @property
    def bare(self) -> Mapping[str, Bare]:
        return self.floor.bare

    def change(self, size: int) -> ChangeBatch:
        """A batch, applied."""
        batch = self.workload.batch(size)
        TpchWriter(self.bare).apply(batch)
        return batch

    def deltas(self, batch: ChangeBatch) -> dict[str, pa.Table]:
        return {table: batch.delta(table, self.data.schema(table)) for table in TABLES}

    def table(self, name: str) -> pa.Table:
        """As it is at its source now."""
        return pa.concat_tables(self.bare[name].scan(name, self.data.schema(name).names))


@contextmanager
def open_world(sources: str, data: Data, folder: Path, seed: int = 1) -> Iterator[World]:
    with open_places(sources, data) as places, closing(Floor(addresses(places), folder / "floor")) as floor:
        yield World(data, places, floor, TpchWorkload(data, floor.bare, seed))


def counted(*parts: pa.Table) -> dict[tuple[object, ...], int]:
    """Weighted rows with their sums, none of them 0."""
    rows = pa.concat_tables([part.select([*OUTPUT, WEIGHT]).cast(parts[0].schema) for part in parts])
    summed = rows.group_by(list(OUTPUT)).aggregate([(WEIGHT, "sum")]).to_pylist()
    return {tuple(row[name] for name in OUTPUT): row[f"{WEIGHT}_sum"] for row in summed if row[f"{WEIGHT}_sum"]}


def join(tables: Mapping[str, pa.Table], deltas: Mapping[str, pa.Table] | None = None) -> pa.Table:
    """The view in SQL, by an engine that has nothing to do with ours; or what the floor is meant to compute: every
    delta joined with the other tables.
    """
    if deltas is None:
        return _run({name: name for name in TABLES}, "CAST(1 AS BIGINT)", tables)
    with_deltas = {**tables, **{f"d_{name}": rows for name, rows in deltas.items()}}
    return pa.concat_tables(
        _run({**{name: name for name in TABLES}, changed: f"d_{changed}"}, f"{changed}.{WEIGHT}", with_deltas)
        for changed in TABLES
    )


def _run(names: Mapping[str, str], weight: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    with duckdb.connect() as database:
        for name, rows in tables.items():
            database.register(name, rows)
        return database.sql(JOIN.format(**names, weight=weight)).to_arrow_table()
