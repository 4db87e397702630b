"""The Spark session that Weir works in: its own, or one beside a session that is running already.

What a view means must not depend on a user's settings, so the settings that change meaning (time zone, ANSI) belong to
a session of Weir's own. Beside a running session that is a sibling: the same cluster, its own settings.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from weir.algebra.errors import WeirError
from weir.scratch import PrivateFolder, machine_place

# What an expression means, and how rows travel. They can be set on any session, a remote one too.
_MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# How a Spark application of our own starts.
_APPLICATION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.files.openCostInBytes": str(256 << 10),  # young files are small: 4 MB each would send all to one task
    "spark.scheduler.mode": "FAIR",  # who works shares the cores (``share_cores``)
    "spark.python.task.killTimeout": "200ms",  # a worker that was called off and hangs is not waited for
}
_LOCAL_DIR, _JAVA_OPTIONS = "spark.local.dir", "spark.driver.extraJavaOptions"
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_DAEMON = {"spark.python.daemon.module": "weir.rounds.daemon"}  # another machine's Python may get Weir with its tasks


_USUAL = (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler, None)
_LOOK_SECONDS, _MOST_REFUSALS = 1.0, 3  # looks at a server in a row
_GO_ON = "nothing is lost: start weir run again"
_LOG_LIMIT = 1_000_000  # bytes; a longer log begins anew


class SparkFailed(WeirError):
    """Spark does not start."""


class SparkGone(WeirError):
    """The Spark session has ended while it was needed."""

    exit_code = 3


class Pulse:
    """Whether a session's Spark is still alive. Nothing can be done in one that is gone, and another cannot be had in
    this process; but whatever asks it may wait for minutes, or fail in a hundred ways.
    """

    def __init__(self, spark: SparkSession) -> None:
        gateway = getattr(getattr(spark, "_sc", None), "_gateway", None)
        self._java = getattr(gateway, "proc", None)
        self._client: Any = getattr(spark, "_client", None)
        self._endpoint: str | None = getattr(getattr(self._client, "_builder", None), "endpoint", None)
        self._refusals, self._look_at = 0, 0.0

    def check(self) -> None:
        """Refuses to go on when the Java process that was started here has ended, or a server lets nobody in."""
        if self._java is not None and self._java.poll() is not None:
            raise SparkGone(
                f"Spark has ended: its Java process {self._java.pid} is gone (exit code {self._java.returncode}: "
                f"killed, out of memory, or crashed; see spark.log beside the tables); {_GO_ON}"
            )
        if self._endpoint is not None and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_SECONDS
            self._refusals = self._refusals + 1 if _refuses(self._endpoint) else 0
            if self._refusals == _MOST_REFUSALS:
                self._client.close()  # it would say goodbye when the process ends, for ten minutes
                raise SparkGone(f"Spark has ended: the server at {self._endpoint} lets nobody in; {_GO_ON}")


def _refuses(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
    except TimeoutError:
        return False  # it may be busy
    except OSError:
        return True
    return False


def open_session(
    place: str = "local[*]",
    name: str = "weir",
    settings: Mapping[str, str] | None = None,
    log: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """A session at ``place``: a master (``local[*]``, ``spark://host:port``, ...) or a Spark Connect address
    (``sc://host:port``). ``settings`` are Spark's own and win over ours.

    ``log``: the file to which a Spark that is started here writes what it would write to the terminal.

    Where a Spark application runs in this process already, the session is one inside it, whatever the place.
    """
    wanted = dict(settings or {})
    running = SparkSession.getActiveSession()
    if running is not None:
        return inside(running, wanted)
    session = _connect(place, name) if place.startswith("sc://") else _start(place, name, wanted, log)
    return _set(session, {**_MEANING, **_runtime(wanted)})


def inside(session: SparkSession, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session beside a running one: the same application, with Weir's meaning; the running one is left as it is."""
    return _set(session.newSession(), {**_MEANING, **_runtime(settings or {})})


def share_cores(spark: SparkSession, pool: str, work: str = "") -> None:
    """From now on this thread's jobs share the cores fairly with those of other pools; within one, first come, first
    served. ``work``: a name by which they can be called off.

    A remote session knows no pools: there the server's own scheduling decides.
    """
    context = _own_context(spark)
    if context is not None:
        context.setLocalProperty("spark.scheduler.pool", pool)
        if work:
            context.setJobGroup(work, pool)
    elif work:
        spark.addTag(work)


def call_off(spark: SparkSession, work: str) -> None:
    """Ends the jobs of this name that are under way; their tasks' Python processes too, whatever they wait for."""
    context = _own_context(spark)
    if context is not None:
        context.cancelJobGroup(work)
    else:
        spark.interruptTag(work)


def _own_context(spark: SparkSession) -> SparkContext | None:
    """None: the session is a remote one."""
    return spark.sparkContext if getattr(spark, "_sc", None) is not None else None


def _start(
    master: str, name: str, settings: Mapping[str, str], log: str | os.PathLike[str] | None
) -> SparkSession:
    # The workers must run the driver's Python: pickles and packages have to fit. Who has set it knows better.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    wanted = dict(settings)
    if master.startswith("local"):
        wanted = {**_LOOPBACK, **_DAEMON, **wanted, **_private_place(wanted)}
    for key, value in {**_APPLICATION, **wanted}.items():
        builder = builder.config(key, value)
    try:
        with _errors_to(Path(log)) if log is not None else nullcontext(), _interrupts_as_before():
            return builder.getOrCreate()
    except PySparkException as problem:
        told = _last_lines(Path(log)) if log is not None else str(problem)
        raise SparkFailed(
            f"Spark does not start at {master}: it needs Java 17 or newer, found by JAVA_HOME or on the path "
            f"(Debian: apt-get install openjdk-17-jre-headless). It said:\n{told}"
        ) from None


def _private_place(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings by which a Spark on this machine puts rows down where nobody else can read them.

    The folder is this process's and not a warehouse's: Spark stays for the next one.
    """
    folder = PrivateFolder(machine_place())
    atexit.register(folder.close)
    java = f'"-Djava.io.tmpdir={folder.path}" {settings.get(_JAVA_OPTIONS, "")}'.strip()
    return {_LOCAL_DIR: settings.get(_LOCAL_DIR, str(folder.path)), _JAVA_OPTIONS: java}


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-3:])


@contextmanager
def _interrupts_as_before() -> Iterator[None]:
    """Spark takes Ctrl-C for itself when it starts; who had a way of their own to end in good order keeps it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread() and before not in _USUAL:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """Processes that are started meanwhile write their errors to a file; this one goes on as before."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.unlink()
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _connect(address: str, name: str) -> SparkSession:
    return SparkSession.builder.remote(address).appName(name).getOrCreate()


def _runtime(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that a running session takes."""
    return {key: value for key, value in settings.items() if key.startswith("spark.sql.")}


def _set(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    for key, value in settings.items():
        session.conf.set(key, value)
    return session
