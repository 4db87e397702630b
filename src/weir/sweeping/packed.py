"""Many numbered updates as one Arrow table per changed table: what a batched sweep takes instead of single updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.catalog import Relation
from weir.algebra.types import BIGINT, Column, Schema
from weir.sources.source import WEIGHT
from weir.spark.arrow_bag import ArrowBag
from weir.warehouse.row_hash import row_hashes

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
        make far more work than one of another. Equal rows, one that comes and goes, are in one part: so what they bring
        and take meets there, and not only when all parts are put together.
        """
        parts: list[dict[Relation, tuple[Schema, pa.Table]]] = [{} for _ in range(count)]
        for relation, (schema, table) in self.tables.items():
            owners = row_hashes(table.select(list(schema.names))).to_numpy() % count
            for number, part in enumerate(parts):
                mine = table.filter(pa.array(owners == number)) if count > 1 else table
                if mine.num_rows:
                    part[relation] = (schema, mine.combine_chunks())
        return [PackedUpdates(part) for part in parts if part]

    def halves(self) -> tuple[PackedUpdates, PackedUpdates]:
        """Two parts that add up to the whole, each with half of every table."""
        early, late = dict[Relation, tuple[Schema, pa.Table]](), dict[Relation, tuple[Schema, pa.Table]]()
        for relation, (schema, table) in self.tables.items():
            half = table.num_rows // 2
            early[relation], late[relation] = (schema, table.slice(0, half)), (schema, table.slice(half))
        return PackedUpdates(early), PackedUpdates(late)

    def of_relation(self, relation: Relation) -> PackedUpdates:
        return PackedUpdates({relation: self.tables[relation]} if relation in self.tables else {})
