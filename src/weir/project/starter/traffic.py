"""Traffic for the three databases of this project: random transactions, as an application would write them.

    python traffic.py [--seconds 10] [--rate 100] [--seed 1] [--folder data] [--at crm=postgresql://...]

One process per database. It knows nothing of Weir: for SQLite it needs Python and nothing else, for a server its
driver (psycopg, PyMySQL); the password of one is in the environment, as SHOP_PASSWORD.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sqlite3
import time
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

NAMES = ("Ada", "Ben", "Chloe", "Dev", "Elif", "Femi", "Grace", "Hugo", "Ines", "Jun", "Kofi", "Lena", "Mei", "Noor")
CITIES = ("Bergen", "Cork", "Delft", "Ghent", "Graz", "Lyon", "Porto", "Turku", "Vilnius", "Zadar")
THINGS = ("Lamp", "Chair", "Desk", "Shelf", "Clock", "Kettle", "Rug", "Mirror", "Plant", "Vase")
CATEGORIES = ("home", "office", "garden", "kitchen")
STATES = ("open", "paid", "sent")
CUSTOMERS, PRODUCTS = 200, 60  # what the databases begin with; orders refer to these
PASSWORD = "SHOP_PASSWORD"  # the variable that holds the servers'


# -- databases of three kinds, written to in the same words ---------------------------------------------------------


class Rows(Protocol):
    """What a statement has found."""

    def fetchone(self) -> Any: ...


class Database(Protocol):
    """A connection. A value's place in a statement is a question mark."""

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Rows: ...

    def close(self) -> None: ...


class _Server:
    """A server's connection; its driver writes %s where a value goes."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Rows:
        cursor: Any = self._connection.cursor()
        cursor.execute(statement.replace("?", "%s"), values)
        rows: Rows = cursor
        return rows

    def close(self) -> None:
        self._connection.close()


def connect(place: str) -> Database:
    """``place``: a file, or ``postgresql://user@host:port/database``, or ``mysql://...``."""
    if "://" not in place:
        file: Database = sqlite3.connect(place, timeout=30, isolation_level=None)
        return file
    at = urlsplit(place)
    login: dict[str, Any] = {
        "host": at.hostname, "port": at.port, "user": at.username, "password": os.environ.get(PASSWORD, ""),
    }  # fmt: skip
    database = at.path.removeprefix("/")
    if at.scheme == "postgresql":
        import psycopg

        return _Server(psycopg.connect(**login, dbname=database, autocommit=True))
    import pymysql

    return _Server(pymysql.connect(**login, database=database, autocommit=True))


# -- one transaction each -----------------------------------------------------------------------------------------


def new_customer(database: Database, dice: random.Random) -> None:
    database.execute("INSERT INTO customer (name, city) VALUES (?, ?)", (dice.choice(NAMES), dice.choice(CITIES)))


def move_customer(database: Database, dice: random.Random) -> None:
    customer = some(database, "customer", dice)
    database.execute("UPDATE customer SET city = ? WHERE id = ?", (dice.choice(CITIES), customer))


def swap_names(database: Database, dice: random.Random) -> None:
    """Two rows in one transaction."""
    for _ in range(2):
        customer = some(database, "customer", dice)
        database.execute("UPDATE customer SET name = ? WHERE id = ?", (dice.choice(NAMES), customer))


def new_order(
    database: Database, dice: random.Random, customers: int = CUSTOMERS, products: int = PRODUCTS
) -> None:
    """Two tables in one transaction: an order and its lines."""
    day = f"2024-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"
    values = (dice.randint(1, customers), day, "open")
    insert = "INSERT INTO orders (customer, day, status) VALUES (?, ?, ?) RETURNING id"
    (order,) = database.execute(insert, values).fetchone()
    for number in range(1, dice.randint(1, 4) + 1):
        line = (order, number, dice.randint(1, products), dice.randint(1, 9), dice.randint(100, 9_999))
        database.execute("INSERT INTO line_item VALUES (?, ?, ?, ?, ?)", line)


