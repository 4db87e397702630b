"""The head of a view definition: ``CREATE MATERIALIZED VIEW name WITH (key = 'value', ...) AS``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import Token, TokenType

from weir.algebra.definition import Definition, span
from weir.algebra.errors import ViewError

LEVELS = ("none", "convergence", "weak", "strong", "complete")
SHAPE = "Write CREATE MATERIALIZED VIEW name WITH (consistency = 'strong') AS SELECT ... FROM source.table."
_SIMPLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Header:
    """A view's name and options; ``body`` is the number of the first token of its query."""

    name: str
    options: Mapping[str, str]
    body: int


def parse_view_header(text: str) -> Header:
    """Reads the head alone: enough to list views without a catalog.

    >>> header = parse_view_header("CREATE MATERIALIZED VIEW v WITH (Strategy = 'sweep') AS SELECT 1")
    >>> header.name, header.options
    ('v', {'strategy': 'sweep'})
    """
    return read_header(Definition.of(text))


def read_header(definition: Definition) -> Header:
    reader = _Reader(definition)
    for word in ("CREATE", "MATERIALIZED", "VIEW"):
        reader.expect(word, "a view definition begins with CREATE MATERIALIZED VIEW")
    name = reader.name()
    options = reader.options() if reader.accept("WITH") else {}
    reader.expect("AS", f"AS is missing after the head of view {name}")
    return Header(name, options, reader.at)


class _Reader:
    """Walks over the tokens of the head."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.at = 0

    @property
    def _next(self) -> Token | None:
        tokens = self.definition.tokens
        return tokens[self.at] if self.at < len(tokens) else None

    def _error(self, problem: str, way_out: str = SHAPE) -> ViewError:
        return self.definition.error(problem, way_out, span(self._next) if self._next else None)

    def _take(self, problem: str) -> Token:
        token = self._next
        if token is None:
            raise self._error(problem)
        self.at += 1
        return token

    def accept(self, word: str) -> bool:
        token = self._next
        found = token is not None and token.text.upper() == word and token.token_type is not TokenType.STRING
        self.at += found
        return found

    def expect(self, word: str, problem: str) -> None:
        if not self.accept(word):
            raise self._error(problem)

    def name(self) -> str:
        token = self._take("the view has no name")
        if not _SIMPLE_NAME.fullmatch(token.text) or token.token_type is TokenType.STRING:
            self.at -= 1
            way_out = "Use letters, digits and underscores, and begin with a letter."
            raise self._error(f"'{token.text}' cannot name a view", way_out)
        return token.text

    def options(self) -> dict[str, str]:
        self.expect("(", "WITH needs options in brackets")
        options: dict[str, str] = {}
        while not self.accept(")"):
            if options:
                self.expect(",", "options are separated by commas")
            self._option(options)
        return options

    def _option(self, options: dict[str, str]) -> None:
        key_token = self._take("an option is missing")
        key = key_token.text.lower()
        self.expect("=", f"option {key} has no value")
        value_token = self._take(f"option {key} has no value")
        if value_token.token_type not in (TokenType.STRING, TokenType.NUMBER):
            self.at -= 1
            raise self._error(f"the value of option {key} is not a string", f"Put it in quotes: {key} = '...'.")
        if key in options:
            raise self.definition.error(f"option {key} is given twice", "Keep one of them.", span(key_token))
        if key == "consistency" and value_token.text not in LEVELS:
            problem = f"'{value_token.text}' is no consistency level"
            raise self.definition.error(problem, f"Choose one of {', '.join(LEVELS)}.", span(value_token))
        options[key] = value_token.text
