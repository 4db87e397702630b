"""What a SQLite database says of its own tables, and how its declared types map to ours.

SQLite types its values, not its columns: a column's declared type is only a hint. So the map below says what a column
is *expected* to hold, and every value is checked against it on the way out (``values``).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from weir.algebra import types as t
from weir.algebra.catalog import Relation, Table
from weir.algebra.quoting import double_quoted

_BY_NAME = {
    "BOOLEAN": t.BOOLEAN,
    "BOOL": t.BOOLEAN,
    "DATE": t.DATE,
    "DATETIME": t.TIMESTAMP_NTZ,
    "TIMESTAMP": t.TIMESTAMP_NTZ,
    "TIMESTAMP WITHOUT TIME ZONE": t.TIMESTAMP_NTZ,
    "TIMESTAMP WITH TIME ZONE": t.TIMESTAMP,
    "TIMESTAMPTZ": t.TIMESTAMP,
}
_BY_AFFINITY = (  # in SQLite's own order: the first that occurs in the name decides
    (("INT",), t.BIGINT),
    (("CHAR", "CLOB", "TEXT"), t.STRING),
    (("BLOB", "BINARY"), t.BINARY),
    (("REAL", "FLOA", "DOUB"), t.DOUBLE),
)
_SPELLED = ("timestamp", "timestamp_ntz")  # one moment may be written with a blank or a T, and with zeros behind
_LEAST_ROW = 8  # bytes
_LISTS_SHADOWS = (3, 37, 0)
_ROWID_NAMES = ("rowid", "_rowid_", "oid")


def mapped_type(declared: str) -> t.Type | None:
    """Our type for a declared one; None where the declaration does not say what the column holds.

    >>> [str(mapped_type(d)) for d in ("INTEGER", "varchar(20)", "DECIMAL(10, 2)", "NUMERIC", "", "DATETIME")]
    ['bigint', 'string', 'decimal(10,2)', 'None', 'None', 'timestamp_ntz']
    """
    name, numbers = _parts(declared)
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name in ("DECIMAL", "NUMERIC", "DEC"):
        return _decimal(numbers)
    return next((type_ for words, type_ in _BY_AFFINITY if any(word in name for word in words)), None)


def _parts(declared: str) -> tuple[str, list[int]]:
    """The type's name in capitals, and the numbers in its parentheses."""
    match = re.fullmatch(r"([^()]*)(?:\(([^()]*)\))?([^()]*)", declared.strip())
    if match is None:
        return declared.upper(), []
    name = " ".join(f"{match[1]} {match[3]}".upper().split())
    return name, [int(number) for number in re.findall(r"\d+", match[2] or "")]


def _decimal(numbers: list[int]) -> t.Type | None:
    """A decimal needs its precision; without one, a column may hold anything."""
    if not numbers or not 1 <= numbers[0] <= t.MAX_PRECISION or sum(numbers[1:2]) > numbers[0]:
        return None
    return t.decimal(numbers[0], numbers[1] if len(numbers) > 1 else 0)


@dataclass(frozen=True)
class TableShape:
    """One table as SQLite describes it: every column with its declared type, and what makes a row unique."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]  # as declared
    nullable: frozenset[str]  # the columns of it that may hold NULLs
    rowid: str | None  # the name by which the rowid can be read; None: there is none; "": columns hide every name of it
    unique: tuple[tuple[tuple[str, str], ...], ...]  # each a list of (column, collation)
    partial: frozenset[str]  # the text of unique indexes over a part of the rows
    defaults: Mapping[str, str]  # of columns that are never NULL: what REPLACE puts in place of NULL, as SQL
    unique_expressions: tuple[str, ...]  # names of unique indexes over expressions
    indexes: tuple[tuple[str, ...], ...]

    def described(self, source: str) -> Table:
        """Without foreign keys: SQLite enforces them only for connections that ask for it, so nothing follows from one.
        """
        mapped = ((name, mapped_type(declared)) for name, declared in self.columns.items())
        schema = t.Schema(t.Column(name, type_) for name, type_ in mapped if type_ is not None)
        return Table(Relation(source, self.name), schema, self._sure_key(), indexes=self.indexes)

    def _sure_key(self) -> tuple[str, ...]:
        """The key, if rows with equal values of ours in it are one row: no NULLs, and no value with two spellings."""
        types = [mapped_type(self.columns[name]) for name in self.key]
        sure = not self.nullable and all(type_ is not None and type_.name not in _SPELLED for type_ in types)
        return self.key if sure else ()

    @property
    def unmapped(self) -> dict[str, str]:
        return {name: declared for name, declared in self.columns.items() if mapped_type(declared) is None}


def table_names(database: sqlite3.Connection) -> list[str]:
    """The user's own tables: no views, no virtual tables, nothing of SQLite's or ours."""
    listed = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    other = no_tables(database)
    return [name for name in listed if name not in other and not name.lower().startswith(("sqlite_", "weir_"))]


def no_tables(database: sqlite3.Connection) -> dict[str, str]:
    """What a query could name, and a view of ours cannot: why not."""
    found = {}
    for name, type_, text in database.execute("SELECT name, type, coalesce(sql, '') FROM sqlite_master"):
        if type_ == "view":
            found[name] = "it is a view, whose changes are in no log; name the tables that it reads"
        elif type_ == "table" and text[:14].upper() == "CREATE VIRTUAL":
            found[name] = "it is a virtual table, which takes no triggers and so has no log; name a real table"
    if sqlite3.sqlite_version_info >= _LISTS_SHADOWS:
        for (name,) in database.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'"):
            found[name] = "it holds a virtual table's own data, in a form that only that one knows"
    return found


def read_shape(database: sqlite3.Connection, table: str) -> TableShape | None:
    """The table's shape, None when there is no such table."""
    found = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
    named = database.execute(found, (table,)).fetchone()
    if named is None:
        return None
    (table,) = named
    listed = "SELECT name, type, pk, \"notnull\", dflt_value FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid"
    visible = database.execute(listed, (table,)).fetchall()
    columns = {name: declared for name, declared, *_ in visible}
    key = tuple(name for pk, name in sorted((pk, name) for name, _, pk, *_ in visible if pk))
    indexes = _indexes(database, table)
    is_rowid = not any(index.origin == "pk" for index in indexes)  # an INTEGER PRIMARY KEY, which is never NULL
    nullable = frozenset(name for name, _, pk, given, _ in visible if pk and not given and not is_rowid)
    unique = [index for index in indexes if index.unique]
    return TableShape(
        table, columns, key, nullable, _rowid_name(database, table, columns),
        tuple(index.parts for index in unique if not index.of_expression),
        frozenset(index.text for index in unique if index.partial),
        {name: _literal(database, default) for name, _, _, given, default in visible if given and default is not None},
        tuple(index.name for index in unique if index.of_expression),
        _served(indexes, key if is_rowid else ()),
    )  # fmt: skip


