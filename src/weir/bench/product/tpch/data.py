"""TPC-H data: the generator ``tpchgen-cli`` writes Parquet, always the same for a scale."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from weir.algebra.errors import WeirError
from weir.bench.product.tpch.tables import TABLES

PROGRAM = "tpchgen-cli"
ROWS_AT_ONCE = 100_000


@dataclass(frozen=True)
class Data:
    """The generated files of one scale."""

    scale: float
    folder: Path

    def path(self, table: str) -> Path:
        return self.folder / f"{table}.parquet"

    def schema(self, table: str) -> pa.Schema:
        """Plain types: the files say ``string_view``, which not every reader of Arrow knows."""
        return pa.schema([(field.name, _plain(field.type)) for field in pq.read_schema(self.path(table))])

    def schemas(self) -> dict[str, pa.Schema]:
        return {table: self.schema(table) for table in TABLES}

    def batches(self, table: str) -> Iterator[pa.Table]:
        schema = self.schema(table)
        with pq.ParquetFile(self.path(table)) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE):
                yield pa.Table.from_batches([batch]).cast(schema)

    def column(self, table: str, column: str) -> pa.Array:
        return pq.read_table(self.path(table), columns=[column]).column(0).combine_chunks()

    def rows(self) -> Mapping[str, int]:
        return {table: pq.read_metadata(self.path(table)).num_rows for table in TABLES}

    def size(self) -> int:
        """Of all five files."""
        return sum(self.path(table).stat().st_size for table in TABLES)


def generate(scale: float, folder: Path) -> Data:
    """Writes the tables of this scale (1 is about 1 GB of text) into the folder."""
    chosen = ",".join(TABLES)
    command = [_program(), "parquet", "-s", f"{scale:g}", "-o", str(folder), "--tables", chosen, "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WeirError(f"{PROGRAM} could not write scale {scale:g}: {(done.stderr or done.stdout).strip()[-500:]}")
    return Data(scale, folder)


def _program() -> str:
    beside = Path(sys.executable).parent / PROGRAM
    found = str(beside) if beside.is_file() else shutil.which(PROGRAM)
    if not found:
        raise WeirError(f"no {PROGRAM} here, which makes the data: install it with pip install 'weir[bench]'")
    return found


def _plain(type_: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string_view(type_) else type_
