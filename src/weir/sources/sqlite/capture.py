"""What ``weir`` puts into a SQLite database to see its changes: tables and triggers whose names begin with ``weir_``.

| name | holds |
|---|---|
| ``weir_log`` | every captured row image, +1 for a new one and -1 for an old one, values as they are stored |
| ``weir_clock`` | one row: the number of the last change; tells transactions apart (see ``wal``) |
| ``weir_capture`` | which tables are captured, with which columns, since which change |
| ``weir_meta`` | the log's own name, and how far it has been trimmed |
| ``weir_replaced`` | rows that an INSERT or UPDATE might replace, until the next statement |
| ``weir_global_transaction`` | a view: a row inserted into it names the global transaction of the current transaction |
| ``weir_capture_<event>_<table>`` | five triggers per table |

The triggers' text is in ``triggers``, what the application's own can do to them in ``rivals``.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from os import PathLike

from weir.algebra.quoting import double_quoted
from weir.sources.source import SourceError
from weir.sources.sqlite.catalog import TableShape, no_tables, read_shape
from weir.sources.sqlite.connection import connect, told
from weir.sources.sqlite.rivals import OURS, changing_before, overtaking
from weir.sources.sqlite.triggers import EVENTS, NEXT, TICK, CaptureTriggers
from weir.sources.sqlite.wal import MAGIC

INSTALL = "run `weir capture install sqlite`"
MARKER, BEGINNING = 0, -1  # in place of a capture's number: names a global transaction; a capture begins here
VERSION = 2  # of the triggers; those of an earlier one could miss changes
_OWN = ("weir_log", "weir_clock", "weir_capture", "weir_meta", "weir_replaced", "weir_global_transaction")
_TABLES = (
    "CREATE TABLE IF NOT EXISTS weir_log (seq INTEGER PRIMARY KEY, capture, weight, nonce, v0, v1)",
    "CREATE TABLE IF NOT EXISTS weir_replaced (n INTEGER PRIMARY KEY, capture, moment, by, row, v0, v1)",
    "CREATE TABLE IF NOT EXISTS weir_clock (one INTEGER PRIMARY KEY CHECK (one = 1), magic TEXT, seq INTEGER)",
    "CREATE TABLE IF NOT EXISTS weir_capture"
    " (id INTEGER PRIMARY KEY, tbl TEXT, active INTEGER, since INTEGER, detail TEXT)",
    "CREATE TABLE IF NOT EXISTS weir_meta (name TEXT PRIMARY KEY, value)",
    f"INSERT OR IGNORE INTO weir_clock VALUES (1, '{MAGIC}', 0)",
    "INSERT OR IGNORE INTO weir_meta VALUES ('epoch', lower(hex(randomblob(8)))), ('trimmed', 0)",
    "CREATE VIEW IF NOT EXISTS weir_global_transaction (id, sources) AS SELECT NULL, NULL WHERE 0",
    "CREATE TRIGGER IF NOT EXISTS weir_capture_transaction INSTEAD OF INSERT ON weir_global_transaction BEGIN\n"
    "  INSERT INTO weir_log (seq, capture, weight, nonce, v0, v1)"
    f" SELECT {NEXT} + 1, {MARKER}, 0, random(), NEW.id, NEW.sources FROM weir_clock;\n{TICK}END",
)
_INDEXES = (
    "CREATE INDEX IF NOT EXISTS weir_replaced_by ON weir_replaced (capture, moment, by)",
    "CREATE INDEX IF NOT EXISTS weir_replaced_row ON weir_replaced (capture, row)",
)


@dataclass(frozen=True)
class TableCapture:
    """One captured table:

    its columns in the order of the log, what was unique when the triggers were made, and the triggers.
    """

    identifier: int
    table: str
    since: int  # changes after this number are in the log
    columns: tuple[str, ...]
    unique: frozenset[tuple[tuple[str, str], ...]]
    partial: frozenset[str]
    triggers: dict[str, str]
    version: int


def install(path: str | PathLike[str], tables: Sequence[str]) -> list[str]:
    """Captures the tables, and puts the database into WAL mode.

    Returns the tables that were new or renewed; may be repeated.
    """
    with _writing(path, mode="WAL") as database:
        for statement in _TABLES:
            database.execute(statement)
        _add_columns(database, "weir_replaced", ("moment", "by"))  # earlier versions made it without
        for statement in _INDEXES:
            database.execute(statement)
        return [table for table in tables if _capture(database, table)]


@contextmanager
def _writing(path: str | PathLike[str], mode: str = "") -> Iterator[sqlite3.Connection]:
    """One transaction that writes, or nothing at all; the file is put into the journal mode first, if one is given."""
    with told(path), closing(connect(path)) as database:  # closing rolls back what was not committed
        now = database.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0] if mode else ""
        if now.upper() != mode:
            raise SourceError(f"the SQLite database {path} stays in journal mode '{now}': {mode} mode is needed")
        database.execute("BEGIN IMMEDIATE")
        yield database
        database.execute("COMMIT")


def remove(path: str | PathLike[str], dry_run: bool = False) -> list[str]:
    """Takes everything of ours out of the database. Returns the names of what is (with ``dry_run``: would be) removed;
    may be repeated.
    """
    with _writing(path) as database:
        listed = database.execute("SELECT type, name FROM sqlite_master WHERE type <> 'index' ORDER BY type DESC, name")
        found = [
            (kind, name)
            for kind, name in listed.fetchall()
            if name in _OWN or (kind == "trigger" and name.startswith(OURS))
        ]
        for kind, name in () if dry_run else found:  # the triggers of a view go with it
            database.execute(f"DROP {kind} IF EXISTS {double_quoted(name)}")
    return [name for _, name in found]


def captures(database: sqlite3.Connection) -> dict[int, TableCapture]:
    """All captures that log rows may refer to, the active ones and the outdated ones."""
    rows = database.execute("SELECT id, tbl, since, detail FROM weir_capture")
    return {identifier: _stored(identifier, table, since, detail) for identifier, table, since, detail in rows}


def active(database: sqlite3.Connection, table: str) -> TableCapture | None:
    row = database.execute(
        "SELECT id, tbl, since, detail FROM weir_capture WHERE tbl = ? COLLATE NOCASE AND active", (table,)
    ).fetchone()
    return _stored(*row) if row else None


def _stored(identifier: int, table: str, since: int, detail: str) -> TableCapture:
    kept = json.loads(detail)
    unique = frozenset(tuple((name, collation) for name, collation in parts) for parts in kept["unique"])
    return TableCapture(
        identifier, table, since, tuple(kept["columns"]), unique, frozenset(kept.get("partial", ())), kept["triggers"],
        kept.get("version", 1),
    )  # fmt: skip


def intact(database: sqlite3.Connection, capture: TableCapture) -> bool:
    """Whether its triggers are still what was installed."""
    rows = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    there = dict(rows.fetchall())
    return all(there.get(name) == text for name, text in capture.triggers.items())


def fault(database: sqlite3.Connection, shape: TableShape, capture: TableCapture) -> str:
    """Why the capture may have missed changes of the table, if so."""
    if not intact(database, capture):
        return "has lost triggers that capture its changes, or they were altered"
    if capture.version < VERSION:
        return "is captured by triggers of an earlier version of weir, which could miss changes"
    if not (set(shape.unique) <= capture.unique and shape.partial <= capture.partial):
        return "has a new unique key that its triggers do not know"
    if rival := overtaking(database, shape.name):
        return f"has an AFTER trigger '{rival}' that is newer than its capture, and could end a row's turn before it"
    return ""


# -- installing one table ---------------------------------------------------------------------------------------------


def _capture(database: sqlite3.Connection, table: str) -> bool:
    """Makes the triggers of one table; False when they are there and fit."""
    shape = read_shape(database, table)
    if shape is None:
        raise SourceError(f"there is no table '{table}' to capture: SQLite's .tables shows the names of all")
    if reason := obstacle(database, shape):
        raise SourceError(f"table '{shape.name}' {reason}")
    old = active(database, shape.name)
    # With the old triggers good until now, nothing was missed; otherwise the log of this table begins here.
    missed = old is None or fault(database, shape, old) != ""
    known = old is not None and (old.columns, old.unique, old.partial) == (
        tuple(shape.columns), frozenset(shape.unique), shape.partial,
    )  # fmt: skip
    if known and not missed:
        return False
    _widen(database, len(shape.columns))
    _replace(database, shape, old, missed)
    return True


def obstacle(database: sqlite3.Connection, shape: TableShape) -> str:
    """What makes exact capture of the table impossible, with the way out; nothing for almost every table."""
    if why := no_tables(database).get(shape.name):
        return f"cannot be captured: {why}"
    if shape.unique_expressions:
        names = ", ".join(shape.unique_expressions)
        return (
            f"has a unique index over an expression ({names}): rows that INSERT OR REPLACE removes could not be seen; "
            "make it an index over a generated column instead"
        )
    if shape.rowid == "":
        return "has columns named rowid, _rowid_ and oid: rename one of them"
    if name := changing_before(database, shape.name):
        return (
            f"has a BEFORE trigger '{name}' that changes the same table, be it through others, so that a row replaced "
            "meanwhile could be missed: make it an AFTER trigger"
        )
    return ""


def _widen(database: sqlite3.Connection, columns: int) -> None:
    """The log has as many value columns as the widest table."""
    for table in ("weir_log", "weir_replaced"):
        _add_columns(database, table, [f"v{number}" for number in range(columns)])


def _add_columns(database: sqlite3.Connection, table: str, names: Sequence[str]) -> None:
    """Adds those that are not there yet."""
    there = {name for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}
    for name in names:
        if name not in there:
            database.execute(f"ALTER TABLE {table} ADD COLUMN {name}")


def _replace(database: sqlite3.Connection, shape: TableShape, old: TableCapture | None, missed: bool) -> None:
    since = _begin_here(database) if missed or old is None else old.since
    database.execute("UPDATE weir_capture SET active = 0 WHERE tbl = ? COLLATE NOCASE", (shape.name,))
    cursor = database.execute(
        "INSERT INTO weir_capture (tbl, active, since, detail) VALUES (?, 1, ?, '')", (shape.name, since)
    )
    identifier = int(cursor.lastrowid or 0)
    for event in EVENTS:
        database.execute(f"DROP TRIGGER IF EXISTS {double_quoted(f'weir_capture_{event}_{shape.name}')}")
    for statement in CaptureTriggers(shape, identifier).all():
        database.execute(statement)
    database.execute("UPDATE weir_capture SET detail = ? WHERE id = ?", (_detail(database, shape), identifier))


def _begin_here(database: sqlite3.Connection) -> int:
    """A number of its own for the beginning of a capture, so that every position before it is smaller."""
    database.execute(
        "INSERT INTO weir_log (seq, capture, weight, nonce)"
        f" SELECT {NEXT} + 1, {BEGINNING}, 0, random() FROM weir_clock"
    )
    database.execute(TICK)
    (clock,) = database.execute("SELECT seq FROM weir_clock").fetchone()
    return int(clock)


def _detail(database: sqlite3.Connection, shape: TableShape) -> str:
    mine = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
    made = {name: text for name, text in database.execute(mine, (shape.name,)) if name.startswith(OURS)}
    kept = {"columns": list(shape.columns), "unique": shape.unique, "partial": sorted(shape.partial)}
    return json.dumps({**kept, "triggers": made, "version": VERSION})
