"""A plain Delta table of the benchmark's own: Parquet files, committed with ``deltalake``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction, RemoveAction


class PlainTable:
    """Files added, or put in place of all others, by one commit."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self.table = DeltaTable.create(str(folder), schema=schema)
        self._written = 0

    @property
    def version(self) -> int:
        return int(self.table.version())

    def append(self, rows: pa.Table) -> None:
        self._written += 1
        name = f"part-{self._written}.parquet"
        pq.write_table(rows, self.folder / name, compression="snappy")
        self._commit([name], [])

    def replace(self, folder: str) -> None:
        """The files of a folder below the table's take the place of what it shows."""
        names = [str(path.relative_to(self.folder)) for path in sorted((self.folder / folder).glob("*.parquet"))]
        self._commit(names, self.table.get_add_actions(flatten=True).column("path").to_pylist())

    def files(self) -> list[str]:
        """Full paths of what it shows."""
        return [str(self.folder / name) for name in self.table.get_add_actions(flatten=True).column("path").to_pylist()]

    def rows(self) -> int:
        return sum(pq.read_metadata(file).num_rows for file in self.files())

    def _commit(self, added: Sequence[str], removed: Sequence[str]) -> None:
        now = int(time.time() * 1000)
        sizes = {name: (self.folder / name).stat().st_size for name in (*added, *removed)}
        actions = [AddAction(name, sizes[name], {}, now, True, "{}") for name in added]
        actions += [RemoveAction(name, True, now, sizes[name], {}) for name in removed]
        self.table.create_write_transaction(
            actions, "append", self.table.schema(), commit_properties=CommitProperties(max_commit_retries=0)
        )
        self.table.update_incremental()
