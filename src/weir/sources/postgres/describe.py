"""What a PostgreSQL source has, and what is missing for Weir to read it, with the SQL that mends each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from psycopg import sql

from weir.algebra.catalog import Relation, Table
from weir.algebra.types import Column, Schema
from weir.sources.ownership import is_foreign
from weir.sources.postgres.catalogue import (
    ColumnFacts,
    TableFacts,
    TableKeys,
    has_children,
    read_keys,
    read_refused,
    read_tables,
)
from weir.sources.postgres.connection import PostgresConnection
from weir.sources.postgres.options import PostgresOptions
from weir.sources.postgres.trigger_log import INSTALL, foreign_log, reader_of
from weir.sources.source import LOAD_AGAIN, CannotWatch, Description, Finding, SchemaChanged

_SETTINGS = ("server_version", "server_encoding", "wal_level", "max_slot_wal_keep_size")
_ROLE = """
SELECT rolname, rolsuper, rolreplication OR rolsuper AS replicates FROM pg_roles WHERE rolname = current_user
"""
_UNLIMITED = "-1"
NO_ENCODING = "SQL_ASCII"
NO_ENCODING_PROBLEM = (
    "the database has no encoding (SQL_ASCII): its bytes may be no text at all",
    "make a database with ENCODING 'UTF8' and move the data there",
)
OLDEST_VERSION = 130_000


def describe(connection: PostgresConnection, options: PostgresOptions, kind: str, mark: str) -> Description:
    every = read_tables(connection, options.schema, mark)
    facts = [table for table in every if not table.children]
    refused = read_refused(connection, options.name, options.schema)
    refused |= {Relation(options.name, table.name): has_children(table) for table in every if table.children}
    keys = read_keys(connection, options.schema)
    settings = _settings(connection)
    if kind == "postgres":
        log = _replication(connection, options, settings, facts)
    else:
        log = _trigger_log(connection, options)
    findings = (*_general(connection, options, settings), *log, *_rights(options, facts))
    tables = tuple(_table(options.name, table, keys.get(table.name, TableKeys()), kind) for table in facts)
    unmapped = {Relation(options.name, table.name): found for table in facts if (found := _unmapped(table, kind))}
    return Description(tables, unmapped, tuple(findings), _rows(connection, options), refused)


def usable(column: ColumnFacts, kind: str) -> bool:
    """Whether a view may use it: its type is mappable, and the change log carries it."""
    return column.type is not None and column.generated in (("",) if kind == "postgres" else ("", "s"))


def why_unusable(column: ColumnFacts) -> str:
    if column.generated == "v":
        return f"{column.shown_type}, generated when it is read (no log has it): make it STORED"
    if column.type is not None:
        return f"{column.shown_type}, generated (logical replication does not send generated columns)"
    if column.kind == "numeric":
        return f"{column.shown_type} (needs a precision of at most 38 digits, such as numeric(38,9))"
    return column.shown_type


def _table(source: str, facts: TableFacts, keys: TableKeys, kind: str) -> Table:
    columns = [Column(c.name, c.type) for c in facts.columns if usable(c, kind) and c.type is not None]
    names = {column.name for column in columns}
    key = keys.key if set(keys.key) <= names else ()
    foreign = tuple(f for f in keys.foreign_keys if set(f.columns) <= names)
    return Table(Relation(source, facts.name), Schema(columns), key, foreign, keys.indexes)


def _unmapped(facts: TableFacts, kind: str) -> dict[str, str]:
    return {column.name: why_unusable(column) for column in facts.columns if not usable(column, kind)}


def _rows(connection: PostgresConnection, options: PostgresOptions) -> dict[Relation, int]:
    """As the planner believes; a table that was never analyzed is left out."""
    query = (
        "SELECT c.relname, c.reltuples::int8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relkind = 'r' AND c.reltuples >= 0"
    )
    return {Relation(options.name, name): rows for name, rows in connection.execute(query, (options.schema,))}


def _settings(connection: PostgresConnection) -> dict[str, str]:
    query = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"
    return dict(connection.execute(query, (list(_SETTINGS),)).fetchall())


def _general(connection: PostgresConnection, options: PostgresOptions, settings: dict[str, str]) -> Iterator[Finding]:
    if connection.info.server_version < OLDEST_VERSION:
        yield Finding("error", f"PostgreSQL {settings['server_version']} is too old", "use version 13 or newer")
    usage = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s"
    usable_schema = connection.execute(usage, (options.schema,)).fetchone()
    if usable_schema is None:
        yield Finding("error", f"there is no schema '{options.schema}'", "set schema in the source's options")
    elif not usable_schema[0]:
        grant = f"GRANT USAGE ON SCHEMA {_quoted(options.schema)} TO {_quoted(options.user)};"
        yield Finding("error", f"{options.user or 'the role'} may not use schema '{options.schema}'", grant)
    if settings["server_encoding"] == NO_ENCODING:
        yield Finding("error", *NO_ENCODING_PROBLEM)


def _rights(options: PostgresOptions, facts: Sequence[TableFacts]) -> Iterator[Finding]:
    user = options.user or "the role"
    for table in facts:
        name = _quoted(table.schema, table.name)
        if not table.readable:
            grant = f"GRANT SELECT ON {name} TO {_quoted(options.user)};"
            yield Finding("error", f"{user} may not read {name}", grant, table.name)
        if table.persistence != "p":
            mend = f"ALTER TABLE {name} SET LOGGED;"
            yield Finding("error", f"{name} is unlogged: its changes are in no log", mend, table.name)
        if table.row_security:
            yield Finding(
                "warning",
                f"{name} has row-level security: every read fails unless the role may bypass it",
                f"ALTER ROLE {_quoted(options.user)} BYPASSRLS;",
                table.name,
            )


# -- logical replication --------------------------------------------------------------------------------------------


def _replication(
    connection: PostgresConnection, options: PostgresOptions, settings: dict[str, str], facts: Sequence[TableFacts]
) -> Iterator[Finding]:
    if settings["wal_level"] != "logical":
        remedy = "ALTER SYSTEM SET wal_level = 'logical';  -- then restart the server"
        yield Finding("error", f"wal_level is '{settings['wal_level']}'", remedy)
    if settings["max_slot_wal_keep_size"] == _UNLIMITED:
        yield Finding(
            "warning",
            "max_slot_wal_keep_size is unlimited: while Weir is stopped, the slot keeps all log and may fill the disk",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf();",
        )
    role = connection.execute(_ROLE).fetchone()
    if role is not None and not role[2]:
        yield Finding("error", f"role {role[0]} lacks REPLICATION", f"ALTER ROLE {_quoted(role[0])} REPLICATION;")
    yield from _slot_findings(connection, options)
    yield from _publication_findings(connection, options, facts)


_SLOTS = """
SELECT slot_name, wal_status, active, pg_current_wal_lsn() - restart_lsn FROM pg_replication_slots
WHERE plugin = 'pgoutput' AND database = current_database() AND (slot_name = %s OR starts_with(slot_name, %s))
"""


def _slot_findings(connection: PostgresConnection, options: PostgresOptions) -> Iterator[Finding]:
    rows = connection.execute(_SLOTS, (options.slot, f"{options.slot}_")).fetchall()
    slots = {name: (status, active, kept) for name, status, active, kept in rows}
    status = slots[options.own_slot][0] if options.own_slot in slots else ""
    if status == "lost":
        yield Finding("error", f"the slot '{options.own_slot}' is lost", LOAD_AGAIN)
    if status == "unreserved":
        remedy = "run Weir, or raise max_slot_wal_keep_size"
        yield Finding("warning", f"the slot '{options.own_slot}' is about to be lost", remedy)
    ours = (options.own_slot, "" if options.own_slot in slots else options.slot)  # or from before slots had a mark
    idle = {name: int(kept or 0) for name, (_, active, kept) in slots.items() if not active and name not in ours}
    if idle and options.owner:
        yield _idle_slots(idle)
    taken = connection.execute("SELECT count(*) FROM pg_replication_slots").fetchone()
    limit = connection.execute("SELECT current_setting('max_replication_slots')::int8").fetchone()
    if options.own_slot not in slots and taken and limit and taken[0] >= limit[0]:
        remedy = "ALTER SYSTEM SET max_replication_slots = 20;  -- then restart the server"
        yield Finding("error", "all replication slots are taken", remedy)


def _idle_slots(kept: dict[str, int]) -> Finding:
    """Nobody but their users can tell a project that is stopped from one that is no more."""
    listed = ", ".join(f"'{name}' ({size / 2**20:,.0f} MB of log)" for name, size in sorted(kept.items()))
    drop = f"SELECT pg_drop_replication_slot('{max(kept, key=lambda name: kept[name])}');"
    problem = f"nobody reads the slots {listed} now: they are of warehouses that are stopped, or are no more"
    return Finding("warning", problem, f"keep those that are still needed; drop the others: {drop}")


def published_tables(connection: PostgresConnection, options: PostgresOptions) -> set[str] | None:
    """The tables of the publication, None when there is no such publication."""
    if connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (options.publication,)).fetchone() is None:
        return None
    rows = connection.execute(
        "SELECT tablename FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s",
        (options.publication, options.schema),
    ).fetchall()
    return {row[0] for row in rows}


_OPERATIONS = "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s"
_FILTERS = """
SELECT c.relname FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
JOIN pg_class c ON c.oid = r.prrelid WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)
"""
FILTERS_SINCE = 150_000


def _publication_findings(
    connection: PostgresConnection, options: PostgresOptions, facts: Sequence[TableFacts]
) -> Iterator[Finding]:
    publication = _quoted(options.publication)
    published = published_tables(connection, options)
    if published is None:
        names = ", ".join(_quoted(table.schema, table.name) for table in facts[:3]) or "..."
        create = f"CREATE PUBLICATION {publication} FOR TABLE {names};"
        yield Finding("error", f"there is no publication {publication}", create)
        return
    yield from publication_problems(connection, options)
    for table in facts:
        name = _quoted(table.schema, table.name)
        if table.partition and table.name not in published and _publishes_roots(connection, options):
            mend = f"ALTER PUBLICATION {publication} SET (publish_via_partition_root = false);"
            yield Finding("error", f"the changes of {name} are published as its partitioned table's", mend, table.name)
        elif table.name not in published:
            add = f"ALTER PUBLICATION {publication} ADD TABLE {name};"
            yield Finding("warning", f"{name} is not published", add, table.name)
        elif table.identity != "f":
            mend = f"ALTER TABLE {name} REPLICA IDENTITY FULL;"
            yield Finding("error", f"{name} does not log whole old rows", mend, table.name)


def _publishes_roots(connection: PostgresConnection, options: PostgresOptions) -> bool:
    found = connection.execute("SELECT pubviaroot FROM pg_publication WHERE pubname = %s", (options.publication,))
    row = found.fetchone()
    return row is not None and bool(row[0])


def publication_problems(connection: PostgresConnection, options: PostgresOptions) -> Iterator[Finding]:
    """What makes a publication incomplete: operations left out, row filters, column lists."""
    publication = _quoted(options.publication)
    complete = connection.execute(_OPERATIONS, (options.publication,)).fetchone()
    if complete is not None and not complete[0]:
        remedy = f"ALTER PUBLICATION {publication} SET (publish = 'insert, update, delete, truncate');"
        yield Finding("error", f"the publication {publication} leaves out some kinds of change", remedy)
    if connection.info.server_version >= FILTERS_SINCE:
        for (table,) in connection.execute(_FILTERS, (options.publication,)).fetchall():
            name = _quoted(options.schema, table)
            alter = f"ALTER PUBLICATION {publication}"
            remedy = f"{alter} DROP TABLE {name}; {alter} ADD TABLE {name};"
            yield Finding("error", f"the publication {publication} has a filter or column list for {name}", remedy)


# -- trigger log ----------------------------------------------------------------------------------------------------


def _trigger_log(connection: PostgresConnection, options: PostgresOptions) -> Iterator[Finding]:
    present = connection.execute("SELECT to_regclass(%s)", (_quoted(options.log_schema, "trimmed"),)).fetchone()
    if present is not None and present[0] is None:
        yield Finding("error", f"there is no trigger log in schema '{options.log_schema}'", INSTALL)
    elif is_foreign(options.owner, found := reader_of(connection, options)):
        yield Finding("error", *foreign_log(options, found or ""))


# -- refusals -------------------------------------------------------------------------------------------------------


def refuse_unusable(
    relation: Relation,
    facts: TableFacts | None,
    names: Sequence[str],
    options: PostgresOptions,
    kind: str,
    connection: PostgresConnection,
) -> None:
    """Raises when a view cannot use these columns of this table: names what is in the way, and the way out."""
    if facts is None:
        raise SchemaChanged(f"{relation} is not a table of schema '{options.schema}' at {options.place}")
    if facts.children:
        raise SchemaChanged(f"{relation} cannot be read by a view: {has_children(facts)}")
    for name in names:
        column = facts.column(name)
        if column is None:
            raise SchemaChanged(f"{relation} has no column '{name}' (any more)")
        if not usable(column, kind):
            raise SchemaChanged(f"{relation}.{name} cannot be used by a view: its type is {why_unusable(column)}")
    wrong = [finding for finding in _rights(options, [facts]) if finding.severity == "error"]
    log = _publication_findings(connection, options, [facts]) if kind == "postgres" else ()
    for finding in (*wrong, *log):
        raise CannotWatch(f"{relation}: {finding.problem}; run: {finding.remedy}")


def _quoted(*names: Any) -> str:
    return sql.Identifier(*names).as_string(None) if all(names) else ".".join(names)
