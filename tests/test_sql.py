"""SQL to normal form, golden: every accepted form with its exact normal form."""

from __future__ import annotations

from textwrap import dedent

import pytest

from weir.algebra.catalog import Catalog, Relation, Table
from weir.algebra.describe import describe
from weir.algebra.expression import Expression
from weir.algebra.sql import parse_view, parse_view_header
from weir.algebra.types import INT, STRING, Column, Schema
from weir.algebra.view import View


def table(name: str, columns: str, key: str = "") -> Table:
    return Table(Relation(*name.split(".")), Schema.parse(columns), tuple(key.split()))


CATALOG = Catalog.of(
    [
        table("s.r1", "W int, X int", "W"),
        table("s.r2", "X int, Y int", "Y"),
        table("s.r3", "Y int, Z int"),
        table("shop.orders", "id bigint, customer int, total decimal(10,2), note string, day date", "id"),
        table("crm.Customer", "Id int, Name string, score double", "Id"),
        Table(
            Relation("odd source", 'ta"b.l;e'),
            Schema([Column("a b", INT), Column("c.d", INT), Column("e`f", STRING), Column("g';--", STRING)]),
            ("a b",),
        ),
    ]
)


def view_of(query: str) -> View:
    return parse_view(f"CREATE MATERIALIZED VIEW v AS {query}", CATALOG)


def normal_form(query: str) -> str:
    """All of the description but its first line."""
    return describe(view_of(query)).split("\n", 1)[1]


