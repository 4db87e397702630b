"""What PyMySQL lacks of the client protocol: fast packets, and statements whose values never enter the SQL text.

PyMySQL writes values into the text of a statement. Here a statement is prepared at the server and its values travel
beside it, in binary; rows come back in binary too, so a FLOAT is exact and needs no parsing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pymysql
from pymysql.constants import CR

from weir.sources.source import SourceError

_PREPARE, _EXECUTE, _CLOSE = 0x16, 0x17, 0x19
_LARGEST_PACKET = 0xFFFFFF
_ERROR, _END = 0xFF, 0xFE
_BUFFER = 1 << 18

MysqlConnection = Any  # pymysql.connections.Connection, whose inner parts are used here


def widen_buffer(connection: MysqlConnection) -> None:
    """Reads from the socket in larger pieces than PyMySQL's 8 KB. Only right after connecting, when nothing is
    buffered.
    """
    connection._rfile = connection._sock.makefile("rb", _BUFFER)


def read_packet(connection: MysqlConnection) -> bytes:
    """One packet's payload; an error packet is raised."""
    read = connection._rfile.read
    whole: list[bytes] = []
    while True:
        header = read(4)
        if len(header) < 4:
            raise lost()
        size = header[0] | header[1] << 8 | header[2] << 16
        payload: bytes = read(size)
        if len(payload) < size:
            raise lost()
        if size < _LARGEST_PACKET and not whole:
            break
        whole.append(payload)
        if size < _LARGEST_PACKET:
            payload = b"".join(whole)
            break
    if payload and payload[0] == _ERROR and payload[3:4] == b"#":
        pymysql.err.raise_mysql_exception(payload)
    return payload


def lost() -> pymysql.OperationalError:
    return pymysql.OperationalError(CR.CR_SERVER_LOST, "the server closed the connection")


LOST = (pymysql.MySQLError, OSError)
_LOST_CODES = {
    0,
    1053,
    1077,
    1079,
    1152,
    1158,
    1159,
    1160,
    1161,
    1184,
    1927,
    CR.CR_SERVER_GONE_ERROR,
    CR.CR_SERVER_LOST,
    2055,
}


def is_lost(problem: Exception) -> bool:
    """Whether an error of ``LOST`` means that the connection is dead: killed, shut down, cut off."""
    return isinstance(problem, OSError) or (bool(problem.args) and problem.args[0] in _LOST_CODES)


def is_end(packet: bytes) -> bool:
    return len(packet) < 9 and packet[:1] == bytes([_END])


class Statement:
    """A statement prepared at the server, with ``?`` where values go."""

    def __init__(self, connection: MysqlConnection, sql: str) -> None:
        self._connection = connection
        self.definitions: list[bytes] = []  # of the columns, as the last run gave them
        self.checked: list[bytes] | None = None  # those that the caller has compared with what it expects
        connection._execute_command(_PREPARE, sql.encode())
        _, self._identifier, columns, self.parameters, _ = struct.unpack_from("<BIHHB", read_packet(connection))
        for definitions in (self.parameters, columns):
            _read_definitions(connection, definitions)

    def run(self, values: Sequence[Any] = ()) -> list[bytes]:
        """The rows in binary, all of them."""
        return list(self.stream(values))

    def stream(self, values: Sequence[Any] = ()) -> Iterator[bytes]:
        """The rows in binary, as they come. Must be read to the end."""
        if len(values) != self.parameters:
            raise SourceError(f"a statement with {self.parameters} parameters was given {len(values)} values")
        connection = self._connection
        connection._execute_command(_EXECUTE, self._request(values))
        first = read_packet(connection)
        if first[:1] == b"\0":  # no rows: a statement that only does something
            return
        self.definitions = _read_definitions(connection, length_at(first, 0)[0])
        while not is_end(packet := read_packet(connection)):
            yield packet

    def close(self) -> None:
        """The server forgets it; it sends no answer to that."""
        self._connection._execute_command(_CLOSE, struct.pack("<I", self._identifier))

    def _request(self, values: Sequence[Any]) -> bytes:
        start = struct.pack("<IBI", self._identifier, 0, 1)
        if not values:
            return start
        nulls, types, data = bytearray((len(values) + 7) // 8), bytearray(), bytearray()
        for at, value in enumerate(values):
            if value is None:
                nulls[at // 8] |= 1 << at % 8
            code, encoded = encode_value(value)
            types += code
            data += encoded
        return start + bytes(nulls) + b"\1" + bytes(types) + bytes(data)


def _read_definitions(connection: MysqlConnection, many: int) -> list[bytes]:
    definitions = [read_packet(connection) for _ in range(many)]
    if many:
        read_packet(connection)  # which ends them
    return definitions


# -- values -----------------------------------------------------------------------------------------------------------


def encode_value(value: Any) -> tuple[bytes, bytes]:
    """(type, value) as a prepared statement wants them."""
    match value:
        case None:
            return b"\x06\0", b""
        case bool():
            return b"\x08\0", struct.pack("<q", value)
        case int():
            return _encode_integer(value)
        case float():
            return b"\x05\0", struct.pack("<d", value)
        case Decimal():
            return b"\xf6\0", _counted(format(value, "f").encode())
        case str():
            return b"\xfd\0", _counted(value.encode())
        case bytes():
            return b"\xfc\0", _counted(value)
        case datetime():
            packed = struct.pack(
                "<HBBBBBI",
                value.year,
                value.month,
                value.day,
                value.hour,
                value.minute,
                value.second,
                value.microsecond,
            )
            return b"\x0c\0", bytes([len(packed)]) + packed
        case date():
            return b"\x0a\0", b"\x04" + struct.pack("<HBB", value.year, value.month, value.day)
    raise SourceError(f"a value of {type(value).__name__} cannot be sent to MariaDB or MySQL")


def _encode_integer(value: int) -> tuple[bytes, bytes]:
    if -(1 << 63) <= value < 1 << 63:
        return b"\x08\0", struct.pack("<q", value)
    if 0 < value < 1 << 64:
        return b"\x08\x80", struct.pack("<Q", value)
    return b"\xf6\0", _counted(str(value).encode())


def _counted(data: bytes) -> bytes:
    size = len(data)
    if size < 251:
        return bytes([size]) + data
    if size < 1 << 16:
        return b"\xfc" + struct.pack("<H", size) + data
    if size < 1 << 24:
        return b"\xfd" + struct.pack("<I", size)[:3] + data
    return b"\xfe" + struct.pack("<Q", size) + data


def length_at(data: bytes, at: int) -> tuple[int, int]:
    """A length-coded number and where it ends."""
    first = data[at]
    if first < 251:
        return first, at + 1
    return long_length(data, at + 1, first)


def long_length(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of a length-coded number whose first byte says that more follow."""
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at : at + size], "little"), at + size
