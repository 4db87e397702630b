"""Care for the tables while they are maintained: files are merged, old states given up, what was left behind removed.

One thread, one table at a time, beside the rounds: the store lets a compaction and the appends meanwhile pass each
other. It rests after each compaction for longer than that took, so that it has a small share of the machine, whatever
the rate of changes. What goes wrong here is said and tried again later; no view waits for it.

- Many small files are merged, and a file of which more than ``compact_after`` of the rows are gone is written again.
  The store says what is worth it (``weir.warehouse.care``).
- Files that no commit names are what a killed process has left. Young ones may be a living one's, so they are
  deleted when they are an hour old: at the start, and once an hour.
- With ``keep_days``, states that are older are forgotten, once an hour too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

from pyspark.sql import SparkSession

from weir.algebra.errors import WeirError
from weir.project.folder import RunKeys
from weir.rounds.units import Unit
from weir.spark.session import share_cores
from weir.warehouse.care import COMMON
from weir.warehouse.errors import CannotRead, Damaged
from weir.warehouse.record import AsOf, Record
from weir.warehouse.retention import GRACE
from weir.warehouse.store import ViewStore

log = logging.getLogger("weir")
LOOK = 1.0  # seconds between two looks at the tables
REST = 9.0  # times as long as a compaction took
LIMITS = COMMON
HOUSEKEEPING = 3600.0  # seconds
_DAY = 86_400_000  # milliseconds


class Care:
    """Looks after the tables of these units while ``working``."""

    def __init__(self, spark: SparkSession, units: Sequence[Unit], keys: RunKeys, grace: timedelta = GRACE) -> None:
        self._spark, self._units, self._keys, self._grace = spark, units, keys, grace
        self._known: dict[str, ViewStore] = {}
        self._left: set[str] = set()
        self._ending = threading.Event()
        self._clean_at = self._rested_at = 0.0
        self._turn = 0
        self.compactions = 0

    @contextmanager
    def working(self) -> Iterator[None]:
        """In the background until the context is left; a compaction under way is finished."""
        self._ending.clear()
        thread = threading.Thread(target=self._work, name="weir-care", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join()

    def _work(self) -> None:
        share_cores(self._spark, "care")
        while not self._ending.wait(LOOK):
            try:
                self.look()
            except WeirError as problem:
                self._put_off(problem)
            except Exception as problem:  # Spark's own, classic and Connect differently
                self._put_off(f"{type(problem).__name__}: {problem}")

    def _put_off(self, problem: object) -> None:
        log.warning("a table's compaction or cleaning is put off: %s", problem)
        self._rested_at = time.monotonic() + 60

    def _leave(self, store: ViewStore, problem: Damaged | CannotRead) -> None:
        """One that cannot be read is left alone from now on; the others are cared for."""
        log.warning("a table is no longer compacted or cleaned: %s", problem)
        self._left.add(store.place.uri)

    def look(self) -> None:
        """One look at all tables: at most one is compacted."""
        stores = self._stores()
        if stores and time.monotonic() >= self._clean_at:
            self._clean_at = time.monotonic() + HOUSEKEEPING
            self._keep_house(stores)
        if time.monotonic() >= self._rested_at:
            self._compact_one(stores)

    def _stores(self) -> list[ViewStore]:
        """Every table that has been loaded, through handles of our own."""
        views = [view for unit in list(self._units) for view in unit.views]
        used = [store for view in views for store in (view.store, *list(view.auxiliary.values())) if store is not None]
        for store in used:
            with suppress(Damaged, CannotRead):  # its view is told
                if store.place.uri not in self._known and store.head.transaction:
                    self._known[store.place.uri] = ViewStore.open(store.place.uri, store.place.options)
        return [store for uri, store in self._known.items() if uri not in self._left]

    # -- compaction ----------------------------------------------------------------------------------------------------

    def _compact_one(self, stores: Sequence[ViewStore]) -> None:
        """The next one that asks for it, in turns, so that a busy table does not take the others' turn."""
        for store in (*stores[self._turn :], *stores[: self._turn]):
            self._turn = (self._turn + 1) % len(stores)
            if not self._ending.is_set() and self._compact(store):
                return

    def _compact(self, store: ViewStore) -> bool:
        began = time.monotonic()
        try:
            done = store.care(replace(LIMITS, gone=self._keys.compact_after))
        except (Damaged, CannotRead) as problem:
            self._leave(store, problem)
            return False
        if done:
            took = time.monotonic() - began
            self._rested_at = time.monotonic() + REST * took
            self.compactions += 1
            log.info("%s: compacted (%s) in %.1f s", store.place.uri, ", ".join(done), took)
        return bool(done)

    # -- cleaning ------------------------------------------------------------------------------------------------------

    def _keep_house(self, stores: Sequence[ViewStore]) -> None:
        for store in stores:
            try:
                self._clean(store)
            except (Damaged, CannotRead) as problem:
                self._leave(store, problem)

    def _clean(self, store: ViewStore) -> None:
        orphans = store.clean_orphans(self._grace)
        forgotten = self._forget(store) if self._keys.keep_days else []
        if orphans or forgotten:
            log.info("%s: %d orphans and %d old files removed", store.place.uri, len(orphans), len(forgotten))

    def _forget(self, store: ViewStore) -> list[str]:
        """The oldest state that is kept is the one that was shown when the days began."""
        limit = time.time() * 1000 - self._keys.keep_days * _DAY
        history = store.history()
        older = [record for record in history if record.timestamp <= limit]
        return store.forget(_as_of(older[-1])) if older and older[-1] != history[0] else []


def _as_of(record: Record) -> AsOf:
    return AsOf(version=record.version)
