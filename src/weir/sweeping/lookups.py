"""How a Spark task looks things up in the snapshots that the driver holds.

PostgreSQL can share a snapshot: the task opens it over a connection of its own. MariaDB, SQLite and files cannot; there
the task asks the driver, which asks the source in its held snapshot: one small server on the driver, one thread per
task that asks. What they say is in ``questions``, how nobody else can say it in ``sealed``.

Both are exact, because both read the very snapshot up to which updates were delivered. See
docs/decisions/0017-lookups-from-tasks.md for what was measured.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.sources.source import Answers, SnapshotReader, SourceError
from weir.sweeping.questions import LookupRequest, packed_answers, packed_problem, unpacked_answers
from weir.sweeping.sealed import ChannelError, ChannelRefused, MessageTooLong, SealedChannel
from weir.sweeping.serving import Server, listen

PURPOSE = "weir-lookups"
_LOOPBACK = "127.0.0.1"
_SPARE_CALLERS = 16
AskSource = Callable[[str, int, Sequence[Lookup]], Answers]  # source, round, lookups


@dataclass(frozen=True)
class SharedSnapshot:
    """A snapshot that any process can enter."""

    token: Any

    def open(self) -> SnapshotReader:
        reader: SnapshotReader = self.token.reader()
        return reader


@dataclass(frozen=True)
class ServedSnapshot:
    """A snapshot that the driver holds and answers from. ``round`` says which: a task that comes late is refused."""

    address: tuple[str, int]
    key: bytes = field(repr=False)
    source: str
    round: int

    def open(self) -> SnapshotReader:
        return _Asking(self)


Access = SharedSnapshot | ServedSnapshot


class _Asking(SnapshotReader):
    def __init__(self, served: ServedSnapshot) -> None:
        self._served = served
        try:
            self._channel = SealedChannel.call(served.address, served.key, PURPOSE)
        except ChannelRefused:
            raise
        except ChannelError as problem:
            raise ChannelError(
                f"the driver's lookup port does not answer: {problem}; let the workers connect to it, or set "
                "spark.driver.host in [spark.settings] to the driver's address as they see it"
            ) from None

    def answer(self, lookups: Sequence[Lookup]) -> Answers:
        self._channel.send(*LookupRequest(self._served.source, self._served.round, tuple(lookups)).packed())
        return unpacked_answers(self._channel.receive())

    def close(self) -> None:
        self._channel.close()


def driver_address(spark: SparkSession) -> str:
    """Under which tasks reach this process: as Spark's driver, or, where that is another process (Spark Connect), by
    the address from which this machine reaches it.
    """
    if not type(spark).__module__.startswith("pyspark.sql.connect"):
        return spark.conf.get("spark.driver.host", _LOOPBACK) or _LOOPBACK
    server = spark.client.host.strip("[]")
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((server, 1))  # sends nothing: it only chooses the way
        return str(probe.getsockname()[0])


def _listen(host: str) -> socket.socket:
    try:
        return listen(host)
    except OSError as problem:
        raise WeirError(
            f"tasks cannot be answered at the driver's address {host}: {problem.strerror}; set spark.driver.host in "
            "[spark.settings] to this machine's address as the workers see it"
        ) from None


class LookupServer:
    """Answers tasks. Only who knows the key, which travels with the job, can ask; nothing is written anywhere.

    Each of ``tasks`` may have a call under way to every source, and so may those of a job that has just failed.
    """

    def __init__(self, ask: AskSource, host: str = _LOOPBACK, tasks: int = 1) -> None:
        self._ask, self._tasks = ask, tasks
        self._key = secrets.token_bytes(32)
        self._sources: set[str] = set()
        self._server = Server(PURPOSE, _listen(host), self._key, self._serve, most=0)

    def access_to(self, source: str, round_: int) -> ServedSnapshot:
        self._sources.add(source)
        self._server.most = _SPARE_CALLERS + 2 * self._tasks * len(self._sources)
        return ServedSnapshot(self._server.address, self._key, source, round_)

    def _serve(self, channel: SealedChannel) -> None:
        while True:
            content = channel.receive()
            try:
                channel.send(*self._answered(content))
            except MessageTooLong as problem:
                channel.send(*packed_problem(WeirError(f"{problem}; take fewer changes at once: run.max_batch")))

    def _answered(self, content: bytearray) -> list[Any]:
        try:
            asked = LookupRequest.unpacked(content)
            return packed_answers(self._looked_up(asked))
        except WeirError as problem:
            return packed_problem(problem)

    def _looked_up(self, asked: LookupRequest) -> Answers:
        try:
            return self._ask(asked.source, asked.round, asked.lookups)
        except WeirError:
            raise
        except Exception as problem:
            raise SourceError(f"source {asked.source}: {type(problem).__name__}: {problem}") from problem

    def close(self) -> None:
        self._server.close()
