"""PostgreSQL's own catalogue: tables, columns, types as ours, and marks by which a change of shape is noticed.

A change of shape never goes unnoticed, even between two runs: the position carries what each watched table looked
like. Renames, drops and new types show in the columns. An ``ALTER COLUMN ... USING`` that rewrites values under the
same type shows as a new version of the column's catalogue row together with a new file of the table; either alone is
harmless (``SET DEFAULT``; ``VACUUM FULL``, ``TRUNCATE``). Enumerations are known by their labels (``labels.py``).
``mark`` covers what feeds the change log: replica identity, membership in the publication, triggers: each a row of
the catalogue whose identity changes when it is dropped and made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row

from weir.algebra import types as t
from weir.algebra.catalog import ForeignKey, Relation
from weir.algebra.errors import TypeMismatch
from weir.sources.postgres.connection import PostgresConnection
from weir.sources.postgres.labels import LABELS_AT, renamed
from weir.sources.source import SourceError

TYPES = {
    "int2": t.SMALLINT, "int4": t.INT, "int8": t.BIGINT, "float4": t.FLOAT, "float8": t.DOUBLE, "bool": t.BOOLEAN,
    "text": t.STRING, "varchar": t.STRING, "bpchar": t.STRING, "name": t.STRING, "uuid": t.STRING,
    "json": t.STRING, "jsonb": t.STRING, "bytea": t.BINARY, "date": t.DATE,
    "timestamp": t.TIMESTAMP_NTZ, "timestamptz": t.TIMESTAMP,
}  # fmt: skip


@dataclass(frozen=True)
class ColumnFacts:
    """One column. ``kind`` is its base type's name ('enum' for any enumeration); ``type`` is None when not mappable."""

    name: str
    number: int
    type_oid: int
    type_modifier: int
    version: str  # the id of the transaction that last altered it
    shown_type: str
    kind: str
    type: t.Type | None
    generated: str = ""  # s(tored), v(irtual)
    enumeration: int = 0  # the oid of the enumeration, also under a domain
    labels: tuple[tuple[str, str], ...] = ()  # of the enumeration: (oid, label)

    def trace(self) -> list[Any]:
        facts = [self.number, self.type_oid, self.type_modifier, self.version]
        return [*facts, dict(self.labels)] if self.enumeration else facts


@dataclass(frozen=True)
class TableFacts:
    """One ordinary table of the source's schema."""

    name: str
    schema: str
    oid: int
    file: int
    mark: str
    persistence: str  # p(ermanent), u(nlogged)
    identity: str  # replica identity: d, n, f, i
    row_security: bool
    readable: bool
    pages: int
    partition: bool
    kin: str  # what a partition owes to its ancestors: how its changes are published
    children: tuple[str, ...]  # tables that inherit from it, whose rows it shows as its own
    columns: tuple[ColumnFacts, ...]

    def column(self, name: str) -> ColumnFacts | None:
        return next((column for column in self.columns if column.name == name), None)

    def only(self, names: Iterable[str]) -> tuple[ColumnFacts, ...]:
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in names)

    def trace(self, names: Iterable[str]) -> dict[str, Any]:
        """What a position keeps of this table, for ``differences`` later."""
        columns = {column.name: column.trace() for column in self.only(names)}
        return {"oid": self.oid, "file": self.file, "mark": self.mark, "kin": self.kin, "columns": columns}


CHILDREN = """
(SELECT array_agg(k.relname::text ORDER BY k.relname) FROM pg_inherits h JOIN pg_class k ON k.oid = h.inhrelid
  WHERE h.inhparent = c.oid)
"""
_TABLES = """
WITH RECURSIVE base(oid, root, modifier) AS (
    SELECT oid, oid, -1 FROM pg_type WHERE typtype <> 'd'
    UNION ALL
    SELECT t.oid, b.root, CASE WHEN t.typtypmod >= 0 THEN t.typtypmod ELSE b.modifier END
    FROM pg_type t JOIN base b ON t.typbasetype = b.oid WHERE t.typtype = 'd'
)
SELECT c.oid::int8 AS oid, c.relname AS name, n.nspname AS schema, c.relfilenode::int8 AS file,
       {mark} AS mark, c.relpersistence AS persistence, c.relreplident AS identity, c.relrowsecurity AS row_security,
       pg_relation_size(c.oid) / current_setting('block_size')::int8 AS pages,
       has_table_privilege(c.oid, 'SELECT') AS readable, c.relispartition AS partition, {kin} AS kin,
       {children} AS children,
       a.attname AS column, a.attnum AS number, a.atttypid::int8 AS type_oid, a.atttypmod AS type_modifier,
       a.xmin::text AS version, format_type(a.atttypid, a.atttypmod) AS shown_type, a.attgenerated::text AS generated,
       CASE WHEN r.typtype = 'e' THEN 'enum' WHEN r.typnamespace = 'pg_catalog'::regnamespace THEN r.typname
            ELSE '' END AS kind,
       CASE WHEN r.typtype = 'e' THEN r.oid::int8 ELSE 0 END AS enumeration,
       (SELECT json_object_agg(e.oid, e.enumlabel) FROM pg_enum e WHERE e.enumtypid = r.oid) AS labels,
       CASE WHEN a.atttypmod >= 0 THEN a.atttypmod ELSE b.modifier END AS base_modifier
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN base b ON b.oid = a.atttypid
JOIN pg_type r ON r.oid = b.root
WHERE c.relkind = 'r' AND {which}
ORDER BY c.relname, a.attnum
"""


