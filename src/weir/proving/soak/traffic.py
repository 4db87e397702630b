"""Writers: threads that insert, change and delete rows at a steady rate, and write down what they did.

``python -m weir.proving.soak.traffic PLAN JOURNAL`` runs them in a process of their own, so that the memory of the one
that maintains the views is its own; it ends when its input is closed, or when the time is over.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from weir.proving.kinds import Login
from weir.proving.soak.databases import TABLES
from weir.proving.soak.journal import Journal, JournalChange, JournalEntry, JournalRow

_IDENTITY = {
    "postgres": "SELECT pg_current_xact_id()::text",
    "mariadb": "SELECT @@last_gtid",  # known after the commit only
    "sqlite": "SELECT seq FROM weir_clock",
}
_MOST_CHANGES = 3  # in one transaction


@dataclass(frozen=True)
class Pool:
    """The keys that writers use: what hangs below ``parents`` hangs somewhere in 1 to ``parents``."""

    keys: int
    parents: int = 1


POOLS = {"crm": Pool(200), "sales": Pool(500, 200), "shop": Pool(1500, 500)}


def first_rows(seed: int) -> dict[str, dict[int, JournalRow]]:
    """About two thirds of the keys are there at the beginning."""
    dice, numbers = random.Random(seed), count(1)
    return {
        source: {key: _row(source, dice, next(numbers)) for key in range(1, pool.keys + 1) if dice.random() < 0.67}
        for source, pool in POOLS.items()
    }


def _row(source: str, dice: random.Random, number: int) -> JournalRow:
    """``number`` is unique, so that every change changes something."""
    return (f"name {number}",) if source == "crm" else (dice.randint(1, POOLS[source].parents), number)


class SoakWriter:
    """One connection to one source."""

    def __init__(self, source: str, login: Login, seed: int, numbers: Iterator[int]) -> None:
        self.source, self._login, self._driver = source, login, login.driver
        self._dice, self._numbers = random.Random(seed), numbers
        self._table, (self._key, *self._columns) = TABLES[self.source]
        self._mark = login.mark
        self._connection: Any = None

    def transaction(self) -> JournalEntry | None:
        """One transaction of a few changes; None when no row was touched."""
        connection = self._connected()
        cursor = connection.cursor()
        cursor.execute(self._login.begin)
        keys = sorted(self._dice.sample(range(1, POOLS[self.source].keys + 1), self._dice.randint(1, _MOST_CHANGES)))
        changes = [change for key in keys for change in self._change(cursor, key)]
        if not changes:
            cursor.execute("ROLLBACK")
            return None
        identity = "" if self._driver == "mariadb" else self._identity(cursor)
        cursor.execute("COMMIT")
        return JournalEntry(self.source, identity or self._identity(cursor), changes)

    def _identity(self, cursor: Any) -> str:
        cursor.execute(_IDENTITY[self._driver])
        return str(cursor.fetchone()[0])

    def _change(self, cursor: Any, key: int) -> Iterator[JournalChange]:
        """Deletes now and then, else changes the row, else inserts it: the table keeps its size."""
        if self._dice.random() < 0.25:
            if self._do(cursor, f"DELETE FROM {self._table} WHERE {self._key} = {self._mark}", key):
                yield key, None
            return
        row = _row(self.source, self._dice, next(self._numbers))
        sets = ", ".join(f"{name} = {self._mark}" for name in self._columns)
        update = f"UPDATE {self._table} SET {sets} WHERE {self._key} = {self._mark}"
        if self._do(cursor, update, *row, key) or self._do(cursor, self._insertion(len(row) + 1), key, *row):
            yield key, row

    def _insertion(self, columns: int) -> str:
        """Another writer may be faster."""
        marks = ", ".join([self._mark] * columns)
        if self._driver == "mariadb":
            return f"INSERT IGNORE INTO {self._table} VALUES ({marks})"
        return f"INSERT INTO {self._table} VALUES ({marks}) ON CONFLICT DO NOTHING"

    def _do(self, cursor: Any, statement: str, *values: Any) -> bool:
        cursor.execute(statement, values)
        return bool(cursor.rowcount > 0)

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = _connect(self._login)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _connect(login: Login) -> Any:
    if login.driver == "mariadb":
        # Without gap locks: two writers that insert beside each other would end in a deadlock.
        return login.connect(init_command="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    connection = login.connect()
    if login.driver == "sqlite":
        connection.execute("PRAGMA synchronous = OFF")
    return connection


@dataclass(frozen=True)
class TrafficPlan:
    """How much is written: ``rate`` transactions per second at every source, by ``writers`` threads each."""

    logins: Mapping[str, Login]  # by source
    rate: float
    writers: int
    seconds: float
    seed: int

    def document(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> TrafficPlan:
        found = json.loads(text)
        return cls(**{**found, "logins": {source: Login(**each) for source, each in found["logins"].items()}})


def write(plan: TrafficPlan, journal: Journal, stop: threading.Event) -> list[BaseException]:
    """Writes until the time is over or ``stop`` is set; what went wrong in a writer."""
    problems: list[BaseException] = []
    end, threads = time.monotonic() + plan.seconds, []
    for at, (source, login) in enumerate(plan.logins.items()):
        numbers = count(1_000_000 * (plan.seed % 1000 + 1))
        for number in range(plan.writers):
            writer = SoakWriter(source, login, plan.seed * 1000 + at * 100 + number, numbers)
            arguments = (writer, plan.rate / plan.writers, journal, end, stop, problems)
            threads.append(threading.Thread(target=_keep_writing, args=arguments))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


def _keep_writing(
    writer: SoakWriter, rate: float, journal: Journal, end: float, stop: threading.Event, problems: list[BaseException]
) -> None:
    due = time.monotonic()
    try:
        with closing(writer):
            while (now := time.monotonic()) < end and not stop.is_set():
                if now < due:
                    stop.wait(min(due, end) - now)
                    continue
                due = max(due + 1 / rate, now - 1)  # what was missed is caught up with, but no more than a second
                if (entry := writer.transaction()) is not None:
                    journal.add(entry)
    except BaseException as problem:
        problems.append(problem)
        stop.set()


def main() -> int:
    plan, journal, stop = TrafficPlan.parse(sys.argv[1]), Journal(Path(sys.argv[2])), threading.Event()
    threading.Thread(target=_stop_at_the_end_of_input, args=(stop,), daemon=True).start()
    began = time.monotonic()
    problems = write(plan, journal, stop)
    journal.close()
    print(json.dumps({"transactions": journal.count, "seconds": time.monotonic() - began}))
    for problem in problems:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _stop_at_the_end_of_input(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
