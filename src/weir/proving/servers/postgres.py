"""A private PostgreSQL server. Its administrator logs in with a password; files are not synced to disk.

So the server survives ``kill -9`` (the operating system keeps what was written), not a power cut, and nobody needs a
throwaway server to survive that.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from weir.proving.servers.server import LOOPBACK, PrivateServer, find_program, long_options

ADMIN = "weir_admin"
DEBIAN = Path("/usr/lib/postgresql")


class PostgresServer(PrivateServer):
    """A private PostgreSQL server."""

    name = "PostgreSQL"
    account = "postgres"
    orderly = signal.SIGINT
    refusal = psycopg.OperationalError
    usual: ClassVar[dict[str, str]] = {
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

    def find_programs(self) -> None:
        """What pg_config names, or the newest that Debian installed."""
        folders = sorted(DEBIAN.glob("*/bin"), key=_version, reverse=True)
        if tool := shutil.which("pg_config"):
            told = subprocess.run([tool, "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
            folders.insert(0, Path(told))
        self._initdb = find_program(["initdb"], folders, "postgresql")
        self._postgres = find_program(["postgres"], [Path(self._initdb).parent], "postgresql")

    def initialise(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o600)
        self._give_away(secret)
        self._run(
            self._initdb, "--no-sync", "--no-instructions", f"--pgdata={self.data}", f"--username={ADMIN}",
            f"--pwfile={secret}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C",
        )  # fmt: skip

    def command(self) -> list[str]:
        where = {
            "port": str(self.port),
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": str(self.folder),
        }
        return [self._postgres, "-D", str(self.data), *long_options({**self.settings, **where})]

    def connect(self, database: str = "postgres", autocommit: bool = True) -> psycopg.Connection[Any]:
        """An administrator's connection."""
        return psycopg.connect(**self.address(database), autocommit=autocommit, connect_timeout=60)

    def address(self, database: str = "postgres") -> dict[str, Any]:
        """Keyword arguments for ``psycopg.connect``, as the administrator."""
        secret = {"user": ADMIN, "password": self.password}
        return {"host": LOOPBACK, "port": self.port, "dbname": database, **secret}


def _version(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0
