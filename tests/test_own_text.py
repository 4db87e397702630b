"""The user's own text, for Spark: where it begins and ends, what is changed in it, which words in it ask a clock."""

from __future__ import annotations

import pytest

from weir.algebra.catalog import Catalog, Relation, Table
from weir.algebra.clauses import conjuncts, read_clauses
from weir.algebra.definition import Definition
from weir.algebra.errors import ViewError
from weir.algebra.sql import parse_view
from weir.algebra.types import Schema
from weir.algebra.view import View
from weir.operation.own_words import query_in_own_words

CATALOG = Catalog.of([
    Table(Relation("a", "t"), Schema.parse("id int, s string, d date, ts timestamp, o boolean")),
    Table(Relation("b", "u"), Schema.parse("id int, t int, v decimal(10,2)")),
])  # fmt: skip


def view_of(select: str) -> View:
    return parse_view(f"CREATE MATERIALIZED VIEW v AS {select}", CATALOG)


@pytest.mark.parametrize(
    ("query", "items", "ons", "where"),
    [
        ("SELECT a, f(b, c) AS d FROM t", ["a", "f(b, c) AS d"], [], []),
        ("SELECT ALL a FROM t, u WHERE x", ["a"], [None], ["x"]),
        ("SELECT a FROM t JOIN u ON p = q AND r CROSS JOIN w", ["a"], [["p = q", "r"], None], []),
        ("SELECT a FROM t NATURAL JOIN u INNER JOIN w ON x", ["a"], [None, ["x"]], []),
        ("SELECT a IS DISTINCT FROM b AS c FROM t", ["a IS DISTINCT FROM b AS c"], [], []),
        ("SELECT a FROM t WHERE x BETWEEN 1 AND 2 AND y", ["a"], [], ["x BETWEEN 1 AND 2", "y"]),
        ("SELECT a FROM t WHERE ((x) AND (y AND (z)))", ["a"], [], ["x", "y", "z"]),
        ("SELECT a FROM t WHERE x AND y OR z", ["a"], [], ["x AND y OR z"]),
        ("SELECT a FROM t WHERE (x OR y) AND NOT z", ["a"], [], ["x OR y", "NOT z"]),
        (
            "SELECT a FROM t WHERE CASE WHEN x AND y THEN 1 END = 1 AND z",
            ["a"],
            [],
            ["CASE WHEN x AND y THEN 1 END = 1", "z"],
        ),
        ("SELECT a FROM t WHERE (x) = (y) AND t.end > t.case", ["a"], [], ["(x) = (y)", "t.end > t.case"]),
        ("SELECT EXTRACT(YEAR FROM d) AS y FROM t", ["EXTRACT(YEAR FROM d) AS y"], [], []),
        ("SELECT a FROM t WHERE x UNION ALL SELECT b FROM u", ["a"], [], ["x"]),
    ],
)
def test_clauses_are_found(query: str, items: list[str], ons: list[list[str] | None], where: list[str]) -> None:
    """Items, conditions of joins and conjuncts, as they stand in the text."""
    definition = Definition.of(query)
    found = read_clauses(definition, 0)

    def text(part: object) -> str:
        start, end = definition.between(part.first, part.last)  # type: ignore[attr-defined]
        return query[start:end]

    assert [text(item) for item in found.items] == items
    assert [None if on is None else [text(part) for part in conjuncts(definition, on)] for on in found.ons] == ons
    assert [text(part) for part in conjuncts(definition, found.where)] == where if found.where else where == []


@pytest.mark.parametrize(
    ("select", "written"),
    [
        ("SELECT to_json(struct(t.ID, s)) AS j FROM a.t", "to_json(struct(`table t`.`ID`, `table t`.`s`))"),
        ("SELECT struct(a.t.id , `S`) /* all */ AS j FROM a.t", "struct(`table t`.`id` , `table t`.`S`)"),
        ("SELECT o <=> s  LIKE  'x' AS j FROM a.t x", "`table x`.`o` <=> `table x`.`s`  LIKE  'x'"),
        ("SELECT dateadd(DAY, id, d) AS j FROM a.t", "dateadd(DAY, `table t`.`id`, `table t`.`d`)"),
        (
            "SELECT transform(array(id), s -> s + id)[0] AS j FROM a.t",
            "transform(array(`table t`.`id`), s -> s + `table t`.`id`)[0]",
        ),
    ],
)
def test_only_qualifiers_change(select: str, written: str) -> None:
    """Brackets, blanks, spelling and the names of columns stay the user's."""
    (_, expression) = view_of(select).terms[0].output[0]
    assert expression.written is not None
    assert expression.written.text == written


