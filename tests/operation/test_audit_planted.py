"""The audit is an independent witness: an error planted in any part that makes the view is found by it.

Each error is one that a careless change could make, in the normal form, in binding, in the evaluator, in types, in the
compensation, in the load. Strategies that join on the driver are used, so that the planted code is what runs. Errors in
how a source reads its rows are planted in ``test_audit_decoders.py``.
"""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from weir import Warehouse
from weir.algebra import clauses, expression, query, sql, unions
from weir.algebra.binding import Scope
from weir.algebra.expression import Written
from weir.algebra.scalar import operators
from weir.algebra.types import Schema
from weir.algebra.view import Term
from weir.algorithms import eca
from weir.operation.audit import Audit
from weir.rounds import views
from weir.sources.sqlite import snapshot
from weir.sources.sqlite.capture import install
from weir.spark import frame_bag
from weir.sweeping import spark_expressions

pytestmark = pytest.mark.spark

LARGE = (
    "SELECT p.id, q.id AS qid, p.n, CASE WHEN p.n > 1 THEN 'more' ELSE 'less' END AS size "
    "FROM a.p JOIN a.q ON q.p = p.id WHERE p.n >= 1 AND q.id < 300"
)
UNION = "SELECT id AS v FROM a.p UNION ALL SELECT n FROM a.p"
FIELDS = "SELECT id, to_json(struct(ID, n)) AS j FROM a.p"
Plant = Callable[[pytest.MonkeyPatch], None]


def without_where(patch: pytest.MonkeyPatch) -> None:
    """Normal form: the WHERE clause is lost."""
    whole = clauses.read_clauses
    patch.setattr(sql, "read_clauses", lambda *asked: replace(whole(*asked), where=None))


def without_last_join(patch: pytest.MonkeyPatch) -> None:
    """Normal form: an equality is lost, and a join becomes a product."""
    whole = sql._SelectReader._assemble
    patch.setattr(sql._SelectReader, "_assemble", lambda *asked: replace(whole(*asked), equalities=()))


def other_output(patch: pytest.MonkeyPatch) -> None:
    """Normal form: two columns of the select list change places."""
    whole = sql._SelectReader._assemble

    def swapped(reader: Any, output: list[Any]) -> Term:
        (first, one), (second, other), *rest = output
        return whole(reader, [(first, other), (second, one), *rest])

    patch.setattr(sql._SelectReader, "_assemble", swapped)


def own_spelling(patch: pytest.MonkeyPatch) -> None:
    """Binding: a column is spelled as the catalog does, not as the user did."""
    whole = Scope._written

    def respelled(scope: Scope, *asked: Any) -> Written:
        written = whole(scope, *asked)
        return Written(written.text.replace("`ID`", "`id`"), written.reads)

    patch.setattr(Scope, "_written", respelled)


def first_type(patch: pytest.MonkeyPatch) -> None:
    """Types: every SELECT of a UNION ALL is cast to the first one's type."""
    patch.setattr(unions, "common_type", lambda met, here: met)


def narrow_table(patch: pytest.MonkeyPatch) -> None:
    """Types: the table's columns get another type than Spark gives the query."""
    whole = spark_expressions.schema_of_view

    def narrowed(*asked: Any) -> Schema:
        return Schema.parse(str(whole(*asked)).replace("decimal(10,2)", "decimal(12,4)"))

    patch.setattr(views, "schema_of_view", narrowed)


def greater_or_equal(patch: pytest.MonkeyPatch) -> None:
    """Evaluator: > lets the equal pass."""
    patch.setitem(operators._COMPARISONS, ">", operator.ge)


def without_compensation(patch: pytest.MonkeyPatch) -> None:
    """Compensation: what an open query will see of a later change is not taken out."""
    patch.setattr(eca, "incremental", lambda definition, parts, unanswered=(): query.incremental(definition, parts))


def counted_twice(patch: pytest.MonkeyPatch) -> None:
    """The load: terms of a sum are counted twice."""
    whole = frame_bag.FrameBag.__add__
    patch.setattr(frame_bag.FrameBag, "__add__", lambda mine, other: whole(whole(mine, other), other))


def without_first_part(patch: pytest.MonkeyPatch) -> None:
    """The load: a table is divided so that its first row is in no part."""
    whole = snapshot.HeldSqliteSnapshot._parts
    patch.setattr(snapshot, "ROWS_IN_PART", 1)
    patch.setattr(snapshot.HeldSqliteSnapshot, "_parts", lambda asked: whole(asked)[1:])


PLANTED: list[tuple[Plant, str]] = [
    (without_where, LARGE),
    (without_last_join, LARGE),
    (other_output, LARGE),
    (own_spelling, FIELDS),
    (first_type, UNION),
    (narrow_table, LARGE),
    (greater_or_equal, LARGE),
    (without_compensation, LARGE),
    (counted_twice, UNION),
    (without_first_part, UNION),
]


@pytest.fixture(autouse=True)
def _compiled_anew() -> Iterator[None]:
    """Compiled expressions are remembered, planted ones must not be."""
    expression._compile.cache_clear()
    yield
    expression._compile.cache_clear()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    write(
        path,
        "CREATE TABLE p (id BIGINT PRIMARY KEY NOT NULL, n DECIMAL(10,2))",
        "CREATE TABLE q (id BIGINT PRIMARY KEY NOT NULL, p BIGINT)",
        "INSERT INTO p VALUES (1, '1.25'), (2, '2.50'), (3, '0.50')",
        "INSERT INTO q VALUES (10, 1), (20, 2), (21, 2), (30, 3), (300, 1)",
    )
    install(path, ["p", "q"])
    return path


def write(path: Path, *statements: str) -> None:
    """Each in a transaction of its own."""
    for statement in statements:
        with sqlite3.connect(path) as database:
            database.execute(statement)
        database.close()


def kept_and_audited(path: Path, spark: SparkSession, select: str) -> Audit:
    """The view after a round in which both its tables change."""
    strategy = "auto" if "struct" in select else "eca"
    with Warehouse(path.parent / "warehouse", spark=spark) as warehouse:
        warehouse.source("a", kind="sqlite", path=str(path))
        warehouse.view(f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS {select}")
        warehouse.run(until_caught_up=True)
        write(
            path,
            "INSERT INTO p VALUES (4, '4.00')",
            "INSERT INTO q VALUES (40, 4)",
            "UPDATE p SET n = '1.00' WHERE id = 2",
            "DELETE FROM q WHERE id = 10",
        )
        warehouse.run(until_caught_up=True)
        return warehouse.verify("v")


@pytest.mark.parametrize("select", [LARGE, UNION, FIELDS])
def test_nothing_is_found_where_nothing_is_planted(database: Path, spark: SparkSession, select: str) -> None:
    """The other side of the proof: what the audit finds below is what was planted."""
    assert kept_and_audited(database, spark, select).clean


@pytest.mark.parametrize(("plant", "select"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_error_is_found(
    database: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, plant: Plant, select: str
) -> None:
    """Rows missing, rows too many, or a column of another type."""
    plant(monkeypatch)
    found = kept_and_audited(database, spark, select)
    assert not found.clean
    assert found.missing or found.extra or found.types
