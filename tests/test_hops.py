"""Hops: which table is asked next, with which keys, and what comes of the answer."""

from __future__ import annotations

from weir.algebra.catalog import Catalog, Relation, Table
from weir.algebra.hops import Lookup, begin, extend, finish, hop_order, lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.query import evaluate, sub_updates, substitute, whole
from weir.algebra.sql import parse_view
from weir.algebra.types import Schema
from weir.algebra.view import Term
from weir.simulator.literals import parse_rows

SCHEMAS = {
    "r1": Schema.parse("A int, B int, U string"),
    "r2": Schema.parse("B int, C int"),
    "r3": Schema.parse("C int, D int"),
    "r4": Schema.parse("D int, E int"),
}
CATALOG = Catalog.of(Table(Relation(source, name), SCHEMAS[name]) for source, name in zip("wxyz", SCHEMAS, strict=True))


def term(select: str) -> Term:
    return parse_view(f"CREATE MATERIALIZED VIEW v AS {select}", CATALOG).terms[0]


def rows(table: str, text: str) -> MemoryBag:
    return parse_rows(text, SCHEMAS[table])


CHAIN = term(
    "SELECT r1.A, r4.E FROM w.r1 JOIN x.r2 ON r1.B = r2.B JOIN y.r3 ON r2.C = r3.C JOIN z.r4 ON r3.D = r4.D"
)


def test_the_next_table_is_one_that_joins_with_what_is_known() -> None:
    """From the middle of a chain outwards; never a table whose join column is not known yet."""
    assert hop_order(CHAIN, [2]) == (1, 0, 3)
    assert hop_order(CHAIN, [0]) == (1, 2, 3)
    assert hop_order(CHAIN, [3]) == (2, 1, 0)


def test_a_slot_whose_rows_are_at_hand_comes_first_among_equals() -> None:
    """So that it narrows what is asked for."""
    assert hop_order(CHAIN, [2], at_hand=[3]) == (3, 1, 0)


def test_without_an_equality_another_condition_ties_and_only_then_the_rest() -> None:
    """An inequality is better than nothing, and an unconnected table comes last."""
    loose = term("SELECT r1.A FROM w.r1, z.r4, x.r2, y.r3 WHERE r1.B < r3.C AND r1.A = r2.B")
    assert hop_order(loose, [0]) == (2, 3, 1)


def test_only_distinct_keys_and_needed_columns_travel() -> None:
    """Two rows with the same join value ask once; the unneeded column U of r1 is not asked for."""
    known = begin(CHAIN, 1, rows("r2", "(1, 5) (1, 6) -(2, 5)"))
    asked = lookup(CHAIN, 0, known)
    assert (asked.relation, asked.columns, asked.key_columns) == (Relation("w", "r1"), ("A", "B"), ("B",))
    assert asked.keys == parse_rows("(1) (2)", Schema.parse("B int"))


def test_an_inserted_and_a_deleted_row_with_the_same_key_both_ask() -> None:
    """Projected onto the key they would cancel; the key must be asked for all the same."""
    known = begin(CHAIN, 1, rows("r2", "(1, 5) -(1, 6)"))
    assert lookup(CHAIN, 0, known).keys == parse_rows("(1)", Schema.parse("B int"))


def test_null_keys_find_nothing() -> None:
    """A NULL in the join column joins nothing, whatever the source sends."""
    known = begin(CHAIN, 1, rows("r2", "(NULL, 5)"))
    joined = extend(known, 0, rows("r1", "(1, NULL, 'u')"))
    assert joined.bag == joined.bag.scale(0)


def test_a_superset_answer_is_cut_by_the_views_own_conditions() -> None:
    """A source may return more rows than asked for: join, selection and inequality are applied here."""
    picky = term("SELECT r1.A, r2.C FROM w.r1 JOIN x.r2 ON r1.B = r2.B WHERE r1.U = 'yes' AND r1.A < r2.C")
    known = begin(picky, 1, rows("r2", "(1, 5)"))
    asked = lookup(picky, 0, known)
    assert asked.selection is not None
    assert asked.selection.columns == {"U"}
    answer = rows("r1", "(1, 1, 'yes') (2, 1, 'no') (9, 1, 'yes') (3, 7, 'yes')")
    assert finish(extend(known, 0, answer)) == parse_rows("(1, 5)", Schema.parse("A int, C int"))


def test_several_partials_share_one_question() -> None:
    """Keys of both, on the column that ties to both."""
    left = begin(CHAIN, 0, rows("r1", "(1, 7, 'u')"))
    both = extend(begin(CHAIN, 0, rows("r1", "(2, 8, 'u')")), 1, rows("r2", "(8, 3)"))
    assert lookup(CHAIN, 1, left).keys == parse_rows("(7)", Schema.parse("B int"))
    from_right = begin(CHAIN, 1, rows("r2", "(9, 4)"))
    assert lookup(CHAIN, 2, both, from_right).keys == parse_rows("(3) (4)", Schema.parse("C int"))


def test_a_query_never_asks_for_a_whole_table_when_a_join_column_is_known() -> None:
    """Every lookup of V<U> over a chain carries keys, from whichever table the update comes."""
    view = parse_view(
        "CREATE MATERIALIZED VIEW v AS SELECT r1.A, r4.E FROM w.r1, x.r2, y.r3, z.r4 "
        "WHERE r1.B = r2.B AND r2.C = r3.C AND r3.D = r4.D",
        CATALOG,
    )
    tables = {Relation(source, name): rows(name, "(1, 1, 'u')" if name == "r1" else "(1, 1)")
              for source, name in zip("wxyz", SCHEMAS, strict=True)}  # fmt: skip
    for relation, table in tables.items():
        (part,) = sub_updates(view, [(relation, table)])
        asked: list[Lookup] = []
        steps = evaluate(substitute(whole(view), part))
        try:
            asked.append(next(steps))
            while True:
                asked.append(steps.send(tables[asked[-1].relation].keep(asked[-1].columns)))
        except StopIteration as stop:
            value = stop.value
        assert value.cardinality == 1
        assert len(asked) == 3
        assert all(question.keys is not None for question in asked)
