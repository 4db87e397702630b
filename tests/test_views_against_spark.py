"""Whole views against a real Spark: the normal form evaluated hop by hop in memory gives the rows Spark SQL gives.

Views are generated from a seed: one to three tables (the same one several times too), every kind of join, conditions of
every shape the core has, expressions in the select list, UNION ALL; tables hold every core type with NULLs. Expressions
that can fail on a row are left to ``test_evaluator_against_spark.py``.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from weir.algebra.catalog import Catalog, Relation, Table
from weir.algebra.memory import MemoryBag
from weir.algebra.query import whole
from weir.algebra.sql import parse_view
from weir.algebra.types import Row, Schema, normalise_row
from weir.simulator.source import evaluate_at

pytestmark = pytest.mark.spark

COLUMNS = {
    "i": "int", "l": "bigint", "n": "decimal(8,2)", "d": "double", "s": "string", "o": "boolean", "a": "date",
    "t": "timestamp", "z": "timestamp_ntz", "b": "binary",
}  # fmt: skip
SCHEMA = Schema.parse(", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items()))
NAMES = ("p", "q")
PATTERNS = ["'a%'", "'_b'", r"'b\\%'", "'%'"]
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, 2, -1],
    "l": [0, 1, 2, 4],
    "n": [Decimal("0.00"), Decimal("1.00"), Decimal("2.00"), Decimal("1.50")],
    "d": [0.0, 1.0, 1.5, float("nan"), float("-inf")],
    "s": ["", "a", "ab", "b%"],
    "o": [True, False],
    "a": [date(2020, 1, 1), date(2020, 2, 29)],
    "t": [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 12, tzinfo=UTC)],
    "z": [datetime(2020, 1, 1), datetime(2020, 2, 29)],
    "b": [b"", b"\x00", b"\xff\x00"],
}


def random_rows(dice: random.Random, count: int) -> list[Row]:
    def value(column: str) -> Any:
        return None if dice.random() < 0.2 else dice.choice(VALUES[column])

    return [normalise_row([value(column) for column in COLUMNS], SCHEMA) for _ in range(count)]


class Maker:
    """Writes one view's SELECT."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def column(self, aliases: list[str], letters: str = "".join(COLUMNS)) -> str:
        return f"{self.dice.choice(aliases)}.{self.dice.choice(letters)}"

    def number(self, aliases: list[str]) -> str:
        a, b = self.column(aliases, "iln"), self.column(aliases, "iln")
        return self.dice.choice([a, f"{a} + {b}", f"{a} - 1", f"{a} * 2", f"-{a}", "1", f"coalesce({a}, {b}, 0)"])

    def condition(self, aliases: list[str], depth: int = 2) -> str:
        kinds = ["compare", "compare", "null", "in", "between", "like", "case", "same", "bool"]
        kind = self.dice.choice([*kinds, "and", "or", "not"] if depth else kinds)
        inner = depth - 1
        if kind in ("and", "or"):
            return f"({self.condition(aliases, inner)} {kind.upper()} {self.condition(aliases, inner)})"
        if kind == "not":
            return f"NOT ({self.condition(aliases, inner)})"
        return self.simple(kind, aliases)

    def simple(self, kind: str, aliases: list[str]) -> str:
        dice, number = self.dice, self.number(aliases)
        operator = dice.choice(["=", "<>", "<", "<=", ">", ">=", "<=>"])
        letter = dice.choice("".join(COLUMNS))
        return {
            "compare": f"{number} {operator} {self.number(aliases)}",
            "same": f"{self.column(aliases, letter)} {operator} {self.column(aliases, letter)}",
            "null": f"{self.column(aliases)} IS {dice.choice(['', 'NOT '])}NULL",
            "in": f"{number} {dice.choice(['', 'NOT '])}IN (0, 2, {self.number(aliases)})",
            "between": f"{number} BETWEEN 0 AND {self.number(aliases)}",
            "like": f"{self.column(aliases, 's')} LIKE {dice.choice(PATTERNS)}",
            "case": f"CASE WHEN {self.column(aliases, 'o')} THEN {number} > 0 ELSE {self.column(aliases, 'o')} END",
            "bool": self.column(aliases, "o"),
        }[kind]

    def tables(self) -> tuple[str, list[str]]:
        aliases = ["x", "y", "w"][: self.dice.randint(1, 3)]
        text = f"src.{self.dice.choice(NAMES)} AS {aliases[0]}"
        for at, alias in enumerate(aliases[1:], 1):
            text += self.join(f"src.{self.dice.choice(NAMES)} AS {alias}", aliases[:at], alias)
        return text, aliases

    def join(self, table: str, known: list[str], alias: str) -> str:
        letter, other = self.dice.choice([("i", "i"), ("i", "l"), ("n", "i"), ("s", "s"), ("d", "d"), ("t", "t"),
                                          ("a", "z"), ("o", "o"), ("b", "b"), ("l", "d")])  # fmt: skip
        equality = f"{self.dice.choice(known)}.{letter} = {alias}.{other}"
        return self.dice.choice([
            f" JOIN {table} ON {equality}",
            f" INNER JOIN {table} ON {equality} AND {self.condition([*known, alias], 1)}",
            f" JOIN {table} ON {self.condition([*known, alias], 1)}",
            f" CROSS JOIN {table}",
            f", {table}",
        ])  # fmt: skip

    def select(self, width: int) -> str:
        tables, aliases = self.tables()
        output = [self.dice.choice([self.column(aliases, "iln"), self.number(aliases)]) for _ in range(width - 1)]
        listed = ", ".join(f"CAST({text} AS DECIMAL(20,2)) AS c{at}" for at, text in enumerate(output))
        where = f" WHERE {self.condition(aliases)}" if self.dice.random() < 0.7 else ""
        return f"SELECT {listed}, {self.column(aliases, 's')} AS last FROM {tables}{where}"

    def view(self) -> str:
        width = self.dice.randint(2, 4)
        return " UNION ALL ".join(self.select(width) for _ in range(self.dice.choice([1, 1, 1, 2])))


def test_generated_views_mean_what_spark_sql_means(spark: SparkSession) -> None:
    """90 generated views over tables with NULLs, NaN, dates, bytes: the same bag of rows in memory and in Spark."""
    dice = random.Random(20)
    data = {name: random_rows(dice, 6) for name in NAMES}
    catalog = Catalog.of(Table(Relation("src", name), SCHEMA) for name in NAMES)
    tables = {Relation("src", name): MemoryBag.of(SCHEMA, rows) for name, rows in data.items()}
    ddl = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    for name, rows in data.items():
        spark.createDataFrame(rows, ddl).coalesce(1).createOrReplaceTempView(f"src_{name}")
    shapes: Counter[str] = Counter()
    for _ in range(90):
        text = Maker(dice).view()
        view = parse_view(f"CREATE MATERIALIZED VIEW v AS {text}", catalog)
        ours, _ = evaluate_at(tables, whole(view))
        theirs = spark.sql(text.replace("src.", "src_")).collect()
        assert ours == MemoryBag.of(ours.schema, [tuple(row) for row in theirs]), text
        shapes["views"] += 1
        shapes["rows"] += ours.cardinality
        shapes["empty"] += not len(ours)
        shapes["terms"] += len(view.terms)
        shapes["equalities"] += sum(len(term.equalities) for term in view.terms)
        shapes["rest"] += sum(len(term.rest) for term in view.terms)
    print(dict(shapes))
    assert shapes["rows"] > 500
    assert shapes["empty"] < 60
