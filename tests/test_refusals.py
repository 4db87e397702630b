"""What a view cannot be, golden: the exact message, the place it points at, and the way out.

The place is marked in the SQL: «LIMIT» 3.
"""

from __future__ import annotations

import pytest

from tests.test_sql import CATALOG, table
from weir.algebra.catalog import Catalog
from weir.algebra.errors import ViewError
from weir.algebra.functions import AGGREGATES, GENERATORS, UNSTABLE, WINDOW_FUNCTIONS
from weir.algebra.sql import parse_view

FLATTEN = "Join its tables in the FROM clause and put its conditions into WHERE."
AGGREGATE = "Keep the rows in the view and aggregate when you read it."
COMPARE = "Keep the rows in the view and compare them when you read it."
UNFOLD = "Keep the column in the view and unfold it when you read it."
ORDER = "Leave it out, and order the rows when you read the view."
LIMIT = "Leave it out, and limit the rows when you read the view."
INNER = "Write an inner JOIN, and look for rows without partner when you read the views of both sides."
OUTSIDE = "Keep it out of the view, and use it when you read the view."
SHAPE = "Write CREATE MATERIALIZED VIEW name WITH (consistency = 'strong') AS SELECT ... FROM source.table."
SYNTAX = "this is not Spark SQL that can be read here", "Look at the marked place and just before it."
NO_ORDER = "has no meaning in a view, which is a bag of rows without an order"
UNSTABLE_VALUE = "gives another value every time, so a view cannot keep it"

