"""The normal form against an oracle: a view evaluated hop by hop gives the rows that SQLite gives for the same SELECT.

Only SQL that means the same to both is used: integers and lower-case strings, no division, no overflow. SQLite sees the
tables as ``source__table``.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter

import pytest

from weir.algebra.catalog import Catalog, Relation, Table
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.query import evaluate, whole
from weir.algebra.sql import parse_view
from weir.algebra.types import Row, Schema

Rows = list[tuple[object, ...]]

TABLES: dict[str, tuple[str, Rows]] = {
    "s.r1": ("W int, X int", [(1, 2), (1, 2), (4, 2), (3, None), (5, 6), (None, 6)]),
    "s.r2": ("X int, Y int", [(2, 3), (2, 5), (6, 3), (None, 3), (7, None)]),
    "s.r3": ("Y int, Z int", [(3, 1), (3, 4), (5, 9), (None, 0)]),
    "shop.orders": (
        "id bigint, customer int, total int, note string",
        [(10, 1, 100, "red"), (11, 1, 250, None), (12, 2, 75, "blue"), (13, 9, 20, "rest"), (14, None, 5, "")],
    ),
    "crm.customer": ("id int, name string", [(1, "ann"), (2, "bob"), (3, "cid"), (4, None)]),
}
CATALOG = Catalog.of(
    [Table(Relation(*name.split(".")), Schema.parse(columns)) for name, (columns, _) in TABLES.items()]
)

QUERIES = [
    "SELECT r1.W FROM s.r1 JOIN s.r2 USING (X)",
    "SELECT r1.W, r3.Z FROM s.r1 AS r1, s.r2 AS r2, s.r3 AS r3 WHERE r1.X = r2.X AND r2.Y = r3.Y AND r1.W > r3.Z",
    "SELECT a.W AS one, b.W AS two FROM s.r1 a JOIN s.r1 b ON a.X = b.X",
    "SELECT a.W AS one, b.W AS two FROM s.r1 a JOIN s.r1 b ON a.X = b.X AND a.W < b.W",
    "SELECT W FROM s.r1 UNION ALL SELECT Z FROM s.r3",
    "SELECT W FROM s.r1 UNION ALL SELECT W FROM s.r1 WHERE X = 2 UNION ALL SELECT Y + 1 FROM s.r2",
    "SELECT * FROM s.r1",
    "SELECT r1.*, Y FROM s.r1 JOIN s.r2 ON r1.X = r2.X",
    "SELECT X, W, Y FROM s.r1 NATURAL JOIN s.r2",
    "SELECT X, Y, Z FROM s.r1 NATURAL JOIN s.r2 NATURAL JOIN s.r3",
    "SELECT X, W, Y, Z FROM s.r1 JOIN s.r2 USING (X) JOIN s.r3 USING (Y)",
    "SELECT 1 AS one FROM s.r1, s.r2",
    "SELECT W, Z FROM s.r1 CROSS JOIN s.r3",
    "SELECT W FROM s.r1 JOIN s.r3 ON W < Z OR Y = W",
    "SELECT W FROM s.r1 WHERE 1 = 1",
    "SELECT W FROM s.r1 WHERE 1 = 2",
    "SELECT W FROM s.r1 WHERE FALSE",
    "SELECT W FROM s.r1 WHERE W = NULL",
    "SELECT W, Y FROM s.r1, s.r2 WHERE 1 = 2 AND r1.X = r2.X",
    "SELECT W, Y FROM s.r1, s.r2 WHERE 2 > 1 AND r1.X = r2.X AND TRUE",
    "SELECT W FROM s.r1 WHERE X IS NULL",
    "SELECT W FROM s.r1 WHERE X IS NOT NULL AND NOT W = 1",
    "SELECT W FROM s.r1 WHERE W = X OR W BETWEEN 3 AND 4",
    "SELECT W FROM s.r1 WHERE W NOT IN (1, 5)",
    "SELECT W FROM s.r1 WHERE W IN (1, NULL)",
    "SELECT W * 2 + X AS calculated, -W AS minus FROM s.r1",
    "SELECT CASE WHEN W > 3 THEN 'high' WHEN W > 1 THEN 'mid' END AS level FROM s.r1",
    "SELECT CASE X WHEN 2 THEN 1 ELSE 0 END AS two FROM s.r1",
    "SELECT coalesce(W, -1) AS w, nullif(X, 2) AS x FROM s.r1",
    "SELECT o.id, c.name FROM shop.orders o JOIN crm.customer c ON o.customer = c.id",
    "SELECT o.id, name FROM shop.orders o JOIN crm.customer c ON customer = c.id WHERE total > 80 AND name LIKE 'a%'",
    "SELECT id FROM shop.orders WHERE note LIKE 'r%' OR note = ''",
    "SELECT id, note || '!' AS cry FROM shop.orders WHERE NOT note LIKE '_e%'",
    "SELECT o.id FROM shop.orders o, crm.customer c, s.r1 WHERE o.customer = c.id AND r1.W = c.id AND o.total > r1.X",
    "SELECT o.id, p.id AS other FROM shop.orders o, shop.orders p WHERE o.customer = p.customer AND o.id <> p.id",
    "SELECT CAST(total AS bigint) + id AS n FROM shop.orders WHERE (total > 50 AND customer = 1) OR customer IS NULL",
    "SELECT id AS `select`, total AS `a b` FROM shop.orders",
    "SELECT W FROM s.r1 JOIN s.r2 ON r1.X = r2.X AND r1.X = 2 AND r2.Y > 3",
    "SELECT a.W FROM s.r1 a, s.r1 b, s.r1 c WHERE a.X = b.X AND b.X = c.X AND a.W = c.W",
]


def bag(name: str) -> MemoryBag:
    columns, rows = TABLES[name]
    return MemoryBag.of(Schema.parse(columns), rows)


def answer(asked: Lookup) -> MemoryBag:
    """A source that fetches naively: the needed columns of the rows with the asked keys, selection not applied."""
    rows = bag(str(asked.relation))
    if asked.keys is not None:
        assert isinstance(asked.keys, MemoryBag)
        rows = rows.matching(asked.keys, [(name, name) for name in asked.key_columns])
    return rows.keep(asked.columns)


def by_weir(query: str) -> Counter[Row]:
    """The view's rows by its normal form."""
    steps = evaluate(whole(parse_view(f"CREATE MATERIALIZED VIEW v AS {query}", CATALOG)))
    asked = next(steps)
    while True:
        try:
            asked = steps.send(answer(asked))
        except StopIteration as stop:
            return Counter(dict(stop.value.items()))


