"""The runner's small server under callers who do not behave: few threads, and those who know the key are answered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from weir.sweeping.sealed import HANDSHAKE, ChannelClosed, ChannelRefused, SealedChannel
from weir.sweeping.serving import MOST_KNOCKING, Server, listen

KEY, NAME = b"k" * 32, "weir-test"
Start = Callable[..., Server]


def _echo(channel: SealedChannel) -> None:
    while True:
        channel.send(channel.receive())


@pytest.fixture
def start() -> Iterator[Start]:
    before = set(threading.enumerate())
    with ExitStack() as started:

        def make(serve: Callable[[SealedChannel], None] = _echo, most: int = 4, within: float = HANDSHAKE) -> Server:
            return started.enter_context(closing(Server(NAME, listen("127.0.0.1"), KEY, serve, most, within)))

        yield make
    assert set(threading.enumerate()) == before, "all of its threads end when it is closed"


def _call(server: Server) -> SealedChannel:
    return SealedChannel.call(server.address, KEY, NAME)


def _answers(channel: SealedChannel) -> bool:
    channel.send(b"?")
    return channel.receive() == b"?"


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def _gone(connection: socket.socket) -> bool:
    """Whether the server has hung up, which is waited for."""
    connection.settimeout(20)
    with suppress(ConnectionError):
        while connection.recv(100):
            pass
    return True


def test_half_open_calls_hold_few_threads_and_nobody_up(start: Start) -> None:
    """104 strangers connect and say nothing: the oldest are hung up on, and a caller with the key is answered."""
    server = start()
    with ExitStack() as strangers:
        silent = [strangers.enter_context(socket.create_connection(server.address)) for _ in range(104)]
        with closing(_call(server)) as channel:
            assert _answers(channel)
            assert len(_threads()) <= 1 + MOST_KNOCKING + 1  # who accepts, who knocks, who is served
            assert all(_gone(stranger) for stranger in silent[: 104 - MOST_KNOCKING])
            assert _answers(channel), "who is served stays served"


def test_a_half_open_call_ends_by_itself(start: Start) -> None:
    """After the deadline, also when nobody else comes; its thread with it."""
    server = start(within=0.1)
    with socket.create_connection(server.address) as stranger:
        assert _gone(stranger)


def test_more_callers_than_allowed_are_told(start: Start) -> None:
    """As soon as one of the others has gone, the next is answered."""
    server = start(most=2)
    with closing(_call(server)) as first, closing(_call(server)) as second:
        with pytest.raises(ChannelRefused, match=r"127\.0\.0\.1:\d+ answers 2 callers already, as many as it may"):
            _call(server)
        assert _answers(first)
        assert _answers(second)
    for thread in _threads():
        if thread is not server._accepting:
            thread.join(20)
    with closing(_call(server)) as third:
        assert _answers(third)


def test_strangers_take_no_place_of_callers(start: Start) -> None:
    """Whoever has not proved to know the key does not count."""
    server = start(most=1)
    with socket.create_connection(server.address), closing(_call(server)) as channel:
        assert _answers(channel)


def test_an_answer_under_way_is_still_given(start: Start) -> None:
    """Closing hangs up on who waits, not on who is being answered."""
    asked, closing_now = threading.Event(), threading.Event()

    def serve(channel: SealedChannel) -> None:
        content = channel.receive()
        asked.set()
        closing_now.wait(20)
        channel.send(content)
        _echo(channel)

    server = start(serve)
    with closing(_call(server)) as channel:
        channel.send(b"late")
        assert asked.wait(20)
        ending = threading.Thread(target=server.close)
        ending.start()
        server._accepting.join(20)
        closing_now.set()
        assert channel.receive() == b"late"
        with pytest.raises(ChannelClosed):
            channel.receive()
        ending.join(20)


def test_a_server_whose_work_fails_goes_on(start: Start) -> None:
    """One call's trouble is that call's."""
    failures = iter([True, False])

    def serve(channel: SealedChannel) -> None:
        if next(failures):
            raise OSError("broken")
        _echo(channel)

    server = start(serve, most=1)
    with closing(_call(server)) as channel, pytest.raises(ChannelClosed):
        channel.receive()
    for thread in _threads():
        if thread is not server._accepting:
            thread.join(20)
    with closing(_call(server)) as channel:
        assert _answers(channel)
