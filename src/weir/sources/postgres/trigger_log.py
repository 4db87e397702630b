"""The trigger log: what an administrator installs so that a role with SELECT alone can be told every change.

Per logged table: a log table ``log_<oid>`` with one column ``c<number>`` per column, and triggers that run as their
owner, so that applications need no new rights. Every logged row carries its transaction's 64-bit id (which decides
whether a snapshot shows it) and a number from one sequence (which orders transactions that touched the same row).

The triggers fire ALWAYS, also under ``session_replication_role = replica``. A TRUNCATE logs the rows it removes;
under REPEATABLE READ its own snapshot may not show them all, so then it logs a mark (weight 0) instead, and the visit
reports a truncation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from weir.sources.ownership import foreign, is_foreign, refusal
from weir.sources.postgres.catalogue import ColumnFacts, TableFacts, read_tables
from weir.sources.postgres.connection import PostgresConnection
from weir.sources.postgres.options import MARKER_TABLE, PostgresOptions
from weir.sources.source import CannotWatch, SourceError

ROW_TRIGGER, TRUNCATE_TRIGGER = "weir_log", "weir_log_truncate"
INSTALL = "an administrator of the database must run `weir capture install postgres-triggers`"
DEFAULT_SCHEMA = "weir"
NOTHING = "1:1:"  # a snapshot that shows no transaction


def log_name(options: PostgresOptions, oid: int) -> sql.Identifier:
    return sql.Identifier(options.log_schema, f"log_{oid}")


def logged(column: ColumnFacts) -> sql.Identifier:
    """A column's name in the log: by number, so that no name of the table's can collide or be too long."""
    return sql.Identifier(f"c{column.number}")


def install_triggers(admin: PostgresConnection, options: PostgresOptions, tables: Iterable[str], role: str) -> None:
    """Makes the log for these tables and lets ``role`` read it, in one transaction. Again: adds what is missing."""
    names = list(tables)
    with admin.transaction():
        facts = {table.name: table for table in read_tables(admin, options.schema, "''")}
        _create_schema(admin, options)
        for name in [*names, *([MARKER_TABLE] if MARKER_TABLE in facts and MARKER_TABLE not in names else [])]:
            if name not in facts:
                raise SourceError(f"{options.name}: there is no table '{name}' in schema '{options.schema}'")
            _create_log(admin, options, facts[name])
        _grant(admin, options, role)


def remove_triggers(admin: PostgresConnection, options: PostgresOptions) -> None:
    """Takes away all that ``install_triggers`` made. The tables stay as they are."""
    with admin.transaction():
        for table in read_tables(admin, options.schema, "''"):
            _drop_triggers(admin, options, table)
        admin.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(options.log_schema)))


def _drop_triggers(admin: PostgresConnection, options: PostgresOptions, table: TableFacts) -> None:
    """Those that fill this log; another project's stay."""
    for (trigger,) in admin.execute(_TRIGGERS, (table.oid, options.log_schema)).fetchall():
        admin.execute(sql.SQL("DROP TRIGGER {} ON {}").format(sql.Identifier(trigger), _name(table)))


def trigger_names(options: PostgresOptions) -> tuple[str, str]:
    """Of the triggers on every logged table: two logs of one table have triggers of their own."""
    end = "" if options.log_schema == DEFAULT_SCHEMA else f"_{options.log_schema}"
    return f"{ROW_TRIGGER}{end}"[:63], f"{TRUNCATE_TRIGGER}{end}"[:63]


def reader_of(connection: PostgresConnection, options: PostgresOptions) -> str | None:
    """The mark of the warehouse that reads this log; None where there is none, or the log cannot hold one."""
    trimmed = sql.Identifier(options.log_schema, "trimmed")
    try:
        row = connection.execute(sql.SQL("SELECT owner FROM {}").format(trimmed)).fetchone()
    except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
    return row[0] if row is not None else None


