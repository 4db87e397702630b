"""A scalar expression: Spark SQL text over named columns.

An expression is its text in Spark's dialect, with every column written in back quotes: ``` `o.total` > 10 ```. That
makes it hashable, printable and picklable; the in-memory evaluator compiles it for the core of the language
(``weir.algebra.evaluator``). Column names inside a partial join are ``alias.column``, one name with a point in it.

**Spark is given what the user wrote.** That text has been through a parser which is not Spark's: it may have other
brackets, and its column names show in ``struct(...)`` and ``to_json``. So an expression of a view's definition also
keeps its own text, in which nothing but the columns' qualifiers has changed (``Written``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import sqlglot
from sqlglot import expressions as exp

from weir.algebra.dialect import SparkAsWritten, SparkCore
from weir.algebra.errors import TypeMismatch, UnsupportedExpression
from weir.algebra.quoting import backquoted
from weir.algebra.types import BOOLEAN, NULL, Row, Schema, Type, Value


@dataclass(frozen=True, slots=True)
class Written:
    """The user's own text, with each column as ``qualifier.name``, the name spelled as the user did.

    ``reads`` says which column that is: (column, qualifier, name). Whoever gives the text to Spark offers a struct of
    each qualifier, with the names as its fields.
    """

    text: str
    reads: tuple[tuple[str, str, str], ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The text without what means nothing: blanks and comments."""
        return tuple(token.text for token in sqlglot.tokenize(self.text, read=SparkAsWritten))

    def rename(self, names: Mapping[str, str]) -> Written:
        return Written(self.text, tuple((names.get(read, read), slot, name) for read, slot, name in self.reads))


@dataclass(frozen=True, slots=True)
class Expression:
    """Spark SQL text over back-quoted columns, and what it was made from if a user wrote it."""

    sql: str
    written: Written | None = field(default=None, repr=False)

    @property
    def columns(self) -> frozenset[str]:
        """The columns it reads.

        >>> sorted(Expression("`r1.W` > `r2.Z` + 1").columns)
        ['r1.W', 'r2.Z']
        """
        return _columns(self.sql)

    @property
    def plain_column(self) -> str | None:
        """The column's name when the expression is nothing but that column."""
        tree = parse(self.sql)
        return column_name(tree) if isinstance(tree, exp.Column) else None

    def rename(self, names: Mapping[str, str]) -> Expression:
        """The same expression over other column names; everything else stays as it is written.

        >>> Expression("nvl(`t.a`, 't.a')").rename({"t.a": "a"}).sql
        "nvl(`a`, 't.a')"
        """
        text = self.sql
        for token in reversed(sqlglot.tokenize(text, read="spark")):
            if token.token_type is sqlglot.TokenType.IDENTIFIER and token.text in names:
                text = text[: token.start] + column(names[token.text]).sql + text[token.end + 1 :]
        return Expression(text, self.written and self.written.rename(names))

    def compile(self, schema: Schema) -> tuple[Type, Callable[[Row], Value]]:
        """Its type over ``schema`` and a function from row to value; UnsupportedExpression when only Spark can."""
        return _compile(self.sql, schema)

    def predicate(self, schema: Schema) -> Callable[[Row], Value]:
        """As a filter: a row passes when the value is TRUE, neither FALSE nor NULL."""
        type_, function = _compile(self.sql, schema)
        if type_ not in (BOOLEAN, NULL):
            raise TypeMismatch(f"a condition must be boolean, but this is {type_}: {self}")
        return function

    def spark_only(self, schema: Schema, condition: bool = False) -> bool:
        """Whether the in-memory evaluator does not cover it."""
        try:
            (self.predicate if condition else self.compile)(schema)
        except UnsupportedExpression:
            return True
        return False

    def __str__(self) -> str:
        return self.sql.replace("`", "")


def column(name: str) -> Expression:
    """The expression that is one column.

    >>> column("r1.W").sql
    '`r1.W`'
    """
    return Expression(backquoted(name))


def conjunction(parts: Iterable[Expression]) -> Expression | None:
    """All parts joined by AND; None when there are none (no condition).

    >>> conjunction([Expression("`a` > 1"), Expression("`b` OR `c`")]).sql
    '(`a` > 1) AND (`b` OR `c`)'
    """
    found = list(parts)
    if len(found) <= 1:
        return found[0] if found else None
    return Expression(_all(part.sql for part in found), _written_together([part.written for part in found]))


def _all(texts: Iterable[str]) -> str:
    return " AND ".join(f"({text})" for text in texts)


def _written_together(parts: Sequence[Written | None]) -> Written | None:
    """None as soon as one part has no text of the user's: such a condition is ours throughout."""
    written = [part for part in parts if part is not None]
    if len(written) < len(parts):
        return None
    return Written(_all(part.text for part in written), tuple(dict.fromkeys(r for part in written for r in part.reads)))


def column_name(node: exp.Column) -> str:
    return str(node.this.this)


def column_node(name: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


@lru_cache(maxsize=4096)
def parse(sql: str) -> exp.Expression:
    """The syntax tree of an expression's text. Shared: copy before changing it."""
    tree = sqlglot.parse_one(sql, dialect=SparkCore, into=exp.Condition)
    assert isinstance(tree, exp.Expression)
    return tree


@lru_cache(maxsize=4096)
def _columns(sql: str) -> frozenset[str]:
    return frozenset(column_name(node) for node in parse(sql).find_all(exp.Column))


@lru_cache(maxsize=4096)
def _compile(sql: str, schema: Schema) -> tuple[Type, Callable[[Row], Value]]:
    from weir.algebra.evaluator import compile_tree  # the evaluator is large; only in-memory bags need it

    return compile_tree(parse(sql), schema)
