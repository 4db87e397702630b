"""What is outside: SQL that Weir does not maintain, each with the place and the way out.

The syntax tree decides whether a construct is there; the tokens only say where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType
from sqlglot import expressions as exp

from weir.algebra.definition import Definition, Span, node_span, span
from weir.algebra.errors import ViewError
from weir.algebra.functions import AGGREGATES, GENERATORS, WINDOW_FUNCTIONS, is_unstable

FLATTEN = "Join its tables in the FROM clause and put its conditions into WHERE."
AGGREGATE_LATER = "Keep the rows in the view and aggregate when you read it."
NO_ORDER = " has no meaning in a view, which is a bag of rows without an order"
ORDER_LATER = "Leave it out, and order the rows when you read the view."
LIMIT_LATER = "Leave it out, and limit the rows when you read the view."
NO_WINDOWS = "window functions are not maintained"
NEIGHBOURS_LATER = "Keep the rows in the view and compare them when you read it."
NO_LATERAL = "LATERAL is not maintained", "Keep the column in the view and unfold it when you read it."

# Clause in the tree -> the words it is written with, the problem, the way out.
_CLAUSES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "with_": (("WITH",), "common table expressions are not maintained", FLATTEN),
    "distinct": (
        ("DISTINCT",),
        "DISTINCT is not maintained: a view keeps every row as often as it occurs",
        "Leave it out, and use SELECT DISTINCT when you read the view.",
    ),
    "hint": (("/*+",), "hints have no meaning in a view", "Leave it out: Weir chooses the order of the joins."),
    "into": (("INTO",), "SELECT INTO is not a view", "Leave INTO out: the view is the result."),
    "group": (("GROUP BY",), "GROUP BY is not maintained", AGGREGATE_LATER),
    "having": (("HAVING",), "HAVING is not maintained", AGGREGATE_LATER),
    "laterals": (("LATERAL",), *NO_LATERAL),
    "windows": (("WINDOW",), NO_WINDOWS, NEIGHBOURS_LATER),
    "qualify": (("QUALIFY",), NO_WINDOWS, NEIGHBOURS_LATER),
    "order": (("ORDER BY",), "ORDER BY" + NO_ORDER, ORDER_LATER),
    "sort": (("SORT BY",), "SORT BY" + NO_ORDER, ORDER_LATER),
    "cluster": (("CLUSTER BY",), "CLUSTER BY" + NO_ORDER, ORDER_LATER),
    "distribute": (("DISTRIBUTE BY",), "DISTRIBUTE BY" + NO_ORDER, ORDER_LATER),
    "limit": (("LIMIT", "FETCH"), "LIMIT is not maintained: which rows come first is not defined", LIMIT_LATER),
    "offset": (("OFFSET",), "OFFSET is not maintained: which rows come first is not defined", LIMIT_LATER),
    "pivots": (("PIVOT", "UNPIVOT"), "PIVOT is not maintained", AGGREGATE_LATER),
    "sample": (
        ("TABLESAMPLE",),
        "TABLESAMPLE is not maintained: it gives other rows every time",
        "Leave it out, or write a condition.",
    ),
    "version": (
        ("VERSION", "TIMESTAMP", "FOR"),
        "a view reads its tables as they are now",
        "Leave it out; the view itself keeps its past versions.",
    ),
}  # fmt: skip
_UNKNOWN_CLAUSE: tuple[tuple[str, ...], str, str] = (
    (),
    "a part of this is not maintained",
    "Keep to SELECT, FROM, JOIN and WHERE.",
)
_SELECT_PARTS = {"expressions", "from", "from_", "joins", "where"}
_SET_OPERATORS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
_JOIN_WORDS = [
    "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "CROSS", "INNER", "NATURAL", "ASOF", "STRAIGHT_JOIN", "JOIN",
]  # fmt: skip
_PARAMETERS = (TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON, TokenType.SESSION_PARAMETER)
_KINDS_OF_JOIN = ("", "INNER", "CROSS")


# -- queries ------------------------------------------------------------------------------------------------


def read_selects(definition: Definition, first: int) -> list[tuple[int, exp.Select]]:
    """The SELECTs that a query adds up by UNION ALL, each with the number of its SELECT token."""
    _refuse_beginning(definition, first)
    tree = definition.parse(first)
    heads, operators = _outline(definition, first)
    parts = list(_flatten(definition, tree, heads[-1] if heads else first))
    _refuse_operators(definition, [part for part in parts if isinstance(part, exp.SetOperation)], operators)
    selects = [part for part in parts if isinstance(part, exp.Select)]
    if len(selects) != len(heads):
        way_out = "Write SELECT ... FROM source.table."
        raise definition.error("a view is made of SELECTs", way_out, span(definition.tokens[first]))
    for head, select in zip(heads, selects, strict=True):
        _refuse_clauses(definition, select, head, _SELECT_PARTS)
    return list(zip(heads, selects, strict=True))


def _refuse_beginning(definition: Definition, first: int) -> None:
    if first >= len(definition.tokens):
        raise definition.error("the view has no query", "Add SELECT ... FROM source.table after AS.")
    token = definition.tokens[first]
    if token.token_type is TokenType.WITH:
        raise definition.error(_CLAUSES["with_"][1], FLATTEN, span(token))
    if token.token_type not in (TokenType.SELECT, TokenType.L_PAREN):
        way_out = "Write AS SELECT ... FROM source.table."
        raise definition.error("a view's query begins with SELECT", way_out, span(token))
    if (pipe := _first(definition, TokenType.PIPE_GT)) is not None:
        raise definition.error("pipes are not read", "Write SELECT ... FROM ... WHERE ...", pipe)


def _outline(definition: Definition, first: int) -> tuple[list[int], list[int]]:
    """The SELECT tokens and the set operators of the query itself; refuses a SELECT anywhere else."""
    heads, operators = [], []
    brackets: list[tuple[int, bool]] = []  # open brackets: the token, and whether it holds a part of the query itself
    for at in range(first, len(definition.tokens)):
        kind = definition.tokens[at].token_type
        outside = all(is_query for _, is_query in brackets)
        if kind is TokenType.L_PAREN:
            brackets.append((at, outside and _opens_query(definition.tokens, first, at)))
        elif kind is TokenType.R_PAREN and brackets:
            brackets.pop()
        elif kind is TokenType.SELECT and not outside:
            opening = next(number for number, is_query in brackets if not is_query)
            raise _subquery(definition, opening)
        elif kind is TokenType.SELECT:
            heads.append(at)
        elif outside and combines_queries(definition.tokens, at):
            operators.append(at)
    return heads, operators


def combines_queries(tokens: Sequence[Token], at: int) -> bool:
    """Whether this is a set operator: not a column called minus, not ``* EXCEPT (column)``."""
    if tokens[at].token_type not in _SET_OPERATORS:
        return False
    following = tokens[at + 1].token_type if at + 1 < len(tokens) else None
    begins = (TokenType.SELECT, TokenType.L_PAREN, TokenType.ALL, TokenType.DISTINCT)
    return following in begins and tokens[at - 1].token_type is not TokenType.STAR


def _opens_query(tokens: Sequence[Token], first: int, at: int) -> bool:
    before = [token.token_type for token in tokens[max(first, at - 2) : at]]
    if before and before[-1] in (TokenType.ALL, TokenType.DISTINCT):
        before.pop()
    return not before or before[-1] in (*_SET_OPERATORS, TokenType.L_PAREN)


def _subquery(definition: Definition, opening: int) -> ViewError:
    place = definition.between(opening, definition.closing(opening))
    return definition.error("subqueries are not maintained", FLATTEN, place)


def _flatten(definition: Definition, node: exp.Expr, last_head: int) -> Iterator[exp.Expr]:
    """The query's parts in the order of the text: SELECTs with the set operators between them."""
    if isinstance(node, exp.SetOperation):
        _refuse_clauses(definition, node, last_head, {"this", "expression", "distinct", "by_name"})
        yield from _flatten(definition, node.this, last_head)
        yield node
        yield from _flatten(definition, node.expression, last_head)
    elif isinstance(node, exp.Subquery):
        _refuse_clauses(definition, node, last_head, {"this"})
        yield from _flatten(definition, node.this, last_head)
    else:
        yield node