def claim(connection: PostgresConnection, options: PostgresOptions) -> None:
    """Puts the reader's mark on the log, or refuses a log that bears another's."""
    if not options.owner:
        return
    found = reader_of(connection, options)
    if is_foreign(options.owner, found):
        raise refusal(options.name, foreign_log(options, found or ""))
    if found != options.owner:
        trimmed = sql.Identifier(options.log_schema, "trimmed")
        with suppress(psycopg.errors.UndefinedColumn):  # a log that an earlier version has made
            connection.execute(sql.SQL("UPDATE {} SET owner = {}").format(trimmed, options.owner))


def foreign_log(options: PostgresOptions, found: str) -> tuple[str, str]:
    instead = "give this one a log of its own (log_schema, and capture it there)"
    return foreign(f"the trigger log in schema '{options.log_schema}'", found, instead)


def release(admin: PostgresConnection, options: PostgresOptions) -> None:
    """Takes the reader's mark off the log: the next warehouse that reads it puts its own there."""
    admin.execute(sql.SQL("UPDATE {} SET owner = NULL").format(sql.Identifier(options.log_schema, "trimmed")))


def _name(table: TableFacts) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)


def _create_schema(admin: PostgresConnection, options: PostgresOptions) -> None:
    schema = options.log_schema
    admin.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    admin.execute(sql.SQL("CREATE SEQUENCE IF NOT EXISTS {} CACHE 1").format(sql.Identifier(schema, "seq")))
    trimmed = sql.Identifier(schema, "trimmed")
    admin.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} (snapshot pg_snapshot NOT NULL)").format(trimmed))
    admin.execute(sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS owner text").format(trimmed))
    insert = sql.SQL("INSERT INTO {t} (snapshot) SELECT {nothing} WHERE NOT EXISTS (SELECT FROM {t})")
    admin.execute(insert.format(t=trimmed, nothing=sql.Literal(NOTHING) + sql.SQL("::pg_snapshot")))


def _create_log(admin: PostgresConnection, options: PostgresOptions, table: TableFacts) -> None:
    """Anew if the table has other columns than its log, or its triggers were dropped or switched off."""
    columns = _logged_columns(table)
    log = log_name(options, table.oid)
    if not log_problem(admin, options, table):
        return
    admin.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(log))
    fields = [sql.SQL(", {} {}").format(logged(column), sql.SQL(column.shown_type)) for column in columns]
    sequence = sql.Literal(sql.Identifier(options.log_schema, "seq").as_string(admin))
    create = sql.SQL(
        "CREATE TABLE {} (seq bigint NOT NULL DEFAULT nextval({}::regclass), xid xid8 NOT NULL DEFAULT"
        " pg_current_xact_id(), weight smallint NOT NULL{})"
    )
    admin.execute(create.format(log, sequence, sql.Composed(fields)))
    admin.execute(sql.SQL("CREATE INDEX ON {} (xid)").format(log))
    _drop_triggers(admin, options, table)
    _create_triggers(admin, options, table, columns)


def log_problem(admin: PostgresConnection, options: PostgresOptions, table: TableFacts) -> str:
    """What the log of a table lacks; nothing when it has all its columns and both triggers are on."""
    found = {name: shown for name, *_, shown in _in_log(admin, options, table)}
    if not found:
        return "is not captured"
    if found != {f"c{column.number}": column.shown_type for column in _logged_columns(table)}:
        return "has other columns than its log"
    lost = "has lost triggers that capture its changes, or they are disabled"
    return "" if _triggers_on(admin, options, table) else lost


def _logged_columns(table: TableFacts) -> list[ColumnFacts]:
    return [column for column in table.columns if column.type is not None or table.name == MARKER_TABLE]


def _in_log(connection: PostgresConnection, options: PostgresOptions, table: TableFacts) -> list[Any]:
    """The columns of a table's log: name, type, modifier, type as shown; none when there is no log."""
    return connection.execute(_LOGGED, (log_name(options, table.oid).as_string(connection),)).fetchall()


def _triggers_on(connection: PostgresConnection, options: PostgresOptions, table: TableFacts) -> bool:
    on = connection.execute(f"{_TRIGGERS} AND g.tgenabled = 'A'", (table.oid, options.log_schema)).fetchall()
    return len(on) == 2