REFUSED_QUERIES = [
    # joins
    ("SELECT W FROM s.r1 «LEFT JOIN» s.r2 USING (X)", "LEFT JOIN is not maintained: only inner joins are", INNER),
    (
        "SELECT W FROM s.r1, s.r3 «right  outer join» s.r2 USING (X)",
        "RIGHT OUTER JOIN is not maintained: only inner joins are",
        INNER,
    ),
    ("SELECT W FROM s.r1 «FULL JOIN» s.r2 ON TRUE", "FULL JOIN is not maintained: only inner joins are", INNER),
    ("SELECT W FROM s.r1 «SEMI JOIN» s.r2 ON TRUE", "SEMI JOIN is not maintained: only inner joins are", INNER),
    (
        "SELECT W FROM s.r1 «LEFT ANTI JOIN» s.r2 ON TRUE",
        "LEFT ANTI JOIN is not maintained: only inner joins are",
        INNER,
    ),
    (
        "SELECT W FROM s.r1 «NATURAL LEFT JOIN» s.r2",
        "NATURAL LEFT JOIN is not maintained: only inner joins are",
        INNER,
    ),
    (
        "SELECT W FROM («s.r1 JOIN s.r2 USING (X)»)",
        "brackets around joins are not read",
        "Leave them out: inner joins mean the same without.",
    ),
    # many rows into one, one into many, neighbours
    ("SELECT W, count(*) AS n FROM s.r1 «GROUP BY» W HAVING W > 1", "GROUP BY is not maintained", AGGREGATE),
    ("SELECT W FROM s.r1 «HAVING» W > 1", "HAVING is not maintained", AGGREGATE),
    ("SELECT 1 + «count( W )» AS n FROM s.r1", "the aggregate count(...) is not maintained", AGGREGATE),
    ("SELECT W FROM s.r1 WHERE «Max(X)» > 1", "the aggregate max(...) is not maintained", AGGREGATE),
    ("SELECT «any((W))» AS a FROM s.r1", "the aggregate any(...) is not maintained", AGGREGATE),
    ("SELECT «sum(W)» OVER (PARTITION BY X) AS s FROM s.r1", "window functions are not maintained", COMPARE),
    ("SELECT W FROM s.r1 «WINDOW» w AS (PARTITION BY X)", "window functions are not maintained", COMPARE),
    ("SELECT W FROM s.r1 «QUALIFY» W = 1", "window functions are not maintained", COMPARE),
    (
        "SELECT «explode(array(W))» AS e FROM s.r1",
        "explode(...) makes several rows of one and is not maintained",
        UNFOLD,
    ),
    ("SELECT W FROM s.r1 «LATERAL» VIEW explode(array(W)) t AS c", "LATERAL is not maintained", UNFOLD),
    ("SELECT * FROM s.r1 «PIVOT» (sum(W) FOR X IN (1, 2))", "PIVOT is not maintained", AGGREGATE),
    (
        "SELECT «DISTINCT» W FROM s.r1",
        "DISTINCT is not maintained: a view keeps every row as often as it occurs",
        "Leave it out, and use SELECT DISTINCT when you read the view.",
    ),
    # queries in queries
    ("SELECT W FROM «(SELECT W FROM s.r1)» x", "subqueries are not maintained", FLATTEN),
    ("SELECT «(SELECT 1)» AS a FROM s.r1", "subqueries are not maintained", FLATTEN),
    ("SELECT W FROM s.r1 WHERE W IN «(SELECT X FROM s.r2)»", "subqueries are not maintained", FLATTEN),
    ("SELECT W FROM s.r1 WHERE EXISTS «(SELECT (1))» AND W = 1", "subqueries are not maintained", FLATTEN),
    ("SELECT W FROM s.r1, LATERAL «(SELECT 1)»", "subqueries are not maintained", FLATTEN),
    ("«WITH» a AS (SELECT 1) SELECT W FROM s.r1", "common table expressions are not maintained", FLATTEN),
    (
        "SELECT W FROM s.r1 «UNION» SELECT Z FROM s.r3",
        "UNION without ALL is not maintained: it removes duplicates",
        "Write UNION ALL, and use SELECT DISTINCT when you read the view.",
    ),
    (
        "SELECT W FROM s.r1 UNION ALL SELECT X FROM s.r1 «EXCEPT» SELECT Z FROM s.r3",
        "EXCEPT is not maintained",
        "Write it as a join, or make two views and compare them when you read them.",
    ),
    (
        "SELECT W FROM s.r1 «INTERSECT» ALL SELECT Z FROM s.r3",
        "INTERSECT is not maintained",
        "Write it as a join, or make two views and compare them when you read them.",
    ),
    (
        "SELECT W FROM s.r1 «UNION» ALL BY NAME SELECT X AS W FROM s.r2",
        "UNION BY NAME is not maintained",
        "Leave BY NAME out and list the columns in the same order.",
    ),
    (
        "SELECT W FROM s.r1 UNION ALL «SELECT» Y, Z FROM s.r3",
        "this SELECT has 2 columns, the first has 1",
        "Give every SELECT of a UNION ALL the same columns in the same order.",
    ),
    # order and number of rows
    ("SELECT W FROM s.r1 «ORDER  BY» W", f"ORDER BY {NO_ORDER}", ORDER),
    ("SELECT W FROM s.r1 «SORT BY» W", f"SORT BY {NO_ORDER}", ORDER),
    ("SELECT W FROM s.r1 «CLUSTER BY» W", f"CLUSTER BY {NO_ORDER}", ORDER),
    ("SELECT W FROM s.r1 «DISTRIBUTE BY» W", f"DISTRIBUTE BY {NO_ORDER}", ORDER),
    (
        "SELECT W FROM s.r1 UNION ALL SELECT Z FROM s.r3 «LIMIT» 3",
        "LIMIT is not maintained: which rows come first is not defined",
        LIMIT,
    ),
    ("SELECT W FROM s.r1 «OFFSET» 3", "OFFSET is not maintained: which rows come first is not defined", LIMIT),
    (
        "SELECT W FROM s.r1 «TABLESAMPLE» (10 ROWS)",
        "TABLESAMPLE is not maintained: it gives other rows every time",
        "Leave it out, or write a condition.",
    ),
    (
        "SELECT W FROM s.r1 «VERSION» AS OF 3",
        "a view reads its tables as they are now",
        "Leave it out; the view itself keeps its past versions.",
    ),
    # values that change by themselves
    ("SELECT W + «rand()» AS r FROM s.r1", f"rand {UNSTABLE_VALUE}", OUTSIDE),
    ("SELECT W FROM s.r1 WHERE X > «CURRENT_DATE»", f"current_date {UNSTABLE_VALUE}", OUTSIDE),
    ("SELECT «current_timestamp()» AS t FROM s.r1", f"current_timestamp {UNSTABLE_VALUE}", OUTSIDE),
    ("SELECT W FROM s.r1 WHERE «unix_timestamp()» > X", f"unix_timestamp {UNSTABLE_VALUE}", OUTSIDE),
    ("SELECT W FROM s.r1 WHERE X = «:»p", "a view has no parameters", "Write the value itself."),
    ("SELECT W FROM s.r1 WHERE X = «?»", "a view has no parameters", "Write the value itself."),
    # tables
    ("SELECT W FROM «r1»", "r1 is not written as source.table", "Write s.r1."),
    ("SELECT W FROM «c.s.r1»", "c.s.r1 is not written as source.table", "Write s.r1."),
    ("SELECT W FROM «nothing»", "nothing is not written as source.table", "Write source.table."),
    ("SELECT W FROM «shap».orders", "unknown source shap", "Did you mean shop?"),
    ("SELECT W FROM «x».orders", "unknown source x", "The sources are crm, odd source, s, shop."),
    ("SELECT W FROM shop.«order»", "unknown table in source shop: order", "Did you mean orders?"),
    ("SELECT W FROM s.«orders»", "unknown table in source s: orders", "Its tables are r1, r2, r3."),
    ("SELECT W FROM s.r1, «s.r1»", "two tables are called r1", "Give one of them another name: s.r1 AS r1_2."),
    (
        "SELECT W FROM s.r1 a JOIN s.r2 AS «A» USING (X)",
        "two tables are called A",
        "Give one of them another name: s.r2 AS A_2.",
    ),
    ("SELECT 1 AS a FROM «range(10)»", "only tables can stand in FROM", "Write source.table."),
    (
        "SELECT b FROM s.r1 AS a («b, c»)",
        "columns cannot be renamed in FROM",
        "Give new names in the select list: SELECT column AS name.",
    ),
    ("«SELECT» 1 AS a", "the view reads no table", "Add FROM source.table."),
    # columns
    ("SELECT «totals» FROM shop.orders", "no table in sight has a column totals", "Did you mean total?"),
    ("SELECT «o.q» FROM shop.orders p", "no table in sight is called o", "The tables in sight are p."),
    ("SELECT «r1.Q» FROM s.r1", "table r1 has no column Q", "The columns are W, X."),
    ("SELECT W FROM s.r1 JOIN s.r2 USING («Z»)", "no table in sight has a column Z", "The columns are W, X."),
    (
        "SELECT W FROM s.r1 JOIN s.r2 ON r1.X = «r3.Y» JOIN s.r3",
        "no table in sight is called r3",
        "The tables in sight are r1, r2.",
    ),
    (
        "SELECT «x» FROM s.r1 JOIN s.r2",
        "column x is ambiguous: it is in r1 (s.r1) and r2 (s.r2)",
        "Write r1.X or r2.X.",
    ),
    ("SELECT W, «W + 1» FROM s.r1", "this column has no name", "Name it: add AS and a name."),
    ("SELECT «CASE WHEN f(W, 1) THEN 1 END», X FROM s.r1", "this column has no name", "Name it: add AS and a name."),
    (
        "SELECT W, «X AS w» FROM s.r1",
        "two columns of the view are called w",
        "Name the columns you want, and give one of the two another name with AS.",
    ),
    (
        "SELECT «*» FROM s.r1 JOIN s.r2 ON r1.X = r2.X",
        "two columns of the view are called X",
        "Name the columns you want, and give one of the two another name with AS.",
    ),
    ("SELECT «* EXCEPT (W)» FROM s.r1", "* with exceptions is not read", "Name the columns you want."),
    ("SELECT struct(«*») AS a FROM s.r1", "* cannot stand inside an expression", "Name the columns."),
    (
        "SELECT «W AS (a, b)» FROM s.r1",
        "one expression cannot give several columns",
        "Write one expression for each column.",
    ),
    ("«SELECT» FROM s.r1", "the view has no columns", "Name the columns you want after SELECT."),
    # the rest
    (
        "SELECT «db.f(W)» AS a FROM s.r1",
        "functions of a schema are not read",
        "Use a function that Spark has built in.",
    ),
    ("SELECT CAST(W AS «TIME») AS t FROM s.r1", "the type TIME is not supported", "Use a timestamp or a string."),
    (
        "«SELECT» /*+ BROADCAST(r1) */ W FROM s.r1",
        "hints have no meaning in a view",
        "Leave it out: Weir chooses the order of the joins.",
    ),
    ("SELECT W «INTO» x FROM s.r1", "SELECT INTO is not a view", "Leave INTO out: the view is the result."),
    ("SELECT W FROM s.r1 «|>» WHERE W > 3", "pipes are not read", "Write SELECT ... FROM ... WHERE ..."),
    ("«VALUES» (1)", "a view's query begins with SELECT", "Write AS SELECT ... FROM source.table."),
    ("«FROM» s.r1 SELECT W", "a view's query begins with SELECT", "Write AS SELECT ... FROM source.table."),
    ("SELECT W FROM s.r1 «WHERE»", *SYNTAX),
    ("SELECT W X «Y» FROM s.r1", *SYNTAX),
    ("SELECT W\nFROM s.r1\nWHERE (W > 1 AND «X»", *SYNTAX),
    ("SELECT «'it\\'s, W FROM s.r1»", "this string is never closed", "Close it with '."),
    ("SELECT 'a' AS a, «`W FROM s.r1»", "this quoted name is never closed", "Close it with `."),
    ("SELECT W «/* FROM s.r1»", "this comment is never closed", "Close it with */."),
    ("SELECT W FROM s.r1; «SELECT» 2", "there is more than one statement", "Give every view a file of its own."),
]

