"""The shop's tables and the rows they begin with, and how changes are captured there."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from weir.project.starter.traffic import (
    CUSTOMERS,
    PRODUCTS,
    Database,
    connect,
    new_customer,
    new_order,
    new_product,
)
from weir.sources.sqlite.capture import install

ORDERS = 400  # what sales begins with
TABLES = {
    "crm": {"customer": "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL)"},
    "sales": {
        "orders": (
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, day DATE NOT NULL, "
            "status TEXT NOT NULL)"
        ),
        "line_item": (
            "CREATE TABLE line_item (order_id INTEGER NOT NULL REFERENCES orders (id), number INTEGER NOT NULL, "
            "product INTEGER NOT NULL, quantity INTEGER NOT NULL, cents INTEGER NOT NULL, "
            "PRIMARY KEY (order_id, number))"
        ),
    },
    "catalog": {
        "product": "CREATE TABLE product (id INTEGER PRIMARY KEY, title TEXT NOT NULL, category TEXT NOT NULL)"
    },
}  # fmt: skip
INDEXES = {
    "crm": (),
    "sales": (
        "CREATE INDEX orders_customer ON orders (customer)",
        "CREATE INDEX line_item_product ON line_item (product)",
    ),
    "catalog": (),
}


def make_databases(folder: Path, size: int = 1, seed: int = 7) -> None:
    """The three files, filled, with their changes captured from here on; ``size`` times as many rows."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)
    for source, tables in TABLES.items():
        path = folder / f"{source}.db"
        with closing(sqlite3.connect(path)) as database, database:
            for statement in (*tables.values(), *INDEXES[source]):
                database.execute(statement)
            fill(database, source, size, dice)
            database.execute("ANALYZE")
        install(path, list(tables))


def fill(database: Database, source: str, size: int, dice: random.Random) -> None:
    """The rows that a database begins with."""
    customers, products = CUSTOMERS * size, PRODUCTS * size
    if source == "crm":
        for _ in range(customers):
            new_customer(database, dice)
    elif source == "catalog":
        for _ in range(products):
            new_product(database, dice)
    else:
        for _ in range(ORDERS * size):
            new_order(database, dice, customers, products)


def table_sizes(places: Mapping[str, str]) -> dict[str, int]:
    """How many rows each table holds now, by ``source.table``."""
    sizes = {}
    for source, place in places.items():
        database = connect(place)
        for table in TABLES[source]:
            (sizes[f"{source}.{table}"],) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
        database.close()
    return sizes
