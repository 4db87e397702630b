"""A view's query in the user's own words, for Spark: its text, with only the tables' names changed.

The audit asks Spark what the user's SQL means. So nothing of the normal form, of binding or of the evaluator is used
here: the tokens say where a table is named, and the text between them stays as it is. A table ``shop.orders`` becomes
a temporary view; without an alias it is then called ``orders``, as before. Where the text calls a column by its full
name (``shop.orders.id``), the source is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import expressions as exp

from weir.algebra.catalog import Relation
from weir.algebra.definition import Definition, Span, node_span
from weir.algebra.header import read_header
from weir.algebra.quoting import backquoted

TempViewOf = Callable[[Relation], str]


def query_in_own_words(text: str, name_of: TempViewOf) -> str:
    """The query of a definition, over tables that ``name_of`` names, which gets them as the text spells them."""
    definition = Definition.of(text)
    body = read_header(definition).body
    tree = definition.parse(body)
    start, end = definition.tokens[body].start, definition.tokens[-1].end + 1
    for (first, last), replacement in sorted(_replacements(tree, name_of), reverse=True):
        text = text[:first] + replacement + text[last:]
        end += len(replacement) - (last - first)
    return text[start:end]


def _replacements(tree: exp.Expr, name_of: TempViewOf) -> Iterator[tuple[Span, str]]:
    for table in tree.find_all(exp.Table):
        place = node_span(table.args["db"], table.this)
        assert place is not None, "a table's name stands in the text"
        called = "" if table.alias else f" AS {backquoted(table.name)}"
        yield place, backquoted(name_of(Relation(table.db, table.name))) + called
    for column in tree.find_all(exp.Column):
        if column.args.get("db") is not None:
            place = node_span(column)
            assert place is not None, "a column's name stands in the text"
            yield place, f"{backquoted(column.table)}.{backquoted(column.name)}"
