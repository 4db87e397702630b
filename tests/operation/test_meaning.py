"""A view means what Spark SQL means by its text: at the first load, after every change, and in the audit.

The judge is Spark with the user's own text over the rows that the plain driver reads. Each view runs with strategies
that sweep in tasks, where Spark's own functions are evaluated, and that join on the driver.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from weir import Warehouse
from weir.algebra.arrow_types import arrow_schema
from weir.algebra.errors import WeirError
from weir.algebra.types import Schema
from weir.rounds.views import DefinitionChanged
from weir.sources.sqlite.capture import install

pytestmark = pytest.mark.spark

# What SQLite stores and what Weir says that it is.
TABLES: Mapping[str, str] = {
    "p": "id bigint, n decimal(10,2), x double, s string, d date, o boolean, y bigint",
    "q": "id bigint, p bigint, t string",
}
CREATE = (
    "CREATE TABLE p (id BIGINT PRIMARY KEY NOT NULL, n DECIMAL(10,2), x DOUBLE, s TEXT, d DATE, o BOOLEAN, y SMALLINT)",
    "CREATE TABLE q (id BIGINT PRIMARY KEY NOT NULL, p BIGINT, t TEXT)",
    "INSERT INTO p VALUES (1, '1.25', 2e23, 'x', '2020-01-01', 1, 7), (2, '2.00', 1.5, 'X', '9999-12-31', 0, NULL)",
    "INSERT INTO q VALUES (10, 1, 'one'), (20, 2, 'two'), (21, 2, NULL)",
)
CHANGES = (
    "INSERT INTO p VALUES (3, '0.50', 2.0E-3, 'it''s', '0001-01-01', NULL, 3)",
    "INSERT INTO q VALUES (30, 3, 'three')",
    "UPDATE p SET x = 1e22 WHERE id = 2",
    "DELETE FROM p WHERE id = 1",
    "UPDATE p SET o = 1 - coalesce(o, 1)",
    "DELETE FROM q WHERE id = 21",
)
VIEWS: Mapping[str, str] = {
    "unlike_types": "SELECT id AS v FROM a.p UNION ALL SELECT n FROM a.p UNION ALL SELECT y FROM a.p",
    "null_first": "SELECT NULL AS v, y AS w FROM a.p UNION ALL SELECT id, n FROM a.p",
    "text_and_number": "SELECT '7' AS v FROM a.p UNION ALL SELECT id FROM a.p",
    "named_fields": "SELECT to_json(struct(p.ID, s, a.p.n AS m)) AS j, q.t FROM a.p JOIN b.q ON q.p = p.id",
    "field_of_struct": "SELECT struct(id, s).s AS v, named_struct('a', n).a AS w FROM a.p AS p",
    "double_text": "SELECT id, CAST(x AS STRING) AS t, CAST(x AS DECIMAL(38,2)) AS n, x || '' AS u FROM a.p",
    "null_safe_then_less": "SELECT id, s <=> 'x' < true AS v, o <=> o = o AS w FROM a.p WHERE s <=> 'x' < true",
    "null_safe_then_in": "SELECT id FROM a.p WHERE NOT o <=> o IS NULL AND s <=> 'x' IN (true, false)",
    "null_safe_between": "SELECT id, s <=> 'x' BETWEEN false AND true AS v FROM a.p",
    "null_safe_like": "SELECT id, o <=> true LIKE 't%' AS v FROM a.p",
    "far_dates": "SELECT id, d + 1 AS next, date_add(d, 400) AS later, CAST(d + 1 AS STRING) AS t FROM a.p",
    "brackets": "SELECT (id + 1) * 2 AS v, -(-id) AS w FROM a.p WHERE ((id > 0) AND ((o OR o IS NULL) OR NOT (o)))",
    "comments": "SELECT id, -- the key\n s /* text */ AS v FROM a.p WHERE id > 0 -- all\n AND s IS NOT NULL",
    "words_as_names": "SELECT `id` AS `end`, p.s AS `from` FROM a.p WHERE CASE WHEN id > 0 AND o THEN 1 END > 0",
    "natural": "SELECT * FROM a.p NATURAL JOIN a.r",
    "using": "SELECT id, s, r.v, `R`.`Id` AS i FROM a.p JOIN a.r USING (id) WHERE id BETWEEN 1 AND 2 AND s LIKE '%x'",
    "lambda": "SELECT id, transform(array(id, y), z -> z + id)[0] AS v FROM a.p WHERE exists(array(s), c -> c = s)",
    "clock_words_as_text": "SELECT id, 'today' AS v, s = 'now' AS w FROM a.p WHERE s <> 'tomorrow'",
    "distinct_from": "SELECT id, s IS DISTINCT FROM 'x' AS v, o IS NOT DISTINCT FROM NULL AS w FROM a.p",
    "unlike_keys": "SELECT p.id, r.v FROM a.p JOIN a.r ON r.id = p.n",
}
RING = "CREATE TABLE r (id BIGINT PRIMARY KEY NOT NULL, v TEXT)", "INSERT INTO r VALUES (1, 'r1'), (2, NULL), (5, 'r5')"
STRATEGIES = ("auto", "eca")


@dataclass
class Databases:
    """Two SQLite files, read by the plain driver."""

    folder: Path

    def path(self, source: str) -> Path:
        return self.folder / f"{source}.db"

    def transact(self, source: str, *statements: str) -> None:
        with sqlite3.connect(self.path(source)) as database:
            for statement in statements:
                database.execute(statement)
        database.close()

    def rows(self, source: str, table: str, schema: Schema) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.path(source)) as database:
            found = database.execute(f"SELECT {', '.join(schema.names)} FROM {table}").fetchall()
        database.close()
        return [tuple(_read(value, str(c.type)) for value, c in zip(row, schema, strict=True)) for row in found]


def _read(value: Any, type_: str) -> Any:
    if value is None:
        return None
    if type_.startswith("decimal"):
        return pa.scalar(str(value)).cast(pa.decimal128(10, 2)).as_py()
    readers: dict[str, Callable[[Any], Any]] = {"boolean": bool, "double": float, "date": date.fromisoformat}
    return readers[type_](value) if type_ in readers else value


@pytest.fixture
def databases(tmp_path: Path) -> Databases:
    made = Databases(tmp_path)
    made.transact("a", *(text for text in (*CREATE, *RING) if " q " not in text))
    made.transact("b", *(text for text in CREATE if " q " in text))
    install(tmp_path / "a.db", ["p", "r"])
    install(tmp_path / "b.db", ["q"])
    return made


def by_definition(spark: SparkSession, databases: Databases, select: str) -> Counter[tuple[Any, ...]]:
    """The user's own text over the rows of the plain driver."""
    text = select
    for source, table, types in (("a", "p", TABLES["p"]), ("b", "q", TABLES["q"]), ("a", "r", "id bigint, v string")):
        schema = Schema.parse(types)
        rows = databases.rows(source, table, schema)
        values = zip(zip(*rows, strict=True), arrow_schema(schema).types, strict=True)
        columns = [pa.array(column, type_) for column, type_ in values]
        spark.createDataFrame(pa.table(columns, names=list(schema.names)), types).createOrReplaceTempView(table)
        text = text.replace(f"{source}.{table}", table)
    return Counter(map(tuple, _plain(spark.sql(text).toArrow())))


