"""Changes of meaning without a change of rows: the labels of enumerations, and what foreign keys do by themselves."""

from __future__ import annotations

import json

import pytest

from tests.sources.postgres.conftest import Lab, Watch, changes
from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.algebra.types import STRING
from weir.sources.postgres.catalogue import ColumnFacts
from weir.sources.postgres.describe import usable, why_unusable
from weir.sources.source import SchemaChanged

EVERYTHING = Lookup(Relation("pg", "t"), ("id", "mood"))


def moods(lab: Lab, declared: str = "mood") -> None:
    lab.execute("CREATE TYPE mood AS ENUM ('sad', 'calm', 'glad')", "CREATE TYPE other AS ENUM ('x')")
    lab.execute("CREATE DOMAIN feeling AS mood")
    lab.execute(f"CREATE TABLE t (id int PRIMARY KEY, mood {declared}, other other)")
    lab.execute("INSERT INTO t VALUES (1, 'sad', 'x'), (2, 'calm', 'x')")
    lab.capture("t")


def watched(lab: Lab, declared: str = "mood") -> Watch:
    moods(lab, declared)
    watch = lab.watch(t=("id", "mood"))
    lab.execute("INSERT INTO t VALUES (3, 'glad', 'x')")
    watch.visit(EVERYTHING)
    return watch


@pytest.mark.parametrize("declared", ["mood", "feeling"])
@pytest.mark.parametrize("away", [False, True])
def test_a_renamed_label_is_noticed(lab: Lab, declared: str, away: bool) -> None:
    """The rows read otherwise, and no log tells: the source stops before it delivers, also after a pause."""
    watch = watched(lab, declared)
    lab.execute("ALTER TYPE mood RENAME VALUE 'calm' TO 'quiet'", "INSERT INTO t VALUES (4, 'glad', 'x')")
    if away:
        watch.resume()
    with pytest.raises(SchemaChanged, match=r"label 'calm' .*pg\.t\.mood.* is 'quiet' now; load the views"):
        watch.source.visit()
    again = lab.watch(t=("id", "mood"))
    again.visit(EVERYTHING)
    again.assert_complete()


def test_labels_that_change_places_are_noticed(lab: Lab) -> None:
    """The same labels as before, but each means other rows."""
    watch = watched(lab)
    for old, new in (("sad", "between"), ("glad", "sad"), ("between", "glad")):
        lab.execute(f"ALTER TYPE mood RENAME VALUE '{old}' TO '{new}'")
    with pytest.raises(SchemaChanged, match="'sad'"):
        watch.source.visit()


def test_a_new_label_stops_nothing_until_it_is_renamed(lab: Lab) -> None:
    """Added at any place and used at once; from then on it is known, also after a pause."""
    watch = watched(lab)
    lab.execute("ALTER TYPE mood ADD VALUE 'angry' BEFORE 'sad'", "INSERT INTO t VALUES (5, 'angry', 'x')")
    watch.visit(EVERYTHING)
    lab.execute("ALTER TYPE mood ADD VALUE 'dull' AFTER 'sad'", "UPDATE t SET mood = 'dull' WHERE id = 1")
    watch.resume()
    watch.visit(EVERYTHING)
    watch.assert_complete()
    lab.execute("ALTER TYPE mood RENAME VALUE 'dull' TO 'grey'")
    watch.resume()
    with pytest.raises(SchemaChanged, match="label 'dull'"):
        watch.source.visit()


def test_labels_that_nobody_needs_may_be_renamed(lab: Lab) -> None:
    """The enumeration of a column that no view uses."""
    watch = watched(lab)
    lab.execute("ALTER TYPE other RENAME VALUE 'x' TO 'y'", "INSERT INTO t VALUES (4, 'glad', 'y')")
    watch.visit(EVERYTHING)
    watch.resume()
    lab.execute("DELETE FROM t WHERE id = 1")
    watch.visit(EVERYTHING)
    watch.assert_complete()