def by_sqlite(query: str) -> Counter[Row]:
    """The same rows by SQLite."""
    connection = sqlite3.connect(":memory:")
    for name, (_, rows) in TABLES.items():
        names = ", ".join(CATALOG[Relation(*name.split("."))].schema.names)
        connection.execute(f"CREATE TABLE {name.replace('.', '__')} ({names})")
        marks = ", ".join("?" * len(names.split(", ")))
        connection.executemany(f"INSERT INTO {name.replace('.', '__')} VALUES ({marks})", rows)
    connection.execute("PRAGMA case_sensitive_like = ON")
    text = re.sub(r"\b(s|shop|crm)\.(\w+)(\s+(?:AS\s+)?(?!JOIN|WHERE|ON|USING|UNION|CROSS|NATURAL)\w+)?", _table, query)
    return Counter(tuple(row) for row in connection.execute(text))


def _table(match: re.Match[str]) -> str:
    source, name, alias = match.groups()
    return f"{source}__{name}{alias or ' AS ' + name}"


@pytest.mark.parametrize("query", QUERIES)
def test_a_view_has_the_rows_that_sqlite_finds(query: str) -> None:
    """Hop by hop, with keys shipped to sources that fetch naively, a view comes out as SQLite computes it in one go."""
    assert by_weir(query) == by_sqlite(query)


def test_the_queries_are_worth_comparing() -> None:
    """Most of them have rows, some with a weight above one, so that equality is no accident."""
    results = [by_sqlite(query) for query in QUERIES]
    assert sum(bool(result) for result in results) >= 30
    assert sum(any(weight > 1 for weight in result.values()) for result in results) >= 10