REFUSED_DEFINITIONS = [
    ("«SELECT» W FROM s.r1", "a view definition begins with CREATE MATERIALIZED VIEW", SHAPE),
    ("CREATE «VIEW» v AS SELECT W FROM s.r1", "a view definition begins with CREATE MATERIALIZED VIEW", SHAPE),
    (
        "CREATE «OR» REPLACE MATERIALIZED VIEW v AS SELECT 1",
        "a view definition begins with CREATE MATERIALIZED VIEW",
        SHAPE,
    ),
    ("CREATE MATERIALIZED «VIEW»", "the view has no name", SHAPE),
    (
        "CREATE MATERIALIZED VIEW «`a b`» AS SELECT 1",
        "'a b' cannot name a view",
        "Use letters, digits and underscores, and begin with a letter.",
    ),
    ("CREATE MATERIALIZED VIEW v «SELECT» 1", "AS is missing after the head of view v", SHAPE),
    ("CREATE MATERIALIZED VIEW v «AS»", "the view has no query", "Add SELECT ... FROM source.table after AS."),
    (
        "CREATE MATERIALIZED VIEW v WITH (consistency = «'best'») AS SELECT 1",
        "'best' is no consistency level",
        "Choose one of none, convergence, weak, strong, complete.",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (strategy = «sweep») AS SELECT 1",
        "the value of option strategy is not a string",
        "Put it in quotes: strategy = '...'.",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (a = 'b', «A» = 'c') AS SELECT 1",
        "option a is given twice",
        "Keep one of them.",
    ),
    ("CREATE MATERIALIZED VIEW v WITH (a = 'b' «AS» SELECT 1", "options are separated by commas", SHAPE),
    ("CREATE MATERIALIZED VIEW v WITH (a «'b'») AS SELECT 1", "option a has no value", SHAPE),
    ("CREATE MATERIALIZED VIEW v WITH «a» = 'b' AS SELECT 1", "WITH needs options in brackets", SHAPE),
]


