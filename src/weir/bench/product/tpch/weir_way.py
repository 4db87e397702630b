"""Weir's own way: the view kept by a ``Warehouse``. The only file here that knows it.

It is not running while a batch is applied; ``caught_up`` lets it go. The clock stops when the last Delta version is
written, not when ``run`` has looked once more and found nothing left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.bench.product.tpch.tables import DEFINITION, VIEW
from weir.bench.product.tpch.turn import Turn
from weir.operation.warehouse import Warehouse
from weir.warehouse.feed import changes_of

KEY_BYTES = 8  # every key is a bigint


@dataclass(frozen=True)
class MaintainedFacts:
    """What is known of the maintained view."""

    table: str  # where its Delta table is, for a reader in another process
    stored: int  # bytes of everything that is kept, history and log too
    strategy: str


class WeirWay:
    """A view that is kept up to date on demand: it rests while a batch is applied, so that every way starts alike.

    ``sources`` maps a source's name to its kind and the options of that kind.
    """

    def __init__(self, path: str, sources: Mapping[str, tuple[str, Mapping[str, Any]]], **session: Any) -> None:
        self.warehouse = Warehouse(path, **session)
        for name, (kind, options) in sources.items():
            self.warehouse.source(name, kind=kind, **options)
        self.warehouse.view(DEFINITION)

    def begin(self) -> float:
        """The first load; milliseconds."""
        start = time.perf_counter()
        self.warehouse.run(until_caught_up=True)
        return (time.perf_counter() - start) * 1000

    def caught_up(self) -> Turn:
        """Takes in all that was committed at the sources; returns when it is visible."""
        before, version = self._view(), self.warehouse.store(VIEW).head.version
        start = time.time()
        self.warehouse.run(until_caught_up=True)
        after, ended = self._view(), time.time()
        if after["commits"] > before["commits"]:
            ended = after["last_commit"]
        sent, received = (after[name] - before[name] for name in ("sent", "received"))
        rows, version = self._written(version)
        return Turn((ended - start) * 1000, rows, sent, received, version)

    def _written(self, version: int) -> tuple[int, int]:
        """Rows brought and taken since a version, and the version now."""
        log = self.warehouse.store(VIEW).log
        now = log.head().version
        return sum(changes_of(log, each).num_rows for each in range(version + 1, now + 1)), now

    def audit(self) -> int:
        """Rows missing and too many, by the warehouse's own audit."""
        found = self.warehouse.verify(VIEW)
        return found.missing + found.extra

    def facts(self) -> MaintainedFacts:
        files = [file for file in Path(self.warehouse.path).rglob("*") if file.is_file()]
        table = self.warehouse.store(VIEW).place.uri
        return MaintainedFacts(table, sum(file.stat().st_size for file in files), self._view()["strategy"])

    def close(self) -> None:
        self.warehouse.close()

    def _view(self) -> dict[str, Any]:
        status = self.warehouse.status()
        (view,) = status["views"]
        return {**view, "sent": status["asked"]["keys"] * KEY_BYTES, "received": status["asked"]["bytes"]}
