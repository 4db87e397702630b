"""``weir capture``: put into a database what its changes are seen by, take it out again, and look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

import typer

from weir.algebra.errors import WeirError
from weir.cli.terminal import print_lines

KINDS = ("sqlite", "postgres-triggers", "postgres", "mariadb", "mysql")
_SOURCE = "source"  # the name of a source that is given by options

capture_app = typer.Typer(help="Install, remove and inspect what captures changes in a database.", no_args_is_help=True)

Kind = Annotated[str, typer.Argument(help=f"The kind of source: {', '.join(KINDS)}.", metavar="KIND")]
Tables = Annotated[list[str], typer.Argument(help="The tables to capture.", metavar="TABLE...")]
SomeTables = Annotated[list[str] | None, typer.Argument(help="Only these tables.", metavar="[TABLE...]")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
Path = Annotated[str, typer.Option(help="SQLite: the file.")]
Dsn = Annotated[str, typer.Option(help="Servers: postgresql:// or mysql://USER@HOST:PORT/DATABASE, without password.")]
Host = Annotated[str, typer.Option(help="Servers: where.")]
Port = Annotated[int, typer.Option(help="Servers: the port; 0 is the kind's own.")]
Database = Annotated[str, typer.Option(help="Servers: the database.")]
User = Annotated[str, typer.Option(help="Servers: an account that may do this (the tables' owner).")]
Password = Annotated[str, typer.Option(help="Servers: env:NAME or file:PATH, never the password itself.")]
Schema = Annotated[str, typer.Option(help="PostgreSQL: the tables' schema.")]
Reader = Annotated[str, typer.Option(help="postgres-triggers: the role that shall read the log.")]
Name = Annotated[str, typer.Option("--log-schema", help="postgres-triggers: the log's schema.")]
Publication = Annotated[str, typer.Option(help="postgres: the publication.")]
Slot = Annotated[str, typer.Option(help="postgres: the replication slot (removed by remove).")]
Authority = Annotated[str, typer.Option("--ca", help="Servers: the file with the authority's certificate, for TLS.")]
Plaintext = Annotated[bool, typer.Option("--allow-plaintext", help="Servers: without TLS to another host.")]


@dataclass(frozen=True)
class Given:
    """The source as the options give it."""

    kind: str
    path: str = ""
    dsn: str = ""
    host: str = "localhost"
    port: int = 0
    database: str = ""
    user: str = ""
    password: str = ""
    schema: str = "public"
    reader: str = ""
    log_schema: str = "weir"
    publication: str = "weir"
    slot: str = "weir"
    allow_plaintext: bool = False
    authority: str = ""

    def capture(self) -> Any:
        """What the kind needs; its driver is loaded only now."""
        if self.kind not in KINDS:
            raise WeirError(f"unknown kind '{self.kind}': use one of {', '.join(KINDS)}")
        from weir.sources import capture as kinds

        if self.kind == "sqlite":
            if not self.path:
                raise WeirError("sqlite: name the file: --path FILE")
            return kinds.SqliteCapture(self.path)
        if self.kind in ("mariadb", "mysql"):
            return kinds.MysqlCapture(self._mysql())
        if self.kind == "postgres":
            return kinds.PostgresCapture(self._postgres())
        return kinds.PostgresTriggersCapture(self._postgres(), self.reader)

    def _postgres(self) -> Any:
        from weir.sources.postgres.options import PostgresOptions

        return PostgresOptions(
            _SOURCE, **self._address(5432), schema=self.schema, log_schema=self.log_schema,
            publication=self.publication, slot=self.slot, sslrootcert=self.authority,
        )  # fmt: skip

    def _mysql(self) -> Any:
        from weir.sources.mysql.options import MysqlOptions

        return MysqlOptions(_SOURCE, kind=self.kind, tls_ca=self.authority, **self._address(3306))

    def _address(self, port: int) -> dict[str, Any]:
        """Host, port, database, user: from the DSN where it says so, else from the options."""
        parts = urlsplit(self.dsn)
        if parts.password is not None:
            raise WeirError("--dsn must not hold the password, which others could see: use --password env:NAME")
        database = unquote(parts.path.removeprefix("/")) or self.database
        if not database:
            raise WeirError(f"{self.kind}: name the database: --database NAME, or --dsn")
        return {
            "host": parts.hostname or self.host, "port": parts.port or self.port or port, "database": database,
            "user": unquote(parts.username or "") or self.user, "password": self.password,
            "allow_plaintext": self.allow_plaintext,
        }  # fmt: skip


@capture_app.command()
def install(
    kind: Kind, tables: Tables, path: Path = "", dsn: Dsn = "", host: Host = "localhost", port: Port = 0,
    database: Database = "", user: User = "", password: Password = "", schema: Schema = "public", reader: Reader = "",
    log_schema: Name = "weir", publication: Publication = "weir", plaintext: Plaintext = False,
    authority: Authority = "", dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Capture the changes of these tables from now on. May be repeated, for instance after ALTER TABLE."""
    given = Given(
        kind, path, dsn, host, port, database, user, password, schema, reader, log_schema, publication,
        allow_plaintext=plaintext, authority=authority,
    )  # fmt: skip
    print_lines(given.capture().install(tables, dry_run))


@capture_app.command()
def remove(
    kind: Kind, path: Path = "", dsn: Dsn = "", host: Host = "localhost", port: Port = 0, database: Database = "",
    user: User = "", password: Password = "", schema: Schema = "public", log_schema: Name = "weir",
    publication: Publication = "weir", slot: Slot = "weir", plaintext: Plaintext = False,
    authority: Authority = "", dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Take out all that capture has put into a database. The tables stay as they are."""
    given = Given(
        kind, path, dsn, host, port, database, user, password, schema, "", log_schema, publication, slot, plaintext,
        authority,
    )  # fmt: skip
    print_lines(given.capture().remove(dry_run))


@capture_app.command()
def status(
    kind: Kind, tables: SomeTables = None, path: Path = "", dsn: Dsn = "", host: Host = "localhost", port: Port = 0,
    database: Database = "", user: User = "", password: Password = "", schema: Schema = "public",
    log_schema: Name = "weir", publication: Publication = "weir", slot: Slot = "weir", plaintext: Plaintext = False,
    authority: Authority = "",
) -> None:  # fmt: skip
    """Tell what is captured and what is missing; exits with 1 if that concerns the tables named or the whole source."""
    given = Given(
        kind, path, dsn, host, port, database, user, password, schema, "", log_schema, publication, slot, plaintext,
        authority,
    )  # fmt: skip
    states = given.capture().status()
    shown = [state for state in states if not state.table or not tables or state.table in tables]
    print_lines(f"{state.table}: {state.text}" if state.table else state.text for state in shown)
    missing = [table for table in tables or () if table not in {state.table for state in states if state.table}]
    if missing and any(state.table for state in states):
        raise WeirError(f"there is no table '{missing[0]}'")
    if any(not state.well and (not state.table or state.table in (tables or ())) for state in shown):
        raise typer.Exit(1)
