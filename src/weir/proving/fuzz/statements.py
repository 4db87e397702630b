"""The statements of a case taken apart, to take columns and tables out of them."""

from __future__ import annotations

import sqlglot
from sqlglot import expressions as exp

from weir.proving.fuzz.case import FuzzTable
from weir.proving.fuzz.dialects import DRIVERS

_GRAMMARS = {"sqlite": "sqlite", "files": "sqlite", "postgres": "postgres", "mariadb": "mysql"}


def references(statement: str, table: FuzzTable) -> bool:
    """Whether a statement changes the table: its name is the first after the verb."""
    words = statement.replace("INSERT INTO ", "").replace("REPLACE INTO ", "").replace("TRUNCATE TABLE ", "")
    words = words.removeprefix("UPDATE ").removeprefix("DELETE FROM ")
    return words[1:].startswith(table.name) and words[len(table.name) + 1] == words[0]


def without_column(statement: str, kind: str, table: FuzzTable, at: int) -> str:
    """An INSERT into the table without the value of one column; other statements are left as they are.

    >>> from weir.proving.fuzz.case import FuzzColumn
    >>> columns = FuzzColumn("id", "int", "int"), FuzzColumn("x", "text", "string")
    >>> without_column("INSERT INTO \\"t\\" VALUES (1, 'a, b'), (2, NULL)", "sqlite", FuzzTable("s", "t", columns), 1)
    'INSERT INTO "t" VALUES (1), (2)'
    """
    if not references(statement, table) or " VALUES " not in statement:
        return statement
    grammar = _GRAMMARS[DRIVERS[kind]]
    head, _, rest = statement.partition(" VALUES ")
    values = sqlglot.parse_one(f"INSERT INTO t VALUES {rest}", dialect=grammar).find(exp.Values)
    assert values is not None
    rows = [[value.sql(grammar) for value in row.expressions] for row in values.expressions]
    kept = ", ".join(f"({', '.join(row[:at] + row[at + 1 :])})" for row in rows)
    tail = " ON CONFLICT" + rest.partition(" ON CONFLICT")[2] if " ON CONFLICT" in rest else ""
    return f"{head} VALUES {kept}{tail}"