def refusal(marked: str, catalog: Catalog = CATALOG) -> tuple[ViewError, int, int]:
    """The error that a definition raises, and the place that is marked in it."""
    start, end = marked.index("«"), marked.index("»") - 1
    with pytest.raises(ViewError) as caught:
        parse_view(marked.replace("«", "").replace("»", ""), catalog)
    return caught.value, start, end


@pytest.mark.parametrize(
    ("marked", "problem", "way_out"),
    [(f"CREATE MATERIALIZED VIEW v AS {marked}", problem, way_out) for marked, problem, way_out in REFUSED_QUERIES]
    + REFUSED_DEFINITIONS,
)
def test_a_refusal_names_the_problem_the_place_and_the_way_out(marked: str, problem: str, way_out: str) -> None:
    """Every construct outside the language is refused with exactly this message, pointing at exactly this place."""
    error, start, end = refusal(marked)
    assert (error.problem, error.way_out) == (problem, way_out)
    assert error.text[error.start : error.end] == error.text[start:end]
    assert (error.start, error.end) == (start, end)


def test_the_message_shows_the_line_with_carets_under_the_place() -> None:
    """A definition of several lines is shown at the right one."""
    error, _, _ = refusal("CREATE MATERIALIZED VIEW v AS\nSELECT W\nFROM s.r1\n  «LIMIT» 3")
    assert str(error).split("\n")[1:3] == ["  line 4:   LIMIT 3", "            ^^^^^"]


@pytest.mark.parametrize("name", sorted(AGGREGATES | WINDOW_FUNCTIONS | GENERATORS | UNSTABLE))
def test_every_listed_function_is_refused(name: str) -> None:
    """A call of a function that is no function of one row alone is refused, wherever it stands."""
    error, start, _ = refusal(f"CREATE MATERIALIZED VIEW v AS SELECT W FROM s.r1 WHERE W + «{name}»(X) > 1")
    assert error.start == start


def test_an_empty_definition_is_refused() -> None:
    """Nothing is no view; there is nothing to point at."""
    with pytest.raises(ViewError, match="begins with CREATE MATERIALIZED VIEW"):
        parse_view(" -- nothing\n", CATALOG)


def test_two_tables_that_differ_in_case_alone_need_the_exact_name() -> None:
    """Neither of two equally near spellings is guessed."""
    catalog = Catalog.of([table("s.Tab", "a int"), table("s.TAB", "b int")])
    error, start, end = refusal("CREATE MATERIALIZED VIEW v AS SELECT * FROM s.«tab»", catalog)
    assert (error.problem, error.way_out) == ("tab could be TAB or Tab", "Write it exactly.")
    assert (error.start, error.end) == (start, end)


def test_an_alias_with_a_dot_must_not_make_two_columns_one() -> None:
    """``a``.``b.c`` and ``a.b``.``c`` would both be called a.b.c inside the view."""
    catalog = Catalog.of([table("s.t", "b.c int"), table("s.u", "c int")])
    error, start, end = refusal("CREATE MATERIALIZED VIEW v AS SELECT 1 AS x FROM s.t a, s.u AS «`a.b`»", catalog)
    assert (error.problem, error.way_out) == ("two columns would be called a.b.c", "Use aliases without a dot.")
    assert (error.start, error.end) == (start, end)