def test_the_audits_text_is_the_users() -> None:
    """Only the tables' names change; an alias that the text relies on is kept or made."""
    text = (
        "CREATE MATERIALIZED VIEW v WITH (consistency = 'complete') AS SELECT `A`.t.id, x.s AS `b.u` -- b.u\n"
        "FROM a.t JOIN `a`.`t` AS x ON x.id=t.id WHERE x.s <=> 'a.t' < true UNION ALL SELECT id, v FROM b.u;"
    )
    assert query_in_own_words(text, lambda table: f"view of {table}") == (
        "SELECT `t`.`id`, x.s AS `b.u` -- b.u\n"
        "FROM `view of a.t` AS `t` JOIN `view of a.t` AS x ON x.id=t.id WHERE x.s <=> 'a.t' < true "
        "UNION ALL SELECT id, v FROM `view of b.u` AS `u`"
    )


@pytest.mark.parametrize(
    "expression",
    [
        "DATE'today'",
        "TIMESTAMP 'now'",
        "TIMESTAMP_NTZ'yesterday'",
        "CAST('tomorrow' AS DATE)",
        "TRY_CAST('now' AS timestamp)",
        "to_date('today')",
        "date('today')",
        "to_timestamp(' Now ')",
        "d < 'today'",
        "'today' > d",
        "ts = 'now UTC'",
        "d IN ('2020-01-01', 'now')",
        "d BETWEEN 'yesterday' AND '2030-01-01'",
        "d <=> 'today'",
        "coalesce(d, 'today')",
        "if(o, d, 'today')",
        "nullif(d, 'now')",
        "CASE d WHEN 'now' THEN 1 END",
        "CASE WHEN o THEN d ELSE 'today' END",
        "date_add('today', 1)",
        "datediff('now', d)",
        "CAST('to' || 'day' AS DATE)",
        "CAST(concat('n', 'ow') AS TIMESTAMP)",
        "CAST(lower('TODAY') AS DATE)",
        "d > lower('TODAY')",
        "CAST(CASE WHEN true THEN 'today' ELSE 'x' END AS DATE)",
        "CAST(if(true, 'now', 'x') AS DATE)",
        "extract(year from 'now')",
        "ts > '10:00'",
        "year(CAST(CAST('now' AS STRING) AS DATE))",
        "trunc('now', 'MM')",
        "hour('23:59')",
        "TIMESTAMP'12:30'",
    ],
)
@pytest.mark.parametrize("clause", ["SELECT id, {} AS x FROM a.t", "SELECT id FROM a.t WHERE ({}) IS NOT NULL"])
def test_words_that_ask_the_clock_are_refused(expression: str, clause: str) -> None:
    """In a cast, a typed literal, a comparison with a date, an argument: as current_date is, with the place marked."""
    with pytest.raises(ViewError, match="gives another value every time") as refusal:
        view_of(clause.format(expression))
    assert "Keep it out of the view" in str(refusal.value)


@pytest.mark.parametrize(
    "expression",
    [
        "'today'",
        "s = 'today'",
        "s <=> 'now'",
        "s IN ('now', 'later')",
        "s LIKE 'now'",
        "s || 'now'",
        "concat(s, 'today')",
        "CASE s WHEN 'now' THEN 1 END",
        "CASE WHEN s = 'now' THEN 'today' ELSE 'x' END",
        "coalesce(s, 'today')",
        "if(o, s, 'now')",
        "nullif(s, 'now')",
        "upper(s) = 'NOW'",
        "instr(s, 'now')",
        "replace(s, 'now', 'today')",
        "CAST(s AS STRING) < 'tomorrow'",
        "d > '2020-01-01'",
        "ts > '2020-01-01 10:00'",
        "DATE'2020-02-02'",
        "to_json(named_struct('k', 'now'))",
        "s = '10:00'",
    ],
)
def test_the_same_words_as_text_are_not(expression: str) -> None:
    """Text stays text."""
    view_of(f"SELECT id, {expression} AS x FROM a.t WHERE ({expression}) IS NOT NULL")


def test_a_union_without_common_type_is_refused() -> None:
    """Named with both types, at its SELECT."""
    with pytest.raises(ViewError, match=r"column x is boolean in this SELECT and date before.*no common type"):
        view_of("SELECT d AS x FROM a.t UNION ALL SELECT o FROM a.t")


def test_a_union_casts_what_gives_way() -> None:
    """Each SELECT is cast as often as a meeting changes its type."""
    view = view_of("SELECT NULL AS x FROM a.t UNION ALL SELECT id FROM a.t UNION ALL SELECT v FROM b.u")
    texts = [term.output[0][1].sql for term in view.terms]
    assert texts == [
        "CAST(CAST(NULL AS int) AS decimal(12,2))",
        "CAST(`t.id` AS decimal(12,2))",
        "CAST(`u.v` AS decimal(12,2))",
    ]