def _plain(table: pa.Table) -> list[tuple[Any, ...]]:
    """Values as Arrow has them: dates as days, for Python ends at 9999."""
    columns = [column.cast(pa.int32()) if pa.types.is_date(column.type) else column for column in table.columns]
    kinds = [str(column.type) for column in table.columns]
    return [tuple(zip(kinds, row, strict=True)) for row in zip(*(c.to_pylist() for c in columns), strict=True)]


def state_of(warehouse: Warehouse, name: str) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, _plain(warehouse.store(name).read_arrow())))


def opened(databases: Databases, spark: SparkSession, texts: Iterable[str], name: str = "warehouse") -> Warehouse:
    warehouse = Warehouse(databases.folder / name, spark=spark)
    for source in ("a", "b"):
        warehouse.source(source, kind="sqlite", path=str(databases.path(source)))
    for text in texts:
        warehouse.view(text)
    return warehouse


def accepted(databases: Databases, spark: SparkSession) -> dict[str, tuple[str, str]]:
    """Every view in every strategy that takes it: its definition and its SELECT."""
    asked = {
        f"{name}_{strategy.replace('-', '_')}": (strategy, select)
        for name, select in VIEWS.items()
        for strategy in STRATEGIES
    }
    texts = {
        view: f"CREATE MATERIALIZED VIEW {view} WITH (strategy = '{strategy}') AS {select}"
        for view, (strategy, select) in asked.items()
    }
    taken = {}
    with opened(databases, spark, texts.values(), "probe") as probe:
        for view, (strategy, select) in asked.items():
            try:
                probe.explain(view)
                taken[view] = texts[view], select
            except WeirError:
                assert strategy != "auto", f"{select} is refused"
    return taken


def test_every_path_means_what_spark_means(databases: Databases, spark: SparkSession) -> None:
    """First load, rounds of changes, and the audit: the same rows and types as Spark SQL, in every strategy."""
    taken = accepted(databases, spark)
    assert len(taken) > len(VIEWS)
    selects = {view: select for view, (_, select) in taken.items()}
    with opened(databases, spark, [text for text, _ in taken.values()]) as warehouse:
        warehouse.run(until_caught_up=True)
        check(warehouse, databases, spark, selects, "first load")
        for statements in (CHANGES[:3], CHANGES[3:]):
            for statement in statements:
                databases.transact("b" if " q " in statement else "a", statement)
            warehouse.run(until_caught_up=True)
            check(warehouse, databases, spark, selects, statements[-1])
        for audit in warehouse.verify_all():
            assert audit.clean, str(audit)


def test_a_view_is_told_from_one_that_spells_otherwise(databases: Databases, spark: SparkSession) -> None:
    """Where Spark shows a column's spelling, another one is another view; blanks and comments are none."""
    text = "CREATE MATERIALIZED VIEW v AS SELECT to_json(struct({})) AS j FROM a.p"
    with opened(databases, spark, [text.format("ID, s")]) as warehouse:
        warehouse.run(until_caught_up=True)
    with opened(databases, spark, [text.format(" ID,  s /* as before */ ")]) as warehouse:
        warehouse.run(until_caught_up=True)
        assert warehouse.verify("v").clean
    with opened(databases, spark, [text.format("id, s")]) as warehouse, pytest.raises(DefinitionChanged):
        warehouse.run(until_caught_up=True)


def check(
    warehouse: Warehouse, databases: Databases, spark: SparkSession, selects: Mapping[str, str], when: str
) -> None:
    expected = {select: by_definition(spark, databases, select) for select in set(selects.values())}
    states = {view: state_of(warehouse, view) for view in selects}
    wrong = {
        view: (states[view] - expected[select], expected[select] - states[view])
        for view, select in selects.items()
        if states[view] != expected[select]
    }
    assert not wrong, (when, wrong)
