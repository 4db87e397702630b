"""DuckDB with its own Delta extension, as a program: reads tables for ``tests.clients.foreign``.

It runs in the environment ``.places/duckdb``, which has nothing of ours. Each line on stdin is a request, each line on
stdout its answer: the Parquet file with the rows, or the error.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import duckdb


def extension() -> str:
    """The extension's file, as its package brings it; nothing is installed into the user's home."""
    package = importlib.util.find_spec("duckdb_extension_delta")
    assert package is not None
    assert package.origin is not None
    (file,) = Path(package.origin).parent.glob("extensions/*/delta.duckdb_extension")
    return str(file)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def answer(database: Any, request: dict[str, Any]) -> list[str]:
    version = "" if request["version"] is None else f", version={request['version']:d}"
    file = str(Path(request["into"]) / "rows.parquet")
    scan = f"FROM delta_scan({quoted(request['read'])}{version})"
    database.execute(f"COPY ({scan}) TO {quoted(file)} (FORMAT parquet)")
    return [file]


def main() -> None:
    database = duckdb.connect(config={"autoinstall_known_extensions": False})
    database.execute("SET TimeZone = 'UTC'")
    database.load_extension(extension())
    for line in sys.stdin:
        try:
            told: dict[str, Any] = {"files": answer(database, json.loads(line))}
        except Exception as error:  # whatever DuckDB says, the test shall say
            told = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