def read_tables(
    connection: PostgresConnection, schema: str, mark: str, oids: Sequence[int] | None = None, kin: str = "''"
) -> list[TableFacts]:
    """The ordinary tables of a schema, or those with these oids. ``mark`` and ``kin`` are SQL over ``c``, with no value
    in it.
    """
    which = "n.nspname = %s" if oids is None else "n.nspname = %s AND c.oid = ANY(%s::int8[]::oid[])"
    values: tuple[Any, ...] = (schema,) if oids is None else (schema, list(oids))
    mark, kin = (text.replace("%", "%%") for text in (mark, kin))
    with connection.cursor(row_factory=dict_row) as cursor:
        query = _TABLES.format(mark=mark, kin=kin, children=CHILDREN, which=which)
        rows = cursor.execute(query, values).fetchall()
    by_table: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_table.setdefault(row["oid"], []).append(row)
    return [_table(rows) for rows in by_table.values()]


def _table(rows: Sequence[Mapping[str, Any]]) -> TableFacts:
    first = rows[0]
    plain = [field.name for field in fields(TableFacts) if field.name not in ("columns", "children")]
    children = tuple(first["children"] or ())
    return TableFacts(**{name: first[name] for name in plain}, children=children, columns=tuple(map(_column, rows)))


def _column(row: Mapping[str, Any]) -> ColumnFacts:
    return ColumnFacts(
        row["column"], row["number"], row["type_oid"], row["type_modifier"], row["version"], row["shown_type"],
        row["kind"], our_type(row["kind"], row["base_modifier"]), row["generated"], row["enumeration"],
        tuple(sorted((row["labels"] or {}).items())),
    )  # fmt: skip


def our_type(kind: str, modifier: int) -> t.Type | None:
    """Our type for a base type, or None.

    A numeric without a precision is not mappable: no decimal holds all its values.

    >>> str(our_type("numeric", ((12 << 16) | 2) + 4)), our_type("numeric", -1), str(our_type("enum", -1))
    ('decimal(12,2)', None, 'string')
    """
    if kind == "enum":
        return t.STRING
    if kind != "numeric":
        return TYPES.get(kind)
    if modifier < 4:
        return None
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    scale = (scale ^ 1024) - 1024  # an 11-bit signed number since PostgreSQL 15
    try:
        return t.decimal(precision, scale)
    except TypeMismatch:
        return None


def differences(name: str, before: Mapping[str, Any] | None, now: TableFacts | None) -> Iterator[str]:
    """What has changed about a table since ``before`` (a ``trace``; None: it begins now), as far as it matters; nothing
    when all is well.
    """
    if before is None and now is not None:
        return
    if now is None or before is None or now.oid != before["oid"]:
        yield f"table {name} was dropped" + ("" if now is None else " and made again")
        return
    if now.mark != before["mark"]:
        yield f"what feeds the change log of {name} was altered (publication, replica identity or triggers)"
    if now.kin != before.get("kin", now.kin):
        yield f"what feeds the change log of {name} was altered (it was attached to a partitioned table, or detached)"
    if now.children:
        yield f"table {name} cannot be read any more: {has_children(now)}"
    for column, facts in before["columns"].items():
        yield from _column_differences(f"{name}.{column}", facts, now.column(column), now.file != before["file"])


def _column_differences(place: str, before: Sequence[Any], now: ColumnFacts | None, rewritten: bool) -> Iterator[str]:
    number, type_oid, type_modifier, version = before[:LABELS_AT]
    if now is None or now.number != number:
        yield f"column {place} was dropped or renamed"
    elif (now.type_oid, now.type_modifier) != (type_oid, type_modifier):
        yield f"column {place} now has the type {now.shown_type}"
    elif now.version != version and rewritten:
        yield f"column {place} was altered and the table rewritten"
    elif len(before) > LABELS_AT:
        yield from renamed(place, now.shown_type, before[LABELS_AT], dict(now.labels))


def has_children(table: TableFacts) -> str:
    """Why a table that others inherit from is refused: its own log says nothing of their rows."""
    names = ", ".join(table.children)
    return (
        f"it has child tables ({names}), whose rows PostgreSQL shows as its own and logs as theirs; read the children, "
        f"put together by UNION ALL, or end it: ALTER TABLE {table.children[0]} NO INHERIT {table.name}"
    )


