"""What a SQLite file has beside plain tables: views, virtual tables and their shadows are refused, the rest is read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from weir.algebra.catalog import Relation
from weir.sources.source import SourceError
from weir.sources.sqlite.capture import install
from weir.sources.sqlite.options import SqliteOptions
from weir.sources.sqlite.source import SqliteSource


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = str(tmp_path / "s.db")
    with closing(sqlite3.connect(made)) as database:
        database.executescript(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);"
            "CREATE TABLE w (k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID;"
            "CREATE VIEW seen AS SELECT id FROM t;"
            "CREATE  VIRTUAL TABLE words USING fts5(v);"
        )
    return made


def test_what_cannot_be_read_is_told_apart(path: str) -> None:
    """Each with the reason; a capture of one is refused with it, and leaves nothing behind."""
    described = SqliteSource(SqliteOptions("s", path)).describe()
    told = {relation.table: why for relation, why in described.refused.items()}
    assert {table.relation.table for table in described.tables} == {"t", "w"}
    assert told["seen"].startswith("it is a view")
    assert told["words"].startswith("it is a virtual table")
    assert told["words_data"].startswith("it holds a virtual table's own data")
    for name in ("words", "words_data"):
        with pytest.raises(SourceError, match=f"'{name}' cannot be captured: it"):
            install(path, [name])
    with pytest.raises(SourceError, match="no table 'seen'"):
        install(path, ["seen"])


def test_a_table_without_rowid_and_one_under_a_virtual_table_are_read(path: str) -> None:
    """All their changes come, also while the virtual table is written."""
    install(path, ["t", "w"])
    source = SqliteSource(SqliteOptions("s", path))
    t, w = Relation("s", "t"), Relation("s", "w")
    source.watch({t: ("id", "v"), w: ("k", "v")})
    source.load().held.release()
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "BEGIN; INSERT INTO t VALUES (1, 'a'); INSERT INTO words VALUES ('a'); INSERT INTO w VALUES ('x', 'y');"
            "UPDATE w SET v = 'z'; COMMIT;"
        )
    visit = source.visit()
    assert visit.changes[t].select(["id", "v"]).to_pylist() == [{"id": 1, "v": "a"}]
    assert visit.changes[w].select(["k", "v"]).to_pylist() == [{"k": "x", "v": v} for v in ("y", "y", "z")]
    source.close()
