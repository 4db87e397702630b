"""Names of tables and databases, compared by case as the server does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sources.mariadb.conftest import Place, changes
from weir.proving.oracle import ask
from weir.sources.mysql.statements import meaning
from weir.sources.source import SchemaChanged, Visit


def truncated(visit: Visit) -> set[str]:
    return {relation.table for relation in visit.truncations}


@pytest.fixture
def twins(place: Place) -> Place:
    """Tables t and T, and a database beside this one whose name differs by case alone."""
    assert place.run("SELECT @@lower_case_table_names") == [(0,)]
    other = place.database.upper()
    place.run(
        "CREATE TABLE t (a INT)", "CREATE TABLE T (b INT, a VARCHAR(5), KEY (b))", f"DROP DATABASE IF EXISTS {other}"
    )
    place.run(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.t (z INT)", "INSERT INTO t VALUES (1)")
    place.run("INSERT INTO T VALUES (2, 'x')")
    return place


def test_tables_that_differ_by_case(twins: Place) -> None:
    """Each is described, loaded, followed and truncated for itself; another database's tables are nobody's."""
    place, other = twins, twins.database.upper()
    source = place.source({"t": ("a",), "T": ("b", "a")})
    described = {table.relation.table: table.schema.names for table in source.describe().tables}
    assert described == {"t": ("a",), "T": ("b", "a")}
    place.run("INSERT INTO t VALUES (3)", "INSERT INTO T VALUES (4, 'y')", f"INSERT INTO {other}.t VALUES (5)")
    visit, _ = ask(source, [])
    assert (changes(visit, "t", "a"), changes(visit, "T", "b", "a")) == ([(0, 1, 3)], [(1, 1, 4, "y")])
    place.run(f"TRUNCATE {other}.t", f"ALTER TABLE {other}.t ADD y INT FIRST", f"DROP DATABASE {other}")
    assert source.visit().transactions == ()
    place.run("TRUNCATE T")
    assert truncated(source.visit()) == {"T"}
    place.run("TRUNCATE TABLE `t`")
    assert truncated(source.visit()) == {"t"}


@pytest.mark.parametrize(
    "statement", ["TRUNCATE t", "DROP TABLE t", "RENAME TABLE t TO u", "ALTER TABLE t DROP a, ADD c INT"]
)
def test_the_other_table_alone_is_watched(twins: Place, statement: str) -> None:
    """What happens to t is no matter of T's."""
    source = twins.source({"T": ("b", "a")})
    twins.run(statement, "INSERT INTO T VALUES (4, 'y')")
    visit = source.visit()
    assert (truncated(visit), changes(visit, "T", "b", "a")) == (set(), [(0, 1, 4, "y")])


def test_a_table_of_the_other_case_that_begins_later(twins: Place) -> None:
    """A table that only a later position covers is known by its own name."""
    twins.source({"T": ("b",)})
    twins.run("TRUNCATE T", "TRUNCATE t")
    source = twins.source({"t": ("a",), "T": ("b",)}, load=False)
    source.resume(twins.position)
    assert truncated(ask(source, [])[0]) == {"T"}
    twins.run("TRUNCATE t")
    assert truncated(source.visit()) == {"t"}


def test_a_server_that_folds_names(own_place: Callable[..., Place]) -> None:
    """With lower_case_table_names = 1 any spelling names the table."""
    place = own_place(lower_case_table_names="1")
    place.run("CREATE TABLE Shop (a INT)", "INSERT INTO SHOP VALUES (1)")
    source = place.source({"shop": ("a",)})
    place.run("INSERT INTO sHop VALUES (2)", "TRUNCATE SHOP")
    visit = source.visit()
    assert (changes(visit, "shop", "a"), truncated(visit)) == ([(0, 1, 2)], {"shop"})
    place.run("ALTER TABLE SHOP MODIFY A BIGINT")
    with pytest.raises(SchemaChanged, match="shop"):
        source.visit()


@pytest.mark.parametrize(
    ("text", "exact", "folded"),
    [
        ("TRUNCATE T", "nothing", "truncate"),
        ("TRUNCATE `D`.t", "nothing", "truncate"),
        ("DROP DATABASE D", "nothing", "change"),
        ("RENAME TABLE x TO T", "nothing", "change"),
        ("ALTER TABLE t DROP A", "change", "change"),
        ("ALTER TABLE T DROP a", "nothing", "change"),
    ],
)
def test_meaning_by_case(text: str, exact: str, folded: str) -> None:
    """Tables and databases by case or not, as the server; columns never by case."""
    assert meaning(text, "d", "d", {"t": {"a"}}, fold_case=False).kind == exact
    assert meaning(text, "d", "d", {"t": {"a"}}, fold_case=True).kind == folded
