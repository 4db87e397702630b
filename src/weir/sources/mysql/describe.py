"""The catalogue: tables, columns, keys, indexes, foreign keys, settings, rights, and what is missing for exact
capture.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymysql

from weir.algebra import types as t
from weir.algebra.catalog import ForeignKey, Relation, Table
from weir.algebra.quoting import backquoted
from weir.sources.mysql.columns import MysqlColumn, our_type
from weir.sources.mysql.version import OLDEST, Version
from weir.sources.source import Description, Finding

SETTINGS = (
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "binlog_transaction_compression",
    "sync_binlog",
    "innodb_flush_log_at_trx_commit",
    "binlog_expire_logs_seconds",
    "lower_case_table_names",
)
_HIDDEN_RULES = ("CASCADE", "SET NULL", "SET DEFAULT")
_NAME = r"`(?:[^`]|``)*`"
_FOREIGN_KEY = re.compile(  # as SHOW CREATE TABLE writes it
    rf"CONSTRAINT ({_NAME}) FOREIGN KEY \(({_NAME}(?:, {_NAME})*)\) "
    rf"REFERENCES ((?:{_NAME}\.)?{_NAME}) \(({_NAME}(?:, {_NAME})*)\)([A-Z ]*)"
)
_DENIED = (1142, 1143)
Names = tuple[str, ...]


@dataclass
class Known:
    """One table of the catalogue. ``refusal``: why its changes cannot be captured; empty when they can."""

    columns: dict[str, MysqlColumn] = field(default_factory=dict)
    indexes: list[tuple[str, ...]] = field(default_factory=list)
    key: tuple[str, ...] = ()
    foreign_keys: list[ForeignKey] = field(default_factory=list)
    refusal: str = ""
    rows: int | None = None  # InnoDB's own estimate


class MysqlCatalogue:
    """Reads ``information_schema`` of one database."""

    def __init__(self, connection: Any, source: str, database: str, locks: bool = False) -> None:
        self._connection = connection
        self._locks = locks  # snapshots are opened under LOCK TABLES
        self._source = source
        self._database = database
        self.version = Version.parse(self.rows("SELECT VERSION()")[0][0])
        self.settings = self._settings()

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())

    def _settings(self) -> dict[str, str]:
        found = self.rows("SHOW GLOBAL VARIABLES WHERE variable_name IN %s", SETTINGS)
        return {name.lower(): value for name, value in found}

    def views(self) -> list[str]:
        listed = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type LIKE %s"
        return [name for (name,) in self.rows(listed, self._database, "%VIEW")]

    def tables(self) -> dict[str, Known]:
        known: dict[str, Known] = {}
        for name, kind, engine, rows in self.rows(
            "SELECT table_name, table_type, engine, table_rows FROM information_schema.tables "
            "WHERE table_schema = %s AND table_type <> 'VIEW'",
            self._database,
        ):
            known[name] = Known(refusal=_refusal(name, kind, engine), rows=None if rows is None else int(rows))
        self._add_columns(known)
        self._add_indexes(known)
        self._add_foreign_keys(known)
        return known

    def _add_columns(self, known: Mapping[str, Known]) -> None:
        for table, *column in self.rows(
            "SELECT table_name, column_name, data_type, column_type, numeric_precision, numeric_scale, "
            "datetime_precision, character_octet_length, "
            "character_set_name, collation_name, extra FROM information_schema.columns "
            "WHERE table_schema = %s ORDER BY table_name, ordinal_position",
            self._database,
        ):
            if table in known:
                one = _column(column, len(known[table].columns))
                known[table].columns[one.name] = one

    def _add_indexes(self, known: Mapping[str, Known]) -> None:
        indexes: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
        for table, index, column, not_unique, nullable, kind in self.rows(
            "SELECT table_name, index_name, column_name, non_unique, nullable, index_type FROM "
            "information_schema.statistics "
            "WHERE table_schema = %s ORDER BY table_name, index_name = 'PRIMARY' DESC, index_name, seq_in_index",
            self._database,
        ):
            if table in known and kind == "BTREE" and column is not None:
                indexes[table, index].append((column, not_unique, nullable))
        for (table, _), parts in indexes.items():
            names = tuple(part[0] for part in parts)
            known[table].indexes.append(names)
            is_key = not parts[0][1] and all(part[2] != "YES" for part in parts)
            if is_key and not known[table].key:
                known[table].key = names

    def _add_foreign_keys(self, known: Mapping[str, Known]) -> None:
        """From the tables' own definitions: the information schema shows foreign keys only to who may make some."""
        for table, one in known.items():
            for constraint, mine, target, theirs, rules in self._foreign_keys(table, one):
                if any(rule in rules for rule in _HIDDEN_RULES):
                    one.refusal = one.refusal or _cascade(table, constraint)
                if len(target) == 1:  # in this database
                    one.foreign_keys.append(ForeignKey(mine, target[0], theirs))

    def _foreign_keys(self, table: str, one: Known) -> Iterator[tuple[str, Names, Names, Names, str]]:
        try:
            ((_, text),) = self.rows(f"SHOW CREATE TABLE {backquoted(table)}".replace("%", "%%"))
        except pymysql.MySQLError as problem:
            if problem.args[0] not in _DENIED:
                raise
            one.refusal = one.refusal or f"its definition cannot be read: GRANT SELECT ON {backquoted(table)}"
            return
        for constraint, mine, target, theirs, rules in _FOREIGN_KEY.findall(text):
            yield *_names(constraint), _names(mine), _names(target), _names(theirs), rules

    def single_byte_table(self, characters: str) -> str:
        """The 256 characters of a character set, as the server itself converts them."""
        every = bytes(range(256)).hex()
        converted = self.rows(f"SELECT HEX(CONVERT(CONVERT(X'{every}' USING {characters}) USING utf32))")
        return bytes.fromhex(converted[0][0]).decode("utf-32-be")

    def blocking_findings(self) -> Iterator[Finding]:
        """What makes exact capture impossible."""
        for finding in (*setting_findings(self.version, self.settings), *self._filter_findings()):
            if finding.severity == "error":
                yield finding

    # -- what is missing ----------------------------------------------------------------------------------------------

    def findings(self, tables: Mapping[str, Known]) -> Iterator[Finding]:
        yield from setting_findings(self.version, self.settings)
        yield from self._filter_findings()
        yield from self._right_findings()
        for name, known in tables.items():
            if known.refusal:
                problem = f"table {self._source}.{name} cannot be used in a view: {known.refusal}"
                yield Finding("warning", problem, table=name)
            elif not known.key:
                yield Finding(
                    "warning",
                    f"table {self._source}.{name} has no key",
                    f"ALTER TABLE {backquoted(name)} ADD PRIMARY KEY (...)",
                    name,
                )

    def _filter_findings(self) -> Iterator[Finding]:
        """Changes of a database that is filtered out of the binlog would be lost."""
        try:
            status = self.rows(self.version.log_status)
        except Exception:  # the right is missing, which is a finding of its own
            return
        only, without = (status[0][2], status[0][3]) if status else ("", "")
        if (only and self._database not in only.split(",")) or self._database in (without or "").split(","):
            yield Finding(
                "error",
                f"database {self._database} is left out of the binlog",
                "remove binlog_do_db and binlog_ignore_db, then restart",
            )

    def _right_findings(self) -> Iterator[Finding]:
        grants = [line for (line,) in self.rows("SHOW GRANTS")]
        user = self.rows("SELECT CURRENT_USER()")[0][0]
        account = "@".join(f"'{part}'" for part in user.rsplit("@", 1))
        for right, why in (
            ("REPLICATION SLAVE", "to read the binlog"),
            (self.version.log_right, "to know where the binlog ends"),
        ):
            if not has_right(grants, right):
                yield Finding("error", f"the account {user} lacks {right}, {why}", f"GRANT {right} ON *.* TO {account}")
        locks = self._locks or not self.version.is_mariadb
        if locks and not has_right(grants, "LOCK TABLES", self._database):
            remedy = f"GRANT LOCK TABLES ON {backquoted(self._database)}.* TO {account}"
            yield Finding("error", f"the account {user} lacks LOCK TABLES, to open a snapshot at a known place", remedy)


