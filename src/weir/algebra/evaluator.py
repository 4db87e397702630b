"""The in-memory evaluator: a scalar expression's tree, compiled to a function from row to value.

It means what Spark SQL means by the same text (ANSI mode, session time zone UTC), for the core of the language:
literals, columns, arithmetic, comparisons, three-valued logic, IN, BETWEEN, LIKE, CASE and its kin, casts. All else
is Spark's alone and raises UnsupportedExpression. ``tests/test_evaluator_against_spark.py`` compares the two.

Compilation goes bottom-up over typed nodes (``weir.algebra.scalar.compiled``): operands are compiled, cast to the
type they meet in, and combined. What Spark refuses at analysis raises TypeMismatch here, at compilation. As in Spark,
operands are evaluated left to right and no further once the result is known (a division looks at its divisor first),
so a part that would fail is reached in the same cases; Spark's optimizer may skip still more of them.

Values are normalised (``weir.algebra.types``) on the way in, so they are in every step: in particular -0.0 is 0.0
throughout.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import expressions as exp

from weir.algebra.errors import TypeMismatch, UnsupportedExpression, WeirError
from weir.algebra.scalar import conditions, operators
from weir.algebra.scalar.compiled import Compiled, cast, column, constant
from weir.algebra.scalar.literals import number_literal, read_type
from weir.algebra.scalar.precedence import refuse_unlike_precedence
from weir.algebra.types import BINARY, BOOLEAN, NULL, STRING, Row, Schema, Type, Value


def compile_tree(tree: exp.Expression, schema: Schema) -> tuple[Type, Callable[[Row], Value]]:
    """The expression's type over ``schema`` and a function from a (normalised) row to its (normalised) value."""
    try:
        compiled = _compile(tree, schema)
    except WeirError as error:
        raise type(error)(f"{error}\n  in: {tree.sql(dialect='spark')}") from None
    return compiled.type, compiled.value


def _compile(node: exp.Expression, schema: Schema) -> Compiled:
    rule = _RULES.get(type(node))
    if rule is None:
        raise _unsupported(node)
    refuse_unlike_precedence(node)
    return rule(node, schema)


def _unsupported(node: exp.Expression) -> UnsupportedExpression:
    name = node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
    if isinstance(node, exp.Anonymous):
        name = str(node.this).upper()
    return UnsupportedExpression(f"{name}: Spark evaluates it, the in-memory evaluator (simulator) does not")


def _part(node: exp.Expression, name: str, schema: Schema) -> Compiled:
    return _compile(node.args[name], schema)


def _parts(nodes: list[exp.Expression], schema: Schema) -> list[Compiled]:
    return [_compile(node, schema) for node in nodes]


# -- leaves --------------------------------------------------------------------------------------------------


def _column(node: exp.Expression, schema: Schema) -> Compiled:
    if node.args.get("table"):
        raise TypeMismatch(f"a column is one back-quoted name, such as `alias.column`, not {node.sql(dialect='spark')}")
    position = schema.position(str(node.this.this))
    return column(schema[position].type, position)


def _literal(node: exp.Expression, schema: Schema) -> Compiled:
    text = str(node.this)
    return constant(STRING, text, literal=True) if node.args["is_string"] else number_literal(text)


def _raw_string(node: exp.Expression, schema: Schema) -> Compiled:
    return constant(STRING, str(node.this), literal=True)


def _binary(node: exp.Expression, schema: Schema) -> Compiled:
    digits = str(node.this)
    return constant(BINARY, bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)), literal=True)


def _boolean(node: exp.Expression, schema: Schema) -> Compiled:
    return constant(BOOLEAN, bool(node.this), literal=True)


def _null(node: exp.Expression, schema: Schema) -> Compiled:
    return constant(NULL, None, literal=True)


def _parentheses(node: exp.Expression, schema: Schema) -> Compiled:
    return _part(node, "this", schema)


# -- operators -----------------------------------------------------------------------------------------------

CompileRule = Callable[[exp.Expression, Schema], Compiled]


def _two(combine: Callable[[Compiled, Compiled], Compiled]) -> CompileRule:
    """A rule for a node with two operands."""
    return lambda node, schema: combine(_part(node, "this", schema), _part(node, "expression", schema))


def _arithmetic(symbol: str) -> CompileRule:
    return _two(lambda left, right: operators.arithmetic(symbol, left, right))


def _comparison(symbol: str) -> CompileRule:
    return _two(lambda left, right: operators.compare(symbol, left, right))


