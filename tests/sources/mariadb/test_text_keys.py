"""Lookups by text: found as Spark compares it, byte by byte in UTF-8, whatever character set and collation hold it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.sources.mariadb.conftest import Place, changes
from weir.algebra import types as t
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.proving.oracle import ask, rows_of
from weir.sources.mysql.columns import CODECS, SINGLE_BYTE, UTF8
from weir.sources.mysql.keys import condition
from weir.sources.mysql.source import MysqlSource
from weir.sources.source import SourceError

TEXTS = (
    "", " ", "a", "A", "a ", "b", "é", "É", "e\u0301", "ж", "Ж", "ß", "ss", "€", "☃", "😀", "?", "??", "\0", "\u00ad",
    "İ", "ı", "ﬁ", "x'y", "日本",
)  # fmt: skip
NOBODY_HAS = ("none", "ничего", "無", "🤷", "a?z")
Rows = list[tuple[Any, ...]]


Question = tuple[str, Sequence[tuple[Any, ...]]]  # the key columns with their types, and keys


def find(source: MysqlSource, table: str, *questions: Question) -> list[list[int]]:
    """The rows that each lookup gives, cut down by its caller to those that Spark calls equal."""
    bags = [MemoryBag.of(t.Schema.parse(schema), keys) for schema, keys in questions]
    lookups = [Lookup(Relation("shop", table), ("n", "v", "c"), bag.schema.names, bag) for bag in bags]
    _, answers = ask(source, lookups)
    return [
        sorted(row["n"] for row in answer.to_pylist() if tuple(row[name] for name in lookup.key_columns) in keys)
        for lookup, keys, answer in zip(lookups, (set(keys) for _, keys in questions), answers, strict=True)
    ]


@pytest.mark.parametrize("characters", sorted({*UTF8, *CODECS, *SINGLE_BYTE} - {"utf8"}))
@pytest.mark.parametrize("exact", ["v", "c"])
def test_text_in_every_character_set(place: Place, characters: str, exact: str) -> None:
    """Each row is found by the text that was delivered for it, by one key column and by two; keys that the character
    set cannot hold find nothing and do not fail. One column has the set's default collation, the other compares bytes.
    """
    place.run("SET SESSION sql_mode = ''")
    own = {name: f"COLLATE {characters}_nopad_bin" if name == exact else "" for name in "vc"}
    place.run(
        f"CREATE TABLE t (n INT, v VARCHAR(20) {own['v']}, c CHAR(20) {own['c']}, KEY (v, c), KEY (n, c)) "
        f"CHARACTER SET {characters}"
    )
    with place.connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s, %s)", [(n, x, x) for n, x in enumerate(TEXTS)])
    if characters in SINGLE_BYTE:
        every = ", ".join(f"({100 + byte}, X'{byte:02X}', X'61{byte:02X}')" for byte in range(256))
        place.run(f"INSERT INTO t VALUES {every}")
    source = place.source({"t": ("n", "v", "c")})
    _all_found(source, "t", [(int(n), v, c) for n, v, c in place.run("SELECT n, v, c FROM t")])


def _all_found(source: MysqlSource, table: str, rows: Rows) -> None:
    """By keys of every row together with keys that no row has."""
    every = sorted(row[0] for row in rows)
    for at, name in ((1, "v"), (2, "c")):
        texts = {row[at] for row in rows}
        absent = [text for text in (*TEXTS, *NOBODY_HAS) if text not in texts]
        pairs = [(row[0], row[at]) for row in rows] + list(enumerate(absent))
        found = find(
            source,
            table,
            (f"{name} string", [(text,) for text in sorted({*texts, *absent})]),
            (f"{name} string", [(text,) for text in absent]),
            (f"n int, {name} string", pairs),
            ("v string, c string", sorted({(v, c) for _, v, c in rows} | {(x, x) for x in absent})),
        )
        assert found == [every, [], every, every]
    some = rows[::7]
    alone = find(source, table, *(("v string, c string", [(v, c)]) for _, v, c in some))
    assert all(n in found for (n, _, _), found in zip(some, alone, strict=True))


@pytest.mark.parametrize("characters", ["latin1", "utf8mb4", "ucs2", "cp1251", "sjis"])
def test_enumerations_and_sets(place: Place, characters: str) -> None:
    """A member is found by its text, alone and beside another column; a text that is no member finds nothing."""
    members = "'x', 'Y', '3', '', 'é', 'z''q'" if characters in ("latin1", "utf8mb4", "ucs2") else "'x', 'Y', '3', ''"
    place.run("SET SESSION sql_mode = ''")
    place.run(
        f"CREATE TABLE t (n INT, v ENUM({members}) CHARACTER SET {characters}, c SET({members.replace(', ', ',')}) "
        f"CHARACTER SET {characters}, KEY (v), KEY (c, v), KEY (n))"
    )
    many = members.count("', '") + 1
    place.run(f"INSERT INTO t SELECT seq, seq % {many + 1}, seq % {2**many} FROM seq_0_to_99")
    source = place.source({"t": ("n", "v", "c")})
    rows = [(int(n), v, c) for n, v, c in place.run("SELECT n, v, c FROM t")]
    absent = ["y", "2", "ж", "😀", "Y,x", "x,Y,x"]
    for at, name in ((1, "v"), (2, "c")):
        texts = sorted({row[at] for row in rows})
        found = find(source, "t", *((f"{name} string", [(text,), *((x,) for x in absent)]) for text in texts))
        assert found == [sorted(row[0] for row in rows if row[at] == text) for text in texts]
        assert find(source, "t", (f"{name} string", [(text,) for text in absent])) == [[]]
    pairs = [(n, v) for n, v, _ in rows] + list(enumerate(absent))
    both = find(source, "t", ("n int, v string", pairs), ("v string, c string", [(v, c) for _, v, c in rows]))
    assert both == [sorted(n for n, _, _ in rows)] * 2


def test_a_row_that_keys_of_several_batches_match_comes_once(place: Place) -> None:
    """Spellings that a collation calls equal are asked for in different statements; each row comes once."""
    place.run(
        "CREATE TABLE t (n INT, v VARCHAR(20), KEY (v), KEY (n)) CHARACTER SET latin1",
        "INSERT INTO t SELECT seq, CONCAT('key', seq) FROM seq_1_to_700",
    )
    source = place.source({"t": ("n", "v")})
    lower, upper = [f"key{n}" for n in range(1, 701)], [f"KEY{n}" for n in range(1, 701)]
    for schema, keys in (
        ("v string", [(text,) for text in [*lower, *upper]]),
        ("n int, v string", [(at % 700 + 1, text) for at, text in enumerate([*lower, *upper])]),
    ):
        bag = MemoryBag.of(t.Schema.parse(schema), keys)
        _, (answer,) = ask(source, [Lookup(Relation("shop", "t"), ("n",), bag.schema.names, bag)])
        assert sorted(rows_of(answer, ("n",))) == [(n,) for n in range(1, 701)]


@pytest.mark.parametrize("characters", ["latin1", "ascii", "utf8mb3", "ucs2", "utf16", "utf32", "utf8mb4", "koi8r"])
def test_an_index_serves_text_in_every_character_set(place: Place, characters: str) -> None:
    """The keys are converted, not the column: the server reads ranges of the index, for one column and for two."""
    place.run(
        f"CREATE TABLE t (n INT, v VARCHAR(20), c VARCHAR(20), KEY (v), KEY (c, n)) CHARACTER SET {characters} "
        f"COLLATE {characters}_bin",
        "INSERT INTO t SELECT seq, CONCAT('x', seq), CONCAT('y', seq) FROM seq_1_to_5000",
        "ANALYZE TABLE t",
    )
    source = place.source({"t": ("n", "v", "c")})
    for names, key in ((("v",), ("x7",)), (("c", "n"), ("y7", 7))):
        table = source._tables.asking(Relation("shop", "t"), names)
        text = f"EXPLAIN SELECT n FROM t WHERE {condition(table.columns, 8)}".replace("?", "%s")
        ((_, _, _, way, *_),) = place.run(text, values=key * 8)
        assert way in ("ref", "range")


def test_half_characters_in_ucs2_are_refused_everywhere(place: Place) -> None:
    """UCS-2 holds no surrogates; the bytes of two that MariaDB lets in are refused in the log as in an answer."""
    place.run("CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET ucs2)")
    source = place.source({"t": ("k", "v")})
    place.run("INSERT INTO t VALUES (1, 'fine')")
    assert changes(source.visit(), "t", "v") == [(0, 1, "fine")]
    place.run("INSERT INTO t VALUES (2, X'D83DDE00')")
    with pytest.raises(SourceError, match=r"shop\.t\.v holds"):
        source.visit()
    load = place.source({"t": ("k", "v")}, load=False).load().held
    with pytest.raises(SourceError, match=r"shop\.t\.v holds"):
        [batch for part in load.parts() for batch in load.read(part)]
    load.release()
