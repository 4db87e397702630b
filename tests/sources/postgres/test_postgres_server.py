"""The private server itself."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from weir.proving.servers import postgres
from weir.proving.servers.postgres import PostgresServer
from weir.proving.servers.server import ServerError


def test_it_survives_a_crash_and_leaves_nothing() -> None:
    """Data survive kill -9 and a restart; afterwards process and folder are gone."""
    with PostgresServer({"work_mem": "5MB"}) as server:
        with server.connect() as admin:
            admin.execute("CREATE TABLE t AS SELECT 1 AS a")
            assert admin.execute("SHOW work_mem").fetchone() == ("5MB",)
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            server.connect()
        server.start()
        server.restart()
        with server.connect() as admin:
            assert admin.execute("SELECT a FROM t").fetchone() == (1,)
            assert admin.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        pid, folder = server.pid, server.folder
        if os.geteuid() == 0:
            assert folder.stat().st_uid != 0
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ServerError, match="not running"):
        _ = server.pid


def test_a_wrong_password_is_refused() -> None:
    """Loopback alone is no permission."""
    with PostgresServer() as server, pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(**{**server.address(), "password": "wrong"})


def test_missing_binaries_name_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error says what to install."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    with pytest.raises(ServerError, match="apt-get install postgresql"):
        PostgresServer()


def test_a_server_that_cannot_start_shows_its_log() -> None:
    """An impossible setting ends with the server's own words, and nothing is left."""
    server = PostgresServer({"shared_buffers": "nonsense"})
    with pytest.raises(ServerError, match="shared_buffers"), server:
        pass
    assert not server.folder.exists()
