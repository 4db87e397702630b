"""A parcel: a small JSON document with Arrow tables beside it, as the content of one message.

    length of the document (4 bytes), the document, and for each table an Arrow IPC stream

The document says under ``"form"`` which form it has, and under ``"tables"`` how long each stream is; every stream
begins at a multiple of 64, as Arrow likes it. Nothing in a parcel can be executed: text, numbers and columns are all it
holds.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from weir.algebra.errors import WeirError

FORM = 1
_LENGTH = struct.Struct(">I")
_ALIGNED = 64
Parcel = tuple[dict[str, Any], list[pa.Table]]


class NotUnderstood(WeirError):
    """What came is no parcel, or one of another Weir."""

    def __init__(self, why: object) -> None:
        super().__init__(f"a message cannot be understood ({why}): install the same Weir on both sides")


def packed(document: Mapping[str, Any], tables: Sequence[pa.Table] = ()) -> list[Any]:
    """The pieces of the message."""
    streams = [_stream(table) for table in tables]
    head = json.dumps({"form": FORM, **document, "tables": [len(stream) for stream in streams]}).encode()
    pieces: list[Any] = [_LENGTH.pack(len(head)) + head + _padding(_LENGTH.size + len(head))]
    for stream in streams:
        pieces += [stream, _padding(len(stream))]
    return pieces


def unpacked(content: bytes | bytearray) -> Parcel:
    """The document and the tables, which use the content's memory."""
    try:
        return _unpacked(pa.py_buffer(content))
    except (ValueError, LookupError, TypeError, struct.error, pa.ArrowException) as problem:
        raise NotUnderstood(problem) from None


def _unpacked(content: pa.Buffer) -> Parcel:
    (length,) = _LENGTH.unpack(content.slice(0, _LENGTH.size).to_pybytes())
    at = _LENGTH.size + length
    document = json.loads(content.slice(_LENGTH.size, length).to_pybytes())
    if document["form"] != FORM:
        raise ValueError(f"form {document['form']}, not {FORM}")
    tables = []
    for size in document.pop("tables"):
        at += len(_padding(at))
        tables.append(pa.ipc.open_stream(content.slice(at, size)).read_all())
        at += size
    return document, tables


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGNED)