_NO_LOG = "it is a view, whose changes are in no log; name the tables that it reads"


def describe(catalogue: MysqlCatalogue, source: str) -> Description:
    known = catalogue.tables()
    tables, unmapped = [], {}
    usable = {name: one for name, one in known.items() if not one.refusal}
    for name, one in usable.items():
        relation = Relation(source, name)
        types = {column: our_type(detail) for column, detail in one.columns.items()}
        schema = t.Schema(t.Column(column, type_) for column, type_ in types.items() if isinstance(type_, t.Type))
        if lost := {column: why for column, why in types.items() if isinstance(why, str)}:
            unmapped[relation] = lost
        key = one.key if all(column in schema.names for column in one.key) else ()
        tables.append(Table(relation, schema, key, tuple(one.foreign_keys), tuple(one.indexes)))
    rows = {Relation(source, name): one.rows for name, one in usable.items() if one.rows is not None}
    refused = {Relation(source, name): one.refusal for name, one in known.items() if one.refusal}
    refused |= {Relation(source, name): _NO_LOG for name in catalogue.views()}
    return Description(tuple(tables), unmapped, tuple(catalogue.findings(known)), rows, refused)


def setting_findings(version: Version, settings: Mapping[str, str]) -> Iterator[Finding]:
    """What the server's settings lack; an error makes exact capture impossible."""
    if not version.supported:
        oldest = ".".join(map(str, OLDEST[version.product]))
        yield Finding("error", f"{version} is too old", f"use {version.product} {oldest} or newer")
    if settings.get("log_bin", "OFF") not in ("ON", "1"):
        yield Finding(
            "error",
            "the server writes no binlog",
            "set log_bin and server_id in the server's option file, then restart it",
        )
    needed = {
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "binlog_transaction_compression": "OFF",
        "binlog_row_value_options": "",
    }
    for name, value in needed.items():
        if settings.get(name, value).upper() != value:
            yield Finding(
                "error",
                f"{name} is {settings[name]}",
                f"SET GLOBAL {name} = '{value}' (and in the option file; open sessions keep theirs)",
            )
    if version.is_mariadb and settings.get("binlog_row_metadata", "FULL") != "FULL":
        problem = "binlog_row_metadata is not FULL: adding or dropping a column that no view needs may stop the source"
        yield Finding("warning", problem, "SET GLOBAL binlog_row_metadata = 'FULL'")
    for name in ("sync_binlog", "innodb_flush_log_at_trx_commit"):
        if settings.get(name, "1") != "1":
            problem = f"{name} is {settings[name]}: a power failure may cost the server transactions that Weir has read"
            yield Finding("warning", problem, f"SET GLOBAL {name} = 1")
    kept = float(settings.get("binlog_expire_logs_seconds") or 0)
    if 0 < kept < 86_400:
        problem = f"the binlog is kept for {kept:.0f} s: a longer pause means loading again"
        yield Finding("warning", problem, "SET GLOBAL binlog_expire_logs_seconds = 604800")


