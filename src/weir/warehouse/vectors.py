"""Deletion vectors: which rows of a data file are gone, in the form that the Delta protocol gives them.

A vector is the set of row numbers of one file, as a Roaring bitmap. A tiny one is written into the commit itself; the
others of a commit lie together in one file below ``_weir/``, where no client's vacuum looks.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap

from weir.warehouse.place import OURS, Place

INLINE, IN_FILE = "i", "u"
TINY = 512  # bytes of a vector that goes into the commit
_MAGIC = 1681511377
_FORMAT = b"\x01"  # the first byte of a file of vectors
_HEAD = struct.Struct("<iQ")  # magic, number of bitmaps
_KEY = struct.Struct("<I")  # of a bitmap: the upper half of its row numbers
_UUID_TEXT = 20  # characters of a file's name in a descriptor, behind its folder
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}


@dataclass(frozen=True)
class DeletionVector:
    """Where the vector of a file is to be found: the descriptor in the file's ``add``."""

    storage: str
    where: str  # the vector itself, or its file
    size: int
    cardinality: int  # how many rows are gone
    offset: int | None = None

    def document(self) -> dict[str, Any]:
        told = {"storageType": self.storage, "pathOrInlineDv": self.where}
        place = {} if self.offset is None else {"offset": self.offset}
        return {**told, **place, "sizeInBytes": self.size, "cardinality": self.cardinality}

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> DeletionVector:
        size, cardinality = document["sizeInBytes"], document["cardinality"]
        return cls(document["storageType"], document["pathOrInlineDv"], size, cardinality, document.get("offset"))

    @property
    def file(self) -> str | None:
        """The name of its file, from the table's folder."""
        if self.storage != IN_FILE:
            return None
        folder, name = self.where[:-_UUID_TEXT], uuid.UUID(bytes=from_text(self.where[-_UUID_TEXT:])[:16])
        return f"{folder}/deletion_vector_{name}.bin" if folder else f"deletion_vector_{name}.bin"

    @property
    def end(self) -> int:
        """Where it ends in its file, with its checksum."""
        return (self.offset or 0) + 4 + self.size + 4


def write_vectors(place: Place, rows: Mapping[str, BitMap]) -> dict[str, DeletionVector]:
    """The vectors of some files, by the files' names: tiny ones inline, all others in one new file."""
    found, content, identity = dict[str, DeletionVector](), bytearray(_FORMAT), uuid.uuid4()
    for name, gone in rows.items():
        data = encoded(gone)
        if len(data) <= TINY:
            found[name] = DeletionVector(INLINE, as_text(data), len(data), len(gone))
            continue
        where = OURS + as_text(identity.bytes)
        found[name] = DeletionVector(IN_FILE, where, len(data), len(gone), offset=len(content))
        content += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    if len(content) > len(_FORMAT):
        place.write_bytes(bytes(content), f"{OURS}/deletion_vector_{identity}.bin")
    return found


def read_vector(place: Place, vector: DeletionVector) -> BitMap:
    """The row numbers; also of a vector that another client has written."""
    if vector.storage == INLINE:
        return _decoded(place, from_text(vector.where)[: vector.size], "a vector in a commit")
    name = vector.file
    if name is None or vector.offset is None:
        raise place.damaged(f"a deletion vector is kept in a way that is not known (storage {vector.storage!r})")
    content = place.read_whole(name)
    begin = vector.offset + 4
    data, sum_ = content[begin : begin + vector.size], content[begin + vector.size : begin + vector.size + 4]
    if len(sum_) < 4 or struct.unpack(">I", sum_)[0] != zlib.crc32(data):
        raise place.damaged(f"{name} is cut off or overwritten: a deletion vector in it has another checksum")
    return _decoded(place, data, name)


def encoded(rows: BitMap) -> bytes:
    return bytes(_HEAD.pack(_MAGIC, 1) + _KEY.pack(0) + rows.serialize())


def _decoded(place: Place, data: bytes, name: str) -> BitMap:
    """Row numbers fit 32 bits: so there is at most one bitmap, with key 0."""
    if len(data) < _HEAD.size or _HEAD.unpack_from(data)[0] != _MAGIC:
        raise place.damaged(f"{name} holds no deletion vector")
    bitmaps = _HEAD.unpack_from(data)[1]
    if bitmaps == 0:
        return BitMap()
    if bitmaps > 1 or _KEY.unpack_from(data, _HEAD.size)[0]:
        raise place.damaged(f"{name} names rows beyond 2^32 of one file, which no file here has")
    return BitMap.deserialize(data[_HEAD.size + _KEY.size :])


# -- bytes as text (Z85) -----------------------------------------------------------------------------------------------


def as_text(data: bytes) -> str:
    """Four bytes as five characters; the last ones are filled up with zeros."""
    padded = data + b"\0" * (-len(data) % 4)
    return "".join(_five(number) for (number,) in struct.iter_unpack(">I", padded))


def from_text(text: str) -> bytes:
    groups = [text[at : at + 5] for at in range(0, len(text), 5)]
    return b"".join(struct.pack(">I", _number(group)) for group in groups)


def _five(number: int) -> str:
    digits = ""
    for _ in range(5):
        number, rest = divmod(number, 85)
        digits = _DIGITS[rest] + digits
    return digits


def _number(group: str) -> int:
    number = 0
    for digit in group:
        number = number * 85 + _VALUES[digit]
    return number
