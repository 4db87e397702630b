"""The lookup server and the control server: who may ask, and what becomes of those who may not or come too late."""

from __future__ import annotations

import json
import pickle
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.sweeping.test_sealed import Bomb
from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.operation.control import FILE, PURPOSE, ControlServer, NoRunner, ask_runner
from weir.operation.locking import FOLDER
from weir.rounds.answering import Answering
from weir.sources.source import Answers, SourceError
from weir.sweeping.lookups import PURPOSE as LOOKUPS
from weir.sweeping.lookups import LookupServer
from weir.sweeping.questions import unpacked_answers
from weir.sweeping.sealed import HANDSHAKE, ChannelClosed, ChannelError, ChannelRefused, SealedChannel

QUESTION = Lookup(Relation("crm", "customer"), ("id",))


def _ask(source: str, round_: int, lookups: Sequence[Lookup]) -> Answers:
    return tuple(pa.table({"id": [round_]}) for _ in lookups)


@pytest.fixture
def serve() -> Iterator[Callable[[Any], LookupServer]]:
    servers: list[LookupServer] = []

    def start(ask: Any) -> LookupServer:
        servers.append(LookupServer(ask))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_who_knows_the_key_is_answered(serve: Callable[[Any], LookupServer]) -> None:
    """As often as it asks; the key is not in what is printed of the access."""
    access = serve(_ask).access_to("crm", 7)
    reader = access.open()
    assert [answer.to_pylist() for answer in reader.answer([QUESTION, QUESTION])] == [[{"id": 7}]] * 2
    assert len(reader.answer([])) == 0
    reader.close()
    assert repr(access.key) not in repr(access)


def test_a_stranger_is_refused(serve: Callable[[Any], LookupServer]) -> None:
    """Without the key there is no answer, and the next who has it gets one."""
    access = serve(_ask).access_to("crm", 1)
    with pytest.raises(ChannelRefused, match="does not know the key of this call"):
        replace(access, key=b"guessed").open()
    assert access.open().answer([QUESTION])[0].num_rows == 1


def test_a_stranger_who_says_nothing_keeps_nobody_waiting(serve: Callable[[Any], LookupServer]) -> None:
    """A connection that never proves anything is no reason for tasks to wait."""
    access = serve(_ask).access_to("crm", 1)
    with socket.create_connection(access.address):
        asking = threading.Thread(target=lambda: access.open().answer([QUESTION]), daemon=True)
        asking.start()
        asking.join(20)
        assert not asking.is_alive()


def test_nothing_waits_any_more_when_it_is_closed() -> None:
    """Neither the thread that accepts, nor those of a task that is still there and of a stranger who says nothing."""
    before = set(threading.enumerate())
    server = LookupServer(_ask)
    reader = server.access_to("crm", 1).open()
    reader.answer([QUESTION])
    with socket.create_connection(server.access_to("crm", 1).address):
        server.close()
        assert set(threading.enumerate()) - before == set()
    with pytest.raises(ChannelClosed):
        reader.answer([QUESTION])


def test_a_task_that_comes_late_is_refused(serve: Callable[[Any], LookupServer]) -> None:
    """Its snapshot has been released; an answer from the next one would be wrong, so there is none."""
    answering = Answering(None, {}, 1, "127.0.0.1")  # no job is run
    late = serve(answering._look).access_to("crm", 4).open()
    with pytest.raises(WeirError, match="source crm: the snapshot 4 is gone"):
        late.answer([QUESTION])


def test_trouble_in_an_answer_names_the_source(serve: Callable[[Any], LookupServer]) -> None:
    """Ours as they are, others in words; the connection lives on."""

    def fail(source: str, round_: int, lookups: Sequence[Lookup]) -> Answers:
        raise WeirError("our own") if round_ else ValueError("theirs")

    server = serve(fail)
    with pytest.raises(WeirError, match=r"^our own$"):
        server.access_to("crm", 1).open().answer([QUESTION])
    reader = server.access_to("crm", 0).open()
    for _ in range(2):
        with pytest.raises(SourceError, match="source crm: ValueError: theirs"):
            reader.answer([QUESTION])


