"""Lookups: keys in batches, values bound, names quoted, NULL never sent, answers as Arrow."""

from __future__ import annotations

import random
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sources.mariadb.conftest import Place, changes, whole
from weir.algebra import types as t
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.proving.oracle import ask, rows_of
from weir.sources.mysql.keys import BATCHES, condition, sendable
from weir.sources.mysql.source import MysqlSource

FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def look_up(
    source: MysqlSource, table: str, columns: tuple[str, ...], schema: str, keys: list[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    bag = MemoryBag.of(t.Schema.parse(schema), keys)
    lookup = Lookup(Relation("shop", table), columns, bag.schema.names, bag)
    _, (answer,) = ask(source, [lookup])
    assert tuple(answer.column_names) == columns
    return sorted(rows_of(answer, columns), key=repr)


@pytest.mark.parametrize("kind", ["mariadb", "mariadb-locks"])
def test_one_column_keys_of_any_number(place: Place, kind: str) -> None:
    """Around every size of a batch: exactly the rows asked for, each as often as it is there."""
    place.run(
        "CREATE TABLE t (a INT, b INT, KEY (a))",
        "INSERT INTO t SELECT seq, seq * 2 FROM seq_1_to_2000",
        "INSERT INTO t VALUES (1, 2)",
    )
    source = place.source({"t": ("a", "b")}, kind=kind)
    for many in sorted({0, *(size + more for size in BATCHES for more in (-1, 0, 1)), 1500}):
        keys = random.sample(range(1, 2001), many)
        expected = sorted([(a, a * 2) for a in keys] + [(1, 2)] * (1 in keys), key=repr)
        assert look_up(source, "t", ("a", "b"), "a int", [(key,) for key in keys]) == expected


def test_composite_keys(place: Place) -> None:
    """Both columns of a key must match; a key with a NULL in it is not sent and finds nothing."""
    place.run(
        "CREATE TABLE t (a INT, b VARCHAR(5), c INT, KEY (b, a))",
        "INSERT INTO t SELECT seq % 50, CHAR(97 + seq % 7), seq FROM seq_0_to_999",
    )
    place.run("INSERT INTO t VALUES (NULL, 'a', -1), (1, NULL, -2)")
    source = place.source({"t": ("a", "b", "c")})
    keys = [(n % 50, chr(97 + n % 7)) for n in range(0, 350, 3)]
    expected = sorted([(n,) for n in range(1000) if (n % 50, chr(97 + n % 7)) in keys], key=repr)
    assert look_up(source, "t", ("c",), "a int, b string", keys) == expected
    assert look_up(source, "t", ("c",), "a int, b string", [(None, "a"), (1, None)]) == []


def test_a_collation_gives_more_rows_but_none_twice(place: Place) -> None:
    """Keys that differ for us and are equal to the server find their rows once: more than asked for, never doubled."""
    place.run(
        "CREATE TABLE t (a VARCHAR(9) PRIMARY KEY, b INT) COLLATE utf8mb4_general_ci",
        "INSERT INTO t VALUES ('Abc', 1), ('x ', 2)",
    )
    source = place.source({"t": ("a", "b")})
    found = look_up(source, "t", ("a", "b"), "a string", [("abc",), ("ABC",), ("Abc",), ("x",)])
    assert found == [("Abc", 1), ("x ", 2)]


def test_keys_that_cannot_match_are_not_sent() -> None:
    """NULL, NaN, infinities and text that is not Unicode find nothing in MariaDB; sending them would be an error."""
    assert [sendable((value,)) for value in (None, float("nan"), float("inf"), float("-inf"), "\ud800")] == [None] * 5
    assert sendable((1, "a")) == (1, "a")


def test_whether_an_index_serves(place: Place) -> None:
    """The server finds keys by an index that begins with a key column, by one and by two columns, and says which has
    one.
    """
    place.run(
        "CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT, d INT, KEY (c, b))",
        "INSERT INTO t SELECT seq, seq, seq, seq FROM seq_1_to_5000",
        "ANALYZE TABLE t",
    )
    source = place.source({"t": ("a", "b", "c")})
    (table,) = source.describe().tables
    assert table.indexes == (("a",), ("c", "b"))
    for columns, indexed in ((("a",), True), (("b",), False), (("c",), True), (("c", "b"), True), (("d",), False)):
        where = condition(source._tables.asking(Relation("shop", "t"), columns).columns, 8).replace("?", "%s")
        values = tuple(number for number in range(8) for _ in columns)
        ((_, _, _, way, *_),) = place.run(f"EXPLAIN SELECT d FROM t WHERE {where}", values=values)
        assert (way == "range") is indexed


def test_large_keys_and_answers(place: Place) -> None:
    """A key of a megabyte, and an answer row larger than one packet of the protocol (16 MB)."""
    place.run("SET GLOBAL max_allowed_packet = 67108864", "CREATE TABLE t (a LONGTEXT, b INT)")
    place.connection = place.server.connect(place.database, autocommit=True, max_allowed_packet=1 << 26)
    large = "é" * 500_000
    place.run("INSERT INTO t VALUES (REPEAT('é', 500000), 1), (REPEAT('x', 17000000), 2)")
    source = place.source({"t": ("a", "b")})
    assert look_up(source, "t", ("b",), "a string", [(large,), ("none",)]) == [(1,)]
    (row,) = look_up(source, "t", ("a", "b"), "b int", [(2,)])
    assert (len(row[0]), row[1]) == (17_000_000, 2)
    place.run("UPDATE t SET b = 3 WHERE b = 2")
    assert [(w, len(a), b) for _, w, a, b in changes(source.visit(), "t", "a", "b")] == [
        (-1, 17_000_000, 2),
        (1, 17_000_000, 3),
    ]


HOSTILE = [
    "a`; DROP TABLE t; --",
    'q"uote',
    "it's",
    "semi;colon",
    "per%cent",
    "quest?ion",
    "back\\slash",
    "sp ace",
    "☃",
    "`",
    "x" * 64,
    "%s",
    "{0}",
    "a.b",
]


def test_hostile_names(place: Place) -> None:
    """Tables and columns of any name: described, loaded, changed and asked for; nothing is executed out of a name."""
    for name in HOSTILE:
        quoted = "`" + name.replace("`", "``") + "`"
        place.run(f"CREATE TABLE {quoted} ({quoted} INT PRIMARY KEY, other INT)", f"INSERT INTO {quoted} VALUES (1, 2)")
    source = place.source({name: (name, "other") for name in HOSTILE})
    for name in HOSTILE:
        quoted = "`" + name.replace("`", "``") + "`"
        place.run(f"UPDATE {quoted} SET other = 3")
        schema = t.Schema([t.Column(name, t.INT)])
        lookup = Lookup(Relation("shop", name), (name, "other"), (name,), MemoryBag.of(schema, [(1,)]))
        visit, (answer,) = ask(source, [lookup])
        assert list(rows_of(answer, (name, "other"))) == [(1, 3)]
        assert changes(visit, name, name, "other") == [(0, -1, 1, 2), (0, 1, 1, 3)]


@FUZZ
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=12, unique=True))
def test_fuzzed_values_are_values(place: Place, values: list[str]) -> None:
    """Any text, with quotes, NULs, comments and statements in it, is found as itself and executed by nobody."""
    place.run("CREATE TABLE IF NOT EXISTS t (k INT, v VARCHAR(100) COLLATE utf8mb4_nopad_bin)", "DELETE FROM t")
    for number, value in enumerate(values):
        place.run("INSERT INTO t VALUES (%s, %s)", values=(number, value))
    source = place.source({"t": ("k", "v")})
    hostile = [(value,) for value in [*values, "' OR 1=1 --", "\\", "\0", "x'); DROP TABLE t; --"]]
    found = set(look_up(source, "t", ("k", "v"), "v string", list(dict.fromkeys(hostile))))
    assert found == set(enumerate(values))
    source.close()