def add_line(database: Database, dice: random.Random) -> None:
    """To the newest order, which is often only a moment old."""
    newest = "SELECT order_id, number FROM line_item ORDER BY order_id DESC, number DESC LIMIT 1"
    found = database.execute(newest).fetchone()
    if found is not None:
        order, number = found
        line = (order, number + 1, dice.randint(1, PRODUCTS), dice.randint(1, 9), dice.randint(100, 9_999))
        database.execute("INSERT INTO line_item VALUES (?, ?, ?, ?, ?)", line)


def advance_order(database: Database, dice: random.Random) -> None:
    database.execute("UPDATE orders SET status = ? WHERE id = ?", (dice.choice(STATES), some(database, "orders", dice)))


def change_quantity(database: Database, dice: random.Random) -> None:
    values = (dice.randint(1, 9), some(database, "orders", dice))
    database.execute("UPDATE line_item SET quantity = ? WHERE order_id = ? AND number = 1", values)


def cancel_order(database: Database, dice: random.Random) -> None:
    """Two tables in one transaction."""
    order = some(database, "orders", dice)
    database.execute("DELETE FROM line_item WHERE order_id = ?", (order,))
    database.execute("DELETE FROM orders WHERE id = ?", (order,))


def some(database: Database, table: str, dice: random.Random) -> int:
    """The identifier of a row, if it is still there."""
    lowest, highest = database.execute(f"SELECT min(id), max(id) FROM {table}").fetchone()
    return dice.randint(lowest, highest) if lowest is not None else 0


def new_product(database: Database, dice: random.Random) -> None:
    values = (dice.choice(THINGS), dice.choice(CATEGORIES))
    database.execute("INSERT INTO product (title, category) VALUES (?, ?)", values)


def rename_product(database: Database, dice: random.Random) -> None:
    title = f"{dice.choice(THINGS)} {dice.randint(1, 99)}"
    database.execute("UPDATE product SET title = ? WHERE id = ?", (title, some(database, "product", dice)))


def regroup_products(database: Database, dice: random.Random) -> None:
    """Several rows in one statement."""
    first = some(database, "product", dice)
    values = (dice.choice(CATEGORIES), first, first + 2)
    database.execute("UPDATE product SET category = ? WHERE id BETWEEN ? AND ?", values)


WORK = {  # database -> what happens there, and how often
    "crm": {new_customer: 2, move_customer: 4, swap_names: 1},
    "sales": {new_order: 10, add_line: 4, advance_order: 4, change_quantity: 3, cancel_order: 2},
    "catalog": {new_product: 1, rename_product: 3, regroup_products: 1},
}


# -- writing ----------------------------------------------------------------------------------------------------------


def write(place: str, source: str, seconds: float, rate: float, seed: int) -> int:
    """Writes to one database for some seconds, about ``rate`` transactions a second; returns how many it were."""
    dice = random.Random(f"{seed} {source}")
    kinds, weights = list(WORK[source]), list(WORK[source].values())
    database = connect(place)
    begin = "BEGIN" if "://" in place else "BEGIN IMMEDIATE"
    written, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        database.execute(begin)
        dice.choices(kinds, weights)[0](database, dice)
        database.execute("COMMIT")
        written += 1
        time.sleep(dice.expovariate(rate))
    database.close()
    return written


def run(places: dict[str, str], seconds: float, rate: float, seed: int = 1) -> dict[str, int]:
    """All three databases at once, one process each; ``rate`` is for all together."""
    share = {"crm": 0.25, "sales": 0.6, "catalog": 0.15}
    work = [(places[source], source, seconds, rate * part, seed) for source, part in share.items()]
    with multiprocessing.get_context("spawn").Pool(len(work)) as pool:
        return dict(zip(share, pool.starmap(write, work), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write random transactions to the three databases.")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=100, help="transactions a second, all databases together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", default=str(Path(__file__).parent / "data"))
    parser.add_argument("--at", action="append", default=[], help="SOURCE=URL: this one is at a server")
    given = parser.parse_args()
    places = {source: str(Path(given.folder) / f"{source}.db") for source in WORK}
    places |= dict(each.split("=", 1) for each in given.at)
    for source, transactions in run(places, given.seconds, given.rate, given.seed).items():
        print(f"{source}: {transactions} transactions")


if __name__ == "__main__":
    main()
