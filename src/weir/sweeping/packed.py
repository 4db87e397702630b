"""Many numbered updates as one Arrow table per changed table: what a batched sweep takes instead of single updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.catalog import Relation
from weir.algebra.types import BIGINT, Column, Schema
from weir.sources.source import WEIGHT
from weir.spark.arrow_bag import ArrowBag

NUMBER = "\0number"  # like WEIGHT no name that a database takes


@dataclass(frozen=True)
class PackedUpdates:
    """Many numbered updates as one table per relation: its columns, WEIGHT, and the update's NUMBER. Picklable."""

    tables: Mapping[Relation, tuple[Schema, pa.Table]]

    def changes(
        self, relation: Relation, columns: Sequence[str], tag: str, factor: int, offset: int
    ) -> ArrowBag | None:
        """A table's changes, each with its number times ``factor`` plus ``offset`` in the column ``tag``."""
        if relation not in self.tables:
            return None
        schema, table = self.tables[relation]
        numbers = pc.add(pc.multiply(table.column(NUMBER), factor), offset)
        rows = table.select([*columns, WEIGHT]).append_column(tag, numbers)
        return ArrowBag.from_table(Schema((*schema.only(columns), Column(tag, BIGINT))), rows)

    @property
    def rows(self) -> int:
        """Changed rows, of all tables."""
        return sum(table.num_rows for _, table in self.tables.values())

    def slices(self, count: int) -> list[PackedUpdates]:
        """Parts that add up to the whole, each with about the same share of every table: a change of one table may
        make far more work than one of another.
        """
        parts: list[dict[Relation, tuple[Schema, pa.Table]]] = [{} for _ in range(count)]
        for relation, (schema, table) in self.tables.items():
            ends = [table.num_rows * part // count for part in range(count + 1)]
            for part, (low, high) in zip(parts, pairwise(ends), strict=True):
                if low < high:
                    part[relation] = (schema, table.slice(low, high - low).combine_chunks())
        return [PackedUpdates(part) for part in parts if part]

    def of_relation(self, relation: Relation) -> PackedUpdates:
        return PackedUpdates({relation: self.tables[relation]} if relation in self.tables else {})
