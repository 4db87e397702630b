"""A private MariaDB server. The administrator logs in through the unix socket only; ``root`` has no password and no
other way in.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, ClassVar

import pymysql

from weir.proving.servers.server import LOOPBACK, PrivateServer, find_program, long_options

_FOLDERS = [Path("/usr/sbin"), Path("/usr/local/sbin"), Path("/usr/libexec")]  # servers live in sbin
_PACKAGE = "mariadb-server"


class MariadbServer(PrivateServer):
    """A private MariaDB server with a row binlog."""

    name = "MariaDB"
    account = "mysql"
    orderly = signal.SIGTERM
    refusal = pymysql.MySQLError
    usual: ClassVar[dict[str, str]] = {
        "log_bin": "binlog",
        "server_id": "1",
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "max_binlog_size": "1M",
        "innodb_buffer_pool_size": "64M",
        "innodb_log_file_size": "16M",
        "performance_schema": "OFF",
        "skip_name_resolve": "ON",
        "local_infile": "ON",
    }

    def find_programs(self) -> None:
        self._mariadbd = find_program(["mariadbd", "mysqld"], _FOLDERS, _PACKAGE)
        self._install = find_program(["mariadb-install-db", "mysql_install_db"], _FOLDERS, _PACKAGE)

    @property
    def socket(self) -> Path:
        return self.folder / "server.sock"

    def initialise(self) -> None:
        self._run(
            self._install, "--no-defaults", f"--datadir={self.data}", f"--tmpdir={self.folder}", "--skip-test-db",
            "--auth-root-authentication-method=normal",
        )  # fmt: skip

    def command(self) -> list[str]:
        where = {
            "datadir": str(self.data),
            "socket": str(self.socket),
            "tmpdir": str(self.folder),
            "pid_file": str(self.folder / "server.pid"),
            "port": str(self.port),
            "bind_address": LOOPBACK,
        }
        return [self._mariadbd, "--no-defaults", *long_options({**self.settings, **where})]

    def settle(self) -> None:
        """Leaves no login without a password but the administrator's through the socket."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute("SELECT user, host FROM mysql.user WHERE user = '' OR user = 'root' AND host <> 'localhost'")
            for user, host in cursor.fetchall():
                cursor.execute("DROP USER %s@%s", (user, host))

    def connect(self, database: str | None = None, **options: Any) -> pymysql.connections.Connection:
        """An administrator's connection."""
        return pymysql.connect(
            unix_socket=str(self.socket),
            user="root",
            database=database,
            charset="utf8mb4",
            ssl_disabled=True,
            **{"connect_timeout": 60, **options},
        )