_NO_TABLES = f"""
SELECT c.relname, c.relkind::text, {CHILDREN} FROM pg_class c WHERE c.relkind IN ('v', 'm', 'f', 'p', 'S')
  AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)
"""
_WHY_NO_TABLE = {
    "v": "it is a view, whose changes are in no log; name the tables that it reads",
    "m": "it is a materialized view, whose refreshes are in no log; name the tables that it is made from",
    "f": "it is a foreign table, whose rows are another server's; make that one a source",
    "S": "it is a sequence",
}


def read_refused(connection: PostgresConnection, source: str, schema: str) -> dict[Relation, str]:
    """What a query could name in this schema, and a view cannot: why not."""
    found = {}
    for name, kind, parts in connection.execute(_NO_TABLES, (schema,)).fetchall():
        listed = f"read its partitions ({', '.join(parts)}), put together by UNION ALL" if parts else "it has none"
        why = f"it is a partitioned table, whose rows are logged as its partitions'; {listed}"
        found[Relation(source, name)] = _WHY_NO_TABLE.get(kind, why)
    return found


_KEYS = """
SELECT c.relname AS table, x.contype AS kind, r.relname AS target,
       (SELECT array_agg(a.attname::text ORDER BY k.at) FROM unnest(x.conkey) WITH ORDINALITY k(number, at)
        JOIN pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = k.number) AS columns,
       (SELECT array_agg(a.attname::text ORDER BY k.at) FROM unnest(x.confkey) WITH ORDINALITY k(number, at)
        JOIN pg_attribute a ON a.attrelid = x.confrelid AND a.attnum = k.number) AS references
FROM pg_constraint x JOIN pg_class c ON c.oid = x.conrelid LEFT JOIN pg_class r ON r.oid = x.confrelid
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)
  AND (x.contype = 'p' OR x.contype = 'f' AND x.convalidated AND r.relnamespace = c.relnamespace)
ORDER BY x.oid
"""
_INDEXES = """
SELECT c.relname AS table,
       (SELECT array_agg(a.attname::text ORDER BY k.at) FROM unnest(i.indkey) WITH ORDINALITY k(number, at)
        LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number AND k.number > 0
        WHERE k.at <= i.indnkeyatts) AS columns
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
JOIN pg_am m ON m.oid = x.relam
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)
  AND i.indisvalid AND i.indpred IS NULL AND m.amname IN ('btree', 'hash')
ORDER BY x.oid
"""


@dataclass(frozen=True)
class TableKeys:
    """Keys, foreign keys and indexes of one table. An index serves lookups by its leading plain columns."""

    key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()

    def serves(self, columns: Sequence[str]) -> bool:
        """Whether some index leads with one of the columns."""
        return any(index[0] in columns for index in self.indexes if index)


@dataclass(frozen=True)
class WatchedPostgresTable:
    """A watched table and its needed columns. Picklable: it goes to the tasks that read a held snapshot."""

    relation: Relation
    facts: TableFacts
    columns: tuple[ColumnFacts, ...]
    keys: TableKeys

    @property
    def name(self) -> sql.Composable:
        return sql.Identifier(self.facts.schema, self.facts.name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> ColumnFacts:
        facts = self.facts.column(name)
        if facts is None or facts.type is None:
            raise SourceError(f"{self.relation} has no usable column '{name}'")
        return facts


def read_keys(connection: PostgresConnection, schema: str) -> dict[str, TableKeys]:
    with connection.cursor(row_factory=dict_row) as cursor:
        constraints = cursor.execute(_KEYS, (schema,)).fetchall()
        indexes = cursor.execute(_INDEXES, (schema,)).fetchall()
    keys = {row["table"]: tuple(row["columns"]) for row in constraints if row["kind"] == "p"}
    foreign: dict[str, list[ForeignKey]] = {}
    for row in constraints:
        if row["kind"] == "f":
            key = ForeignKey(tuple(row["columns"]), row["target"], tuple(row["references"]))
            foreign.setdefault(row["table"], []).append(key)
    served: dict[str, list[tuple[str, ...]]] = {}
    for row in indexes:
        served.setdefault(row["table"], []).append(_leading(row["columns"]))
    names = {*keys, *foreign, *served}
    return {
        n: TableKeys(keys.get(n, ()), tuple(foreign.get(n, ())), tuple(filter(None, served.get(n, ())))) for n in names
    }


def _leading(columns: Sequence[str | None]) -> tuple[str, ...]:
    """The plain columns before the first expression."""
    leading: list[str] = []
    for column in columns:
        if column is None:
            break
        leading.append(column)
    return tuple(leading)


def relation_facts(source: str, tables: Iterable[TableFacts]) -> dict[Relation, TableFacts]:
    return {Relation(source, table.name): table for table in tables}
