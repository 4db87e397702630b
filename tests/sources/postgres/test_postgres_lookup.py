"""Lookups: keys of every type, composite keys, keys that cannot match; always all rows, each once."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from psycopg import sql

from tests.sources.postgres.conftest import Lab
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.proving.oracle import ask
from weir.sources.postgres.catalogue import WatchedPostgresTable, read_keys, read_tables
from weir.sources.postgres.connection import PostgresConnection
from weir.sources.postgres.lookup import _condition, fetch

T = Relation("pg", "t")


def look_up(lab: Lab, schema: str, keys: list[tuple[Any, ...]], columns: tuple[str, ...] = ("id",)) -> pa.Table:
    """One lookup by the columns that ``schema`` names."""
    bag = MemoryBag.of(Schema.parse(schema), keys)
    source = lab.open()
    source.watch({T: tuple({*columns, *bag.schema.names})})
    source.load().held.release()
    _, (answer,) = ask(source, [Lookup(T, columns, bag.schema.names, bag)])
    source.close()
    return answer


def ids(answer: pa.Table) -> list[Any]:
    return sorted(answer.column("id").to_pylist())


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How the server finds the rows of every lookup, if it may."""
    told: list[str] = []

    def explain_and_fetch(connection: PostgresConnection, query: sql.Composable, *rest: Any) -> pa.Table:
        connection.execute("SET LOCAL enable_seqscan = off")
        told.append("\n".join(line for (line,) in connection.execute(sql.SQL("EXPLAIN ") + query)))
        return fetch(connection, query, *rest)

    monkeypatch.setattr("weir.sources.postgres.lookup.fetch", explain_and_fetch)
    return told


@pytest.mark.parametrize(
    ("kind", "values", "schema", "keys", "found", "indexed"),
    [
        ("int", "1, 2, NULL", "k int", [(2,), (9,), (None,)], [2], True),
        ("smallint", "1, 2, 3", "k bigint", [(2,), (2**60,)], [2], True),
        ("int", "1, 2, 3", "k decimal(30,2)", [(Decimal(2),), (Decimal("2.50"),), (Decimal(10) ** 25,)], [2], True),
        ("numeric(10,2)", "1, 2.5, 3", "k decimal(5,1)", [(Decimal("2.5"),)], [2], True),
        ("numeric(10,2)", "1, 2, 3", "k int", [(3,)], [3], True),
        ("double precision", "'NaN', 0.1, '-Infinity'", "k double", [(float("nan"),), (float("-inf"),)], [1, 3], True),
        ("real", "0.1, 0.5, 1e30", "k double", [(0.10000000149011612,), (0.5,)], [1, 2], True),
        ("text", "'', 'a\"b\\c,{}''d', NULL", "k string",
         [("",), ("a\"b\\c,{}'d",), ("x\0y",), ("\udc00",)], [1, 2], True),
        ("varchar(9)", "'NULL', 'null', 'n'", "k string", [("NULL",), ("n",)], [1, 3], True),
        ("char(5)", "'ab', 'abc', ''", "k string", [("ab   ",), ("ab",)], [1], True),
        ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', NULL, NULL", "k string",
         [("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",), ("no uuid",)], [1], True),
        ("boolean", "true, false, NULL", "k boolean", [(True,)], [1], True),
        ("date", "'2024-01-01', '0001-01-01', NULL", "k date", [(date(1, 1, 1),)], [2], True),
        ("timestamp", "'2024-01-01 01:02:03.000004', NULL, NULL", "k timestamp_ntz",
         [(datetime(2024, 1, 1, 1, 2, 3, 4),)], [1], True),
        ("timestamptz", "'2024-01-01 01:00:00+01', NULL, NULL", "k timestamp",
         [(datetime(2024, 1, 1, tzinfo=UTC),)], [1], True),
        ("bytea", r"'\x00ff', '\x', NULL", "k binary", [(b"\x00\xff",), (b"",)], [1, 2], True),
        ("jsonb", "'1', '{}', NULL", "k string", [("{}",)], [2], False),
        # Types that SQL compares unlike Spark: everything comes, and the view's own predicate decides.
        ("int", "1, 2, 3", "k string", [("2",)], [1, 2, 3], False),
        ("int", "1, 2, 3", "k double", [(2.0,)], [1, 2, 3], False),
        ("text", "'2', '3', NULL", "k int", [(2,)], [1, 2, 3], False),
    ],
)  # fmt: skip
def test_keys_of_every_type(
    replication_lab: Lab,
    kind: str,
    values: str,
    schema: str,
    keys: list[tuple[Any, ...]],
    found: list[int],
    indexed: bool,
    plans: list[str],
) -> None:
    """Each key finds its rows by an index where one can serve; what cannot match is left out, never an error."""
    rows = ", ".join(f"({at}, {value.strip()})" for at, value in enumerate(_split(values), 1))
    replication_lab.execute(
        f"CREATE TABLE t (id int, k {kind})", "CREATE INDEX ON t (k)", f"INSERT INTO t VALUES {rows}"
    )
    replication_lab.capture("t")
    assert ids(look_up(replication_lab, schema, keys)) == found
    assert ("Index Cond" in plans[-1]) is indexed


def _split(values: str) -> list[str]:
    """At commas outside of quotes."""
    parts, quoted = [""], False
    for char in values:
        quoted ^= char == "'"
        if char == "," and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def test_json_columns_have_no_index_and_no_equality_yet_are_found(replication_lab: Lab) -> None:
    """A json column is compared as text."""
    replication_lab.execute("CREATE TABLE t (id int, k json)", "INSERT INTO t VALUES (1, '{\"a\": 1}'), (2, '[]')")
    replication_lab.capture("t")
    assert ids(look_up(replication_lab, "k string", [('{"a": 1}',)])) == [1]


