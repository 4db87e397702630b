"""Global transactions: a part names the whole, by a message in the log or by a row in a marker table.

``SELECT pg_logical_emit_message(true, 'weir.global', '{"id": "order-7", "sources": ["crm", "shop"]}')`` inside the
transaction (logical replication only), or ``INSERT INTO weir_global_transaction VALUES ('order-7', '{crm,shop}')``.
"""

from __future__ import annotations

import json
import re

from weir.messages import GlobalTransaction
from weir.sources.source import SourceError

GLOBAL_PREFIX = "weir.global"
_ELEMENT = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}\\]+))\s*(,|$)', re.DOTALL)


def from_message(content: bytes, source: str, xid: int) -> GlobalTransaction:
    try:
        parts = json.loads(content)
        identifier, sources = parts["id"], parts["sources"]
        if not isinstance(sources, list) or not all(isinstance(name, str) for name in sources):
            raise TypeError("sources is not a list of names")
    except (ValueError, KeyError, TypeError) as problem:
        raise _broken(source, xid, content, problem) from problem
    return GlobalTransaction(str(identifier), frozenset(sources))


def from_row(row: tuple[bytes | None, ...] | None, source: str, xid: int) -> GlobalTransaction:
    """From the text of ``id`` and ``sources`` (an array of text)."""
    try:
        if row is None or len(row) != 2:
            raise ValueError("the marker table needs the columns id and sources")
        identifier, sources = row
        if identifier is None or sources is None:
            raise ValueError("id and sources must not be NULL")
        return GlobalTransaction(identifier.decode(), frozenset(parse_array(sources.decode())))
    except ValueError as problem:
        raise _broken(source, xid, row, problem) from problem


def parse_array(text: str) -> list[str]:
    r"""The elements of a one-dimensional array of text.

    >>> parse_array('{a,"b c","d\\"e"}')
    ['a', 'b c', 'd"e']
    """
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"not an array: {text!r}")
    body, elements, at = text[1:-1], [], 0
    while at < len(body):
        match = _ELEMENT.match(body, at)
        if match is None or match[2] == "NULL":
            raise ValueError(f"not a plain array of text: {text!r}")
        elements.append(match[2].strip() if match[1] is None else re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL))
        at = match.end()
    return elements


def _broken(source: str, xid: int, content: object, problem: Exception) -> SourceError:
    return SourceError(
        f"{source}: transaction {xid} marks itself as part of a global one, but not readably: {content!r} ({problem}); "
        'expected {"id": "...", "sources": ["...", "..."]}'
    )