def test_more_tasks_than_there_can_be_are_told() -> None:
    """Places grow with the sources that are asked; nobody who is answered is disturbed, and a place left is free."""
    with closing(LookupServer(_ask, tasks=2)) as server, ExitStack() as opened:
        access = server.access_to("crm", 1)
        readers = [opened.enter_context(closing(access.open())) for _ in range(16 + 2 * 2)]
        with pytest.raises(ChannelRefused, match="answers 20 callers already, as many as it may; ask again later"):
            access.open()
        assert [reader.answer([QUESTION])[0].num_rows for reader in readers] == [1] * len(readers)
        other = server.access_to("sales", 1)
        opened.enter_context(closing(other.open()))


def test_a_driver_that_cannot_be_reached_is_named() -> None:
    """With the port, and what the user can do about it."""
    server = LookupServer(_ask)
    access = server.access_to("crm", 1)
    server.close()
    with pytest.raises(ChannelError, match=r"lookup port does not answer: 127\.0\.0\.1:\d+ .*set spark\.driver\.host"):
        access.open()


def test_an_answer_that_is_too_long_is_told(
    serve: Callable[[Any], LookupServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In words that name the way out; the channel lives on."""
    monkeypatch.setattr(SealedChannel.answer.__func__, "__defaults__", (HANDSHAKE, 2000))  # type: ignore[attr-defined]
    reader = serve(lambda _, round_, lookups: (pa.table({"id": range(1000)}),)).access_to("crm", 1).open()
    for _ in range(2):
        with pytest.raises(WeirError, match=r"at most 2,000 are sent at once; take fewer changes.*: run\.max_batch"):
            reader.answer([QUESTION])


def test_words_that_are_no_question_are_answered_in_words(
    serve: Callable[[Any], LookupServer], tmp_path: Path
) -> None:
    """Also from who knows the key: a pickle, say, is not executed."""
    access = serve(_ask).access_to("crm", 1)
    with closing(SealedChannel.call(access.address, access.key, LOOKUPS)) as channel:
        for content in (pickle.dumps(Bomb(tmp_path / "executed")), b"", b"\0\0\0\2{}", b"\0\0\0\x0a{\"form\": 2}"):
            channel.send(content)
            with pytest.raises(WeirError, match=r"cannot be understood .*: install the same Weir on both sides"):
                unpacked_answers(channel.receive())
    assert not (tmp_path / "executed").exists()


# -- control -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    (tmp_path / FOLDER).mkdir()
    return tmp_path


def _add(one: int, other: int) -> int:
    return one + other


def test_a_runner_can_be_asked_by_its_own_account_only(warehouse: Path) -> None:
    """Its address and key are in a file that nobody else can read, gone when it ends."""
    server = ControlServer(str(warehouse), {"add": _add})
    file = warehouse / FOLDER / FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert ask_runner(str(warehouse), "add", one=1, other=2) == 3
    at = json.loads(file.read_text())
    with pytest.raises(ChannelRefused):
        SealedChannel.call((at["host"], at["port"]), b"guessed", PURPOSE)
    with socket.create_connection((at["host"], at["port"])):
        assert ask_runner(str(warehouse), "add", one=2, other=2) == 4
    server.close()
    with pytest.raises(NoRunner, match=r"no runner answers for the warehouse at .*; start one: weir run"):
        ask_runner(str(warehouse), "add", one=1, other=2)


def test_what_a_runner_cannot_do_is_told(warehouse: Path) -> None:
    """An error of its own, or a request that it does not know, comes back as words."""

    def refuse() -> None:
        raise WeirError("not now")

    server = ControlServer(str(warehouse), {"refuse": refuse})
    with pytest.raises(WeirError, match=r"^not now$"):
        ask_runner(str(warehouse), "refuse")
    with pytest.raises(WeirError, match="KeyError"):
        ask_runner(str(warehouse), "dance")
    server.close()


def test_an_address_of_another_machine() -> None:
    """Named, with the setting that mends it."""
    with pytest.raises(WeirError, match=r"driver's address 198\.51\.100\.77.*set spark\.driver\.host"):
        LookupServer(_ask, "198.51.100.77")