@FUZZ
@given(
    st.binary(max_size=40),
    st.decimals(-(10**20), 10**20, places=5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**63), 2**63 - 1),
)
def test_fuzzed_rows_come_back(place: Place, raw: bytes, number: Any, fraction: float, whole_number: int) -> None:
    """Bytes, decimals, doubles and integers at random: binlog and lookup give what was written."""
    place.run("CREATE TABLE IF NOT EXISTS t (a VARBINARY(50), b DECIMAL(30,5), c DOUBLE, d BIGINT)")
    source = place.source({"t": tuple("abcd")})
    place.run("DELETE FROM t")
    place.run("INSERT INTO t VALUES (%s, %s, %s, %s)", values=(raw, number, fraction, whole_number))
    visit, (answer,) = ask(source, [whole("t", *"abcd")])
    expected = (raw, number, fraction + 0.0, whole_number)
    assert [tuple(row) for _, weight, *row in changes(visit, "t", *"abcd") if weight > 0] == [expected]
    assert list(rows_of(answer, tuple("abcd"))) == [expected]
    source.close()


@FUZZ
@given(st.text(string.ascii_letters + "`'\"; ()*/-#\\,.%\n", max_size=60))
def test_fuzzed_statements_never_break_the_reader(text: str) -> None:
    """Whatever text a statement in the log has, it gets a meaning."""
    from weir.sources.mysql.statements import meaning

    for verb in (
        "",
        "ALTER TABLE t ",
        "DROP TABLE ",
        "RENAME TABLE ",
        "TRUNCATE ",
        "SET STATEMENT x=1 FOR ",
        "CREATE OR REPLACE ",
    ):
        assert meaning(verb + text, "d", "d", {"t": {"a"}}).kind in (
            "control",
            "nothing",
            "truncate",
            "moves",
            "change",
            "data",
        )


def test_a_limit_that_the_server_sets_on_answers_does_not_hold(place: Place) -> None:
    """sql_select_limit, a default for new sessions, would cut loads and answers without a word."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_9")
    place.run("SET GLOBAL sql_select_limit = 2")
    try:
        source = place.source({"t": ("a",)}, load=False)
        load = source.load().held
        parts = [batch for part in load.parts() for batch in load.read(part)]
        load.release()
        _, (answer,) = ask(source, [whole("t", "a")])
    finally:
        place.run("SET GLOBAL sql_select_limit = 18446744073709551615")
    assert (sum(batch.num_rows for batch in parts), answer.num_rows) == (9, 9)
