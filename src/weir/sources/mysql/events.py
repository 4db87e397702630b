"""Binlog events: the few parts of each that capture needs, taken out of its bytes."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import cached_property

from weir.sources.mysql.rows import Field
from weir.sources.mysql.values import packed_decimal_size
from weir.sources.mysql.wire import length_at
from weir.sources.source import SourceError

QUERY, STOP, ROTATE, FORMAT, XID, TABLE_MAP, INCIDENT, HEARTBEAT = 2, 3, 4, 15, 16, 19, 26, 27
BEGIN_LOAD, EXECUTE_LOAD, GTID_MYSQL, GTID_ANONYMOUS, XA_PREPARE, PARTIAL_ROWS, PAYLOAD, HEARTBEAT_2 = (
    17,
    18,
    33,
    34,
    38,
    39,
    40,
    41,
)
GTID, QUERY_COMPRESSED = 162, 165
ROWS = {  # type -> (what, has extra data, compressed)
    23: ("insert", False, False), 24: ("update", False, False), 25: ("delete", False, False),
    30: ("insert", True, False), 31: ("update", True, False), 32: ("delete", True, False),
    166: ("insert", False, True), 167: ("update", False, True), 168: ("delete", False, True),
    169: ("insert", True, True), 170: ("update", True, True), 171: ("delete", True, True),
}  # fmt: skip
# Statement parameters, annotations, lists of GTIDs and the like: say nothing that the other events do not say.
IGNORED = frozenset({0, STOP, 5, 13, 14, 28, 29, 35, 36, 37, 160, 161, 163, 164})
ARTIFICIAL, IGNORABLE = 0x20, 0x80  # flags
HEADER = 20  # one byte that says OK, then the event's own 19

_HEADER = struct.Struct("<xIBIIIH")
_STANDALONE = 1  # a flag of a GTID event


@dataclass(slots=True)
class BinlogEvent:
    """A packet of the log stream. ``end`` is the offset at which the event ends in its file; 0 for one that is in no
    file.
    """

    time: int
    type: int
    server: int
    end: int
    flags: int
    data: bytes

    @classmethod
    def read(cls, packet: bytes) -> BinlogEvent:
        time, type_, server, _, end, flags = _HEADER.unpack_from(packet)
        return cls(time, type_, server, end, flags, packet)


def sum_fits(event: BinlogEvent) -> bool:
    """Whether the last four bytes are the CRC32 of the rest."""
    return zlib.crc32(memoryview(event.data)[1:-4]) == int.from_bytes(event.data[-4:], "little")


def rotate(event: BinlogEvent) -> tuple[str, int]:
    """(next file, offset in it)."""
    (offset,) = struct.unpack_from("<Q", event.data, HEADER)
    return event.data[HEADER + 8 :].rstrip(b"\0").decode(), offset


def query(event: BinlogEvent) -> tuple[str, str]:
    """(default database, text)."""
    database_size, status_size = struct.unpack_from("<8xB2xH", event.data, HEADER)
    at = HEADER + 13 + status_size
    database = event.data[at : at + database_size].decode("utf-8", "replace")
    text = event.data[at + database_size + 1 :]
    if event.type == QUERY_COMPRESSED:
        text = inflate(text)
    return database, text.decode("utf-8", "replace")


def inflate(data: bytes) -> bytes:
    """MariaDB's compressed part of an event: one byte that tells how long the length is, the length, zlib."""
    return zlib.decompress(data[1 + (data[0] & 7) :])


@dataclass(frozen=True)
class Gtid:
    """MariaDB's start of a group. ``standalone``: one statement follows and no commit."""

    domain: int
    server: int
    number: int
    standalone: bool

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.number}"


def gtid(event: BinlogEvent) -> Gtid:
    number, domain, flags = struct.unpack_from("<QIB", event.data, HEADER)
    return Gtid(domain, event.server, number, bool(flags & _STANDALONE))


def prepared_xid(event: BinlogEvent) -> tuple[str, bool]:
    """(the XA transaction's name as statements write it, whether it commits at once)."""
    at_once, format_, first, second = struct.unpack_from("<BiII", event.data, HEADER)
    data = event.data[HEADER + 13 :]
    return xid_text(data[:first], data[first : first + second], format_), bool(at_once)


def xid_text(first: bytes, second: bytes, format_: int) -> str:
    return f"X'{first.hex()}',X'{second.hex()}',{format_}"


# -- table maps -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogColumn:
    """One column of a table map: the type's number and how wide its values are."""

    type: int
    detail: int  # the type's own: precision and scale, bytes of the length, ...

    @cached_property
    def field(self) -> Field | None:
        """How its values lie in a row; None for a type we do not know, or whose width the log does not tell."""
        return _field(self.type, self.detail)


@dataclass(frozen=True)
class TableMap:
    """Which table the rows that follow belong to, and how they are laid out."""

    database: str
    table: str
    columns: tuple[LogColumn, ...]
    names: tuple[str, ...] | None  # only with binlog_row_metadata = FULL