def _refuse_operators(definition: Definition, operators: list[exp.SetOperation], places: list[int]) -> None:
    for operator, number in zip(operators, places, strict=True):
        name, place = definition.tokens[number].text.upper(), span(definition.tokens[number])
        if not isinstance(operator, exp.Union):
            way_out = "Write it as a join, or make two views and compare them when you read them."
            raise definition.error(f"{name} is not maintained", way_out, place)
        if operator.args.get("by_name"):
            way_out = "Leave BY NAME out and list the columns in the same order."
            raise definition.error("UNION BY NAME is not maintained", way_out, place)
        if operator.args.get("distinct"):
            way_out = "Write UNION ALL, and use SELECT DISTINCT when you read the view."
            raise definition.error("UNION without ALL is not maintained: it removes duplicates", way_out, place)


def _refuse_clauses(definition: Definition, node: exp.Expr, head: int, fine: set[str]) -> None:
    """Refuses every clause of the node that is not ``fine``; they are looked for from the token ``head`` on."""
    present = [name for name, value in node.args.items() if value and name not in fine]
    if present:
        known = [clause for name, clause in _CLAUSES.items() if name in present]
        words, problem, way_out = known[0] if known else _UNKNOWN_CLAUSE
        raise definition.error(problem, way_out, _keyword(definition, head, words) or span(definition.tokens[head]))


def _keyword(definition: Definition, head: int, words: tuple[str, ...]) -> Span | None:
    """The first of the words after ``head`` that is not inside a bracket and not a name."""
    depth = 0
    for at in range(head, len(definition.tokens)):
        token = definition.tokens[at]
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        is_name = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING) or definition.tokens[at - 1].text == "."
        if depth <= 0 and not is_name and " ".join(token.text.upper().split()) in words:
            return span(token)
    return None


# -- FROM ---------------------------------------------------------------------------------------------------