def test_a_position_without_labels_is_accepted(lab: Lab) -> None:
    """Positions of earlier versions do not tell them; they are known from the next visit on."""
    watch = watched(lab)
    parts = json.loads(watch.position)
    parts["tables"]["t"]["columns"] = {name: facts[:4] for name, facts in parts["tables"]["t"]["columns"].items()}
    assert "calm" in watch.position
    assert "calm" not in json.dumps(parts)
    watch.position = json.dumps(parts)
    watch.resume()
    lab.execute("INSERT INTO t VALUES (6, 'calm', 'x')")
    watch.visit(EVERYTHING)
    watch.resume()
    lab.execute("ALTER TYPE mood RENAME VALUE 'calm' TO 'quiet'")
    with pytest.raises(SchemaChanged, match="label 'calm'"):
        watch.source.visit()


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TYPE mood RENAME VALUE 'glad' TO 'merry'", "INSERT INTO t VALUES (7, 'merry', 'x')",
         "ALTER TYPE mood RENAME VALUE 'merry' TO 'glad'"),
        ("ALTER TYPE mood ADD VALUE 'new'", "INSERT INTO t VALUES (7, 'new', 'x')",
         "ALTER TYPE mood RENAME VALUE 'new' TO 'newer'"),
    ],
    ids=["there and back", "added, used and renamed"],
)  # fmt: skip
def test_labels_that_were_renamed_between_two_visits(lab: Lab, statements: tuple[str, ...]) -> None:
    """The replication stream has the text of that moment, which no row has now; the trigger log has the row's own."""
    watch = watched(lab)
    lab.execute(*statements)
    if lab.kind == "postgres":
        with pytest.raises(SchemaChanged, match=r"pg\.t\.mood came with the text '(merry|new)'"):
            watch.source.visit()
    else:
        watch.visit(EVERYTHING)
        watch.assert_complete()


def test_a_virtual_generated_column_is_refused_by_both_kinds() -> None:
    """Its values are in no log, and ALTER COLUMN ... SET EXPRESSION changes them all at once."""
    virtual = ColumnFacts("v", 1, 25, -1, "1", "text", "text", STRING, generated="v")
    assert not any(usable(virtual, kind) for kind in ("postgres", "postgres-triggers"))
    assert "STORED" in why_unusable(virtual)


def test_what_foreign_keys_do_is_delivered(lab: Lab) -> None:
    """CASCADE over several tables and back to the first, SET NULL and SET DEFAULT, of deletes and of updates: each row
    that the server changes by itself is delivered, in the transaction that caused it.
    """
    lab.execute(
        "CREATE TABLE a (id int PRIMARY KEY, boss int REFERENCES a ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE c (id int PRIMARY KEY, b int REFERENCES b ON DELETE CASCADE ON UPDATE SET NULL)",
        "CREATE TABLE d (id int PRIMARY KEY, c int DEFAULT 0 REFERENCES c ON DELETE SET DEFAULT ON UPDATE CASCADE,"
        " a int REFERENCES a ON DELETE SET NULL ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO a VALUES (1, NULL), (2, 1), (3, 2), (4, NULL)",
        "INSERT INTO b VALUES (10, 1), (11, 3), (12, 4)",
        "INSERT INTO c VALUES (0, NULL), (20, 10), (21, 11), (22, 12)",
        "INSERT INTO d VALUES (30, 20, 3), (31, 22, 4), (32, 21, 1)",
    )
    lab.capture("a", "b", "c", "d")
    watch = lab.watch(a=("id", "boss"), b=("id", "a"), c=("id", "b"), d=("id", "c", "a"))
    everything = [Lookup(relation, columns) for relation, columns in watch.columns.items()]
    lab.execute("UPDATE a SET id = 100 WHERE id = 1")
    visit = watch.visit(*everything)
    assert len(visit.transactions) == 1
    assert sorted(row[:3] for row in changes(visit, "b")) == [(10, 1, -1), (10, 100, 1)]
    lab.execute("UPDATE b SET id = 110 WHERE id = 10")
    watch.visit(*everything)
    lab.execute("DELETE FROM a WHERE id = 100")
    visit = watch.visit(*everything)
    assert len(visit.transactions) == 1
    assert sorted(row[:2] for row in changes(visit, "a")) == [(2, 100), (3, 2), (100, None)]
    lab.execute("DELETE FROM b WHERE id = 12", "DELETE FROM a")
    watch.visit(*everything)
    watch.assert_complete()
    assert lab.query("SELECT id, c, a FROM d ORDER BY id")[0][0] == 30
