"""Words that ask the clock: ``DATE'today'``, ``CAST('now' AS TIMESTAMP)``, ``d < 'tomorrow'``, ``to_date('today')``.

Spark replaces such a word by the date or time of the query, wherever constant text becomes a date or a timestamp. A
view would keep what the word meant when a row came, so these are refused like ``current_date``. The word itself is
harmless (``status = 'now'``), so it matters what becomes of it: from the constant text upwards, through what keeps it
text, to whatever uses it. What is not known to leave it text is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from sqlglot import expressions as exp

from weir.algebra.dialect import SparkCore
from weir.algebra.errors import UnsupportedExpression, WeirError
from weir.algebra.expression import Expression
from weir.algebra.functions import TEXT_FUNCTIONS, TEXT_TAKERS
from weir.algebra.types import Schema

# With a zone behind it, Spark takes the word as of there; a time of day alone is today's.
_CLOCK_WORD = re.compile(r"\s*(now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
_TIME_OF_DAY = re.compile(r"\s*T?[0-9]{1,2}:[0-9]{1,2}.*", re.DOTALL)

_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between,
)  # fmt: skip
_PATTERNS = (exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.Is)
_CHOICES = frozenset({"coalesce", "nvl", "ifnull", "nullif", "greatest", "least"})
_TEXT_TYPES = (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR, exp.DataType.Type.CHAR)
_NO_DATES = ("int", "bigint", "smallint", "tinyint", "double", "float", "decimal", "boolean", "binary")

IsText = Callable[[exp.Column], bool]


def clock_words(tree: exp.Expr, is_text: IsText) -> Iterator[exp.Expr]:
    """The constant texts of an expression that Spark may take for a word of the clock.

    ``is_text``: whether a column holds text.
    """
    for node in tree.walk():
        if _constant_text(node) and _may_ask(node) and not _stays_text(node, is_text):
            yield node


def _constant_text(node: exp.Expr) -> bool:
    """A text literal, or the largest piece of text that is put together from nothing but constants."""
    if isinstance(node, exp.Literal):
        return bool(node.is_string)
    return isinstance(node, exp.RawString) or (_makes_text(node) and next(node.find_all(exp.Column), None) is None)


def _makes_text(node: exp.Expr) -> bool:
    if isinstance(node, exp.DPipe | exp.Concat):
        return True
    return isinstance(node, exp.Anonymous) and _name(node) in TEXT_FUNCTIONS


def _may_ask(node: exp.Expr) -> bool:
    """Whether the text is such a word; where it is computed by a function that only Spark knows, it may be."""
    try:
        _, value = Expression(node.sql(dialect=SparkCore)).compile(Schema())
        text = str(value(()))
    except UnsupportedExpression:
        return True
    except WeirError:
        return False
    return bool(_CLOCK_WORD.fullmatch(text) or _TIME_OF_DAY.fullmatch(text))


def _stays_text(node: exp.Expr, is_text: IsText) -> bool:
    """Follows the text up to whatever uses it."""
    above = node.parent
    while above is not None and _hands_on(above, node, is_text):
        node, above = above, above.parent
    if above is None or isinstance(above, (exp.Alias, *_PATTERNS)):
        return True
    if isinstance(above, exp.Cast):
        return above.to.sql(dialect=SparkCore).lower().startswith(_NO_DATES)
    if isinstance(above, exp.Anonymous) and _name(above) in TEXT_TAKERS:
        return True
    return isinstance(above, (*_COMPARISONS, exp.Case, exp.If)) and all(
        _is_text(other, is_text) for other in _compared_with(above, node)
    )


def _hands_on(above: exp.Expr, node: exp.Expr, is_text: IsText) -> bool:
    """Whether the text, or text that it is a part of, is what ``above`` gives."""
    if isinstance(above, exp.Paren) or _makes_text(above) or _is_text_cast(above):
        return True
    if isinstance(above, exp.If) and isinstance(above.parent, exp.Case):
        return node is above.args["true"]
    if isinstance(above, exp.If):
        return node is not above.this and _all_text(_results(above), is_text)
    if isinstance(above, exp.Case):
        return node is not above.this and _all_text(_results(above), is_text)
    if isinstance(above, exp.Anonymous) and _name(above) in _CHOICES:
        return _all_text(above.expressions, is_text)
    return False


def _compared_with(above: exp.Expr, node: exp.Expr) -> list[exp.Expr]:
    """The other sides; ``CASE x WHEN y`` compares x with each y."""
    if isinstance(above, exp.If) and isinstance(above.parent, exp.Case):
        return [above.parent.this] if above.parent.this is not None else []
    if isinstance(above, exp.Case):
        return [branch.this for branch in above.args["ifs"]]
    return [other for other in above.iter_expressions() if other is not node]


def _results(choice: exp.Expr) -> list[exp.Expr]:
    """Of CASE or IF."""
    branches = choice.args["ifs"] if isinstance(choice, exp.Case) else [choice]
    default = choice.args.get("default" if isinstance(choice, exp.Case) else "false")
    return [*(branch.args["true"] for branch in branches), *([default] if default is not None else [])]


def _all_text(nodes: Iterable[exp.Expr], is_text: IsText) -> bool:
    return all(_is_text(node, is_text) for node in nodes)


def _is_text(node: exp.Expr, is_text: IsText) -> bool:
    plain = node.unnest()
    if isinstance(plain, exp.Column):
        return is_text(plain)
    if isinstance(plain, exp.Literal):
        return bool(plain.is_string)
    return isinstance(plain, exp.Null | exp.RawString) or _makes_text(plain) or _is_text_cast(plain)


def _is_text_cast(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.to.this in _TEXT_TYPES


def _name(call: exp.Anonymous) -> str:
    return str(call.this).lower()
