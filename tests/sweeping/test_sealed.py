"""The sealed channel over real sockets: what somebody between the two can do, and what comes of it."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.sweeping.between import ANSWERER, CALLER, HEADER, HELLO, Between, Twist
from weir.sweeping.sealed import (
    VERSION,
    ChannelClosed,
    ChannelError,
    ChannelRefused,
    MessageTooLong,
    SealedChannel,
)

KEY, PURPOSE = b"k" * 32, "test"
Answerer = Callable[..., tuple[str, int]]


class Echo:
    """Answers one call after the other, each message with itself; keeps what it was told and what went wrong."""

    def __init__(self, **options: Any) -> None:
        self._told: list[bytes] = []
        self._problems: list[ChannelError] = []
        self._options = options
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return host, port

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                try:
                    self._answer(SealedChannel.answer(connection, KEY, PURPOSE, **self._options))
                except ChannelError as problem:
                    self._problems.append(problem)

    def _answer(self, channel: SealedChannel) -> None:
        channel.welcome()
        while True:
            content = channel.receive()
            self._told.append(bytes(content))
            channel.send(content)

    @property
    def told(self) -> list[bytes]:
        """Everything, when the calls are over."""
        self.close()
        return self._told

    @property
    def problem(self) -> str:
        """The last one, when the calls are over."""
        self.close()
        return str(self._problems[-1])

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    with closing(Echo()) as started:
        yield started


def _call(address: tuple[str, int], **options: Any) -> SealedChannel:
    return SealedChannel.call(address, KEY, PURPOSE, **options)


def _hello(connection: socket.socket, version: int = VERSION) -> bytes:
    """A stranger's hello; the answerer's."""
    connection.sendall(struct.pack(">4sH32s", b"weir", version, bytes(32)))
    return connection.recv(HELLO, socket.MSG_WAITALL)


def _all_that_comes(connection: socket.socket) -> bytes:
    """Until the other side hangs up."""
    connection.settimeout(20)
    taken = b""
    with suppress(ConnectionError):
        while piece := connection.recv(4096):
            taken += piece
    return taken


def test_messages_of_every_size_arrive(echo: Echo) -> None:
    """Empty ones, and ones that no buffer of the system's holds at once, in pieces or not."""
    with closing(_call(echo.address)) as channel:
        for content in (b"", b"x", os.urandom(70_000), os.urandom(20_000_000)):
            channel.send(content[:1], content[1:])
            assert channel.receive() == content


@pytest.mark.parametrize(("key", "purpose"), [(b"g" * 32, PURPOSE), (KEY, "another")])
def test_who_does_not_know_the_key_is_not_talked_to(echo: Echo, key: bytes, purpose: str) -> None:
    """Another key, or the right one for another purpose; neither side believes the other."""
    with pytest.raises(ChannelRefused, match=r"127\.0\.0\.1:\d+ hangs up without an answer: it does not know the key"):
        SealedChannel.call(echo.address, key, purpose)
    assert "wrong seal" in echo.problem


