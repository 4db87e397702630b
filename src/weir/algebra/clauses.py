"""Where the clauses of a SELECT begin and end, in tokens: the syntax tree does not know it.

Spark is given a condition or an item of the select list as the user wrote it, so its first and last token must be
known. Only what parts clauses and conjuncts is looked at: brackets, CASE and END, BETWEEN and its AND, and the words
that begin a clause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType

from weir.algebra.definition import Definition
from weir.algebra.refusals import combines_queries

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END)
_JOINS = (TokenType.JOIN, TokenType.COMMA)
# Words between two tables, before JOIN. Elsewhere they may be names or functions, so they end a condition only there.
_JOIN_WORDS = frozenset({"INNER", "CROSS", "NATURAL"})


@dataclass(frozen=True)
class TokenRange:
    """Tokens by their numbers, the last one included."""

    first: int
    last: int


@dataclass(frozen=True)
class Clauses:
    """One SELECT: its items, for every table behind the first the range of its ON (if it has one), and WHERE."""

    items: tuple[TokenRange, ...]
    ons: tuple[TokenRange | None, ...]
    where: TokenRange | None


def read_clauses(definition: Definition, head: int) -> Clauses:
    """The clauses of the SELECT whose first token is ``head``."""
    tokens = definition.tokens
    begin = head + 2 if tokens[head + 1].token_type is TokenType.ALL else head + 1
    level = list(_own_level(tokens, begin))
    end = level[-1] if level else head
    source = next((at for at in level if _begins_from(tokens, at)), end + 1)
    where = next((at for at in level if at > source and _is(tokens, at, TokenType.WHERE)), None)
    commas = [at for at in level if at < source and _is(tokens, at, TokenType.COMMA)]
    tables = [at for at in level if source < at and (where is None or at < where)]
    return Clauses(
        tuple(_between(begin, commas, source)),
        tuple(_ons(tokens, tables)),
        TokenRange(where + 1, end) if where is not None else None,
    )


def _begins_from(tokens: Sequence[Token], at: int) -> bool:
    """FROM, but not that of ``a IS DISTINCT FROM b``."""
    return _is(tokens, at, TokenType.FROM) and tokens[at - 1].token_type is not TokenType.DISTINCT


def conjuncts(definition: Definition, clause: TokenRange) -> Iterator[TokenRange]:
    """The parts of a condition that AND ties together, brackets around them taken off."""
    tokens = definition.tokens
    inner = _without_brackets(definition, clause)
    level = list(_own_level(tokens, inner.first, inner.last))
    ands = list(_logical_ands(tokens, level))
    if not ands or any(_is(tokens, at, TokenType.OR) for at in level):
        yield inner
        return
    for part in _between(inner.first, ands, inner.last + 1):
        yield from conjuncts(definition, part)


def _without_brackets(definition: Definition, clause: TokenRange) -> TokenRange:
    first, last = clause.first, clause.last
    while definition.tokens[first].token_type is TokenType.L_PAREN and definition.closing(first) == last:
        first, last = first + 1, last - 1
    return TokenRange(first, last)


def _logical_ands(tokens: Sequence[Token], level: Sequence[int]) -> Iterator[int]:
    """The ANDs that are not BETWEEN's."""
    betweens = 0
    for at in level:
        if _is(tokens, at, TokenType.BETWEEN):
            betweens += 1
        elif _is(tokens, at, TokenType.AND):
            if betweens:
                betweens -= 1
            else:
                yield at


def _ons(tokens: Sequence[Token], level: Sequence[int]) -> Iterator[TokenRange | None]:
    """For each further table, in order, its condition."""
    joins = [number for number, at in enumerate(level) if tokens[at].token_type in _JOINS and not _is_name(tokens, at)]
    for number, following in zip(joins, [*joins, len(level)][1:], strict=True):
        inside = level[number + 1 : following]
        on = next((at for at in inside if _is(tokens, at, TokenType.ON)), None)
        last = inside[-1] if inside else 0
        before_join = following < len(level) and tokens[level[following]].token_type is TokenType.JOIN
        while on is not None and before_join and tokens[last].text.upper() in _JOIN_WORDS:
            last -= 1
        yield TokenRange(on + 1, last) if on is not None else None


def _own_level(tokens: Sequence[Token], first: int, last: int | None = None) -> Iterator[int]:
    """The tokens from ``first`` on that are in no bracket, up to the end of the SELECT; a bracket's both ends are told.

    A bracket that closes one opened before, or a set operator, ends the SELECT.
    """
    depth = 0
    for at in range(first, len(tokens) if last is None else last + 1):
        kind = tokens[at].token_type
        if _is_name(tokens, at):
            kind = TokenType.IDENTIFIER
        if depth == 0 and last is None and combines_queries(tokens, at):
            return
        depth += kind in _OPENING
        depth -= kind in _CLOSING
        if depth < 0:
            return
        if depth == 0 or (depth == 1 and kind in _OPENING):
            yield at


def _is(tokens: Sequence[Token], at: int, kind: TokenType) -> bool:
    return tokens[at].token_type is kind and not _is_name(tokens, at)


def _is_name(tokens: Sequence[Token], at: int) -> bool:
    """``t.end``: behind a point stands a name, whatever the word is."""
    return at > 0 and tokens[at - 1].token_type is TokenType.DOT


def _between(first: int, separators: Sequence[int], end: int) -> Iterator[TokenRange]:
    """The ranges that the separators part, from ``first`` to just before ``end``."""
    for start, stop in zip([first, *(at + 1 for at in separators)], [*separators, end], strict=True):
        yield TokenRange(start, stop - 1)
