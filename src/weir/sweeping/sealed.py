"""A sealed channel: messages between two processes that share a key, over a connection that others may touch.

**The call.** Both sides say hello with 32 random bytes, then each proves that it knows the key by its message 0::

    answerer -> caller     "weir", the version, random bytes
    caller   -> answerer   "weir", the version, random bytes; message 0, empty
    answerer -> caller     message 0: empty, or in words why it will not talk

**The keys.** The shared key seals nothing itself. From it come two keys of this connection, one for each direction:
HMAC-SHA256(shared key, direction, purpose, both hellos).

**A message** is its length (8 bytes), its seal (32 bytes) and its content. The seal is HMAC-SHA256(key of the
direction, number of the message in this direction, length, content), compared in constant time.

So whatever another party does to the bytes ends the channel before anybody looks at them:

- a bit changed, a length changed, another's message: the seal is wrong;
- a message repeated, left out or moved: its number is another;
- a message of another connection: the hellos were others, so are the keys;
- a message sent back to its sender, or another purpose or version: other keys, too.

Before a caller has proved to know the key, it can make the answerer read 78 bytes, wait ``HANDSHAKE`` seconds
altogether, and nothing else. Afterwards no message is longer than ``MOST_BYTES``, and memory is taken as bytes arrive.

**What it does not do:** hide anything. Contents travel readable; who listens learns them. Who can cut the connection
can do so, which both sides notice. Who has the key is believed.

The two directions are independent of each other: one thread may send while another receives.
"""

from __future__ import annotations

import hmac
import secrets
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Self

from weir.algebra.errors import WeirError

VERSION = 1
HANDSHAKE = 10.0  # seconds for a call to be made and answered, from its first byte to its last
STALL = 60.0  # seconds without a byte in the middle of a message
MOST_BYTES = 2 << 30  # of one message
_MOST_WORDS = 4096  # bytes of a refusal
_CHUNK = 1 << 24  # so much memory is taken before bytes have come that fill it
_MOST_PIECES = 64  # handed to the system at once
_HELLO = struct.Struct(">4sH32s")
_HEADER = struct.Struct(">Q32s")
_NUMBERS = struct.Struct(">QQ")
_NAME = b"weir"
_TO_ANSWERER, _TO_CALLER = b"to the answerer", b"to the caller"
Bytes = bytes | bytearray | memoryview


class ChannelError(WeirError):
    """The channel cannot be used, or no longer."""


class ChannelClosed(ChannelError):
    """The other side has hung up."""


class ChannelRefused(ChannelError):
    """The other side does not talk: it has another key, or says why."""


class MessageTooLong(WeirError):
    """Nothing was sent; the channel can be used on."""


class SealedChannel:
    """One end of a call. Whatever fails but ``MessageTooLong`` has ended it."""

    def __init__(self, line: _Line, sending: _Seal, receiving: _Seal, most_bytes: int) -> None:
        self._line, self._sending, self._receiving, self._most_bytes = line, sending, receiving, most_bytes

    @classmethod
    def call(
        cls, address: tuple[str, int], key: bytes, purpose: str,
        within: float = HANDSHAKE, most_bytes: int = MOST_BYTES,
    ) -> Self:  # fmt: skip
        """Calls who listens there; refused unless both sides know the key."""
        until = time.monotonic() + within
        try:
            line = _Line(socket.create_connection(address, timeout=within), spelled_address(address), until)
        except OSError as problem:
            raise ChannelError(f"{spelled_address(address)} cannot be reached: {problem.strerror or problem}") from None
        with line.closed_on_failure():
            try:
                theirs, mine = line.read_exactly(_HELLO.size), _hello()
                _check_version(theirs, line)
                channel = cls(line, *_seals(key, purpose, theirs, mine, _TO_ANSWERER, _TO_CALLER), most_bytes)
                line.write_all([mine, *channel._sealed([])])
                refusal = channel._opened(_MOST_WORDS)
            except ChannelClosed:
                raise ChannelRefused(
                    f"{line.peer} hangs up without an answer: it does not know the key of this call, or it is closing"
                ) from None
            if refusal:
                raise ChannelRefused(refusal.decode(errors="replace"))
        line.until = None
        return channel

    @classmethod
    def answer(
        cls, connection: socket.socket, key: bytes, purpose: str,
        within: float = HANDSHAKE, most_bytes: int = MOST_BYTES,
    ) -> Self:  # fmt: skip
        """The other end, once the caller has proved to know the key. It waits for ``welcome`` or ``refuse``."""
        line = _Line(connection, spelled_address(connection.getpeername()), time.monotonic() + within)
        with line.closed_on_failure():
            mine = _hello()
            line.write_all([mine])
            theirs = line.read_exactly(_HELLO.size)
            _check_version(theirs, line)
            channel = cls(line, *_seals(key, purpose, mine, theirs, _TO_CALLER, _TO_ANSWERER), most_bytes)
            channel._opened(most_bytes=0)
        return channel

    def welcome(self) -> None:
        """Lets the caller begin."""
        self.send()
        self._line.until = None

    def refuse(self, why: str) -> None:
        """Tells the caller, who can believe it, and ends the call."""
        with suppress(ChannelError):
            self.send(why.encode())
        self.close()

    def send(self, *content: Bytes) -> None:
        """One message, whose content may come in several pieces."""
        with self._line.closed_on_failure(but=MessageTooLong):
            self._line.write_all(self._sealed(content))

    def receive(self, within: float | None = None) -> bytearray:
        """The next message; it must begin within so many seconds, None: while the connection lives."""
        with self._line.closed_on_failure():
            self._line.await_bytes(within)
            return self._opened()

    def _sealed(self, content: Sequence[Bytes]) -> list[Bytes]:
        pieces = [memoryview(piece).cast("B") for piece in content]
        length = sum(piece.nbytes for piece in pieces)
        if length > self._most_bytes:
            raise MessageTooLong(
                f"a message of {length:,} bytes to {self._line.peer}: at most {self._most_bytes:,} are sent at once"
            )
        return [_HEADER.pack(length, self._sending.seal_of(length, pieces)), *pieces]

    def _opened(self, most_bytes: int | None = None) -> bytearray:
        length, seal = _HEADER.unpack(self._line.read_exactly(_HEADER.size))
        most = self._most_bytes if most_bytes is None else most_bytes
        if length > most:
            raise ChannelError(f"{self._line.peer} announces a message of {length:,} bytes: at most {most:,} are taken")
        content = self._line.read_exactly(length)
        if not hmac.compare_digest(seal, self._receiving.seal_of(length, [content])):
            raise ChannelError(
                f"a message from {self._line.peer} has a wrong seal: it was changed, repeated or moved on the way, or "
                "its sender does not know the key"
            )
        return content

    def hang_up(self, reading_only: bool = False) -> None:
        """From any thread: wakes whoever waits for the other side; what is being sent may still be, if wanted."""
        self._line.hang_up(socket.SHUT_RD if reading_only else socket.SHUT_RDWR)

    def close(self) -> None:
        self._line.close()