_ONE_BYTE, _TWO_BYTES = (
    (4, 5, 17, 18, 19, 140, 242, 245, 249, 250, 251, 252, 255),
    (15, 16, 141, 246, 247, 248, 253, 254),
)
_DETAIL_BYTES = {**dict.fromkeys(_ONE_BYTE, 1), **dict.fromkeys(_TWO_BYTES, 2)}
_FIXED = {
    1: "b",
    2: "h",
    3: "i",
    4: "f",
    5: "d",
    8: "q",
    9: "3s",
    10: "3s",
    13: "B",
    6: "0s",
}
_TWO_BYTES_BIG_ENDIAN = (246, 247, 248, 254)
_COLUMN_NAMES = 4
NO_TABLE = 0xFFFFFF  # the number of an event that only ends a statement


def table_number(event: BinlogEvent) -> int:
    return int.from_bytes(event.data[HEADER : HEADER + 6], "little")


def table_map(body: bytes) -> TableMap:
    """``body`` is what follows the table's number and two bytes of flags."""
    at = 1 + body[0]
    database = body[1:at].decode()
    size = body[at + 1]
    table = body[at + 2 : at + 2 + size].decode()
    many, at = length_at(body, at + size + 3)
    types, at = body[at : at + many], at + many
    detail_size, at = length_at(body, at)
    columns = _columns(types, body[at : at + detail_size])
    at += detail_size + (many + 7) // 8
    return TableMap(database, table, columns, _names(body, at))


def _columns(types: bytes, details: bytes) -> tuple[LogColumn, ...]:
    columns, at = [], 0
    for type_ in types:
        size = _DETAIL_BYTES.get(type_, 0)
        order = "big" if type_ in _TWO_BYTES_BIG_ENDIAN else "little"
        detail = int.from_bytes(details[at : at + size], order)  # type: ignore[arg-type]
        columns.append(_unfolded(type_, detail))
        at += size
    return tuple(columns)


def _unfolded(type_: int, detail: int) -> LogColumn:
    """CHAR, ENUM and SET share one number; the true one is in the detail, as are two more bits of CHAR's length."""
    if type_ != 254:
        return LogColumn(type_, detail)
    true, size = detail >> 8, detail & 255
    if true in (247, 248):
        return LogColumn(true, size)
    if (true & 0x30) != 0x30:
        size |= ((true & 0x30) ^ 0x30) << 4
    return LogColumn(254, size)


def _names(body: bytes, at: int) -> tuple[str, ...] | None:
    while at < len(body):
        kind = body[at]
        size, at = length_at(body, at + 1)
        if kind == _COLUMN_NAMES:
            return _strings(body[at : at + size])
        at += size
    return None


def _strings(data: bytes) -> tuple[str, ...]:
    found, at = [], 0
    while at < len(data):
        size, at = length_at(data, at)
        found.append(data[at : at + size].decode())
        at += size
    return tuple(found)


def _field(type_: int, detail: int) -> Field | None:
    if type_ in _FIXED:
        return Field(_FIXED[type_])
    if type_ in (15, 253, 254, 141):
        return Field(prefix=2 if detail > 255 else 1)
    if type_ in (249, 250, 251, 252, 245, 255, 242, 140):
        return Field(prefix=detail)
    if type_ == 246:
        return Field(f"{packed_decimal_size(detail >> 8, detail & 255)}s")
    if type_ in (17, 18, 19):
        return Field(f"{ {17: 4, 18: 5, 19: 3}[type_] + (detail + 1) // 2 }s")
    if type_ == 16:
        return Field(f"{(detail >> 8) + bool(detail & 255)}s")
    if type_ in (247, 248):
        return Field("BH"[detail - 1] if type_ == 247 else f"{detail}s")
    return None


# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowsPart:
    """Rows of one event: where they lie, and which columns they hold (before and after an update: one bitmap each)."""

    what: str  # insert, update, delete
    data: bytes
    start: int
    present: tuple[bytes, ...]


def rows_part(event: BinlogEvent) -> RowsPart:
    what, has_extra, compressed = ROWS[event.type]
    data, at = event.data, HEADER + 8
    if has_extra:
        at += int.from_bytes(data[at : at + 2], "little")
    many, at = length_at(data, at)
    size = (many + 7) // 8
    bitmaps = 2 if what == "update" else 1
    present = tuple(data[at + n * size : at + (n + 1) * size] for n in range(bitmaps))
    at += bitmaps * size
    if compressed:
        data, at = inflate(data[at:]), 0
    return RowsPart(what, data, at, present)


def refuse_unknown(event: BinlogEvent) -> None:
    """An event we do not know is skipped only when the server itself marks it as safe to skip."""
    if not event.flags & IGNORABLE:
        raise SourceError(
            f"an event of the unknown type {event.type} in the binlog: this server is newer than Weir knows"
        )
