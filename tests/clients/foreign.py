"""Delta clients that are not ours, each a program in an environment of its own, which ``scripts/clients`` makes.

One process serves all questions of a ``with`` block; an answer comes back as a Parquet file, so types are kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
PLACES = Path(os.environ.get("PLACES", ROOT / ".places"))
Where = str | Path


class ForeignError(Exception):
    """What a foreign client said instead of an answer."""


class ForeignClient:
    """A running client: asked by lines of JSON, it answers with files."""

    environment: str
    program: str

    def __enter__(self) -> Self:
        place = PLACES.absolute() / self.environment
        if not (place / ".ready").exists():
            raise ForeignError(f"there is no environment '{self.environment}' in {PLACES}: run scripts/clients")
        self.folder = tempfile.TemporaryDirectory(prefix=f"weir-{self.environment}-")
        self.said = Path(self.folder.name) / "stderr"
        self.questions = 0
        # Not ours: no module path, no Spark and no JVM options of the process that asks.
        ours = ("PYTHON", "SPARK", "PYSPARK", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        with self.said.open("wb") as stderr:
            self.process = subprocess.Popen(
                [place / "bin" / "python", Path(__file__).with_name(self.program)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                text=True, encoding="utf-8", env=environment, cwd=self.folder.name,
            )  # fmt: skip
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()  # the program ends with its questions
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()

    def ask(self, **request: Any) -> pa.Table:
        """The rows that the client answers with."""
        assert self.process.stdin
        assert self.process.stdout
        self.questions += 1
        into = Path(self.folder.name) / str(self.questions)
        into.mkdir()
        try:
            print(json.dumps({**request, "into": str(into)}), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        told = json.loads(line) if line else {"error": f"ended: {self.said.read_text(errors='replace')[-2000:]}"}
        if "error" in told:
            raise ForeignError(f"{self.environment}: {told['error']}")
        tables = [pq.ParquetFile(file).read() for file in told["files"]]
        return pa.concat_tables(tables) if tables else pa.table({})

    def rows(self, path: Where, version: int | None = None) -> pa.Table:
        """The table's rows, in no order: as it is now, or as it was."""
        return self.ask(read=str(path), version=version)


class DuckDBClient(ForeignClient):
    """DuckDB with its Delta extension, which is delta-kernel."""

    environment = "duckdb"
    program = "duckdb_reader.py"


class ReferenceClient(ForeignClient):
    """Delta Lake itself, on its own Spark."""

    environment = "reference"
    program = "reference_reader.py"

    def changes(self, path: Where, first: int, last: int) -> pa.Table:
        """The change data feed of these versions: columns, ``_change_type``, ``_commit_version``."""
        return self.ask(changes=str(path), **{"from": first, "to": last}).drop_columns(["_commit_timestamp"])

    def sql(self, text: str) -> pa.Table:
        """Any statement: ``OPTIMIZE delta.`path` ``, ``DESCRIBE HISTORY``, ``DELETE FROM`` and so on."""
        return self.ask(sql=text)
