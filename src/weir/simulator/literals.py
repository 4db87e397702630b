"""Rows and changes as a person writes them in a scenario: ``(1, 'a', NULL) 2*(4, 'b', NULL)`` and ``+r(1, 2) -r(3,
4)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from weir.algebra.errors import WeirError
from weir.algebra.memory import MemoryBag
from weir.algebra.quoting import quoted
from weir.algebra.types import Row, Schema, Type, Value, sort_key

_ROW = re.compile(r"\s*(?:(-?\d*)\*?)?(\((?:[^()']|'(?:[^']|'')*')*\))\s*,?")
_CHANGE = re.compile(r"\s*([+-])\s*([A-Za-z_][\w]*)\s*(\((?:[^()']|'(?:[^']|'')*')*\))\s*,?")

_WEIGHTS = {1: "", -1: "-"}


def parse_rows(text: str, schema: Schema) -> MemoryBag:
    """A bag from rows with optional weights.

    >>> parse_rows("(1, 2) 2*(3, NULL) -(4, 5)", Schema.parse("a int, b int"))
    MemoryBag((1, 2), 2*(3, NULL), -(4, 5))
    """
    rows = []
    for match in _matches(_ROW, text, "rows", "(1, 'a', NULL) 2*(3, 'b', 4)"):
        count = {"": 1, "-": -1}.get(match[1] or "")
        rows.append((_values(match[2], schema), int(match[1]) if count is None else count))
    return MemoryBag.weighted(schema, rows)


def parse_changes(text: str) -> Iterator[tuple[int, str, str]]:
    """Sign, table and row of every change."""
    for match in _matches(_CHANGE, text, "changes", "+table(1, 'a') -table(2, 'b')"):
        yield (1 if match[1] == "+" else -1), match[2], match[3]


def _matches(pattern: re.Pattern[str], text: str, what: str, example: str) -> Iterator[re.Match[str]]:
    """One after the other, up to the end of the text."""
    at = 0
    while text[at:].strip():
        match = pattern.match(text, at)
        if match is None:
            raise WeirError(f"cannot read {what} from '{text[at:].strip()}': write {example}")
        yield match
        at = match.end()


def write_rows(bag: MemoryBag) -> str:
    """A bag as ``parse_rows`` reads it.

    >>> write_rows(parse_rows("2*(1, 'it''s'), (NULL, 'b')", Schema.parse("a int, b string")))
    "(NULL, 'b') 2*(1, 'it''s')"
    """
    weighted = sorted(bag.items(), key=lambda item: sort_key(item[0]))
    return " ".join(f"{_WEIGHTS.get(weight, f'{weight}*')}{write_row(row)}" for row, weight in weighted)


def write_row(row: Row) -> str:
    return "(" + ", ".join(_written(value) for value in row) + ")"


def _written(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int() | float() | Decimal():
            return str(value)
        case bytes():
            return f"'{value.hex()}'"
    return quoted(str(value), "'")


def _values(text: str, schema: Schema) -> list[Any]:
    literals = _split(text[1:-1])
    if len(literals) != len(schema):
        raise WeirError(f"{text} has {len(literals)} values, the table has {len(schema)} columns ({schema})")
    return [_value(literal, column.type) for literal, column in zip(literals, schema, strict=True)]


def _split(text: str) -> list[str]:
    """At commas outside quotes."""
    parts = re.findall(r"(?:[^,']|'(?:[^']|'')*')+", text)
    return [part.strip() for part in parts]


def _value(literal: str, type_: Type) -> Any:
    if literal.upper() == "NULL":
        return None
    text = literal[1:-1].replace("''", "'") if literal.startswith("'") else literal
    try:
        return _READERS[type_.family](text)
    except (ValueError, ArithmeticError, KeyError):
        raise WeirError(f"{literal} is not a value of type {type_}") from None


_READERS: dict[str, Any] = {
    "integer": int,
    "fraction": float,
    "decimal": Decimal,
    "string": str,
    "binary": bytes.fromhex,
    "boolean": lambda text: {"true": True, "false": False}[text.lower()],
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
}
