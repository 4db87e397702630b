"""Names in SQL text. Between quotes, with the quotes inside it doubled, any text is one name: whatever puts a name into
SQL does it here. (PostgreSQL's statements are composed by its driver, which knows its grammar.)
"""

from __future__ import annotations

from collections.abc import Iterable

from weir.algebra.types import Column


def quoted(text: str, mark: str) -> str:
    """
    >>> print(quoted("a 'b'; --", "'"))
    'a ''b''; --'
    """
    return mark + text.replace(mark, mark * 2) + mark


def backquoted(name: str) -> str:
    """For Spark, MariaDB and MySQL. Also where Spark takes a column's name as text: to it ``a.b`` is b of a."""
    return quoted(name, "`")


def double_quoted(name: str) -> str:
    """For SQLite, PostgreSQL and the standard."""
    return quoted(name, '"')


def backquoted_list(names: Iterable[str]) -> str:
    return ", ".join(map(backquoted, names))


def double_quoted_list(names: Iterable[str]) -> str:
    return ", ".join(map(double_quoted, names))


def ddl(columns: Iterable[Column]) -> str:
    """A schema as Spark reads it.

    >>> from weir.algebra.types import Schema
    >>> ddl(Schema.parse("a int, b decimal(10,2)"))
    '`a` int, `b` decimal(10,2)'
    """
    return ", ".join(f"{backquoted(column.name)} {column.type}" for column in columns)
