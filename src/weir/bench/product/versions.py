"""What a long life costs: opening a table, reading it, and committing to it, after few and after very many versions.

The table stays as large as it is: every commit takes one row and brings one. It is cared for as a running warehouse
does it, and old states are forgotten, so that a life of months has no more files than one of minutes.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from rich.table import Table

from weir.algebra.types import Schema
from weir.warehouse.columns import WEIGHT
from weir.warehouse.record import AsOf
from weir.warehouse.store import ViewStore

SCHEMA = Schema.parse("k bigint, name string, price double")
MARKS, QUICK = (100, 10_000, 100_000), (30, 90)
ROWS = 10_000
CARE_EVERY, FORGET_EVERY, KEPT = 10, 1_000, 1_000  # versions
TRIALS = 15  # of which the middle one counts
COMMITS = 100


@dataclass(frozen=True)
class Age:
    """After so many versions: milliseconds of the middle trial, and what lies on the disk."""

    versions: int
    open: float
    read: float
    others_read: float  # deltalake, which opens the table for it
    commit: float
    log_files: int
    log_bytes: int
    ours_files: int
    ours_bytes: int
    bytes: int


def measure(marks: Sequence[int], tell: Callable[[str], None]) -> list[Age]:
    folder = Path(tempfile.mkdtemp(prefix="weir-bench-"))
    try:
        life, found = _Life(folder / "view"), []
        for mark in marks:
            life.live_until(mark - COMMITS if mark > COMMITS else mark // 2)
            found.append(life.measured(mark))
            tell(f"{mark:,} versions: a commit takes {found[-1].commit:.1f} ms")
        return found
    finally:
        shutil.rmtree(folder)


class _Life:
    """A table, and what is in it."""

    def __init__(self, path: Path) -> None:
        self.path, self.store = path, ViewStore.create(path, SCHEMA)
        self._names = [f"first {number}" for number in range(ROWS)]
        rows = {"k": range(ROWS), "name": self._names, "price": [0.5 * number for number in range(ROWS)]}
        self.store.load(pa.table(rows), {"s": 1}, (1, 1), 1)
        self.number = 1

    def live_until(self, number: int) -> None:
        while self.number < number:
            self.commit()
            if self.number % CARE_EVERY == 0:
                self.store.care()
            if self.number % FORGET_EVERY == 0:
                self.store.forget(AsOf(version=max(self.store.head.version - KEPT, 0)))

    def commit(self) -> None:
        """One row changes."""
        self.number += 1
        key = self.number * 7919 % ROWS
        before, self._names[key] = self._names[key], f"changed {self.number}"
        change = {"k": [key, key], "name": [before, self._names[key]], "price": [0.5 * key] * 2, WEIGHT: [-1, 1]}
        number = self.number
        self.store.append(pa.table(change), {"s": number}, (number, number), number, exact=True)

    def measured(self, mark: int) -> Age:
        commits = []
        while self.number < mark:
            commits.append(_milliseconds(self.commit))
            if self.number % CARE_EVERY == 0:
                self.store.care()
        opened, read, others = (_middle(act) for act in (self._open, self._read, self._others_read))
        assert self.store.read_arrow().num_rows == ROWS
        (log_files, log), (files, ours) = (_sizes(self.path / name) for name in ("_delta_log", "_weir"))
        commit, in_all = statistics.median(commits), _sizes(self.path)[1]
        return Age(mark, opened, read, others, commit, log_files, log, files, ours, in_all)

    def _open(self) -> None:
        assert ViewStore.open(self.path).head.transaction == self.number

    def _read(self) -> None:
        self.store.read_arrow()

    def _others_read(self) -> None:
        query = QueryBuilder().register("t", DeltaTable(self.path))
        pa.table(query.execute("SELECT * FROM t WHERE k = 17").read_all())


def _milliseconds(act: Callable[[], None]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def _middle(act: Callable[[], None]) -> float:
    return statistics.median(_milliseconds(act) for _ in range(TRIALS))


def _sizes(folder: Path) -> tuple[int, int]:
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return len(sizes), sum(sizes)


def document(ages: Sequence[Age]) -> dict[str, Any]:
    first = ages[0]
    against = {name: [getattr(age, name) / getattr(first, name) for age in ages] for name in ("open", "read", "commit")}
    return {"bench": "versions", "rows": [asdict(age) for age in ages], "against_the_first": against}


def table(ages: Sequence[Age]) -> Table:
    shown = Table(title=f"{ROWS:,} rows, one of which changes with every version: milliseconds, and the disk")
    headings = ("versions", "open", "read", "deltalake", "commit", "_delta_log", "_weir", "in all")
    for heading in headings:
        shown.add_column(heading, justify="right")
    for age in ages:
        times = [f"{value:.1f}" for value in (age.open, age.read, age.others_read, age.commit)]
        log, ours = (f"{count:,} files, {size / 1e6:.1f} MB" for count, size in (
            (age.log_files, age.log_bytes), (age.ours_files, age.ours_bytes)))  # fmt: skip
        shown.add_row(f"{age.versions:,}", *times, log, ours, f"{age.bytes / 1e6:.1f} MB")
    return shown
