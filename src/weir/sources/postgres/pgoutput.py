"""The logical replication messages of PostgreSQL's ``pgoutput`` plugin, protocol version 1.

One function per kind of message, and ``Tuples``, the hot path: it takes the needed columns out of a row message and
skips the rest. Values come as text (bytes, not yet decoded) or None for NULL; ``values.py`` turns whole columns of them
into Arrow.

A column whose large value did not change is left out of the new row ("unchanged TOAST"); under REPLICA IDENTITY FULL
the old row has it. What FULL would have sent and is missing here is never guessed: ``IdentityMissing``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

Fields = tuple[bytes | None, ...]
Found = list[Any]  # bytes, None, or the mark of an unchanged value

_U16, _U32, _U64 = Struct(">H"), Struct(">I"), Struct(">Q")
_TYPE = Struct(">Ii")  # oid and modifier
_NULL, _TEXT, _UNCHANGED = b"ntu"
_OLD, _NEW = b"ON"
_TRANSACTIONAL = 1


class ProtocolError(Exception):
    """A message that version 1 of the protocol does not have, or that is cut short."""


class IdentityMissing(Exception):
    """A row message without the whole old row: the table's REPLICA IDENTITY was not FULL when it was written."""


@dataclass(frozen=True)
class Begin:
    final_lsn: int  # where the commit record begins
    xid: int  # 32 bits


@dataclass(frozen=True)
class CommitRecord:
    end_lsn: int  # the first byte behind the commit record


@dataclass(frozen=True)
class ColumnShape:
    name: str
    type_oid: int
    type_modifier: int


@dataclass(frozen=True)
class RelationShape:
    """A table as the stream describes it before its first row and after every change of its shape."""

    oid: int
    schema: str
    table: str
    columns: tuple[ColumnShape, ...]

    def position(self, name: str) -> int | None:
        return next((at for at, column in enumerate(self.columns) if column.name == name), None)


@dataclass(frozen=True)
class LogicalMessage:
    transactional: bool
    prefix: str
    content: bytes


@dataclass(frozen=True)
class Truncate:
    relations: tuple[int, ...]


StreamMessage = Begin | CommitRecord | RelationShape | LogicalMessage | Truncate
_PASSED_OVER = (b"Y", b"O")  # names of types, origins of transactions: nothing depends on them


def decode(message: bytes) -> StreamMessage | None:
    """Any message but a row's (those are ``Tuples.rows``); None for one that says nothing we need."""
    kind = message[:1]
    if kind in _PASSED_OVER:
        return None
    reader = _READERS.get(kind)
    if reader is None:
        raise ProtocolError(f"the replication stream sent a message of unknown kind {kind!r} ({len(message)} bytes)")
    try:
        return reader(message)
    except (IndexError, ValueError, struct.error) as problem:
        raise ProtocolError(f"a broken {kind!r} message in the replication stream: {problem}") from problem


def _begin(message: bytes) -> Begin:
    return Begin(_U64.unpack_from(message, 1)[0], _U32.unpack_from(message, 17)[0])


def _commit(message: bytes) -> CommitRecord:
    return CommitRecord(_U64.unpack_from(message, 10)[0])


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1


def _relation(message: bytes) -> RelationShape:
    oid = _U32.unpack_from(message, 1)[0]
    schema, at = _text(message, 5)
    table, at = _text(message, at)
    (count,) = _U16.unpack_from(message, at + 1)  # behind the replica identity
    at += 3
    columns = []
    for _ in range(count):
        name, following = _text(message, at + 1)
        columns.append(ColumnShape(name, *_TYPE.unpack_from(message, following)))
        at = following + 8
    return RelationShape(oid, schema or "pg_catalog", table, tuple(columns))


def _message(message: bytes) -> LogicalMessage:
    prefix, at = _text(message, 10)
    (length,) = _U32.unpack_from(message, at)
    content = message[at + 4 : at + 4 + length]
    if len(content) != length:
        raise ValueError("shorter than it says")
    return LogicalMessage(bool(message[1] & _TRANSACTIONAL), prefix, content)


def _truncate(message: bytes) -> Truncate:
    (count,) = _U32.unpack_from(message, 1)
    return Truncate(tuple(_U32.unpack_from(message, 6 + 4 * at)[0] for at in range(count)))


_READERS: dict[bytes, Callable[[bytes], StreamMessage]] = {
    b"B": _begin,
    b"C": _commit,
    b"R": _relation,
    b"M": _message,
    b"T": _truncate,
}


def relation_of(message: bytes) -> int:
    """The table's oid in a row message."""
    return int.from_bytes(message[1:5], "big")


class Tuples:
    """Reads row messages of one table, keeping the columns at ``positions`` (of the table's own order)."""

    def __init__(self, columns: int, positions: Sequence[int]) -> None:
        self._count = columns
        self._order = tuple(positions)
        self._wanted = tuple(at in set(positions) for at in range(columns))

    def rows(self, message: bytes) -> tuple[Fields | None, Fields | None]:
        """The old and the new row of an insert (no old), delete (no new) or update (both)."""
        kind = message[:1]
        if kind == b"I":
            return None, self._finish(self._read(message, 6)[0], None)
        if message[5] != _OLD:
            raise IdentityMissing
        old, at = self._read(message, 6)
        if kind == b"D":
            return self._finish(old, None), None
        if message[at] != _NEW:
            raise ProtocolError(f"an update whose new row is marked {message[at : at + 1]!r}")
        new = self._read(message, at + 1)[0]
        return self._finish(old, None), self._finish(new, old)

    def _finish(self, found: Found, old: Found | None) -> Fields:
        """The wanted columns in the caller's order; an unchanged large value is the old row's."""
        if _UNCHANGED in found:
            if old is None or _UNCHANGED in old:
                raise IdentityMissing
            found = [before if now == _UNCHANGED else now for now, before in zip(found, old, strict=True)]
        return tuple([found[at] for at in self._order])

    def _read(self, message: bytes, at: int) -> tuple[Found, int]:
        """One row from ``at``: per column its bytes, None for NULL or not wanted, or the mark of an unchanged value."""
        count = (message[at] << 8) | message[at + 1]
        if count != self._count:
            raise ProtocolError(f"a row of {count} columns for a table of {self._count}")
        at += 2
        found: Found = []
        keep, from_bytes = found.append, int.from_bytes
        for wanted in self._wanted:
            kind = message[at]
            if kind == _TEXT:
                start = at + 5
                at = start + from_bytes(message[at + 1 : start], "big")
                keep(message[start:at] if wanted else None)
                continue
            at += 1
            if kind == _NULL:
                keep(None)
            elif kind == _UNCHANGED:
                keep(_UNCHANGED if wanted else None)
            else:
                raise ProtocolError(f"a column value of unknown kind {bytes([kind])!r}")
        if at > len(message):
            raise ProtocolError("a row message that is cut short")
        return found, at
