"""The binlog as a stream: one connection that stays open, taken up again where the last whole transaction ended.

The server sends events as they are written, and a heartbeat every second when there are none, so a dead connection is
noticed. Nothing is read ahead of what a visit needs: what comes later waits in the socket. Checksums, where the file
has them, are checked.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from typing import Any

import pymysql

from weir.sources.mysql import events as e
from weir.sources.mysql.groups import GroupAssembler
from weir.sources.mysql.options import Unreachable
from weir.sources.mysql.position import BinlogPlace, format_gtids
from weir.sources.mysql.wire import LOST, is_end, is_lost, lost, read_packet
from weir.sources.source import LOAD_AGAIN, LoadAgain, SourceError

_DUMP = 0x12
_CANNOT_READ_LOG = 1236
_LOSSES = 5  # in a row without a step forward
_SILENCE = 15.0  # seconds without even a heartbeat: the connection is dead
_SETTINGS = (
    "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum",
    "SET @master_heartbeat_period = 1000000000, @source_heartbeat_period = 1000000000",  # nanoseconds
    "SET @mariadb_slave_capability = 4",  # GTID events as they are
    "SET SESSION net_write_timeout = 86400",  # between visits nobody reads
)

Connect = Callable[[], Any]


class LogStream:
    """Reads events from a place on and feeds them to an assembler."""

    def __init__(
        self, connect: Connect, assembler: GroupAssembler, by_gtid: bool, server_id: int | None = None
    ) -> None:
        self._connect = connect
        self.assembler = assembler
        self._by_gtid = by_gtid
        self._server_id = server_id or random.randrange(
            1 << 31, 1 << 32
        )  # the server ends an older stream of the same id
        self._connection: Any = None
        self._checksums = False
        self.place = BinlogPlace(".0", 0)
        self.safe = self.place  # the end of the last whole group: where the stream can be taken up again
        self.made: dict[str, tuple[int, str]] = {}  # file -> (when it was begun, by which server)

    def open(self, start: BinlogPlace) -> None:
        """Begins at ``start``, the end of a group; by GTID, after the assembler's GTIDs, wherever that is on this
        server.
        """
        self.close()
        self.place = self.safe = (
            BinlogPlace(".0", 0) if self._by_gtid else start
        )  # by GTID the server tells where that is
        self._checksums = False
        self.assembler.forget_open_group()
        connection = self._connection = self._connect()
        with connection.cursor() as cursor:
            for statement in _SETTINGS:
                cursor.execute(statement)
            if self._by_gtid:
                cursor.execute(
                    "SET @slave_connect_state = %s, @slave_gtid_strict_mode = 1", (format_gtids(self.assembler.gtids),)
                )
        connection._sock.settimeout(_SILENCE)
        file, offset = ("", 4) if self._by_gtid else (start.file, start.offset)
        connection._execute_command(_DUMP, struct.pack("<IHI", offset, 0, self._server_id) + file.encode())
        try:
            while self._step().type != e.FORMAT:
                pass
        except pymysql.MySQLError as problem:
            raise self._explained(problem) from None

    def read_until(self, place: BinlogPlace) -> None:
        """Feeds everything that ends at or before ``place``, and no more. A lost connection is made again."""
        losses, before = 0, self.safe
        while self.place < place:
            try:
                if self._connection is None:
                    self.open(self.safe)
                while self.place < place:
                    self._step()
            except LOST as problem:
                self.close()
                if not is_lost(problem):
                    raise self._explained(problem) from None
                losses, before = (losses + 1 if before == self.safe else 0), self.safe
                if losses > _LOSSES:
                    raise Unreachable(
                        f"source {self.assembler.source}: the server ends the binlog stream at {self.safe} each time; "
                        "does another reader use the same server_id?"
                    ) from None
                time.sleep(0.05 * losses)

    def close(self) -> None:
        if self._connection is not None:
            self._connection._force_close()
            self._connection = None

    def _step(self) -> e.BinlogEvent:
        packet = read_packet(self._connection)
        if is_end(packet):  # the server ends the stream: it shuts down, or was told to
            raise lost()
        event = self._checked(e.BinlogEvent.read(packet))
        kind = event.type
        if kind == e.ROTATE:
            self._move(*e.rotate(event))
        elif kind == e.FORMAT:
            self._check_file(event)
            self._advance(event)
        elif kind in (e.HEARTBEAT, e.HEARTBEAT_2):
            self._heartbeat(event)
        else:
            begin = self.place
            self._advance(event)
            self.assembler.feed(event, begin, self.place)
            if not self.assembler.inside:
                self.safe = self.place
        return event

    def _checked(self, event: e.BinlogEvent) -> e.BinlogEvent:
        """Without its checksum; the event that begins a file says whether there are any."""
        if event.type == e.FORMAT:
            self._checksums = event.data[-5] == 1
        if self._checksums or (event.type == e.ROTATE and e.sum_fits(event)):
            if not e.sum_fits(event) and not event.flags & e.ARTIFICIAL:
                raise SourceError(
                    f"the binlog is damaged at {self.place}: an event does not match its checksum; {LOAD_AGAIN}"
                )
            event.data = event.data[:-4]
        return event

    def _move(self, file: str, offset: int) -> None:
        if file != self.place.file:
            self.place = BinlogPlace(file, offset)
            if not self.assembler.inside:
                self.safe = self.place

    def _advance(self, event: e.BinlogEvent) -> None:
        if not event.end or event.flags & e.ARTIFICIAL:
            return
        if event.end < self.place.offset:
            raise SourceError(
                f"the binlog file {self.place.file} is larger than 4 GB, which its protocol cannot address: lower "
                "max_binlog_size"
            )
        self.place = BinlogPlace(self.place.file, event.end)

    def _heartbeat(self, event: e.BinlogEvent) -> None:
        """By GTID the server passes over what we have without a word; its heartbeat tells how far it is."""
        if self._by_gtid and not self.assembler.inside and event.end > self.place.offset:
            self.place = self.safe = BinlogPlace(self.place.file, event.end)

    def _check_file(self, event: e.BinlogEvent) -> None:
        """The same file name must be the same file."""
        known = self.made.get(self.place.file)
        found = event.time, str(event.server)
        if known is not None and known != found:
            raise LoadAgain(
                f"{self.place.file} is not the binlog that Weir was reading (RESET MASTER, or another server): it "
                f"was begun at {found[0]} by "
                f"server {found[1]}, not at {known[0]} by server {known[1]}; {LOAD_AGAIN}"
            )
        self.made[self.place.file] = found

    def _explained(self, problem: Exception) -> Exception:
        if isinstance(problem, pymysql.MySQLError) and problem.args and problem.args[0] == _CANNOT_READ_LOG:
            return LoadAgain(
                f"source {self.assembler.source}: the binlog no longer reaches back to {self.safe}: "
                f"{problem.args[1]}; {LOAD_AGAIN}"
            )
        return problem