ACCEPTED = {
    "USING, as in the ECA paper": (
        "SELECT r1.W FROM s.r1 JOIN s.r2 USING (X)",
        """
        term 1
          slot r1 = s.r1 (W int, X int) key W
          slot r2 = s.r2 (X int, Y int) key Y
          join r1.X = r2.X
          output W = `r1.W`
          key of r1 in W
        """,
    ),
    "a chain of three, with a condition across its ends": (
        """SELECT r1.W, r3.Z FROM s.r1 AS r1, s.r2 AS r2, s.r3 AS r3
           WHERE r1.X = r2.X AND r2.Y = r3.Y AND r1.W > r3.Z""",
        """
        term 1
          slot r1 = s.r1 (W int, X int) key W
          slot r2 = s.r2 (X int, Y int) key Y
          slot r3 = s.r3 (Y int, Z int)
          join r1.X = r2.X
          join r2.Y = r3.Y
          rest `r1.W` > `r3.Z`
          output W = `r1.W`
          output Z = `r3.Z`
          key of r1 in W
        """,
    ),
    "a self-join fills two slots": (
        "SELECT a.W AS one, b.W AS two FROM s.r1 a INNER JOIN s.r1 b ON a.X = b.X AND a.W < b.W",
        """
        term 1
          slot a = s.r1 (W int, X int) key W
          slot b = s.r1 (W int, X int) key W
          join a.X = b.X
          rest `a.W` < `b.W`
          output one = `a.W`
          output two = `b.W`
          key of a in one
          key of b in two
        """,
    ),
    "UNION ALL is a sum of terms under the first one's names; later expressions need none": (
        "(SELECT W FROM s.r1) UNION ALL SELECT Z + 1 FROM s.r3 WHERE Y IS NULL UNION ALL (SELECT X FROM s.r2)",
        """
        term 1
          slot r1 = s.r1 (W int) key W
          output W = `r1.W`
          key of r1 in W
        term 2
          slot r3 = s.r3 (Y int, Z int) where `r3.Y` IS NULL
          output W = `r3.Z` + 1
        term 3
          slot r2 = s.r2 (X int, Y int) key Y
          output W = `r2.X`
        """,
    ),
    "names match without regard to case; the table's spelling inside, the user's outside": (
        "SELECT NAME, c.ID AS Id FROM CRM.customer C WHERE SCORE > 1.5",
        """
        term 1
          slot C = crm.Customer (Id int, Name string, score double) key Id where `C.score` > 1.5
          output NAME = `C.Name`
          output Id = `C.Id`
          key of C in Id
        """,
    ),
    "a table without alias answers to its name, its full name and its own spelling": (
        "SELECT customer.name, crm.customer.score FROM crm.customer",
        """
        term 1
          slot Customer = crm.Customer (Id int, Name string, score double) key Id
          output name = `Customer.Name`
          output score = `Customer.score`
        """,
    ),
    "all conditions on one slot are its selection, an equality inside it too": (
        """SELECT id FROM shop.orders AS o
           WHERE id = customer AND (total BETWEEN 1 AND 2 OR NOT note LIKE 'x%') AND day IN (DATE '2024-01-01')""",
        """
        term 1
          slot o = shop.orders (id bigint, customer int, total decimal(10,2), note string, day date) key id where \
(`o.id` = `o.customer`) AND (`o.total` BETWEEN 1 AND 2 OR NOT `o.note` LIKE 'x%') AND \
(`o.day` IN (CAST('2024-01-01' AS DATE)))
          output id = `o.id`
          key of o in id
        """,
    ),
    "an equality is one only between types that compare exactly": (
        """SELECT a.W AS w FROM s.r1 a, shop.orders o, crm.customer c
           WHERE a.W = o.id AND (o.total) = (a.X) AND c.score = a.W AND c.name = o.note AND c.id = o.note""",
        """
        term 1
          slot a = s.r1 (W int, X int) key W
          slot o = shop.orders (id bigint, total decimal(10,2), note string) key id
          slot c = crm.Customer (Id int, Name string, score double) key Id
          join a.W = o.id
          join o.total = a.X
          join c.Name = o.note
          rest `c.score` = `a.W`
          rest `c.Id` = `o.note`
          output w = `a.W`
          key of a in w
          key of o in w
        """,
    ),
    "conditions without columns are kept; TRUE alone says nothing": (
        "SELECT W FROM s.r1 JOIN s.r2 ON TRUE WHERE 1 = 1 AND FALSE",
        """
        term 1
          slot r1 = s.r1 (W int) key W
          slot r2 = s.r2 (Y int) key Y
          rest 1 = 1
          rest FALSE
          output W = `r1.W`
          key of r1 in W
        """,
    ),
    "a slot of which nothing is read needs its key, without one its first column": (
        "SELECT 1 AS one FROM s.r3 CROSS JOIN s.r2",
        """
        term 1
          slot r3 = s.r3 (Y int)
          slot r2 = s.r2 (Y int) key Y
          output one = 1
        """,
    ),
    "* shows the columns of USING once and first": (
        "SELECT * FROM s.r1 JOIN s.r2 USING (x) WHERE X > 0",
        """
        term 1
          slot r1 = s.r1 (W int, X int) key W where `r1.X` > 0
          slot r2 = s.r2 (X int, Y int) key Y
          join r1.X = r2.X
          output X = `r1.X`
          output W = `r1.W`
          output Y = `r2.Y`
          key of r1 in W
          key of r2 in Y
        """,
    ),
    "NATURAL JOIN equates what has the same name; alias.* shows all of a table": (
        "SELECT W, r2.* FROM s.r1 NATURAL JOIN s.r2 NATURAL JOIN s.r3",
        """
        term 1
          slot r1 = s.r1 (W int, X int) key W
          slot r2 = s.r2 (X int, Y int) key Y
          slot r3 = s.r3 (Y int)
          join r1.X = r2.X
          join r2.Y = r3.Y
          output W = `r1.W`
          output X = `r2.X`
          output Y = `r2.Y`
          key of r1 in W
          key of r2 in Y
        """,
    ),
    "the right table of a USING is still reached by its own name": (
        "SELECT X, r2.X AS other FROM s.r1 JOIN s.r2 USING (X) JOIN s.r3 USING (Y)",
        """
        term 1
          slot r1 = s.r1 (W int, X int) key W
          slot r2 = s.r2 (X int, Y int) key Y
          slot r3 = s.r3 (Y int)
          join r1.X = r2.X
          join r2.Y = r3.Y
          output X = `r1.X`
          output other = `r2.X`
        """,
    ),
    "functions stay as they are written, units and lambda variables are no columns": (
        """SELECT Instr(note, 'x', 1, 2) AS i, nvl(note, "it's") n, dateadd(day, 1, day) AS d,
                  transform(array(id), id2 -> id2 + customer)[0] AS t, CASE WHEN total > 1L THEN 'a''b' END AS c,
                  CAST(total AS DOUBLE) / 2 AS half, EXTRACT(YEAR FROM day) AS y, 'a' LIKE ANY ('a', note) AS l
           FROM shop.orders AS o -- a comment""",
        """
        term 1
          slot o = shop.orders (id bigint, customer int, total decimal(10,2), note string, day date) key id
          output i = Instr(`o.note`, 'x', 1, 2)
          output n = nvl(`o.note`, 'it\\'s')
          output d = dateadd(day, 1, `o.day`)
          output t = TRANSFORM(ARRAY(`o.id`), id2 -> id2 + `o.customer`)[0]
          output c = CASE WHEN `o.total` > CAST(1 AS BIGINT) THEN 'a\\'b' END
          output half = CAST(`o.total` AS DOUBLE) / 2
          output y = EXTRACT(YEAR FROM `o.day`)
          output l = 'a' LIKE ANY ('a', `o.note`)
        """,
    ),
    "quoted names may hold anything": (
        """SELECT `t;1`.`a b`, `E``F` AS `x, "y"`, `g';--` || ';' AS z FROM `odd source`.`ta"b.l;e` AS `t;1`
           WHERE `c.d` = 1""",
        """
        term 1
          slot t;1 = odd source.ta"b.l;e (a b int, c.d int, e`f string, g';-- string) key a b where `t;1.c.d` = 1
          output a b = `t;1.a b`
          output x, "y" = `t;1.e``f`
          output z = `t;1.g';--` || ';'
          key of t;1 in a b
        """,
    ),
}


