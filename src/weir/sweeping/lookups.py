"""How a Spark task looks things up in the snapshots that the driver holds.

PostgreSQL can share a snapshot: the task opens it over a connection of its own. MariaDB, SQLite and files cannot; there
the task asks the driver, which asks the source in its held snapshot: one small server on the driver, one thread per
task that asks. Both are exact, because both read the very snapshot up to which updates were delivered. See
docs/decisions/0017-lookups-from-tasks.md for what was measured.
"""

from __future__ import annotations

import pickle
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from pyspark.sql import SparkSession

from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.sources.source import Answers, SnapshotReader, SourceError
from weir.sweeping.serving import Server

_LOOPBACK = "127.0.0.1"
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
        self._connection = Client(served.address, authkey=served.key)

    def answer(self, lookups: Sequence[Lookup]) -> Answers:
        self._connection.send_bytes(pickle.dumps((self._served.source, self._served.round, tuple(lookups))))
        answer = pickle.loads(self._connection.recv_bytes())
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, tuple)
        return answer

    def close(self) -> None:
        self._connection.close()


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


def _listen(host: str) -> Listener:
    try:
        return Listener((host, 0), backlog=64)
    except OSError as problem:
        raise WeirError(
            f"tasks cannot be answered at the driver's address {host}: {problem.strerror}; set spark.driver.host in "
            "[spark.settings] to this machine's address as the workers see it"
        ) from None


class LookupServer:
    """Answers tasks. Only who knows the key, which travels with the job, can ask; nothing is written anywhere."""

    def __init__(self, ask: AskSource, host: str = _LOOPBACK) -> None:
        self._ask = ask
        self._key = secrets.token_bytes(32)
        self._server = Server("weir-lookups", _listen(host), self._key, self._serve)

    def access_to(self, source: str, round_: int) -> ServedSnapshot:
        return ServedSnapshot(self._server.address, self._key, source, round_)

    def _serve(self, connection: Connection) -> None:
        while True:
            connection.send_bytes(pickle.dumps(self._answered(*pickle.loads(connection.recv_bytes()))))

    def _answered(self, source: str, round_: int, lookups: Sequence[Lookup]) -> Answers | Exception:
        try:
            return self._ask(source, round_, lookups)
        except WeirError as problem:
            return problem
        except Exception as problem:
            return SourceError(f"source {source}: {type(problem).__name__}: {problem}")

    def close(self) -> None:
        self._server.close()
