"""A case of the fuzz: sources, tables, views and changes, as plain data that fits one JSON file.

Everything is said in the databases' own SQL, so that a file can be read, and mended by hand. Only views are kept in
pieces: the oracle adds a state's number to every table, the shrinking takes pieces away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from weir.algebra.quoting import backquoted, quoted


class FuzzColumn(NamedTuple):
    """A column: its declaration in its database, and the type that the documentation promises for it in Spark."""

    name: str
    declared: str
    type: str


@dataclass(frozen=True)
class FuzzTable:
    """A table. ``extra``: further clauses of its CREATE TABLE, and ``rows`` the statements that fill it first."""

    source: str
    name: str
    columns: tuple[FuzzColumn, ...]
    key: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, str]:
        return self.source, self.name


class FuzzJoin(NamedTuple):
    """A table in FROM under an alias; ``how`` joins it to those before it, ``on`` are conjuncts or USING's columns."""

    source: str
    table: str
    alias: str
    how: str = ""
    on: tuple[str, ...] = ()


@dataclass(frozen=True)
class FuzzSelect:
    """One SELECT: output columns with their aliases, tables, and the conjuncts of WHERE."""

    output: tuple[str, ...]
    tables: tuple[FuzzJoin, ...]
    where: tuple[str, ...] = ()

    def sql(self, name_of: Mapping[tuple[str, str], str] | None = None, state: str = "") -> str:
        """As the user writes it; or, for the oracle, over other tables, which all have a column ``state``."""
        first = self.tables[0].alias
        output = [f"{first}.{state} AS {state}", *self.output] if state else self.output
        where = [f"({conjunct})" for conjunct in self.where]
        text = ""
        for join in self.tables:
            name = name_of[join.source, join.table] if name_of else f"{join.source}.{backquoted(join.table)}"
            text += joined(join, f"{name} AS {join.alias}", state)
            if state and join.how in (",", "JOIN", "CROSS JOIN"):
                where.append(f"{join.alias}.{state} = {first}.{state}")
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        return f"SELECT {', '.join(output)} FROM {text}{condition}"


def joined(join: FuzzJoin, table: str, state: str) -> str:
    """The words that join a table; NATURAL and USING join by a ``state`` as well."""
    if join.how == "USING":
        return f" JOIN {table} USING ({', '.join([*join.on, *([state] if state else [])])})"
    conjuncts = " AND ".join(f"({conjunct})" for conjunct in join.on)
    return (f"{join.how} " if join.how == "," else f" {join.how} " if join.how else "") + table + (
        f" ON {conjuncts}" if conjuncts else ""
    )


@dataclass(frozen=True)
class FuzzView:
    """A view: several SELECTs stand for their UNION ALL; ``options`` are those of WITH."""

    name: str
    selects: tuple[FuzzSelect, ...]
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What Weir is given."""
        given = ", ".join(f"{name} = {quoted(value, chr(39))}" for name, value in self.options.items())
        return f"CREATE MATERIALIZED VIEW {self.name} " + (f"WITH ({given}) " if given else "") + f"AS {self.query()}"

    def query(self, name_of: Mapping[tuple[str, str], str] | None = None, state: str = "") -> str:
        return " UNION ALL ".join(select.sql(name_of, state) for select in self.selects)

    @property
    def tables(self) -> set[tuple[str, str]]:
        return {(join.source, join.table) for select in self.selects for join in select.tables}

    @property
    def sources(self) -> set[str]:
        return {source for source, _ in self.tables}


class FuzzTransaction(NamedTuple):
    """Statements that one application commits together; if the database refuses one, all are rolled back."""

    source: str
    statements: tuple[str, ...]


class FuzzRound(NamedTuple):
    """What happens before the views are next brought up to date; ``act``: what Weir does first (``trial.ACTS``)."""

    transactions: tuple[FuzzTransaction, ...]
    act: str = ""


@dataclass(frozen=True)
class FuzzCase:
    """``sources``: name -> kind. ``note`` is for people: what fails, or failed."""

    seed: int
    sources: Mapping[str, str]
    tables: tuple[FuzzTable, ...]
    views: tuple[FuzzView, ...]
    rounds: tuple[FuzzRound, ...]
    note: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def parse(cls, text: str) -> FuzzCase:
        """The case that a file holds."""
        found = json.loads(text)
        return cls(
            found["seed"], found["sources"], tuple(map(_table, found["tables"])), tuple(map(_view, found["views"])),
            tuple(map(_round, found["rounds"])), found.get("note", ""),
        )  # fmt: skip

    def tables_of(self, source: str) -> Iterator[FuzzTable]:
        return (table for table in self.tables if table.source == source)

    @property
    def size(self) -> int:
        """How much there is to read."""
        return len(self.to_json())


def _table(found: Mapping[str, Any]) -> FuzzTable:
    columns = tuple(FuzzColumn(*column) for column in found["columns"])
    key, extra, rows = (tuple(found[part]) for part in ("key", "extra", "rows"))
    return FuzzTable(found["source"], found["name"], columns, key, extra, rows)


def _view(found: Mapping[str, Any]) -> FuzzView:
    return FuzzView(found["name"], tuple(map(_select, found["selects"])), found["options"])


def _select(found: Mapping[str, Any]) -> FuzzSelect:
    joins = tuple(FuzzJoin(*join[:4])._replace(on=tuple(join[4])) for join in found["tables"])
    return FuzzSelect(tuple(found["output"]), joins, tuple(found["where"]))


def _round(found: Sequence[Any]) -> FuzzRound:
    return FuzzRound(tuple(FuzzTransaction(source, tuple(statements)) for source, statements in found[0]), found[1])