class _Seal:
    """One direction: its key, and how many messages it has sealed."""

    def __init__(self, key: bytes) -> None:
        self._keyed, self._count = hmac.new(key, digestmod="sha256"), 0

    def seal_of(self, length: int, pieces: Sequence[Bytes]) -> bytes:
        """The seal of the next message."""
        made = self._keyed.copy()
        made.update(_NUMBERS.pack(self._count, length))
        for piece in pieces:
            made.update(piece)
        self._count += 1
        return made.digest()


def _hello() -> bytes:
    return _HELLO.pack(_NAME, VERSION, secrets.token_bytes(32))


def _check_version(hello: Bytes, line: _Line) -> None:
    """Only for a good message: another version would have other keys anyway."""
    name, version, _ = _HELLO.unpack(hello)
    if name != _NAME:
        raise ChannelRefused(f"who speaks at {line.peer} is not Weir")
    if version != VERSION:
        raise ChannelRefused(
            f"{line.peer} speaks version {version} of Weir's channel and this process version {VERSION}: install the "
            "same Weir on both sides"
        )


def _seals(
    key: bytes, purpose: str, answerers: Bytes, callers: Bytes, sending: bytes, receiving: bytes
) -> tuple[_Seal, _Seal]:
    def derived(direction: bytes) -> _Seal:
        told = b"\0".join([direction, purpose.encode(), bytes(answerers) + bytes(callers)])
        return _Seal(hmac.digest(key, told, "sha256"))

    return derived(sending), derived(receiving)


def spelled_address(address: Sequence[object]) -> str:
    """As users write one."""
    return f"{address[0]}:{address[1]}"


class _Line:
    """A connection's bytes with deadlines: ``until`` a moment while the call is made, then ``STALL`` for each wait.

    It never blocks by itself but waits in ``poll``: so both directions have deadlines of their own.
    """

    def __init__(self, connection: socket.socket, peer: str, until: float | None) -> None:
        self._connection, self.peer, self.until = connection, peer, until
        connection.setblocking(False)
        with suppress(OSError):  # not every kind of socket knows them
            _keep_alive(connection)

    def read_exactly(self, count: int) -> bytearray:
        taken = bytearray()
        while len(taken) < count:
            start = len(taken)
            taken.extend(bytes(min(count - start, _CHUNK)))
            with memoryview(taken) as view:
                self._fill(view[start:])
        return taken

    def _fill(self, view: memoryview) -> None:
        at = 0
        while at < len(view):
            with self._broken():
                try:
                    read = self._connection.recv_into(view[at:])
                except BlockingIOError:
                    self._wait(select.POLLIN, self._patience())
                    continue
            if not read:
                raise ChannelClosed(f"{self.peer} has hung up")
            at += read

    def write_all(self, pieces: Sequence[Bytes]) -> None:
        left = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
        while left:
            with self._broken():
                try:
                    sent = self._connection.sendmsg(left[:_MOST_PIECES])
                except BlockingIOError:
                    self._wait(select.POLLOUT, self._patience())
                    continue
            while left and sent >= left[0].nbytes:
                sent -= left.pop(0).nbytes
            if sent:
                left[0] = left[0][sent:]

    def await_bytes(self, within: float | None) -> None:
        with self._broken():
            self._wait(select.POLLIN, within)

    def _patience(self) -> float:
        return STALL if self.until is None else self.until - time.monotonic()

    def _wait(self, event: int, seconds: float | None) -> None:
        waiting = select.poll()
        waiting.register(self._connection, event)
        if (seconds is not None and seconds <= 0) or not waiting.poll(None if seconds is None else seconds * 1000):
            raise ChannelError(f"{self.peer} keeps silent; the call is ended")

    @contextmanager
    def _broken(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as problem:  # ValueError: closed under a waiting thread
            raise ChannelClosed(f"the connection to {self.peer} is broken: {problem}") from None

    @contextmanager
    def closed_on_failure(self, but: type[Exception] | tuple[type[Exception], ...] = ()) -> Iterator[None]:
        try:
            yield
        except but:
            raise
        except BaseException:
            self.close()
            raise

    def hang_up(self, how: int) -> None:
        with suppress(OSError):
            self._connection.shutdown(how)

    def close(self) -> None:
        self._connection.close()


def _keep_alive(connection: socket.socket) -> None:
    """Messages leave at once; another side that is gone without a word is noticed after two minutes."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
