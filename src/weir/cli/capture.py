"""``weir capture``: put into a database what its changes are seen by, take it out again, and look at it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from weir.algebra.errors import WeirError
from weir.cli.terminal import print_lines
from weir.project.kinds import KINDS as KINDS_OF_SOURCE
from weir.project.kinds import dsn_keys, specify
from weir.sources.installing import Capture

KINDS = tuple(name for name, kind in KINDS_OF_SOURCE.items() if kind.capture)
_SOURCE = "source"  # the name of a source that is given by options

capture_app = typer.Typer(help="Install, remove and inspect what captures changes in a database.", no_args_is_help=True)

KindArgument = Annotated[str, typer.Argument(help=f"The kind of source: {', '.join(KINDS)}.", metavar="KIND")]
TablesArgument = Annotated[list[str], typer.Argument(help="The tables to capture.", metavar="TABLE")]
SomeTables = Annotated[list[str] | None, typer.Argument(help="Only these tables.", metavar="TABLE")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
PathOption = Annotated[str, typer.Option(help="SQLite: the file.")]
Dsn = Annotated[str, typer.Option(help="Servers: postgresql:// or mysql://USER@HOST:PORT/DATABASE, without password.")]
HostOption = Annotated[str, typer.Option(help="Servers: where.")]
Port = Annotated[int, typer.Option(help="Servers: the port; 0 is the kind's own.")]
DatabaseOption = Annotated[str, typer.Option(help="Servers: the database.")]
User = Annotated[str, typer.Option(help="Servers: an account that may do this (the tables' owner).")]
Password = Annotated[str, typer.Option(help="Servers: env:NAME or file:PATH, never the password itself.")]
SchemaOption = Annotated[str, typer.Option(help="PostgreSQL: the tables' schema.")]
ReaderOption = Annotated[str, typer.Option(help="postgres-triggers: the role that shall read the log.")]
LogSchemaOption = Annotated[str, typer.Option("--log-schema", help="postgres-triggers: the log's schema.")]
Publication = Annotated[str, typer.Option(help="postgres: the publication.")]
SlotOption = Annotated[str, typer.Option(help="postgres: the replication slot, by its full name.")]
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

    def capture(self) -> Capture:
        """What the kind needs; its driver is loaded only now."""
        if self.kind not in KINDS:
            raise WeirError(f"unknown kind '{self.kind}': use one of {', '.join(KINDS)}")
        if not self.path and self.kind == "sqlite":
            raise WeirError("sqlite: name the file: --path FILE")
        options = specify(_SOURCE, self.kind, self._keys()).options
        return KINDS_OF_SOURCE[self.kind].capture_class(options, self.reader)

    def _keys(self) -> dict[str, Any]:
        """The options that were given and that the kind has; what the DSN says wins over them."""
        kind = KINDS_OF_SOURCE[self.kind]
        address = dsn_keys(self.dsn) if kind.server else {}
        if kind.server and not (address.get("database") or self.database):
            raise WeirError(f"{self.kind}: name the database: --database NAME, or --dsn")
        given = {**asdict(self), kind.authority: self.authority, "port": self.port or None, **address}
        wanted = {key: value for key, value in given.items() if key in kind.keys and value not in ("", None)}
        return {key: value for key, value in wanted.items() if key != "dsn"}


@capture_app.command()
def install(
    kind: KindArgument, tables: TablesArgument, path: PathOption = "", dsn: Dsn = "", host: HostOption = "localhost",
    port: Port = 0, database: DatabaseOption = "", user: User = "", password: Password = "",
    schema: SchemaOption = "public", reader: ReaderOption = "", log_schema: LogSchemaOption = "weir",
    publication: Publication = "weir", plaintext: Plaintext = False, authority: Authority = "", dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Capture the changes of these tables from now on. May be repeated, for instance after ALTER TABLE."""
    given = Given(
        kind, path, dsn, host, port, database, user, password, schema, reader, log_schema, publication,
        allow_plaintext=plaintext, authority=authority,
    )  # fmt: skip
    print_lines(given.capture().install(tables, dry_run))


@capture_app.command()
def remove(
    kind: KindArgument, path: PathOption = "", dsn: Dsn = "", host: HostOption = "localhost", port: Port = 0,
    database: DatabaseOption = "", user: User = "", password: Password = "", schema: SchemaOption = "public",
    log_schema: LogSchemaOption = "weir", publication: Publication = "weir", slot: SlotOption = "weir",
    plaintext: Plaintext = False, authority: Authority = "", dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Take out all that capture has put into a database. The tables stay as they are."""
    given = Given(
        kind, path, dsn, host, port, database, user, password, schema, "", log_schema, publication, slot, plaintext,
        authority,
    )  # fmt: skip
    print_lines(given.capture().remove(dry_run))


@capture_app.command()
def release(
    kind: KindArgument, path: PathOption = "", dsn: Dsn = "", host: HostOption = "localhost", port: Port = 0,
    database: DatabaseOption = "", user: User = "", password: Password = "", schema: SchemaOption = "public",
    log_schema: LogSchemaOption = "weir", slot: SlotOption = "weir", plaintext: Plaintext = False,
    authority: Authority = "", dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Take away what one warehouse owns: its mark on a log, so that another may read it, or the slot of this name."""
    given = Given(
        kind, path, dsn, host, port, database, user, password, schema, "", log_schema, slot=slot,
        allow_plaintext=plaintext, authority=authority,
    )  # fmt: skip
    print_lines(given.capture().release(dry_run))


@capture_app.command()
def status(
    kind: KindArgument, tables: SomeTables = None, path: PathOption = "", dsn: Dsn = "", host: HostOption = "localhost",
    port: Port = 0, database: DatabaseOption = "", user: User = "", password: Password = "",
    schema: SchemaOption = "public", log_schema: LogSchemaOption = "weir", publication: Publication = "weir",
    slot: SlotOption = "weir", plaintext: Plaintext = False, authority: Authority = "",
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
