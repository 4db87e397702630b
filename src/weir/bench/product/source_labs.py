"""The databases of ``weir bench sources``: private ones, each with the same table of sixteen columns.

A lab brings the source under test, the application that changes rows, and the bare driver that is asked the same
questions.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weir.algebra.errors import WeirError
from weir.proving.databases import PrivateDatabase, Servers
from weir.proving.kinds import KINDS, Login
from weir.sources.source import Source

MEASURED = tuple(kind for kind in KINDS if kind != "mariadb-locks")  # which differs in its snapshot only
COLUMNS = (
    ("id", "INTEGER PRIMARY KEY"), ("a", "INTEGER"), ("b", "BIGINT"), ("c", "DECIMAL(12,2)"), ("d", "VARCHAR(40)"),
    ("e", "VARCHAR(60)"), ("f", "DATE"), ("g", "DOUBLE PRECISION"), ("h", "VARCHAR(40)"), ("i", "INTEGER"),
    ("j", "VARCHAR(40)"), ("k", "INTEGER"), ("l", "VARCHAR(40)"), ("m", "DECIMAL(10,4)"), ("n", "INTEGER"),
    ("o", "VARCHAR(20)"),
)  # fmt: skip
NEEDED = ("id", "a", "c", "d", "f", "k")  # what the view needs of them
SELECT = f"SELECT {', '.join(NEEDED)} FROM t WHERE k"
MAKE = f"CREATE TABLE t ({', '.join(' '.join(column) for column in COLUMNS)})"
CHANGED_AT_ONCE = 10  # rows per transaction of the writer in the background
PAUSE = 0.002  # seconds between its transactions


def rows(many: int) -> Iterator[tuple[Any, ...]]:
    """Rows 1 to ``many``; ``k`` is a number of its own for each, in another order than ``id``."""
    keys = random.Random(1).sample(range(1, many + 1), many)
    for number, key in enumerate(keys, start=1):
        day = f"{2000 + number % 24}-{number % 12 + 1:02}-{number % 28 + 1:02}"
        yield (
            number, number % 100, number * 1000, number * 1.25, f"d{number:030}", f"some longer text {number:040}",
            day, number / 8, f"h{number}", number % 7, f"name {number}", key,
            f"l{number:030}", number * 0.25, number, "tail",
        )  # fmt: skip


@dataclass(frozen=True)
class Lab:
    """One kind's database with so many rows."""

    database: PrivateDatabase
    login: Login
    many: int

    @property
    def kind(self) -> str:
        return self.database.kind

    def open(self) -> Source:
        return self.database.spec().open()

    def bare(self, connection: Any, keys: Sequence[int]) -> list[Any]:
        """The driver's own way to the same rows."""
        cursor = connection.cursor()
        if self.login.driver == "postgres":
            cursor.execute(f"{SELECT} = ANY(%s)", (list(keys),))
        else:
            cursor.execute(f"{SELECT} IN ({', '.join([self.login.mark] * len(keys))})", list(keys))
        return list(cursor.fetchall())

    def change(self, connection: Any, many: int) -> None:
        """Changes so many rows in one transaction."""
        connection.cursor().execute(f"UPDATE t SET a = a + 1 WHERE id <= {many}")


def write(login: Login, many: int, stop: Any, commits: Any) -> None:
    """The writer in the background: small transactions until told to stop, or its parent is gone."""
    parent, dice = os.getppid(), random.Random(2)
    with closing(login.connect()) as connection:
        while not stop.value and os.getppid() == parent:
            first = dice.randrange(1, many - CHANGED_AT_ONCE)
            change = f"UPDATE t SET a = a + 1 WHERE id BETWEEN {first} AND {first + CHANGED_AT_ONCE - 1}"
            connection.cursor().execute(change)
            commits.value += 1
            time.sleep(PAUSE)


@contextmanager
def open_lab(kind: str, many: int) -> Iterator[Lab]:
    """The table with its rows, an index on ``k``, captured."""
    if kind not in MEASURED:
        raise WeirError(f"unknown kind '{kind}' to measure: use one of {', '.join(MEASURED)}")

    def fill(database: PrivateDatabase) -> None:
        columns = zip(*rows(many), strict=True)
        database.load("t", [pa.table({name: list(values) for (name, _), values in zip(COLUMNS, columns, strict=True)})])
        database.execute("CREATE INDEX t_k ON t (k)")
        database.analyze()

    with Servers() as servers:
        database = servers.open(kind, "bench", [MAKE], fill, ["t"])
        yield Lab(database, database.login, many)
