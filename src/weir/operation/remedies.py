"""What to run where something is missing, in full: commands with their options, statements in the source's dialect."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from weir.algebra.quoting import backquoted, double_quoted
from weir.planning.routes import Hop
from weir.project.kinds import SourceSpec
from weir.sources.ownership import RELEASE
from weir.sources.source import Finding

_CAPTURED = ("sqlite", "postgres-triggers")


def full_remedy(spec: SourceSpec, finding: Finding, used: Sequence[str]) -> str:
    """A source's own remedy, for the tables that views use: ``weir capture install`` with all that has to stand behind
    it, a publication of those tables.
    """
    if spec.kind in _CAPTURED and "weir capture install" in finding.remedy:
        tables = [finding.table] if finding.table else used
        return f"weir capture install {spec.kind} {shlex.join(tables) or 'TABLE ...'} {_options(spec)}"
    if spec.kind in _CAPTURED and finding.remedy.endswith(RELEASE):
        return f"{finding.remedy} {spec.kind} {_log_place(spec)}"
    if used and finding.remedy.startswith("CREATE PUBLICATION"):
        names = ", ".join(f"{double_quoted(spec.options.schema)}.{double_quoted(table)}" for table in used)
        return f"CREATE PUBLICATION {double_quoted(spec.options.publication)} FOR TABLE {names};"
    return finding.remedy


def _options(spec: SourceSpec) -> str:
    if spec.kind == "sqlite":
        return _log_place(spec)
    schema = f" --schema {shlex.quote(spec.options.schema)}" if spec.options.schema != "public" else ""
    return f"{_log_place(spec)} --reader {shlex.quote(spec.options.user or 'ROLE')}{schema}"


def _log_place(spec: SourceSpec) -> str:
    """Where the log is that is to be installed or released."""
    options = spec.options
    if spec.kind == "sqlite":
        return f"--path {shlex.quote(options.path)}"
    dsn = f"postgresql://OWNER@{options.host}:{options.port}/{options.database}"
    log = f" --log-schema {shlex.quote(options.log_schema)}" if options.log_schema != "weir" else ""
    return f"--dsn {shlex.quote(dsn)} --password env:NAME{log}"


def index_statement(spec: SourceSpec, hop: Hop) -> str:
    """The index that a lookup lacks."""
    quote = backquoted if spec.kind in ("mariadb", "mariadb-locks", "mysql") else double_quoted
    table, columns = hop.relation.table, hop.lookup.key_columns
    name = quote("_".join([table, *columns]))
    place = quote(table)
    if spec.kind.startswith("postgres"):
        name, place = "", f"{quote(spec.options.schema)}.{place}"
    statement = f"CREATE INDEX {name + ' ' if name else ''}ON {place}"
    return f"{statement} ({', '.join(map(quote, columns))});"
