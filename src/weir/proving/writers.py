"""Writers that keep a database busy while its source is checked: seeded, bounded, and each in a process of its own.

The tables are the same for every kind: ``item`` (one key column), ``part`` (a key of two), ``loose`` (no key,
duplicates), and the ``ledger``. A kind subclasses ``StressWriter`` with its way to connect and, where it has them,
TRUNCATE and two-phase commit.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from weir.proving.kinds import Login

ITEMS, LINES, GROUPS = 300, 4, 40  # key spaces: small, so that writers meet and tables stay small
LARGE = 100_000
IDENTIFIERS = 10**9  # each writer's ledger ids start at its number times this

WriteOperation = Callable[[Any, int], int]  # (cursor, transaction id) -> rows added minus rows removed


class Unknown(Exception):
    """The statement did its work, but cannot tell how many rows it removed (TRUNCATE)."""


@dataclass
class StressWriter(ABC):
    """One writing process.

    Picklable. ``errors`` are what a busy or restarting database may raise: roll back and go on.
    """

    number: int
    seed: int
    login: Login
    pause: float = 0.002  # at most so long between transactions, so that visits get a turn on a small machine
    errors: ClassVar[tuple[type[Exception], ...]] = ()
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"{self.seed}/{self.number}")

    @abstractmethod
    def connect(self) -> Any:
        """A DB-API connection that commits only when told to."""

    def begin(self, cursor: Any) -> None:
        """Begins a transaction where the driver does not."""

    def finish(self, connection: Any, cursor: Any, identifier: int) -> None:
        """Commits; a kind with two-phase commit may do it in two."""
        connection.commit()

    @property
    def operations(self) -> Sequence[tuple[WriteOperation, int]]:
        """What a transaction is made of, with how often; a kind may add its own.

        An operation may raise Unknown after its work.
        """
        return (
            (self.put_item, 6), (self.put_part, 6), (self.add_loose, 5), (self.delete_item, 2), (self.delete_part, 2),
            (self.move_item, 2), (self.delete_loose, 3), (self.touch_many, 1), (self.touch_loose, 1),
        )  # fmt: skip

    # -- the process ------------------------------------------------------------------------------------------------

    def run(self, stop: Any, commits: Any) -> None:
        """Transactions until ``stop`` is set or the parent is gone; ``commits`` counts."""
        parent, identifier = os.getppid(), self.number * IDENTIFIERS
        connection = None
        while not stop.is_set() and os.getppid() == parent:
            identifier += 1
            try:
                connection = connection or self.connect()
                commits.value += self.transaction(connection, identifier)
            except self.errors:
                connection = self._recover(connection)
            time.sleep(self.dice.random() * self.pause)
        if connection is not None:
            connection.close()

    def _recover(self, connection: Any) -> Any:
        """The connection rolled back, or None when it is dead."""
        try:
            connection.rollback()
            return connection
        except Exception:
            with contextlib.suppress(Exception):
                connection.close()
            time.sleep(0.1)
            return None

    def transaction(self, connection: Any, identifier: int) -> int:
        """One transaction, rolled back now and then; 1 when it was committed."""
        cursor = connection.cursor()
        self.begin(cursor)
        growth = self.body(cursor, identifier)
        self.execute(cursor, "INSERT INTO ledger (id, growth) VALUES (?, ?)", identifier, growth)
        if self.dice.random() < 0.1:
            connection.rollback()
            return 0
        self.finish(connection, cursor, identifier)
        return 1

    def body(self, cursor: Any, identifier: int) -> int | None:
        """Some operations, some inside a savepoint that may be rolled back; the growth, None when not known."""
        growth: int | None = 0
        for _ in range(self.dice.choice((1, 1, 1, 2, 3, 8))):
            if self.dice.random() < 0.15:
                growth = self._in_savepoint(cursor, identifier, growth)
            else:
                growth = self._one(cursor, identifier, growth)
        return growth

    def _in_savepoint(self, cursor: Any, identifier: int, growth: int | None) -> int | None:
        self.execute(cursor, "SAVEPOINT s")
        inside = self._one(cursor, identifier, growth)
        inside = self._one(cursor, identifier, inside)
        if self.dice.random() < 0.5:
            self.execute(cursor, "ROLLBACK TO SAVEPOINT s")
            return growth
        self.execute(cursor, "RELEASE SAVEPOINT s")
        return inside

    def _one(self, cursor: Any, identifier: int, growth: int | None) -> int | None:
        choices, weights = zip(*self.operations, strict=True)
        operation: WriteOperation = self.dice.choices(choices, weights)[0]
        try:
            more = operation(cursor, identifier)
        except Unknown:
            return None
        return None if growth is None else growth + more

    def execute(self, cursor: Any, statement: str, *values: Any) -> int:
        """Runs a statement written with ``?`` marks; returns how many rows it met."""
        cursor.execute(statement.replace("?", self.login.mark), values)
        return int(cursor.rowcount)

    # -- operations -------------------------------------------------------------------------------------------------

    def text(self) -> str | None:
        """NULL, empty, short, not ASCII, and now and then large."""
        chance = self.dice.random()
        if chance < 0.005:
            return self.dice.choice("abcé") * LARGE
        if chance < 0.1:
            return None
        return self.dice.choice(("", "short", "naïve ☃ 'quoted' \\ \"", f"n{self.dice.random()}"))

    def item(self) -> int:
        return self.dice.randrange(ITEMS)

    def put_item(self, cursor: Any, identifier: int) -> int:
        """Changes an item or adds it."""
        key, amount, note = self.item(), self.dice.randrange(10**6), self.text()
        change = "UPDATE item SET tx = ?, amount = ?, note = ? WHERE id = ?"
        if self.execute(cursor, change, identifier, amount, note, key):
            return 0
        insert = "INSERT INTO item (id, tx, amount, note) VALUES (?, ?, ?, ?)"
        return self.execute(cursor, insert, key, identifier, amount, note)

    def put_part(self, cursor: Any, identifier: int) -> int:
        key, line, payload = self.item() // LINES, self.dice.randrange(LINES), self.text()
        change = "UPDATE part SET tx = ?, payload = ? WHERE item = ? AND line = ?"
        if self.execute(cursor, change, identifier, payload, key, line):
            return 0
        insert = "INSERT INTO part (item, line, tx, payload) VALUES (?, ?, ?, ?)"
        return self.execute(cursor, insert, key, line, identifier, payload)

    def add_loose(self, cursor: Any, identifier: int) -> int:
        """One to five equal rows: duplicates."""
        group, name, times = self.dice.randrange(GROUPS), self.dice.choice(("p", "q", None)), self.dice.randint(1, 5)
        for _ in range(times):
            self.execute(cursor, "INSERT INTO loose (a, b, tx) VALUES (?, ?, ?)", group, name, identifier)
        return times

    def delete_item(self, cursor: Any, identifier: int) -> int:
        return -self.execute(cursor, "DELETE FROM item WHERE id = ?", self.item())

    def delete_part(self, cursor: Any, identifier: int) -> int:
        return -self.execute(cursor, "DELETE FROM part WHERE item = ?", self.item() // LINES)

    def delete_loose(self, cursor: Any, identifier: int) -> int:
        return -self.execute(cursor, "DELETE FROM loose WHERE a = ?", self.dice.randrange(GROUPS))

    def move_item(self, cursor: Any, identifier: int) -> int:
        """Changes a key; gone first whatever had the new one."""
        old, new = self.item(), self.item()
        if old == new:
            return 0
        gone = self.execute(cursor, "DELETE FROM item WHERE id = ?", new)
        self.execute(cursor, "UPDATE item SET id = ?, tx = ? WHERE id = ?", new, identifier, old)
        return -gone

    def touch_many(self, cursor: Any, identifier: int) -> int:
        """Some thirty rows by one statement."""
        low = self.item()
        change = "UPDATE item SET tx = ?, amount = amount + 1 WHERE id BETWEEN ? AND ?"
        self.execute(cursor, change, identifier, low, low + 30)
        return 0

    def touch_loose(self, cursor: Any, identifier: int) -> int:
        """Equal rows change together."""
        self.execute(cursor, "UPDATE loose SET tx = ?, b = 'r' WHERE a = ?", identifier, self.dice.randrange(GROUPS))
        return 0
