"""The text of a view definition with its tokens: where things stand in it, and errors that point at them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.errors import ParseError, TokenError

from weir.algebra.dialect import SparkAsWritten
from weir.algebra.errors import ViewError

Span = tuple[int, int]  # start and end in the text, end exclusive


@dataclass(frozen=True)
class Definition:
    """A definition's text and tokens."""

    text: str
    tokens: tuple[Token, ...]

    @classmethod
    def of(cls, text: str) -> Definition:
        """Tokenizes; refuses what is no sequence of tokens, what is empty, and more than one statement."""
        try:
            tokens = SparkAsWritten().tokenize(text)
        except TokenError:
            raise _unclosed(text) from None
        statement = tuple(takewhile(lambda token: token.token_type is not TokenType.SEMICOLON, tokens))
        for token in tokens[len(statement) :]:
            if token.token_type is not TokenType.SEMICOLON:
                way_out = "Give every view a file of its own."
                raise ViewError("there is more than one statement", way_out, text, *span(token))
        return cls(text, statement)

    def parse(self, first: int) -> exp.Expr:
        """The syntax tree of the tokens from number ``first`` on."""
        try:
            trees = SparkAsWritten().parser().parse(list(self.tokens[first:]), self.text)
        except ParseError as error:
            raise self._syntax_error(error) from None
        tree = trees[0] if trees else None
        if not isinstance(tree, exp.Expr):
            raise self.error("the definition ends where a SELECT should begin", "Add AS SELECT ... FROM source.table.")
        return tree

    def parse_condition(self, first: int, last: int) -> exp.Expr:
        """The syntax tree of the tokens from number ``first`` to ``last``, one expression."""
        try:
            trees = SparkAsWritten().parser().parse_into(exp.Condition, list(self.tokens[first : last + 1]), self.text)
        except ParseError as error:
            raise self._syntax_error(error) from None
        assert len(trees) == 1, "one expression"
        assert isinstance(trees[0], exp.Expr), "an expression"
        return trees[0]

    def error(self, problem: str, way_out: str = "", at: Span | None = None) -> ViewError:
        """An error that points at a part of the text; without one, at the last token."""
        return ViewError(problem, way_out, self.text, *(self._closed(at) if at else self._end))

    def _closed(self, at: Span) -> Span:
        """The part with the brackets that close those opened in it: the tree knows names' places, not brackets'."""
        start, end = at
        for number, token in enumerate(self.tokens):
            if token.token_type is TokenType.L_PAREN and start <= token.start < end:
                end = max(end, self.tokens[self.closing(number)].end + 1)
        return start, end

    @property
    def _end(self) -> Span:
        return span(self.tokens[-1]) if self.tokens else (0, 0)

    def _syntax_error(self, error: ParseError) -> ViewError:
        found = error.errors[0]
        at = [token for token in self.tokens if (token.line, token.col) == (found.get("line"), found.get("col"))]
        problem = "this is not Spark SQL that can be read here"
        return self.error(problem, "Look at the marked place and just before it.", span(at[0]) if at else None)

    def index_at(self, offset: int) -> int:
        """The number of the token that begins at ``offset``."""
        return next(at for at, token in enumerate(self.tokens) if token.start == offset)

    def closing(self, opening: int) -> int:
        """The number of the bracket that closes the one at ``opening``."""
        depth = 0
        for at in range(opening, len(self.tokens)):
            kind = self.tokens[at].token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            if depth == 0:
                return at
        return len(self.tokens) - 1

    def between(self, first: int, last: int) -> Span:
        """From the token numbered ``first`` to the end of the one numbered ``last``."""
        return self.tokens[first].start, self.tokens[last].end + 1

    def call(self, name_at: int) -> Span:
        """A call from the token of its name to its closing bracket; the name alone when there is no bracket."""
        following = name_at + 1
        if following < len(self.tokens) and self.tokens[following].token_type is TokenType.L_PAREN:
            return self.between(name_at, self.closing(following))
        return span(self.tokens[name_at])


def span(token: Token) -> Span:
    return token.start, token.end + 1


def node_span(*nodes: exp.Expr | None) -> Span | None:
    """From the first to the last place that the nodes' names and literals have in the text."""
    places = [place for node in nodes if node is not None for part in node.walk() if (place := _place(part))]
    return (min(start for start, _ in places), max(end for _, end in places)) if places else None


def _place(node: exp.Expr) -> Span | None:
    return (node.meta["start"], node.meta["end"] + 1) if "start" in node.meta else None


def _unclosed(text: str) -> ViewError:
    """Where the quote or comment begins that never ends: the last one before which all is well."""
    for start, mark in sorted(_marks(text), reverse=True):
        if _tokenizes(text[:start]):
            kind = {"'": "string", '"': "string", "`": "quoted name", "/*": "comment"}[mark]
            way_out = f"Close it with {'*/' if mark == '/*' else mark}."
            return ViewError(f"this {kind} is never closed", way_out, text, start, len(text))
    return ViewError("the definition cannot be read", "Write it in Spark SQL.", text, 0, len(text))


def _marks(text: str) -> Iterable[tuple[int, str]]:
    for mark in ("'", '"', "`", "/*"):
        at = text.find(mark)
        while at >= 0:
            yield at, mark
            at = text.find(mark, at + 1)


def _tokenizes(text: str) -> bool:
    try:
        SparkAsWritten().tokenize(text)
    except TokenError:
        return False
    return True