def test_composite_keys(lab: Lab, plans: list[str]) -> None:
    """Pairs match as pairs; a pair with a NULL matches nothing; duplicates of a row all come."""
    lab.execute("CREATE TABLE t (id int, a int, b text)", "CREATE INDEX ON t (a, b)")
    lab.execute("INSERT INTO t VALUES (1, 1, 'x'), (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'x'), (4, 1, NULL), (5, NULL, 'x')")
    lab.capture("t")
    answer = look_up(lab, "a int, b string", [(1, "x"), (2, "y"), (1, None), (None, "x")])
    assert ids(answer) == [1, 1]
    assert "Index Cond" in plans[-1]


def test_only_null_keys_ask_nothing(lab: Lab) -> None:
    """A lookup whose keys are all NULL has no rows."""
    lab.execute("CREATE TABLE t (id int, k int)", "INSERT INTO t VALUES (1, NULL)")
    lab.capture("t")
    assert ids(look_up(lab, "k int", [(None,)])) == []


def test_whether_an_index_serves_is_told(lab: Lab) -> None:
    """A leading index column serves; a second one, a partial or an expression index does not."""
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, a int, b int, c int, d int)", "CREATE INDEX ON t (a, b)")
    lab.execute(
        "CREATE INDEX ON t (c) WHERE c > 0", "CREATE INDEX ON t ((d + 1))", "INSERT INTO t VALUES (1, 1, 1, 1, 1)"
    )
    lab.capture("t")
    keys = read_keys(lab.admin, "public")["t"]
    assert [name for name in ("id", "a", "b", "c", "d") if keys.serves([name])] == ["id", "a"]


def test_a_single_column_with_nulls_keeps_its_rows(lab: Lab) -> None:
    """A row that is only a NULL is an empty line, and still a row."""
    lab.execute("CREATE TABLE t (k int, name text)", "INSERT INTO t VALUES (1, NULL), (1, ''), (1, 'x'), (1, NULL)")
    lab.capture("t")
    rows = look_up(lab, "k int", [(1,)], columns=("name",))
    assert sorted(rows.column("name").to_pylist(), key=repr) == ["", "x", None, None]


def test_ten_thousand_keys_at_once(lab: Lab, plans: list[str]) -> None:
    """Many keys are one question."""
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    lab.execute("INSERT INTO t SELECT i, 'n' || i FROM generate_series(1, 30000) i", "ANALYZE t")
    lab.capture("t")
    keys = [(number,) for number in range(2, 40_000, 3)]
    answer = look_up(lab, "id int", keys, columns=("id", "name"))
    assert ids(answer) == list(range(2, 30_001, 3))
    assert "Index Cond" in plans[-1]


def test_keys_of_most_rows_are_taken_apart_once(replication_lab: Lab) -> None:
    """Also where reading the whole table looks cheaper: that would take the setting apart again for every row."""
    lab = replication_lab
    lab.execute("CREATE TABLE t (id int, k int, filler text)", "CREATE INDEX ON t (k)")
    lab.execute("INSERT INTO t SELECT i, (i * 7919) % 10000, repeat('x', 90) FROM generate_series(1, 20000) i")
    lab.execute("ANALYZE t")
    keys = "{" + ",".join(map(str, range(9000))) + "}"
    lab.admin.execute("SELECT set_config('weir.key0', %s, false)", (keys,))
    (facts,) = read_tables(lab.admin, "public", "''")
    condition = _condition(WatchedPostgresTable(T, facts, facts.columns, read_keys(lab.admin, "public")["t"]), ["k"])
    plan = lab.admin.execute(sql.SQL("EXPLAIN SELECT id FROM t") + condition).fetchall()
    told = "\n".join(line for (line,) in plan)
    assert "InitPlan" in told
    assert "Seq Scan" not in told


def test_keys_in_another_encoding_are_compared_at_home(replication_lab: Lab) -> None:
    """A server that does not know a key's character is not asked about it, and nothing is missed."""
    lab = replication_lab
    lab.admin.close()
    with lab.server.connect() as admin:
        admin.execute(f"DROP DATABASE {lab.database}")
        admin.execute(
            f"CREATE DATABASE {lab.database} ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    lab.admin = lab.server.connect(lab.database)
    lab.execute("CREATE TABLE t (id int, k text)", "CREATE INDEX ON t (k)", "INSERT INTO t VALUES (1, 'é'), (2, 'e')")
    lab.capture("t")
    assert 1 in ids(look_up(lab, "k string", [("é",), ("☃",)]))
    assert ids(look_up(lab, "k string", [("e",)])) == [2]


def test_no_columns_are_rows_all_the_same(lab: Lab) -> None:
    """A view that needs nothing of a table but its rows: loaded, changed and looked up as rows without columns."""
    lab.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    lab.capture("t")
    watch = lab.watch(t=())
    assert watch.replay.tables[T][()] == 2
    lab.execute("INSERT INTO t VALUES (3), (4), (5)", "DELETE FROM t WHERE id = 1")
    keys = MemoryBag.of(Schema.parse("id int"), [(2,), (3,), (9,)])
    visit, answers = ask(watch.source, [Lookup(T, ()), Lookup(T, (), ("id",), keys)])
    assert watch.replay.apply(visit) == []
    assert watch.replay.tables[T][()] == 4
    assert [answer.num_rows for answer in answers] == [4, 2]