@pytest.mark.parametrize(("query", "expected"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_the_normal_form(query: str, expected: str) -> None:
    """Each accepted form of SQL has exactly this normal form."""
    assert normal_form(query) == dedent(expected).strip()


@pytest.mark.parametrize("query", [query for query, _ in ACCEPTED.values()], ids=ACCEPTED.keys())
def test_a_term_knows_every_column_that_its_expressions_read(query: str) -> None:
    """What an expression reads, parsed again from its text, is among the needed columns of the slots."""
    for term in view_of(query).terms:
        names = {name for slot in term.slots for name in slot.names}
        conditions = [*term.rest, *(selection for selection in term.selections if selection is not None)]
        assert all(each.columns <= names for each in [*conditions, *(value for _, value in term.output)])
        assert all({equality.left, equality.right} <= names for equality in term.equalities)


def test_a_view_keeps_its_name_options_and_text() -> None:
    """Options are lower-cased keys with the values as written; unknown ones are kept for others to judge."""
    options = "WITH (Consistency = 'complete', strategy = 'auto', Batch = 10)"
    text = f"create materialized view Sales_2 {options} AS SELECT W FROM s.r1;"
    view = parse_view(text, CATALOG)
    assert (view.name, view.text, view.columns) == ("Sales_2", text, ("W",))
    assert view.options == {"consistency": "complete", "strategy": "auto", "batch": "10"}
    header = parse_view_header(text)
    assert (header.name, header.options) == (view.name, view.options)
    assert describe(view).startswith("view Sales_2 (W), batch = 10, consistency = complete, strategy = auto\n")


def test_an_exact_spelling_goes_before_another_case() -> None:
    """Where two tables differ in case alone, the exact name chooses."""
    catalog = Catalog.of([table("s.t", "a int"), table("s.T", "b int")])
    view = parse_view("CREATE MATERIALIZED VIEW v AS SELECT * FROM s.T", catalog)
    assert view.relations == (Relation("s", "T"),)


def test_renaming_columns_leaves_the_rest_of_an_expression_as_written() -> None:
    """No function is rewritten and no string changed when a selection goes to a source under the table's own names."""
    selection = Expression("Instr(`o.note`, 'o.note', 1, 2) > `o.e``f`")
    renamed = selection.rename({"o.note": "note", "o.e`f": "e`f"})
    assert renamed.sql == "Instr(`note`, 'o.note', 1, 2) > `e``f`"


@pytest.mark.parametrize(
    ("left", "right", "exact"),
    [
        ("int", "decimal(10,2)", True),
        ("decimal(38,0)", "decimal(38,0)", True),
        ("bigint", "decimal(38,18)", True),
        ("bigint", "decimal(38,19)", False),
        ("decimal(38,0)", "decimal(38,18)", False),
    ],
)
def test_decimals_that_spark_would_round_are_no_join_keys(left: str, right: str, exact: bool) -> None:
    """Keys are compared exactly, so an equality is one only where Spark compares exactly too; else a condition."""
    catalog = Catalog.of([table("s.a", f"n {left}"), table("s.b", f"n {right}")])
    term = parse_view("CREATE MATERIALIZED VIEW v AS SELECT a.n FROM s.a, s.b WHERE a.n = b.n", catalog).terms[0]
    assert (len(term.equalities), len(term.rest)) == ((1, 0) if exact else (0, 1))