def test_an_answerer_without_the_key_is_not_believed() -> None:
    """It may say hello and anything else: its seal is wrong."""

    def pretend(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            _hello(connection)
            connection.sendall(struct.pack(">Q32s", 7, bytes(32)) + b"welcome")
            _all_that_comes(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        pretending = threading.Thread(target=pretend, args=(listener,))
        pretending.start()
        with pytest.raises(ChannelError, match="wrong seal"):
            _call(listener.getsockname())
        pretending.join(20)


def _flip(frame: bytes, at: int) -> bytes:
    return frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]


def _twisted(sender: str, number: int, change: Callable[[bytes], list[bytes]]) -> Twist:
    return lambda who, at, frame: change(frame) if (who, at) == (sender, number) else [frame]


@pytest.mark.parametrize("sender", [CALLER, ANSWERER])
@pytest.mark.parametrize("at", [7, HEADER - 1, HEADER, -1], ids=["length", "seal", "first byte", "last byte"])
def test_a_flipped_bit_ends_the_channel(echo: Echo, sender: str, at: int) -> None:
    """In the length, the seal or the content, in either direction: nobody gets to see such a message."""
    with closing(Between(echo.address, _twisted(sender, 2, lambda frame: [_flip(frame, at % len(frame))]))) as between:
        channel = _call(between.address)
        channel.send(b"0123456789.")  # eleven bytes: with the bit flipped one less is said to come
        with pytest.raises(ChannelError):
            channel.receive()
    assert echo.told == ([] if sender == CALLER else [b"0123456789."])


@pytest.mark.parametrize("number", [0, 1], ids=["hello", "message 0"])
@pytest.mark.parametrize("sender", [CALLER, ANSWERER])
def test_a_flipped_bit_in_the_call_ends_it(echo: Echo, sender: str, number: int) -> None:
    """The random bytes of the hellos are part of the keys."""
    with (
        closing(Between(echo.address, _twisted(sender, number, lambda frame: [_flip(frame, 30)]))) as between,
        pytest.raises(ChannelError, match=r"wrong seal|does not know the key"),
    ):
        _call(between.address)


def test_a_message_that_is_repeated_ends_the_channel(echo: Echo) -> None:
    """The answerer takes it once; the second time its number is another."""
    with closing(Between(echo.address, _twisted(CALLER, 2, lambda frame: [frame, frame]))) as between:
        channel = _call(between.address)
        channel.send(b"pay 10")
        assert channel.receive() == b"pay 10"
        with pytest.raises(ChannelClosed):
            channel.receive()
    assert echo.told == [b"pay 10"]
    assert "wrong seal: it was changed, repeated or moved" in echo.problem


def test_messages_that_are_left_out_or_moved_end_the_channel(echo: Echo) -> None:
    """Neither the second without the first, nor the two the other way round."""
    for passed in (lambda held, frame: [frame], lambda held, frame: [frame, held]):
        held: list[bytes] = []

        def twist(who: str, at: int, frame: bytes, held: list[bytes] = held, passed: Any = passed) -> list[bytes]:
            if (who, at) == (CALLER, 2):
                held.append(frame)
                return []
            return passed(held[0], frame) if (who, at) == (CALLER, 3) else [frame]

        with closing(Between(echo.address, twist)) as between:
            channel = _call(between.address)
            channel.send(b"first")
            channel.send(b"second")
            with pytest.raises(ChannelClosed):
                channel.receive()
    assert echo.told == []


def test_a_message_of_another_call_ends_the_channel(echo: Echo) -> None:
    """The same key, the same number, the same direction: but other random bytes."""
    with closing(Between(echo.address)) as earlier:
        channel = _call(earlier.address)
        channel.send(b"again")
        assert channel.receive() == b"again"
        channel.close()
    recorded = earlier.seen[CALLER][2]
    with closing(Between(echo.address, _twisted(CALLER, 2, lambda frame: [recorded]))) as between:
        channel = _call(between.address)
        channel.send(b"again")
        with pytest.raises(ChannelClosed):
            channel.receive()
    assert echo.told == [b"again"]


def test_a_call_that_is_played_again_is_refused(echo: Echo) -> None:
    """All that a caller once said, hello and message 0 and a question, means nothing to the next hello."""
    with closing(Between(echo.address)) as between:
        channel = _call(between.address)
        channel.send(b"once")
        channel.receive()
        channel.close()
    with socket.create_connection(echo.address) as stranger:
        stranger.sendall(b"".join(between.seen[CALLER]))
        assert len(_all_that_comes(stranger)) == HELLO
    assert echo.told == [b"once"]


def test_a_message_that_is_sent_back_ends_the_channel(echo: Echo) -> None:
    """Its own words are no answer: the other direction has another key."""
    with closing(Between(echo.address)) as between:
        between.twist = lambda who, at, frame: [between.seen[CALLER][2]] if (who, at) == (ANSWERER, 2) else [frame]
        channel = _call(between.address)
        channel.send(b"echo")
        with pytest.raises(ChannelError, match="wrong seal"):
            channel.receive()


def test_a_length_beyond_all_measure_is_refused(echo: Echo) -> None:
    """Of a stranger at once; between those who know the key before any memory is taken."""
    with socket.create_connection(echo.address) as stranger:
        _hello(stranger)
        stranger.sendall(struct.pack(">Q32s", 1 << 62, bytes(32)))
        assert _all_that_comes(stranger) == b""
    assert "announces a message of 4,611,686,018,427,387,904 bytes: at most 0 are taken" in echo.problem
    with closing(Echo(most_bytes=1000)) as small:
        channel = _call(small.address)
        channel.send(bytes(1001))
        with pytest.raises(ChannelClosed):
            channel.receive()
    assert "1,001 bytes: at most 1,000 are taken" in small.problem


def test_a_message_that_is_too_long_is_not_sent(echo: Echo) -> None:
    """And the channel can be used on."""
    with closing(_call(echo.address, most_bytes=1000)) as channel:
        with pytest.raises(MessageTooLong, match=r"1,001 bytes .*: at most 1,000 are sent at once"):
            channel.send(bytes(1001))
        channel.send(bytes(1000))
        assert len(channel.receive()) == 1000


class Bomb:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def test_a_pickle_is_bytes_like_any_other(echo: Echo, tmp_path: Path) -> None:
    """Before the call, in its place or within it: nothing in it is executed, on neither side."""
    bomb = pickle.dumps(Bomb(tmp_path / "executed"))
    for sent in (struct.pack(">i", len(bomb)) + bomb, bomb):
        with socket.create_connection(echo.address) as stranger:
            stranger.sendall(sent + bytes(100))
            _all_that_comes(stranger)
    with closing(_call(echo.address)) as channel:
        channel.send(bomb)
        assert channel.receive() == bomb
    assert echo.told == [bomb]
    assert not (tmp_path / "executed").exists()


def test_another_version_is_told_so(echo: Echo) -> None:
    """To whoever reads the log; the caller's side says the same of the answerer's."""
    with socket.create_connection(echo.address) as stranger:
        _hello(stranger, version=VERSION + 1)
        assert _all_that_comes(stranger) == b""
    assert f"speaks version {VERSION + 1} of Weir's channel and this process version {VERSION}" in echo.problem


def test_who_dribbles_gets_no_more_time_than_who_is_silent() -> None:
    """The deadline is for the whole call, not for each byte of it."""
    with closing(Echo(within=0.3)) as hasty, socket.create_connection(hasty.address) as stranger:
        stranger.settimeout(20)
        stranger.recv(HELLO, socket.MSG_WAITALL)
        with suppress(OSError):  # raised when it has been hung up on
            while True:
                stranger.sendall(b"w")
                stranger.settimeout(0.05)
                with suppress(TimeoutError):
                    if not stranger.recv(1):
                        break
    assert "keeps silent" in hasty.problem


def test_an_answerer_who_keeps_silent_is_given_up() -> None:
    """A port that accepts and says nothing, as a stopped process does; and one that stops talking later."""
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ChannelError, match="keeps silent"):
        _call(silent.getsockname(), within=0.2)
    with (
        closing(Echo()) as echo,
        closing(_call(echo.address)) as channel,
        pytest.raises(ChannelError, match="keeps silent"),
    ):
        channel.receive(within=0.1)


def test_a_port_where_nobody_listens_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
    with pytest.raises(ChannelError, match=rf"{host}:{port} cannot be reached: Connection refused"):
        _call((host, port))
