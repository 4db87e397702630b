"""Where sqlglot and Spark bind operators differently, the text must say what it means with parentheses.

Known cases: Spark reads ``a || b + c`` as ``(a || b) + c``, ``a = b IN (c)`` as ``(a = b) IN (c)`` and ``a <=> b < c``
as ``(a <=> b) < c``, sqlglot the other way round. The tree of such a text does not mean what Spark will compute, so it
is refused here and left to Spark. The test is on the tree: an operand without parentheses around it must bind tighter,
by Spark's table, than the operator it stands under.

``a <=> b`` and ``a IS NOT DISTINCT FROM b`` are one node of the tree and bind unlike in Spark, the one as ``=``, the
other as IN: so it must be in parentheses wherever it could matter.
"""

from __future__ import annotations

from sqlglot import expressions as exp

from weir.algebra.errors import UnsupportedExpression

_SPARK: dict[type[object], int] = {
    exp.Or: 1,
    exp.And: 2,
    exp.Not: (_NOT := 3),
    **dict.fromkeys((exp.In, exp.Between, exp.Like, exp.Escape, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ), 4),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), (_COMPARISON := 5)),
    **dict.fromkeys((exp.Add, exp.Sub, exp.DPipe), 6),
    **dict.fromkeys((exp.Mul, exp.Div, exp.Mod, exp.IntDiv), 7),
    exp.Neg: 8,
}
_TIGHTEST = 9
_NOT_CHAINED = 4  # ``a IS NULL IS NULL`` and the like: the left operand must bind tighter too


def refuse_unlike_precedence(node: exp.Expression) -> None:
    """Raises UnsupportedExpression when Spark would group this node's operands in another way."""
    own = _SPARK.get(type(node))
    if own is None or isinstance(node, exp.Escape):
        return
    left, right = node.args.get("this"), node.args.get("expression")
    loosest_left = own if own != _NOT_CHAINED else own + 1
    if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        loosest_left = loosest_right = _COMPARISON + 1
    else:
        loosest_right = own + 1 if own > _NOT else 0
    if _strength(left) < loosest_left or (right is not None and _strength(right) < loosest_right):
        raise UnsupportedExpression(f"put parentheses around the operands of: {node.sql(dialect='spark')}")


def _strength(node: object) -> int:
    return _SPARK.get(type(node), _TIGHTEST)
