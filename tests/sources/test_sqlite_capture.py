"""The trigger log: whatever statements an application runs, it replays to the table; and it comes and goes cleanly."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weir.algebra.catalog import Relation
from weir.proving.oracle import ReplayedSource
from weir.sources.source import SourceError
from weir.sources.sqlite import SqliteOptions, SqliteSource
from weir.sources.sqlite.capture import install, remove

SHAPES = {
    "plain key and a unique column": "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER UNIQUE, c TEXT)",
    "key that is no rowid": "CREATE TABLE t (a INT, b INT, c TEXT, PRIMARY KEY (a, b))",
    "without rowid": "CREATE TABLE t (a INT, b INT, c TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID",
    "without rowid, loose text key": "CREATE TABLE t (a INT, b INT, c TEXT COLLATE NOCASE PRIMARY KEY) WITHOUT ROWID",
    "no key": "CREATE TABLE t (a INT, b INT, c TEXT)",
    "replace by constraint": """CREATE TABLE t
        (a INT UNIQUE ON CONFLICT REPLACE, b INT, c TEXT UNIQUE ON CONFLICT REPLACE)""",
    "partial and loose index": """CREATE TABLE t (a INT, b INT, c TEXT); CREATE UNIQUE INDEX u ON t (b) WHERE a > 1;
        CREATE UNIQUE INDEX v ON t (c COLLATE NOCASE)""",
    "partial index over one column, about another": """CREATE TABLE t (a INT, b INT, c TEXT);
        CREATE UNIQUE INDEX u ON t (b) WHERE a > 1""",
    "index that is stricter than its column": """CREATE TABLE t (a INT, b INT, c TEXT COLLATE NOCASE);
        CREATE UNIQUE INDEX u ON t (c COLLATE BINARY)""",
    "default in place of NULL": "CREATE TABLE t (a INTEGER PRIMARY KEY, b INT NOT NULL DEFAULT 2 UNIQUE, c TEXT)",
    "default that is a bare word": "CREATE TABLE t (a INT, b INT, c TEXT NOT NULL DEFAULT x UNIQUE) ",
    "changed by foreign keys": """CREATE TABLE t
        (a INTEGER PRIMARY KEY, b INT UNIQUE REFERENCES t ON DELETE SET NULL ON UPDATE CASCADE, c TEXT UNIQUE)""",
    "changed by triggers that replace": """CREATE TABLE t (a INTEGER PRIMARY KEY, b INT UNIQUE, c TEXT);
        CREATE TRIGGER one AFTER INSERT ON t WHEN NEW.b = 1
            BEGIN UPDATE OR REPLACE t SET b = b + 1 WHERE a <> NEW.a; END;
        CREATE TRIGGER two AFTER UPDATE ON t WHEN NEW.b = 3
            BEGIN REPLACE INTO t VALUES (OLD.a + 1, OLD.b, 'two'); SELECT RAISE(IGNORE) WHERE NEW.a = 2; END;
        CREATE TRIGGER three AFTER DELETE ON t BEGIN UPDATE t SET c = 'three' WHERE a = OLD.a + 1; END""",
    "changed by triggers of a child": """CREATE TABLE t (a INTEGER PRIMARY KEY, b INT UNIQUE, c TEXT);
        CREATE TABLE child (a INT REFERENCES t ON DELETE CASCADE);
        CREATE TRIGGER add_child AFTER INSERT ON t BEGIN INSERT INTO child VALUES (NEW.a); END;
        CREATE TRIGGER lose AFTER DELETE ON child WHEN OLD.a < 3
            BEGIN UPDATE t SET b = b + 10 WHERE a = OLD.a + 1; UPDATE t SET c = 'lose' WHERE a > OLD.a; END""",
    "generated unique column": """CREATE TABLE t
        (a INT, b INT, c TEXT, g TEXT AS (lower(c)) UNIQUE, s INT AS (a + b) STORED UNIQUE)""",
    "column named rowid": "CREATE TABLE t (a INTEGER PRIMARY KEY, b INT, c TEXT, rowid INT DEFAULT 3 UNIQUE)",
    "table named new": 'CREATE TABLE "new" (a INTEGER PRIMARY KEY, b INT UNIQUE, c TEXT)',
}
STATEMENTS = (
    "INSERT INTO {t} (a, b, c) VALUES (:a, :b, :c)",
    "INSERT OR REPLACE INTO {t} (a, b, c) VALUES (:a, :b, :c), (:b, :a, :c)",
    "REPLACE INTO {t} (a, b, c) SELECT b, a, c FROM {t}",
    "INSERT OR IGNORE INTO {t} (a, b, c) VALUES (:a, :b, :c)",
    "INSERT INTO {t} (a, b, c) VALUES (:a, :b, :c) ON CONFLICT DO UPDATE SET b = b + 1, c = c || 'u'",
    "INSERT INTO {t} (a, b, c) VALUES (:a, :b, :c) ON CONFLICT DO NOTHING",
    "UPDATE {t} SET a = :a WHERE b = :b",
    "UPDATE OR REPLACE {t} SET a = :a, c = :c WHERE b <= :b",
    "UPDATE OR REPLACE {t} SET b = :b",
    "UPDATE OR IGNORE {t} SET b = :b, c = :c WHERE a >= :a",
    "UPDATE OR REPLACE {t} SET _rowid_ = :a WHERE b = :b",
    "DELETE FROM {t} WHERE a = :a OR c = :c",
    "DELETE FROM {t}",
)
Step = tuple[int, int | None, int | None, str | None]
STEPS = st.lists(
    st.tuples(
        st.integers(0, len(STATEMENTS) - 1), st.none() | st.integers(0, 4), st.none() | st.integers(0, 4),
        st.none() | st.sampled_from("xXyY"),
    ),
    max_size=25,
)  # fmt: skip


@contextlib.contextmanager
def database(schema: str) -> Iterator[tuple[Path, sqlite3.Connection]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.executescript(schema)
            writer.execute("PRAGMA synchronous = OFF")
            yield path, writer


@pytest.mark.parametrize("shape", SHAPES)
@given(steps=STEPS, recursive=st.booleans(), together=st.booleans())
@example(steps=[(0, 1, 1, "x"), (0, 2, 2, "y"), (1, 1, 2, "y")], recursive=False, together=False)
@example(steps=[(0, 1, 1, "x"), (3, 1, 2, "x"), (8, 1, 4, "y"), (0, 3, 3, "z")], recursive=False, together=True)
@example(steps=[(0, None, 0, None), (0, None, 0, None), (7, 0, 0, None)], recursive=False, together=False)
@example(steps=[(0, 0, 0, None), (0, 2, 0, "x"), (7, 2, 0, "x")], recursive=False, together=False)
@example(steps=[(0, 1, None, "x"), (0, 2, 1, "y"), (1, 1, None, "z")], recursive=False, together=False)
@example(steps=[(0, 1, 3, "x"), (0, 2, 2, "y"), (1, 1, 4, "z")], recursive=False, together=False)
@example(steps=[(0, 1, 1, "x"), (0, 2, 2, "X"), (7, 1, 1, "X")], recursive=False, together=False)
@example(steps=[(0, None, 1, None), (0, None, None, None), (10, 2, 1, None)], recursive=False, together=False)
@settings(max_examples=30, deadline=None)
def test_any_statements_replay_to_the_table(shape: str, steps: list[Step], recursive: bool, together: bool) -> None:
    """Inserts, upserts, REPLACE by key, constraint or update, IGNORE, key changes:

    each is captured exactly, on any table.
    """
    name = "new" if "new" in shape else "t"
    with database(SHAPES[shape]) as (path, writer):
        install(path, [name])
        writer.execute(f"PRAGMA recursive_triggers = {recursive}")
        writer.execute("PRAGMA foreign_keys = ON")
        source = SqliteSource(SqliteOptions("shop", str(path)))
        names = [column for (column,) in writer.execute("SELECT name FROM pragma_table_xinfo(?)", (name,))]
        follower = ReplayedSource(source, {Relation("shop", name): names})
        with contextlib.closing(source):
            writer.execute("BEGIN") if together else None
            for number, *values in steps:
                with contextlib.suppress(sqlite3.IntegrityError, sqlite3.OperationalError):
                    writer.execute(STATEMENTS[number].format(t=f'"{name}"'), dict(zip("abc", values, strict=True)))
                if not together:
                    follower.check()
            writer.execute("COMMIT") if together else None
            follower.check()


def test_rows_that_a_replace_takes_along() -> None:
    """A foreign key's cascade, and a trigger of the application, are captured with it."""
    schema = """
    CREATE TABLE p (id INTEGER PRIMARY KEY, up INT REFERENCES p ON DELETE CASCADE);
    CREATE TABLE c (id INTEGER PRIMARY KEY, p INT REFERENCES p ON DELETE CASCADE);
    CREATE TABLE audit (n INT);
    CREATE TRIGGER own AFTER INSERT ON p BEGIN INSERT INTO audit VALUES (NEW.id); DELETE FROM c WHERE id = 100; END;
    """
    with database(schema) as (path, writer):
        install(path, ["p", "c", "audit"])
        source = SqliteSource(SqliteOptions("shop", str(path)))
        columns = {"p": ("id", "up"), "c": ("id", "p"), "audit": ("n",)}
        follower = ReplayedSource(source, {Relation("shop", table): names for table, names in columns.items()})
        writer.execute("PRAGMA foreign_keys = ON")
        writer.execute("INSERT INTO p VALUES (1, NULL), (2, 1), (3, 2), (4, NULL)")
        writer.execute("INSERT INTO c VALUES (10, 1), (20, 2), (30, 3), (40, 4), (100, 4)")
        follower.check()
        writer.execute("INSERT OR REPLACE INTO p VALUES (1, NULL)")
        follower.check()
        writer.execute("DELETE FROM p WHERE id = 4")
        follower.check()
        assert writer.execute("SELECT count(*) FROM c").fetchone() == (0,)
        source.close()


