"""Substitution and the evaluation of queries: V<U>, Q<U>, sub-updates, local terms."""

from __future__ import annotations

import pytest

from weir.algebra.catalog import Catalog, Relation, Table
from weir.algebra.memory import MemoryBag
from weir.algebra.query import (
    Query,
    evaluate_locally,
    incremental,
    local_part,
    negate,
    remote_part,
    sub_updates,
    substitute,
    whole,
)
from weir.algebra.sql import parse_view
from weir.algebra.types import Schema
from weir.algebra.view import View
from weir.simulator.literals import parse_rows
from weir.simulator.source import evaluate_at

SCHEMAS = {
    "r1": Schema.parse("W int, X int"), "r2": Schema.parse("X int, Y int"), "r3": Schema.parse("Y int, Z int"),
}  # fmt: skip
CATALOG = Catalog.of(Table(Relation("s", name), schema) for name, schema in SCHEMAS.items())
CHAIN = parse_view(
    "CREATE MATERIALIZED VIEW v AS SELECT r1.W FROM s.r1 JOIN s.r2 ON r1.X = r2.X JOIN s.r3 ON r2.Y = r3.Y", CATALOG
)
SELF_JOIN = parse_view(
    "CREATE MATERIALIZED VIEW v AS SELECT a.W, b.W AS V FROM s.r1 AS a JOIN s.r1 AS b ON a.X = b.X", CATALOG
)
UNION = parse_view(
    "CREATE MATERIALIZED VIEW v AS SELECT r1.W FROM s.r1 JOIN s.r2 ON r1.X = r2.X "
    "UNION ALL SELECT r3.Z FROM s.r2 JOIN s.r3 ON r2.Y = r3.Y",
    CATALOG,
)


def rows(table: str, text: str) -> MemoryBag:
    return parse_rows(text, SCHEMAS[table])


def after(view: View, query: Query, table: str, text: str) -> Query:
    (part,) = sub_updates(view, [(Relation("s", table), rows(table, text))])
    return substitute(query, part)


def written(query: Query) -> list[str]:
    return [str(term) for term in query]


def test_substitution_binds_the_updated_slot() -> None:
    """V<U> is the view with the update's rows in place of its table."""
    assert written(after(CHAIN, whole(CHAIN), "r2", "(2, 5)")) == ["r1 x [(2, 5)] x r3"]
    assert written(after(CHAIN, whole(CHAIN), "r2", "-(2, 5)")) == ["r1 x [-(2, 5)] x r3"]


def test_repeated_substitution_binds_one_slot_after_the_other() -> None:
    """V<U1,U2> has both in place; nothing is left to ask after the third."""
    once = after(CHAIN, whole(CHAIN), "r1", "(4, 2)")
    twice = after(CHAIN, once, "r3", "(5, 3)")
    assert written(twice) == ["[(4, 2)] x r2 x [(5, 3)]"]
    thrice = after(CHAIN, twice, "r2", "(2, 5)")
    assert (local_part(thrice), remote_part(thrice)) == (thrice, ())
    assert evaluate_locally(thrice) == parse_rows("(4)", Schema.parse("W int"))


def test_two_updates_of_one_slot_give_nothing() -> None:
    """Q<U> drops the terms in which the slot is taken."""
    once = after(CHAIN, whole(CHAIN), "r1", "(4, 2)")
    assert after(CHAIN, once, "r1", "(5, 2)") == ()


def test_signs_multiply() -> None:
    """The negation of a query changes the sign of every term, and of its value."""
    local = after(CHAIN, after(CHAIN, after(CHAIN, whole(CHAIN), "r1", "(4, 2)"), "r2", "-(2, 5)"), "r3", "(5, 3)")
    assert evaluate_locally(negate(local)) == parse_rows("(4)", Schema.parse("W int"))


def test_a_table_that_fills_two_slots_gives_two_sub_updates() -> None:
    """In slot order, so that a self-join is maintained by the rule for transactions over several tables."""
    parts = sub_updates(SELF_JOIN, [(Relation("s", "r1"), rows("r1", "(3, 1)"))])
    assert [(part.term, part.slot) for part in parts] == [(0, 0), (0, 1)]
    query = incremental(whole(SELF_JOIN), parts)
    assert written(query) == ["[(3, 1)] x r1", "r1 x [(3, 1)]", "-[(3, 1)] x [(3, 1)]"]


def test_terms_of_a_union_are_substituted_apart() -> None:
    """An update of a table in both terms binds it in each, and never mixes them."""
    parts = sub_updates(UNION, [(Relation("s", "r2"), rows("r2", "(1, 1)"))])
    assert [(part.term, part.slot) for part in parts] == [(0, 1), (1, 0)]
    assert written(incremental(whole(UNION), parts)) == ["r1 x [(1, 1)]", "[(1, 1)] x r3"]


@pytest.mark.parametrize("view", [CHAIN, SELF_JOIN, UNION], ids=["chain", "self-join", "union"])
def test_the_incremental_query_over_the_new_state_is_the_change_of_the_view(view: View) -> None:
    """One transaction over all tables: V(new) - V(old), asked in the state that holds the whole transaction."""
    old = {
        Relation("s", "r1"): rows("r1", "(1, 1) (2, 1) (3, 2)"),
        Relation("s", "r2"): rows("r2", "(1, 1) (2, 1) (2, 2)"),
        Relation("s", "r3"): rows("r3", "(1, 7) (2, 8)"),
    }
    deltas = {
        Relation("s", "r1"): rows("r1", "(4, 2) -(2, 1)"),
        Relation("s", "r2"): rows("r2", "(1, 2) -(2, 1)"),
        Relation("s", "r3"): rows("r3", "2*(2, 9) -(1, 7)"),
    }
    new = {relation: bag + deltas[relation] for relation, bag in old.items()}
    change = incremental(whole(view), sub_updates(view, deltas.items()))
    expected = evaluate_at(new, whole(view))[0] - evaluate_at(old, whole(view))[0]
    assert evaluate_at(new, change)[0] == expected
