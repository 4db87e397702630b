"""What ``weir`` puts into a SQLite database to see its changes: tables and triggers whose names begin with ``weir_``.

| name | holds |
|---|---|
| ``weir_log`` | every captured row image, +1 for a new one and -1 for an old one, values as they are stored |
| ``weir_clock`` | one row: the number of the last change; tells transactions apart (see ``wal``) |
| ``weir_capture`` | which tables are captured, with which columns, since which change |
| ``weir_meta`` | the log's own name, and how far it has been trimmed |
| ``weir_replaced`` | rows that an INSERT or UPDATE might replace, only for the time of that statement |
| ``weir_global_transaction`` | a view: a row inserted into it names the global transaction of the current transaction |
| ``weir_capture_<event>_<table>`` | five triggers per table |

``INSERT OR REPLACE`` removes rows without firing a delete trigger (unless the writer turned ``recursive_triggers``
on). So before an insert, or an update of a unique column, a trigger notes the rows that share a unique value with the
new row; afterwards those that are gone are logged as deleted. That is exact for every unique key over columns. A
unique index over an expression cannot be watched so, and such a table is refused.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from os import PathLike

from weir.algebra.quoting import double_quoted
from weir.sources.source import SourceError
from weir.sources.sqlite.catalog import TableShape, read_shape
from weir.sources.sqlite.connection import connect, told
from weir.sources.sqlite.wal import MAGIC

INSTALL = "run `weir capture install sqlite`"
MARKER, BEGINNING = 0, -1  # in place of a capture's number: names a global transaction; a capture begins here
_EVENTS = ("before_insert", "insert", "before_update", "update", "delete")
_OWN = ("weir_log", "weir_clock", "weir_capture", "weir_meta", "weir_replaced", "weir_global_transaction")
_NEXT = "max(weir_clock.seq, (SELECT coalesce(max(seq), 0) FROM weir_log))"
_TICK = "  UPDATE weir_clock SET seq = (SELECT max(seq) FROM weir_log);\n"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS weir_log (seq INTEGER PRIMARY KEY, capture, weight, nonce, v0, v1)",
    "CREATE TABLE IF NOT EXISTS weir_replaced (n INTEGER PRIMARY KEY, capture, row, v0, v1)",
    "CREATE TABLE IF NOT EXISTS weir_clock (one INTEGER PRIMARY KEY CHECK (one = 1), magic TEXT, seq INTEGER)",
    "CREATE TABLE IF NOT EXISTS weir_capture"
    " (id INTEGER PRIMARY KEY, tbl TEXT, active INTEGER, since INTEGER, detail TEXT)",
    "CREATE TABLE IF NOT EXISTS weir_meta (name TEXT PRIMARY KEY, value)",
    f"INSERT OR IGNORE INTO weir_clock VALUES (1, '{MAGIC}', 0)",
    "INSERT OR IGNORE INTO weir_meta VALUES ('epoch', lower(hex(randomblob(8)))), ('trimmed', 0)",
    "CREATE VIEW IF NOT EXISTS weir_global_transaction (id, sources) AS SELECT NULL, NULL WHERE 0",
    "CREATE TRIGGER IF NOT EXISTS weir_capture_transaction INSTEAD OF INSERT ON weir_global_transaction BEGIN\n"
    "  INSERT INTO weir_log (seq, capture, weight, nonce, v0, v1)"
    f" SELECT {_NEXT} + 1, {MARKER}, 0, random(), NEW.id, NEW.sources FROM weir_clock;\n{_TICK}END",
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
    triggers: dict[str, str]


def install(path: str | PathLike[str], tables: Sequence[str]) -> list[str]:
    """Captures the tables, and puts the database into WAL mode.

    Returns the tables that were new or renewed; may be repeated.
    """
    with _writing(path, mode="WAL") as database:
        for statement in _TABLES:
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
            if name in _OWN or (kind == "trigger" and name.startswith("weir_capture_"))
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
    return TableCapture(identifier, table, since, tuple(kept["columns"]), unique, kept["triggers"])


def intact(database: sqlite3.Connection, capture: TableCapture) -> bool:
    """Whether its triggers are still what was installed."""
    rows = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    there = dict(rows.fetchall())
    return all(there.get(name) == text for name, text in capture.triggers.items())


# -- installing one table ---------------------------------------------------------------------------------------------


def _capture(database: sqlite3.Connection, table: str) -> bool:
    """Makes the triggers of one table; False when they are there and fit."""
    shape = read_shape(database, table)
    if shape is None:
        raise SourceError(f"there is no table '{table}' to capture: SQLite's .tables shows the names of all")
    if reason := obstacle(database, shape):
        raise SourceError(f"table '{shape.name}' {reason}")
    old = active(database, shape.name)
    whole = old is not None and intact(database, old)
    if old is not None and whole and old.columns == tuple(shape.columns) and old.unique == frozenset(shape.unique):
        return False
    # With the old triggers whole until now, nothing was missed; otherwise the log of this table begins here.
    missed = not whole or old is None or not set(shape.unique) <= old.unique
    _widen(database, len(shape.columns))
    _replace(database, shape, old, missed)
    return True


def obstacle(database: sqlite3.Connection, shape: TableShape) -> str:
    """What makes exact capture of the table impossible, with the way out; nothing for almost every table."""
    if shape.unique_expressions:
        names = ", ".join(shape.unique_expressions)
        return (
            f"has a unique index over an expression ({names}): rows that INSERT OR REPLACE removes could not be seen; "
            "make it an index over a generated column instead"
        )
    if shape.rowid == "":
        return "has columns named rowid, _rowid_ and oid: rename one of them"
    own = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE"
    for name, text in database.execute(own, (shape.name,)).fetchall():
        if not name.startswith("weir_capture_") and _writes_before(text, shape.name):
            return (
                f"has a BEFORE trigger '{name}' that uses the same table, so that a row replaced meanwhile could be "
                "missed: make it an AFTER trigger"
            )
    return ""


def _writes_before(trigger: str, table: str) -> bool:
    head, _, body = re.sub(r"\s+", " ", trigger).upper().partition(" BEGIN ")
    return " BEFORE " in head and table.upper() in body


def _widen(database: sqlite3.Connection, columns: int) -> None:
    """The log has as many value columns as the widest table."""
    for table in ("weir_log", "weir_replaced"):
        there = {name for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}
        for number in range(columns):
            if f"v{number}" not in there:
                database.execute(f"ALTER TABLE {table} ADD COLUMN v{number}")


def _replace(database: sqlite3.Connection, shape: TableShape, old: TableCapture | None, missed: bool) -> None:
    since = _begin_here(database) if missed or old is None else old.since
    database.execute("UPDATE weir_capture SET active = 0 WHERE tbl = ? COLLATE NOCASE", (shape.name,))
    cursor = database.execute(
        "INSERT INTO weir_capture (tbl, active, since, detail) VALUES (?, 1, ?, '')", (shape.name, since)
    )
    identifier = int(cursor.lastrowid or 0)
    for event in _EVENTS:
        database.execute(f"DROP TRIGGER IF EXISTS {double_quoted(f'weir_capture_{event}_{shape.name}')}")
    for statement in _Triggers(shape, identifier).all():
        database.execute(statement)
    database.execute("UPDATE weir_capture SET detail = ? WHERE id = ?", (_detail(database, shape), identifier))


def _begin_here(database: sqlite3.Connection) -> int:
    """A number of its own for the beginning of a capture, so that every position before it is smaller."""
    database.execute(
        "INSERT INTO weir_log (seq, capture, weight, nonce)"
        f" SELECT {_NEXT} + 1, {BEGINNING}, 0, random() FROM weir_clock"
    )
    database.execute(_TICK)
    (clock,) = database.execute("SELECT seq FROM weir_clock").fetchone()
    return int(clock)


def _detail(database: sqlite3.Connection, shape: TableShape) -> str:
    mine = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
    made = {name: text for name, text in database.execute(mine, (shape.name,)) if name.startswith("weir_capture_")}
    return json.dumps({"columns": list(shape.columns), "unique": shape.unique, "triggers": made})


# -- the triggers' text -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Triggers:
    """The triggers of one table, as SQL."""

    shape: TableShape
    capture: int

    def all(self) -> Iterator[str]:
        changed = self._unique_changed()
        yield self._trigger("insert", "AFTER INSERT", self._log_replaced() + self._log("NEW", 1))
        yield self._trigger("delete", "AFTER DELETE", self._forget_old() + self._log("OLD", -1))
        update = self._log_replaced(f"AND ({changed})") if changed else ""
        yield self._trigger("update", "AFTER UPDATE", update + self._log("OLD", -1) + self._log("NEW", 1))
        if changed:
            # SQLite computes generated columns of NEW, before an update, from those columns only that the trigger uses.
            everything = f"  SELECT {self._columns('NEW.')};\n"
            noted = everything + self._note(self._other_than_old())
            yield self._trigger("before_insert", "BEFORE INSERT", self._note(""))
            yield self._trigger("before_update", "BEFORE UPDATE", noted, f"WHEN {changed}")

    def _trigger(self, event: str, when: str, body: str, condition: str = "") -> str:
        name = double_quoted(f"weir_capture_{event}_{self.shape.name}")
        return f"CREATE TRIGGER {name} {when} ON {self.table} {condition} BEGIN\n{body}END"

    @property
    def table(self) -> str:
        return double_quoted(self.shape.name)

    def _columns(self, of: str = "") -> str:
        return ", ".join(of + double_quoted(name) for name in self.shape.columns)

    def _values(self, of: str = "") -> str:
        return ", ".join(f"{of}v{number}" for number in range(len(self.shape.columns)))

    def _log(self, image: str, weight: int) -> str:
        """Logs one image, and moves the clock to it."""
        return (
            f"  INSERT INTO weir_log (seq, capture, weight, nonce, {self._values()})\n"
            f"    SELECT {_NEXT} + 1, {self.capture}, {weight}, random(), {self._columns(f'{image}.')}"
            f" FROM weir_clock;\n{_TICK}"
        )

    # -- rows that REPLACE removes ----------------------------------------------------------------------------------

    def _note(self, condition: str) -> str:
        """Before: the rows that share a unique value with the new one."""
        row = f"weir_row.{self.shape.rowid}" if self.shape.rowid else "NULL"
        return (
            f"  DELETE FROM weir_replaced WHERE capture = {self.capture};\n"
            f"  INSERT INTO weir_replaced (capture, row, {self._values()})\n"
            f"    SELECT {self.capture}, {row}, {self._columns('weir_row.')} FROM {self.table} AS weir_row\n"
            f"    WHERE ({self._conflicts()}) {condition};\n"
        )

    def _conflicts(self) -> str:
        alternatives = [" AND ".join(_equal(name, collation) for name, collation in u) for u in self.shape.unique]
        if self.shape.rowid is not None:
            alternatives.append(f"weir_row.{self.shape.rowid} = NEW.{self.shape.rowid}")
        return " OR ".join(f"({alternative})" for alternative in alternatives)

    def _unique_changed(self) -> str:
        """Whether an update touches anything unique; rows are replaced only then."""
        names = dict.fromkeys(name for unique in self.shape.unique for name, _ in unique)
        parts = [f"NEW.{double_quoted(name)} IS NOT OLD.{double_quoted(name)}" for name in names]
        if self.shape.rowid is not None:
            parts.append(f"NEW.{self.shape.rowid} IS NOT OLD.{self.shape.rowid}")
        return " OR ".join(parts)

    def _other_than_old(self) -> str:
        if self.shape.rowid is not None:
            return f"AND weir_row.{self.shape.rowid} IS NOT OLD.{self.shape.rowid}"
        names = map(double_quoted, self.shape.key)
        return f"AND NOT ({' AND '.join(f'weir_row.{name} = OLD.{name}' for name in names)})"

    def _log_replaced(self, condition: str = "") -> str:
        """After: those of them that are gone are logged as deleted. The new row may have taken the place of one."""
        return (
            f"  INSERT INTO weir_log (seq, capture, weight, nonce, {self._values()})\n"
            f"    SELECT {_NEXT} + weir_replaced.n, {self.capture}, -1, random(), {self._values('weir_replaced.')}\n"
            f"    FROM weir_replaced, weir_clock WHERE weir_replaced.capture = {self.capture} {condition}\n"
            f"    AND (({self._same('weir_replaced', 'NEW')}) OR NOT EXISTS\n"
            f"      (SELECT 1 FROM {self.table} AS weir_row WHERE {self._same('weir_replaced', 'weir_row')}));\n"
            f"  DELETE FROM weir_replaced WHERE capture = {self.capture};\n"
        )

    def _forget_old(self) -> str:
        """With ``recursive_triggers`` on, a replaced row comes as a delete of its own."""
        return f"  DELETE FROM weir_replaced WHERE capture = {self.capture} AND {self._same('weir_replaced', 'OLD')};\n"

    def _same(self, noted: str, row: str) -> str:
        """Whether a noted row and ``row`` have the same place in the table."""
        if self.shape.rowid is not None:
            return f"{row}.{self.shape.rowid} = {noted}.row"
        places = list(self.shape.columns)
        return " AND ".join(f"{row}.{double_quoted(name)} = {noted}.v{places.index(name)}" for name in self.shape.key)


def _equal(name: str, collation: str) -> str:
    return f"weir_row.{double_quoted(name)} = NEW.{double_quoted(name)} COLLATE {double_quoted(collation)}"