def objects(writer: sqlite3.Connection) -> list[tuple[str, str]]:
    return writer.execute("SELECT type, name FROM sqlite_master ORDER BY name").fetchall()


def test_installing_again_changes_nothing_and_removing_leaves_nothing() -> None:
    """Both may be repeated; everything of ours has a name that begins with weir_."""
    with database(SHAPES["plain key and a unique column"] + "; INSERT INTO t VALUES (1, 1, 'x')") as (path, writer):
        before = objects(writer)
        assert install(path, ["t"]) == ["t"]
        installed = objects(writer)
        assert install(path, ["T"]) == []
        assert objects(writer) == installed
        ours = {name.removeprefix("sqlite_autoindex_") for _, name in set(installed) - set(before)}
        assert len(ours) > 6
        assert [name for name in ours if not name.startswith("weir_")] == []
        assert len(remove(path)) > 6
        assert remove(path) == []
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert objects(writer) == before
        assert writer.execute("SELECT * FROM t").fetchall() == [(1, 1, "x")]


def test_an_altered_table_gets_new_triggers() -> None:
    """After ALTER TABLE the trigger set is outdated, which install notices; a fitting one is left alone."""
    with database("CREATE TABLE t (a INT); CREATE TABLE u (a INT)") as (path, writer):
        install(path, ["t", "u"])
        writer.execute("ALTER TABLE t ADD COLUMN b TEXT")
        assert install(path, ["t", "u"]) == ["t"]
        source = SqliteSource(SqliteOptions("shop", str(path)))
        follower = ReplayedSource(source, {Relation("shop", "t"): ("a", "b")})
        writer.execute("INSERT INTO t VALUES (1, 'x')")
        follower.check()
        source.close()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("CREATE TABLE t (a TEXT); CREATE UNIQUE INDEX low ON t (lower(a))", "unique index over an expression"),
        ("CREATE TABLE t (rowid INT, _rowid_ INT, oid INT)", "named rowid, _rowid_ and oid"),
        (
            "CREATE TABLE t (a INT); CREATE TRIGGER mine BEFORE INSERT ON t BEGIN DELETE FROM t WHERE a = NEW.a; END",
            "BEFORE trigger 'mine'",
        ),
        ("CREATE TABLE other (a INT)", "no table 't'"),
        ("CREATE VIEW t AS SELECT 1 AS a", "no table 't'"),
    ],
)
def test_tables_that_cannot_be_captured_exactly_are_refused(schema: str, words: str) -> None:
    """Better no capture than one with a gap; nothing is left half installed."""
    with database(schema) as (path, writer):
        before = objects(writer)
        with pytest.raises(SourceError, match=words):
            install(path, ["t"])
        assert objects(writer) == before