def refuse_join(definition: Definition, join: exp.Join) -> None:
    """Everything but inner joins of plain tables."""
    refuse_from_item(definition, join.this)
    written = [str(join.args.get(part) or "").upper() for part in ("method", "side", "kind")]
    method, side, kind = written
    if method not in ("", "NATURAL") or side or kind not in _KINDS_OF_JOIN:
        name = " ".join(word for word in written if word)
        way_out = "Write an inner JOIN, and look for rows without partner when you read the views of both sides."
        place = _join_words(definition, join.this)
        raise definition.error(f"{name} JOIN is not maintained: only inner joins are", way_out, place)


def _join_words(definition: Definition, table: exp.Expr) -> Span | None:
    """The words before a joined table, such as LEFT OUTER JOIN."""
    place = node_span(table)
    if place is None:
        return None
    last = definition.index_at(place[0]) - 1
    first = last
    while definition.tokens[first - 1].text.upper() in _JOIN_WORDS:
        first -= 1
    return definition.between(first, last)


def refuse_from_item(definition: Definition, item: exp.Expr) -> None:
    """Everything in a FROM clause but a table under one name."""
    place = node_span(item)
    if isinstance(item, exp.Lateral):
        raise definition.error(*NO_LATERAL, at=place)
    if isinstance(item, exp.Subquery):
        way_out = "Leave them out: inner joins mean the same without."
        raise definition.error("brackets around joins are not read", way_out, place)
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier):
        raise definition.error("only tables can stand in FROM", "Write source.table.", place)
    head = definition.index_at(place[0]) if place else 0
    _refuse_clauses(definition, item, head, {"this", "db", "catalog", "alias"})
    alias = item.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        way_out = "Give new names in the select list: SELECT column AS name."
        raise definition.error("columns cannot be renamed in FROM", way_out, node_span(*alias.args["columns"]))


# -- expressions --------------------------------------------------------------------------------------------


def refuse_in_expression(definition: Definition, tree: exp.Expr) -> None:
    """Everything that is no function of one row."""
    for node in tree.walk():
        if isinstance(node, exp.Window):
            raise definition.error(NO_WINDOWS, NEIGHBOURS_LATER, _call(definition, node))
        if isinstance(node, exp.Anonymous):
            _refuse_call(definition, node)
        elif isinstance(node, exp.Any) and not isinstance(node.parent, exp.Like | exp.ILike):  # a LIKE ANY (...)
            raise definition.error("the aggregate any(...) is not maintained", AGGREGATE_LATER, _any(definition, node))
        elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            way_out = "Use a function that Spark has built in."
            raise definition.error("functions of a schema are not read", way_out, node_span(node))
        else:
            _refuse_odd(definition, node)


def _refuse_call(definition: Definition, call: exp.Anonymous) -> None:
    name, at = str(call.this).lower(), _call(definition, call)
    if name in AGGREGATES:
        raise definition.error(f"the aggregate {name}(...) is not maintained", AGGREGATE_LATER, at)
    if name in WINDOW_FUNCTIONS:
        raise definition.error(NO_WINDOWS, NEIGHBOURS_LATER, at)
    if name in GENERATORS:
        way_out = "Keep the column in the view and unfold it when you read it."
        raise definition.error(f"{name}(...) makes several rows of one and is not maintained", way_out, at)
    if is_unstable(name, len(call.expressions)):
        raise unstable(definition, name, at)


def unstable(definition: Definition, name: str, at: Span | None) -> ViewError:
    """A function whose value changes although no row does: nothing would tell the view."""
    way_out = "Keep it out of the view, and use it when you read the view."
    return definition.error(f"{name} gives another value every time, so a view cannot keep it", way_out, at)


def _refuse_odd(definition: Definition, node: exp.Expr) -> None:
    if isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
        raise definition.error("a view has no parameters", "Write the value itself.", _first(definition, *_PARAMETERS))
    if isinstance(node, exp.Star):
        raise definition.error("* cannot stand inside an expression", "Name the columns.", node_span(node))
    if isinstance(node, exp.QueryTransform | exp.Aliases):
        way_out = "Write one expression for each column."
        raise definition.error("one expression cannot give several columns", way_out, node_span(node))
    if isinstance(node, exp.DataType) and node.is_type("time"):
        at = _first(definition, TokenType.TIME)
        raise definition.error("the type TIME is not supported", "Use a timestamp or a string.", at)


def _first(definition: Definition, *kinds: TokenType) -> Span | None:
    return next((span(token) for token in definition.tokens if token.token_type in kinds), None)


def _any(definition: Definition, node: exp.Any) -> Span | None:
    """From ANY to its closing bracket; the tree knows where its argument is."""
    place = node_span(node)
    if place is None:
        return None
    before = [at for at, token in enumerate(definition.tokens) if token.start < place[0]]
    return definition.call(max(at for at in before if definition.tokens[at].token_type is TokenType.ANY))


def _call(definition: Definition, node: exp.Expr) -> Span | None:
    """From the function's name to its closing bracket."""
    call = node.find(exp.Anonymous)
    place = node_span(call) if call is not None else None
    return definition.call(definition.index_at(place[0])) if place else node_span(node)
