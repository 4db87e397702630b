"""A private server: a data folder and a port of its own on 127.0.0.1, under an account that is not root, ended by pid.

For tests, benchmarks, ``weir stress`` and the demo; never for data that matters. One life for every kind:

    made --start--> running --halt, kill--> halted --start--> running          stop: halted, and the folder is gone

``with`` starts and stops it. ``halt`` is an orderly end, ``kill`` a crash; after both, ``start`` goes on with the data.
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
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from weir.algebra.errors import WeirError

LOOPBACK = "127.0.0.1"
START_SECONDS = 300.0
STOP_SECONDS = 60.0


class ServerError(WeirError):
    """A private server cannot be started or has ended by itself."""


class PrivateServer(ABC):
    """One server. ``settings`` are given as in its configuration; they replace or add to the kind's own."""

    name: ClassVar[str]  # for messages
    account: ClassVar[str]  # to run under when we are root; or "nobody"
    usual: ClassVar[Mapping[str, str]]  # settings of a small server with the change log that Weir reads
    orderly: ClassVar[signal.Signals]  # asks for an orderly end
    refusal: ClassVar[type[Exception]]  # of the driver, from a server that is not there yet

    def __init__(self, settings: Mapping[str, str] | None = None, password: str = "") -> None:
        self.find_programs()
        self.settings = {**self.usual, **(settings or {})}
        self.password = password or secrets.token_hex(16)
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._account = self._unprivileged_account()
        self.folder = Path(tempfile.mkdtemp(prefix=f"weir-{self.name.lower()}-"))
        self._give_away(self.folder)
        atexit.register(self.stop)

    @abstractmethod
    def find_programs(self) -> None:
        """Where this machine has them; an error that names the package when it has not."""

    @abstractmethod
    def initialise(self) -> None:
        """Makes the data folder."""

    @abstractmethod
    def command(self) -> list[str]:
        """Runs the server in the foreground, with ``settings``."""

    @abstractmethod
    def connect(self) -> Any:
        """An administrator's connection."""

    def settle(self) -> None:
        """What is left to do once the new server answers for the first time."""

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError(f"this {self.name} server is not running")
        return self._process.pid

    def log_text(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts the server on its port and waits until it answers."""
        fresh = not self.data.exists()
        if fresh:
            self.initialise()
        deadline = time.monotonic() + START_SECONDS
        while not self._launched(deadline):
            # What a killed server left behind (processes with its shared memory) may take a moment to end.
            if fresh or time.monotonic() > deadline:
                self.kill()
                raise ServerError(f"the private {self.name} server does not start; its log:\n{self.log_text()[-2000:]}")
            time.sleep(0.1)
        if fresh:
            self.settle()
        return self

    def halt(self) -> None:
        """Ends the server in good order, and keeps its data."""
        self._end(self.orderly)

    def kill(self) -> None:
        """``kill -9``: a crash."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.halt()
        self.start()

    def stop(self) -> None:
        """Ends the server and removes its folder."""
        atexit.unregister(self.stop)
        self.halt()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *problem: object) -> None:
        self.stop()

    # -- how --------------------------------------------------------------------------------------------------------

    def _launched(self, deadline: float) -> bool:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True, **self._identity(),
            )  # fmt: skip
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                self.connect().close()
                return True
            except self.refusal:
                time.sleep(0.05)
        return False

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _run(self, *command: str) -> None:
        """Runs a program of the server to its end, under its account."""
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, **self._identity())
        if done.returncode:
            raise ServerError(f"{Path(command[0]).name} failed: {(done.stderr or done.stdout).strip()[-2000:]}")

    def _identity(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def _give_away(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)

    def _unprivileged_account(self) -> pwd.struct_passwd | None:
        """The account to run under: our own (None), unless that is root."""
        if os.geteuid() != 0:
            return None
        known = {entry.pw_name: entry for entry in pwd.getpwall()}
        if found := known.get(self.account) or known.get("nobody"):
            return found
        raise ServerError(f"{self.name} does not run as root; make an account '{self.account}' for it")


def long_options(settings: Mapping[str, str]) -> list[str]:
    """Settings as a server's command line takes them."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


def find_program(names: Sequence[str], folders: Sequence[Path], package: str) -> str:
    """The path of one of these programs: in the folders, or else on the search path."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    raise ServerError(f"no {names[0]} on this machine; install it: apt-get install {package}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