def test_wide_tables() -> None:
    """The log grows with the widest table."""
    names = [f"c{number}" for number in range(300)]
    wide = ", ".join(f"{name} INT" for name in names)
    with database(f"CREATE TABLE t ({wide}); CREATE TABLE u (a INT)") as (path, writer):
        install(path, ["u", "t"])
        source = SqliteSource(SqliteOptions("shop", str(path)))
        follower = ReplayedSource(source, {Relation("shop", "t"): names})
        writer.execute(f"INSERT INTO t VALUES ({', '.join('?' * 300)})", range(300))
        writer.execute("UPDATE t SET c299 = 0")
        follower.check()
        source.close()


IDENTIFIERS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12
).filter(lambda name: not name.lower().startswith(("sqlite_", "weir_")))
NASTY = (
    'a"b',
    "a'b",
    "a;b",
    "a b",
    "--",
    "/*",
    "*/",
    "];[",
    "`",
    "?1",
    ":x",
    "NEW",
    "OLD",
    "select",
    "t); DROP TABLE t;--",
)


@given(
    table=IDENTIFIERS | st.sampled_from(NASTY),
    names=st.lists(IDENTIFIERS | st.sampled_from(NASTY), min_size=2, max_size=4, unique_by=str.lower),
    values=st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(NASTY), min_size=1),
)
@settings(max_examples=80, deadline=None)
def test_names_and_values_inject_nothing(table: str, names: list[str], values: list[str | None]) -> None:
    """Whatever tables, columns and values are called, capture is exact, and removal leaves the schema as it was."""

    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    made = ", ".join(f"{quoted(name)} TEXT" for name in names)
    schema = f"CREATE TABLE {quoted(table)} ({made}, PRIMARY KEY ({quoted(names[0])})); CREATE TABLE safe (a INT)"
    if table.lower() == "safe" or len({name.casefold() for name in names}) < len(names):
        return
    with database("") as (path, writer):
        try:
            writer.executescript(schema)
        except sqlite3.Error:
            return  # SQLite itself has no such name
        before = objects(writer)
        install(path, [table])
        source = SqliteSource(SqliteOptions("shop", str(path)))
        follower = ReplayedSource(source, {Relation("shop", table): names})
        for value in values:
            writer.execute(f"INSERT OR REPLACE INTO {quoted(table)} ({quoted(names[0])}) VALUES (?)", (value,))
            follower.check()
        writer.execute(f"UPDATE {quoted(table)} SET {quoted(names[1])} = {quoted(names[0])}")
        follower.check()
        source.close()
        remove(path)
        assert objects(writer) == before