def has_right(grants: Sequence[str], right: str, database: str = "") -> bool:
    """Whether one of the lines of SHOW GRANTS gives the right, globally or on the database.

    >>> has_right(["GRANT SELECT, REPLICATION SLAVE ON *.* TO `w`@`%`"], "REPLICATION SLAVE")
    True
    """
    scopes = ["*.*", f"{backquoted(database)}.*"] if database else ["*.*"]
    for line in grants:
        match = re.match(r"GRANT (.*?) ON (.*) TO ", line)
        if match and match[2].replace("\\_", "_") in scopes:
            given = {part.strip() for part in match[1].split(",")}
            if right in given or "ALL PRIVILEGES" in given:
                return True
    return False


def _column(row: Sequence[Any], place: int) -> MysqlColumn:
    name, kind, declared, precision, scale, fraction, length, characters, collation, extra = row
    generated = "virtual" if "VIRTUAL" in (extra or "").upper() else ""
    return MysqlColumn(
        name,
        place,
        kind.lower(),
        declared,
        int(precision or 0),
        None if scale is None else int(scale),
        int(fraction or 0),
        int(length or 0),
        characters,
        collation,
        generated,
    )


def _refusal(name: str, kind: str, engine: str | None) -> str:
    if kind == "SYSTEM VERSIONED":
        return "it is system-versioned, and its history rows are in the binlog: ALTER TABLE ... DROP SYSTEM VERSIONING"
    if kind != "BASE TABLE":
        return f"it is a {kind}"
    if (engine or "").upper() != "INNODB":
        return f"its engine {engine} has no snapshots: ALTER TABLE {backquoted(name)} ENGINE = InnoDB"
    return ""


def _names(text: str) -> Names:
    """Quoted names as they are.

    >>> _names("`a``b`, `c, d`"), _names("`x`.`y`")
    (('a`b', 'c, d'), ('x', 'y'))
    """
    return tuple(name[1:-1].replace("``", "`") for name in re.findall(_NAME, text))


def _cascade(table: str, constraint: str) -> str:
    return (
        f"the foreign key {backquoted(constraint)} changes its rows by CASCADE or SET NULL, which InnoDB does not "
        f"write to the binlog: ALTER TABLE {backquoted(table)} DROP FOREIGN KEY {backquoted(constraint)}, "
        "and let a trigger or the application do it"
    )
