"""The replication stream: pgoutput messages of one slot, read over libpq's copy-both mode.

``confirm`` tells the server how far the warehouse has durably committed; it is sent with the next status message and
nothing beyond it ever is, so the server keeps whatever might be needed again.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from struct import Struct

import psycopg
from psycopg import pq, sql
from psycopg.errors import error_from_result

from weir.algebra.quoting import double_quoted, quoted
from weir.sources.postgres.connection import PostgresConnection, connect
from weir.sources.postgres.options import PostgresOptions
from weir.sources.source import SourceError

_STATUS = Struct(">cQQQQ?")
_KEEPALIVE = Struct(">cQQ?")
_HEADER = 25  # an XLogData message: its kind, two log positions and a clock
_DATA, _ALIVE = b"wk"
_UNDEFINED = b"42704"  # the publication does not exist
_YEAR_2000 = 946_684_800
STATUS_SECONDS = 10.0
SLOT_SECONDS = 60.0  # how long a slot may stay busy: our own last connection may not have been noticed as dead yet
MESSAGES_SINCE = 140_000  # the option "messages"; older servers show the fence as an empty transaction instead


class StreamLost(Exception):
    """The stream ended: the server stopped, the connection broke, or the slot was taken away."""


class StreamUnreadable(Exception):
    """The server cannot decode the slot's log, now or ever: the publication did not exist when it was written."""


class ReplicationStream:
    """An open stream. Not thread-safe; ``poll`` and ``messages`` also answer the server's keep-alive requests."""

    def __init__(self, options: PostgresOptions, slot: str) -> None:
        self._options, self._slot = options, slot
        self._confirmed = 0
        self._told = time.monotonic()
        self.reached = 0  # everything before this place in the log has been received
        self._connection: PostgresConnection = connect(options, replication=True)
        self._raw = self._connection.pgconn
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        """START_REPLICATION, patient with a slot that is still held by a connection about to be noticed as dead."""
        until = time.monotonic() + SLOT_SECONDS
        while True:
            try:
                return self._try_start()
            except psycopg.errors.ObjectInUse as problem:
                if time.monotonic() > until:
                    raise SourceError(
                        f"{self._options.name}: another process reads the slot '{self._slot}' "
                        f"({str(problem).strip()}); stop it, or give this project a slot of its own"
                    ) from problem
                time.sleep(0.1)

    def _try_start(self) -> None:
        publication = quoted(double_quoted(self._options.publication), "'")  # this grammar knows no other escapes
        messages = ", messages 'true'" if self._connection.info.server_version >= MESSAGES_SINCE else ""
        command = sql.SQL("START_REPLICATION SLOT {} LOGICAL 0/0 (proto_version '1', publication_names {}{})").format(
            sql.Identifier(self._slot), sql.SQL(publication), sql.SQL(messages)
        )
        result = self._raw.exec_(command.as_string(self._connection).encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise error_from_result(result, "utf-8")

    # -- reading ----------------------------------------------------------------------------------------------------

    def messages(self, timeout: float) -> Iterator[bytes]:
        """Messages as they come; ends after ``timeout`` seconds without any."""
        take, data_kind = self._raw.get_copy_data, _DATA
        while True:
            length, data = take(1)
            if length > 0:
                if data[0] == data_kind:
                    yield bytes(data[_HEADER:])
                else:
                    self._keepalive(bytes(data))
            elif length < 0:
                raise self._ending()
            elif not self._wait(timeout):
                return

    def poll(self) -> Iterator[bytes]:
        """What has arrived already."""
        yield from self.messages(0.0)

    def _wait(self, timeout: float) -> bool:
        self._tell_if_due()
        ready = select.select([self._raw.socket], [], [], timeout)[0]
        if not ready:
            return False
        try:
            self._raw.consume_input()
        except psycopg.OperationalError as problem:
            raise StreamLost(str(problem).strip()) from problem
        return True

    def _keepalive(self, data: bytes) -> None:
        if data[0] != _ALIVE:
            raise StreamLost(f"the server sent a message of unknown kind {data[:1]!r}")
        _, self.reached, _, reply = _KEEPALIVE.unpack(data[: _KEEPALIVE.size])
        if reply:
            self.tell()

    def _ending(self) -> Exception:
        result = self._raw.get_result()
        if result is None:
            return StreamLost("the stream ended")
        message = result.error_message.decode().strip() or "the stream ended"
        unreadable = result.error_field(pq.DiagnosticField.SQLSTATE) == _UNDEFINED
        return StreamUnreadable(message) if unreadable else StreamLost(message)

    # -- telling ----------------------------------------------------------------------------------------------------

    def confirm(self, place: int) -> None:
        """Everything before ``place`` is durably committed at the warehouse."""
        self._confirmed = max(self._confirmed, place)
        self.tell()

    def tell(self) -> None:
        clock = int((time.time() - _YEAR_2000) * 1_000_000)
        place = self._confirmed
        try:
            self._raw.put_copy_data(_STATUS.pack(b"r", place, place, place, clock, False))
            self._raw.flush()
        except psycopg.Error as problem:
            raise StreamLost(str(problem).strip()) from problem
        self._told = time.monotonic()

    def _tell_if_due(self) -> None:
        if time.monotonic() - self._told > STATUS_SECONDS:
            self.tell()

    def close(self) -> None:
        self._connection.close()