def _minus(node: exp.Expression, schema: Schema) -> Compiled:
    operand = node.this
    if isinstance(operand, exp.Literal) and not operand.args["is_string"]:
        return number_literal(str(operand.this), negative=True)  # one literal: -2147483648 is an int
    return operators.minus(_compile(operand, schema))


def _concatenation(node: exp.Expression, schema: Schema) -> Compiled:
    if (
        "safe" not in node.args
    ):  # sqlglot's mark for literals side by side; for 'a''b' Spark has a quote in it, sqlglot has not
        raise UnsupportedExpression("string literals side by side: write one literal, and a quote inside it as \\'")
    return operators.concatenate(_parts(node.expressions, schema))


def _cast(node: exp.Expression, schema: Schema) -> Compiled:
    operand, target = _part(node, "this", schema), read_type(node.args["to"])
    return cast(operand, target, safe=bool(node.args.get("safe")))


# -- conditions and choices ----------------------------------------------------------------------------------


def _not(node: exp.Expression, schema: Schema) -> Compiled:
    return conditions.negation(_part(node, "this", schema))


def _is(node: exp.Expression, schema: Schema) -> Compiled:
    operand, wanted = _part(node, "this", schema), node.args["expression"]
    if isinstance(wanted, exp.Null):
        return conditions.is_null(operand)
    if isinstance(wanted, exp.Boolean):
        return operators.same(operand, constant(BOOLEAN, bool(wanted.this)))
    raise _unsupported(node)


def _in(node: exp.Expression, schema: Schema) -> Compiled:
    if not node.expressions:
        raise UnsupportedExpression("IN needs a list of values here; a subquery is not a scalar expression")
    return conditions.member(_part(node, "this", schema), _parts(node.expressions, schema))


def _between(node: exp.Expression, schema: Schema) -> Compiled:
    if node.args.get("symmetric"):
        raise _unsupported(node)
    return conditions.between(*(_part(node, name, schema) for name in ("this", "low", "high")))


def _like(node: exp.Expression, schema: Schema, escape: str = "\\") -> Compiled:
    compiled = conditions.like(_part(node, "this", schema), _part(node, "expression", schema), escape)
    return conditions.negation(compiled) if node.args.get("negate") else compiled


def _escape(node: exp.Expression, schema: Schema) -> Compiled:
    if not isinstance(node.this, exp.Like):
        raise _unsupported(node.this)
    refuse_unlike_precedence(node.this)
    return _like(node.this, schema, str(node.args["expression"].this))


def _case(node: exp.Expression, schema: Schema) -> Compiled:
    branches = [(_when(node, branch, schema), _part(branch, "true", schema)) for branch in node.args["ifs"]]
    return conditions.case(branches, _optional(node.args.get("default"), schema))


def _when(node: exp.Expression, branch: exp.Expression, schema: Schema) -> Compiled:
    """A branch's condition; in ``CASE x WHEN y`` it is ``x = y``."""
    value = _part(branch, "this", schema)
    return operators.compare("=", _compile(node.this, schema), value) if node.this else value


def _if(node: exp.Expression, schema: Schema) -> Compiled:
    condition, then = _part(node, "this", schema), _part(node, "true", schema)
    return conditions.choose(condition, then, _optional(node.args.get("false"), schema))


def _optional(node: exp.Expression | None, schema: Schema) -> Compiled:
    return _compile(node, schema) if node is not None else constant(NULL, None)


def _coalesce(node: exp.Expression, schema: Schema) -> Compiled:
    return conditions.coalesce(_parts([node.this, *node.expressions], schema))


_RULES: dict[type, CompileRule] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.RawString: _raw_string,
    exp.HexString: _binary,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _parentheses,
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.Div: _arithmetic("/"),
    exp.Mod: _arithmetic("%"),
    exp.IntDiv: _arithmetic("div"),
    exp.Neg: _minus,
    exp.DPipe: _two(lambda left, right: operators.concatenate([left, right])),
    exp.Concat: _concatenation,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.EQ: _comparison("="),
    exp.NEQ: _comparison("<>"),
    exp.LT: _comparison("<"),
    exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"),
    exp.GTE: _comparison(">="),
    exp.NullSafeEQ: _two(operators.same),
    exp.NullSafeNEQ: _two(lambda left, right: conditions.negation(operators.same(left, right))),
    exp.And: _two(conditions.both),
    exp.Or: _two(conditions.either),
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _two(conditions.null_if),
}
