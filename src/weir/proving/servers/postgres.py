"""A private PostgreSQL server: own data folder and port on 127.0.0.1, started and stopped by pid.

For tests, ``weir stress`` and the demo; never for data that matters. PostgreSQL refuses to run as root, so under root
it runs as the account ``postgres`` (or ``nobody``), which then owns the folder. Files are not synced to disk: the
server survives ``kill -9`` (the operating system keeps what was written), not a power cut, and nobody needs a throwaway
server to survive that.
"""

from __future__ import annotations

import atexit
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from weir.algebra.errors import WeirError

ADMIN = "weir_admin"
DEBIAN = Path("/usr/lib/postgresql")
START_SECONDS = 300.0
STOP_SECONDS = 60.0
SETTINGS = {
    "fsync": "off",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_prepared_transactions": "20",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "1GB",
    "log_min_messages": "warning",
}


class ServerError(WeirError):
    """A private server cannot be started or has ended by itself."""


def find_binaries() -> Path:
    """The folder of ``initdb`` and ``postgres``: what pg_config names, or the newest that Debian installed."""
    folders = sorted(DEBIAN.glob("*/bin"), key=_version, reverse=True)
    if tool := shutil.which("pg_config"):
        told = subprocess.run([tool, "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
        folders.insert(0, Path(told))
    for folder in folders:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise ServerError("no PostgreSQL server binaries (initdb, postgres) here; install them: apt-get install postgresql")


def _version(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0


class PostgresServer:
    """A running private server; a context manager that stops it and removes its folder."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._binaries = find_binaries()
        self._settings = {**SETTINGS, **(settings or {})}
        self._account = _unprivileged_account()
        self._process: subprocess.Popen[bytes] | None = None
        self.password = secrets.token_hex(16)
        self.port = _free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="weir-postgres-"))
        self._give_away(self.folder)
        atexit.register(self.stop)
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.stop()
            raise

    # -- where it is ------------------------------------------------------------------------------------------------

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError("this PostgreSQL server is not running")
        return self._process.pid

    def address(self, database: str = "postgres", user: str = ADMIN, password: str | None = None) -> dict[str, Any]:
        """Keyword arguments for ``psycopg.connect``."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "dbname": database,
            "user": user,
            "password": password or self.password,
        }

    def connect(self, database: str = "postgres", autocommit: bool = True) -> psycopg.Connection[Any]:
        """An administrator's connection."""
        return psycopg.connect(**self.address(database), autocommit=autocommit)

    def log_text(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the server on its port and waits until it answers; after a ``kill`` its orphans must end first."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            self._launch()
            if self._answers(deadline):
                return
            if time.monotonic() > deadline:
                raise ServerError(f"the private PostgreSQL server does not start; its log:\n{self.log_text()[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stops the server (SIGINT, then SIGKILL to its pid) and removes its folder."""
        atexit.unregister(self.stop)
        self.halt()
        shutil.rmtree(self.folder, ignore_errors=True)

    def halt(self) -> None:
        """Stops the server in good order, and keeps its data."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """``kill -9`` of the postmaster: a crash. ``start`` recovers from it."""
        os.kill(self.pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        self.halt()
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- how --------------------------------------------------------------------------------------------------------

    def _initialise(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o600)
        self._give_away(secret)
        command = [
            str(self._binaries / "initdb"), "--no-sync", "--no-instructions", f"--pgdata={self.data}",
            f"--username={ADMIN}", f"--pwfile={secret}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, **self._identity())
        if done.returncode:
            raise ServerError(f"initdb failed: {done.stderr.strip() or done.stdout.strip()}")

    def _launch(self) -> None:
        options = {
            **self._settings,
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
        }
        command = [str(self._binaries / "postgres"), "-D", str(self.data)]
        command += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
                **self._identity(),
            )  # fmt: skip

    def _answers(self, deadline: float) -> bool:
        assert self._process is not None
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                psycopg.connect(**self.address(), connect_timeout=5).close()
                return True
            except psycopg.OperationalError:
                time.sleep(0.05)
        return False

    def _identity(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def _give_away(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)


def _unprivileged_account() -> pwd.struct_passwd | None:
    """The account to run the server under: ours, unless that is root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServerError("PostgreSQL refuses to run as root, and there is no account 'postgres' or 'nobody' to use")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