@dataclass(frozen=True)
class _Index:
    name: str
    unique: bool
    origin: str  # "pk" where it keeps the primary key
    partial: bool
    text: str  # empty where a constraint made it
    parts: tuple[tuple[str, str], ...]  # (column or '', collation) in order

    @property
    def of_expression(self) -> bool:
        return not all(name for name, _ in self.parts)


def _indexes(database: sqlite3.Connection, table: str) -> list[_Index]:
    text = "(SELECT coalesce(sql, '') FROM sqlite_master WHERE type = 'index' AND sqlite_master.name = listed.name)"
    listing = f'SELECT name, "unique", origin, partial, coalesce({text}, \'\') FROM pragma_index_list(?) AS listed'
    listed = database.execute(listing, (table,)).fetchall()
    parts = "SELECT coalesce(name, ''), coll FROM pragma_index_xinfo(?) WHERE \"key\" ORDER BY seqno"
    return [
        _Index(name, bool(unique), origin, bool(partial), text, tuple(database.execute(parts, (name,))))
        for name, unique, origin, partial, text in listed
    ]


def _literal(database: sqlite3.Connection, default: str) -> str:
    """A column's default as SQL that can stand anywhere: a bare word, which SQLite takes for text, is quoted."""
    if re.search(r"\(|\bcurrent_", default, re.IGNORECASE):
        return f"({default})"  # it may be another value every time
    try:
        (literal,) = database.execute(f"SELECT quote({default})").fetchone()
    except sqlite3.OperationalError:
        (literal,) = database.execute("SELECT quote(?)", (default.strip('"'),)).fetchone()
    return str(literal)


def _served(indexes: Iterable[_Index], rowid: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The columns of every index over all rows; an INTEGER PRIMARY KEY is the table itself and has none listed."""
    whole = [index for index in indexes if not index.partial and not index.of_expression]
    served = {tuple(name for name, _ in index.parts) for index in whole}
    return tuple(sorted(served | ({rowid} if rowid else set())))


def _rowid_name(database: sqlite3.Connection, table: str, columns: Mapping[str, str]) -> str | None:
    taken = {name.lower() for name in columns}
    for name in _ROWID_NAMES:
        if name in taken:
            continue
        try:
            database.execute(f"SELECT {name} FROM {double_quoted(table)} LIMIT 0")
            return name
        except sqlite3.OperationalError:
            return None
    return ""


def about_rows(database: sqlite3.Connection, shape: TableShape) -> int | None:
    """About how many rows the table has, without counting: as ANALYZE found, failing that at most its highest rowid."""
    if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'").fetchone():
        stat = database.execute("SELECT stat FROM sqlite_stat1 WHERE tbl = ? LIMIT 1", (shape.name,)).fetchone()
        if stat is not None and stat[0]:
            return int(str(stat[0]).split()[0])
    if not shape.rowid:
        return None
    (highest,) = database.execute(f"SELECT max({shape.rowid}) FROM {double_quoted(shape.name)}").fetchone()
    pages, size = (int(database.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "page_size"))
    return min(max(int(highest or 0), 0), pages * size // _LEAST_ROW)  # numbers may have gaps, or be random
