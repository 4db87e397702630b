"""Reading a state on Arrow, in the driver's memory: for small views, tools and tests.

A version is its files less the rows that their vectors take away. A state inside a batch is the version before it, with
the rows that are owed there, and the batch's signed rows up to its arrival: all added up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.arrow_types import arrow_schema
from weir.algebra.types import Schema
from weir.spark.arrow_bag import added_up
from weir.warehouse.addressing import ShownState
from weir.warehouse.columns import ARRIVAL, WEIGHT, stored_arrow
from weir.warehouse.index_runs import NumberArray
from weir.warehouse.place import Place
from weir.warehouse.row_index import as_numbers
from weir.warehouse.statistics import DataFile
from weir.warehouse.vectors import read_vector


class ArrowReader:
    """The rows of one table's states, as Arrow tables."""

    def __init__(self, place: Place, schema: Schema) -> None:
        self._place, self._schema, self._arrow = place, schema, arrow_schema(schema)

    def read(self, shown: ShownState, counted: bool) -> pa.Table:
        """The visible rows: each as often as it counts, or once with its count."""
        rows = self.rows(shown)
        if shown.arrival is None and not counted:
            return rows
        total = added_up(pa.concat_tables([self._weighted(rows, 1), *self.signed(shown)]), WEIGHT)
        total = total.filter(pc.greater(total.column(WEIGHT), 0)).cast(self._counted)
        return total if counted else _repeated(total).select(self._arrow.names)

    @property
    def _counted(self) -> pa.Schema:
        return self._arrow.append(pa.field(WEIGHT, pa.int64()))

    def rows(self, shown: ShownState) -> pa.Table:
        """The visible rows of the version."""
        return self.of_files(shown.state.files.values())

    def of_files(self, files: Iterable[DataFile]) -> pa.Table:
        """Those of some files."""
        tables = [self.visible(file) for file in files]
        return pa.concat_tables(tables) if tables else self._arrow.empty_table()

    def visible(self, file: DataFile) -> pa.Table:
        """The rows of one file that are not gone."""
        table = self._place.read_parquet([file.name], self._arrow)
        if file.vector is None:
            return table
        known = replace(file, rows=table.num_rows)  # a commit that removes a file does not say how many it had
        return table.take(pa.array(visible_rows(self._place, known)))

    def signed(self, shown: ShownState) -> list[pa.Table]:
        """What is added to the version's rows, with weights."""
        if shown.arrival is None:
            return []
        stored = stored_arrow(self._schema)
        steps = self._place.read_parquet(shown.inside, pa.schema([*self._arrow, *map(stored.field, (WEIGHT, ARRIVAL))]))
        steps = steps.filter(pc.less_equal(steps.column(ARRIVAL), shown.arrival)).drop_columns([ARRIVAL])
        owed = self._place.read_parquet([shown.owed] if shown.owed else [], self._arrow)
        return [steps.cast(self._counted), self._weighted(owed, -1)]

    def _weighted(self, rows: pa.Table, weight: int) -> pa.Table:
        return rows.append_column(WEIGHT, pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows))


def visible_rows(place: Place, file: DataFile) -> NumberArray:
    """The numbers of a file's rows that are not gone."""
    kept = np.ones(file.rows, np.bool_)
    if file.vector is not None:
        kept[as_numbers(read_vector(place, file.vector))] = False
    return np.flatnonzero(kept)


def _repeated(counted: pa.Table) -> pa.Table:
    times = counted.column(WEIGHT).to_numpy()
    return counted.take(pa.array(np.repeat(np.arange(len(times)), times)))
