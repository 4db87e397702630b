"""What logical replication needs in the database, made and taken away: the publication, and whole old rows in the log.

Every statement is told before it is run, so that a dry run prints exactly what an installation does. The slot is not
made here: a first load makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from psycopg import sql

from weir.sources.postgres.catalogue import TableFacts, read_tables
from weir.sources.postgres.connection import PostgresConnection
from weir.sources.postgres.describe import publication_problems, published_tables
from weir.sources.postgres.options import PostgresOptions
from weir.sources.source import SourceError

FULL = "f"


def plan_publication(connection: PostgresConnection, options: PostgresOptions, tables: Sequence[str]) -> list[str]:
    """The statements that are still needed so that all changes of these tables are published whole."""
    facts = {table.name: table for table in read_tables(connection, options.schema, "''")}
    if unknown := [name for name in tables if name not in facts]:
        raise SourceError(f"{options.name}: there is no table '{unknown[0]}' in schema '{options.schema}'")
    statements = [*_publication(connection, options, tables), *(_whole_rows(facts[name]) for name in tables)]
    return [statement for statement in statements if statement]


def _publication(connection: PostgresConnection, options: PostgresOptions, tables: Sequence[str]) -> Iterator[str]:
    publication = sql.Identifier(options.publication)
    names = [sql.Identifier(options.schema, name) for name in tables]
    published = published_tables(connection, options)
    if published is None:
        listed = sql.SQL(", ").join(names)
        yield _text(connection, sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(publication, listed))
        return
    missing = [name for table, name in zip(tables, names, strict=True) if table not in published]
    if missing:
        listed = sql.SQL(", ").join(missing)
        yield _text(connection, sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(publication, listed))
    for problem in publication_problems(connection, options):
        yield problem.remedy.rstrip(";")


def _whole_rows(table: TableFacts) -> str:
    if table.identity == FULL:
        return ""
    name = sql.Identifier(table.schema, table.name).as_string(None)
    return f"ALTER TABLE {name} REPLICA IDENTITY FULL"


def plan_removal(connection: PostgresConnection, options: PostgresOptions) -> list[str]:
    """The statements that drop the slot and the publication. REPLICA IDENTITY stays: others may need it."""
    statements = plan_release(connection, options)
    if published_tables(connection, options) is not None:
        drop = sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(options.publication))
        statements.append(_text(connection, drop))
    return statements


def plan_release(connection: PostgresConnection, options: PostgresOptions) -> list[str]:
    """The statement that drops the slot of just this name."""
    slot = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND plugin = 'pgoutput' AND database = %s"
    if not connection.execute(slot, (options.slot, options.database)).fetchone():
        return []
    return [_text(connection, sql.SQL("SELECT pg_drop_replication_slot({})").format(sql.Literal(options.slot)))]


def _text(connection: PostgresConnection, statement: sql.Composed) -> str:
    return statement.as_string(connection)