def _create_triggers(
    admin: PostgresConnection, options: PostgresOptions, table: TableFacts, columns: Sequence[ColumnFacts]
) -> None:
    log = log_name(options, table.oid)
    create = sql.SQL(
        "CREATE OR REPLACE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER"
        " SET search_path = pg_catalog, pg_temp SET row_security = off AS {}"
    )
    admin.execute(create.format(log, sql.Literal(_body(log, table, columns).as_string(admin))))
    admin.execute(sql.SQL("REVOKE ALL ON FUNCTION {}() FROM PUBLIC").format(log))
    events = ("AFTER INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW", "BEFORE TRUNCATE ON {} FOR EACH STATEMENT")
    for trigger, when in zip(trigger_names(options), events, strict=True):
        name = sql.Identifier(trigger)
        event = sql.SQL(when).format(_name(table))
        admin.execute(sql.SQL("CREATE TRIGGER {} {} EXECUTE FUNCTION {}()").format(name, event, log))
        admin.execute(sql.SQL("ALTER TABLE {} ENABLE ALWAYS TRIGGER {}").format(_name(table), name))


_BODY = """
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
      INSERT INTO {log} (weight, {names}) SELECT -1, {plain} FROM ONLY {table} AS t;
    ELSE
      INSERT INTO {log} (weight) VALUES (0);
    END IF;
    RETURN NULL;
  END IF;
  IF TG_OP <> 'INSERT' THEN
    INSERT INTO {log} (weight, {names}) VALUES (-1, {old});
  END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO {log} (weight, {names}) VALUES (1, {new});
  END IF;
  RETURN NULL;
END
"""


def _body(log: sql.Identifier, table: TableFacts, columns: Sequence[ColumnFacts]) -> sql.Composed:
    def listed(prefix: str) -> sql.Composed:
        return sql.SQL(", ").join(sql.SQL(prefix) + sql.Identifier(column.name) for column in columns)

    names = sql.SQL(", ").join(logged(column) for column in columns)
    return sql.SQL(_BODY).format(
        log=log, table=_name(table), names=names, plain=listed("t."), old=listed("OLD."), new=listed("NEW.")
    )


def _grant(admin: PostgresConnection, options: PostgresOptions, role: str) -> None:
    """Reading the log and trimming what was committed; nothing else."""
    to, schema = sql.Identifier(role), sql.Identifier(options.log_schema)
    admin.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, to))
    admin.execute(sql.SQL("GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA {} TO {}").format(schema, to))
    trimmed = sql.Identifier(options.log_schema, "trimmed")
    admin.execute(sql.SQL("REVOKE DELETE ON {} FROM {}").format(trimmed, to))
    admin.execute(sql.SQL("GRANT UPDATE ON {} TO {}").format(trimmed, to))


_LOGGED = """
SELECT a.attname, a.atttypid::int8, a.atttypmod, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 3 AND NOT a.attisdropped
"""
_TRIGGERS = """
SELECT g.tgname FROM pg_trigger g JOIN pg_proc f ON f.oid = g.tgfoid JOIN pg_namespace n ON n.oid = f.pronamespace
WHERE g.tgrelid = %s::int8::oid AND n.nspname = %s
"""


def refuse_unlogged(
    connection: PostgresConnection, options: PostgresOptions, table: TableFacts, names: Sequence[str]
) -> None:
    """Raises unless the log has these columns, with the same types, and its triggers are on."""
    try:
        found = {name: facts for name, *facts, _ in _in_log(connection, options, table)}
    except psycopg.errors.InsufficientPrivilege as problem:
        raise CannotWatch(f"{options.name}: no right to read schema '{options.log_schema}'; {INSTALL}") from problem
    for column in table.only(names):
        if found.get(f"c{column.number}") != [column.type_oid, column.type_modifier]:
            raise CannotWatch(f"{options.name}: {table.name}.{column.name} is not in the trigger log; {INSTALL}")
    if not _triggers_on(connection, options, table):
        raise CannotWatch(f"{options.name}: the log triggers of {table.name} are missing or disabled; {INSTALL}")
