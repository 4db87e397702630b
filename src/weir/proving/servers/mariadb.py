"""A private MariaDB server: its own data folder, a free port on loopback, stopped by its pid.

For tests, ``weir stress`` and the demo. As root the server runs under an unprivileged account, which then owns the
folder. The administrator logs in through the unix socket only; ``root`` has no password and no other way in.
"""

from __future__ import annotations

import getpass
import os
import pwd
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

import pymysql

from weir.sources.source import SourceError

PACKAGE = "mariadb-server"
ROW_LOG: Mapping[str, str] = {
    "log_bin": "binlog",
    "server_id": "1",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "max_binlog_size": "1M",
}
SMALL: Mapping[str, str] = {  # a server that starts fast and takes little memory
    "innodb_buffer_pool_size": "64M",
    "innodb_log_file_size": "16M",
    "performance_schema": "OFF",
    "skip_name_resolve": "ON",
}
START_SECONDS = 300.0


class MariadbServer:
    """One server. Settings are given as in the option file; they replace or add to those of a row binlog.

    ``with MariadbServer() as server: ...`` starts it and removes its folder in the end. ``kill`` is a power failure;
    ``restart`` after it (or after ``stop``) is crash recovery.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, folder: Path | None = None) -> None:
        self.settings = {**SMALL, **ROW_LOG, **(settings or {})}
        self._mariadbd = _find("mariadbd", "mysqld")
        self._install = _find("mariadb-install-db", "mysql_install_db")
        self._own_folder = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="weir-mariadb-")) if folder is None else folder
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return self.folder / "server.sock"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise SourceError("the private MariaDB server is not running: call start() first")
        return self._process.pid

    def start(self) -> Self:
        """Creates the data folder when it is missing, starts the server and waits until it answers."""
        data = self.folder / "data"
        fresh = not data.exists()
        if fresh:
            self._create(data)
        self._process = subprocess.Popen(
            [self._mariadbd, "--no-defaults", *self._options(data)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait_until_it_answers()
        if fresh:
            self._close_other_doors()
        return self

    def stop(self) -> None:
        """An orderly end, by pid."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9: what a power failure does to the process."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Starts again on the same folder and port, after ``kill`` or ``stop`` or from running."""
        self.stop()
        self.start()

    def connect(self, database: str | None = None, **options: Any) -> pymysql.connections.Connection:
        """An administrator's connection, through the socket."""
        return pymysql.connect(
            unix_socket=str(self.socket),
            user="root",
            database=database,
            charset="utf8mb4",
            ssl_disabled=True,
            **{"connect_timeout": 60, **options},
        )

    def error_log(self) -> str:
        log = self.folder / "error.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _create(self, data: Path) -> None:
        account = _account()
        if os.geteuid() == 0:
            shutil.chown(self.folder, account)
        command = [
            self._install,
            "--no-defaults",
            f"--datadir={data}",
            f"--tmpdir={self.folder}",
            f"--user={account}",
            "--skip-test-db",
        ]
        done = subprocess.run(
            [*command, "--auth-root-authentication-method=normal"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SourceError(f"mariadb-install-db failed in {data}: {(done.stderr or done.stdout)[-2000:]}")

    def _close_other_doors(self) -> None:
        """Leaves no login without a password but the administrator's through the socket."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute("SELECT user, host FROM mysql.user WHERE host <> 'localhost' AND user IN ('root', '')")
            for user, host in cursor.fetchall():
                cursor.execute("DROP USER %s@%s", (user, host))

    def _options(self, data: Path) -> list[str]:
        fixed = {
            "user": _account(),
            "datadir": str(data),
            "socket": str(self.socket),
            "tmpdir": str(self.folder),
            "pid_file": str(self.folder / "server.pid"),
            "log_error": str(self.folder / "error.log"),
            "port": str(self.port),
            "bind_address": "127.0.0.1",
        }
        return [f"--{name.replace('_', '-')}={value}" for name, value in {**self.settings, **fixed}.items()]

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect().close()
                return
            except pymysql.MySQLError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._end(signal.SIGKILL)
                    raise SourceError(f"the private MariaDB server did not start: {self.error_log()[-2000:]}") from None
                time.sleep(0.05)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _find(*names: str) -> str:
    """The path of one of these programs; servers live in sbin, which is not on everyone's path."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/usr/libexec"])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    raise SourceError(
        f"no {names[0]} on this machine: install the Debian package {PACKAGE} (apt-get install {PACKAGE})"
    )


def _account() -> str:
    """The account the server runs under: never root."""
    if os.geteuid() != 0:
        return getpass.getuser()
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "mysql" if "mysql" in known else "nobody"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
