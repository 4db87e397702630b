"""The shop's tables and the rows they begin with, and how changes are captured there."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from weir.runtime.starter.traffic import CATEGORIES, CITIES, CUSTOMERS, NAMES, PRODUCTS, THINGS, new_order
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


def make_databases(folder: Path, seed: int = 7) -> None:
    """The three files, filled, with their changes captured from here on."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)
    for source, tables in TABLES.items():
        path = folder / f"{source}.db"
        with closing(sqlite3.connect(path)) as database, database:
            for statement in (*tables.values(), *INDEXES[source]):
                database.execute(statement)
            _fill(database, source, dice)
            database.execute("ANALYZE")
        install(path, list(tables))


def _fill(database: sqlite3.Connection, source: str, dice: random.Random) -> None:
    if source == "crm":
        rows = [(dice.choice(NAMES), dice.choice(CITIES)) for _ in range(CUSTOMERS)]
        database.executemany("INSERT INTO customer (name, city) VALUES (?, ?)", rows)
    elif source == "catalog":
        rows = [(dice.choice(THINGS), dice.choice(CATEGORIES)) for _ in range(PRODUCTS)]
        database.executemany("INSERT INTO product (title, category) VALUES (?, ?)", rows)
    else:
        for _ in range(ORDERS):
            new_order(database, dice)
