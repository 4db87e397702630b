"""``weir capture``: install, remove and status, on real databases; a dry run changes nothing."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.algebra.catalog import Relation
from weir.cli.main import app
from weir.proving.oracle import ReplayedSource
from weir.proving.servers.mariadb import MariadbServer
from weir.proving.servers.postgres import PostgresServer
from weir.sources.postgres.options import PostgresOptions
from weir.sources.postgres.replication import PostgresSource
from weir.sources.postgres.triggers import PostgresTriggersSource
from weir.sources.sqlite import SqliteOptions, SqliteSource

ODD = 'odd "name"; DROP TABLE plain; --'


def run(*arguments: str, code: int = 0) -> list[str]:
    """The lines a command prints."""
    result = CliRunner().invoke(app, ["capture", *arguments])
    assert result.exit_code == code, result.output
    return (result.stdout + (result.stderr if code == 2 else "")).splitlines()


# -- SQLite -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY, name TEXT)")
        database.execute(f'CREATE TABLE "{ODD.replace(chr(34), chr(34) * 2)}" (id INTEGER PRIMARY KEY)')
    return path


def objects(file: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(file)) as database:
        return [name for (name,) in database.execute("SELECT name FROM sqlite_master ORDER BY name")]


def test_sqlite_is_captured_and_released(file: Path) -> None:
    """What was installed is seen by the source; what is removed leaves the file as it was; both may be repeated."""
    before = objects(file)
    assert run("install", "sqlite", "plain", ODD, "--path", str(file)) == ["plain: captured", f"{ODD}: captured"]
    assert run("install", "sqlite", "plain", "--path", str(file)) == ["plain: was captured already"]
    assert run("status", "sqlite", "plain", "--path", str(file)) == ["plain: is captured"]
    ReplayedSource(SqliteSource(SqliteOptions("shop", str(file))), {Relation("shop", "plain"): ("id",)}).check()
    assert "dropped weir_log" in run("remove", "sqlite", "--path", str(file))
    assert run("remove", "sqlite", "--path", str(file)) == ["nothing of weir is there"]
    assert objects(file) == before
    assert run("status", "sqlite", "plain", "--path", str(file), code=1) == ["plain: is not captured"]


def test_a_dry_run_on_sqlite_changes_nothing(file: Path) -> None:
    """It says what would be done."""
    content = file.read_bytes()
    lines = run("install", "sqlite", "plain", "--path", str(file), "--dry-run")
    assert lines == [
        f"put {file} into WAL mode (now 'delete')",
        "plain: make the triggers weir_capture_<event>_plain, which log into weir_log",
    ]
    assert file.read_bytes() == content
    run("install", "sqlite", "plain", "--path", str(file))
    before = objects(file)
    assert "drop weir_log" in run("remove", "sqlite", "--path", str(file), "--dry-run")
    assert objects(file) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["install", "oracle", "t"], "unknown kind 'oracle': use one of sqlite"),
        (["install", "sqlite", "t"], "name the file: --path FILE"),
        (["install", "sqlite", "t", "--path", "nowhere.db"], "no SQLite database at nowhere.db"),
        (["install", "postgres", "t"], "name the database: --database NAME, or --dsn"),
        (["status", "postgres", "--dsn", "postgresql://a:secret@h/d"], "must not hold the password"),
        (["status", "postgres", "--dsn", "postgresql://a@h/d", "--password", "secret"], "must not stand in the"),
        (["status", "mariadb", "--dsn", "mysql://a@far.example/d"], "far.example is another machine"),
        (["install", "postgres-triggers", "t", "--database", "d"], "--reader ROLE"),
    ],
)
def test_wrong_use_is_told(arguments: list[str], message: str) -> None:
    """With exit code 2, the way out, and no secret in it."""
    output = " ".join(run(*arguments, code=2))
    assert message in output
    assert "secret" not in output


def test_an_unknown_table_is_named(file: Path) -> None:
    """By install, dry or not, and by status."""
    for arguments in (["install"], ["install", "--dry-run"], ["status"]):
        assert "no table 'nobody'" in " ".join(
            run(arguments[0], "sqlite", "nobody", "--path", str(file), *arguments[1:], code=2)
        )


# -- servers ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as made:
        yield made


@pytest.fixture
def address(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A fresh database with the tables plain and other, and the role reader; the options that name it."""
    monkeypatch.setenv("WEIR_TEST_PASSWORD", server.password)
    with server.connect() as admin:
        admin.execute("CREATE DATABASE shop")
        admin.execute("DROP ROLE IF EXISTS reader")
        admin.execute("CREATE ROLE reader")
    with server.connect("shop") as admin:
        admin.execute("CREATE TABLE plain (id int PRIMARY KEY, name text); CREATE TABLE other (id int)")
    dsn = f"postgresql://weir_admin@127.0.0.1:{server.port}/shop"
    yield ["--dsn", dsn, "--password", "env:WEIR_TEST_PASSWORD"]
    with server.connect() as admin:
        admin.execute("DROP DATABASE shop WITH (FORCE)")


def options(server: PostgresServer) -> PostgresOptions:
    return PostgresOptions("shop", "shop", "127.0.0.1", server.port, "weir_admin", "env:WEIR_TEST_PASSWORD")


def test_a_trigger_log_is_installed_mended_and_removed(server: PostgresServer, address: list[str]) -> None:
    """A trigger that was dropped or switched off is made again; nothing is left in the end."""
    install = ["install", "postgres-triggers", "plain", *address, "--reader", "reader"]
    dry = run(*install, "--dry-run")
    assert dry[0].startswith("plain: make a log in schema 'weir' and the triggers weir_log")
    assert run("status", "postgres-triggers", "plain", *address, code=1) == ["plain: is not captured"]
    assert run(*install)[0] == "plain: captured"
    assert run(*install) == ["plain: was captured already", "role reader: may read and trim the log"]
    with server.connect("shop") as admin:
        admin.execute("ALTER TABLE plain DISABLE TRIGGER weir_log")
    assert "disabled" in run("status", "postgres-triggers", "plain", *address, code=1)[0]
    assert run(*install)[0] == "plain: captured"
    source = PostgresTriggersSource(options(server))
    ReplayedSource(source, {Relation("shop", "plain"): ("id", "name")}).check()
    source.close()
    assert run("remove", "postgres-triggers", *address)[-1] == "dropped schema weir"
    assert run("remove", "postgres-triggers", *address) == ["nothing of weir is there"]
    with server.connect("shop") as admin:
        assert admin.execute("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'weir%'").fetchone() == (0,)


def test_a_publication_is_made_and_dropped(server: PostgresServer, address: list[str]) -> None:
    """The dry run prints the very statements; afterwards the source can load, and the slot goes with the removal."""
    install = ["install", "postgres", "plain", *address]
    planned = run(*install, "--dry-run")
    assert planned == [
        'CREATE PUBLICATION "weir" FOR TABLE "public"."plain";',
        'ALTER TABLE "public"."plain" REPLICA IDENTITY FULL;',
    ]
    assert run(*install) == planned
    assert run(*install) == ["nothing to do"]
    assert run("install", "postgres", "other", *address)[0] == 'ALTER PUBLICATION "weir" ADD TABLE "public"."other";'
    source = PostgresSource(options(server))
    ReplayedSource(source, {Relation("shop", "plain"): ("id",)}).check()
    source.close()
    assert run("remove", "postgres", *address) == [
        "SELECT pg_drop_replication_slot('weir');",
        'DROP PUBLICATION "weir";',
    ]
    assert run("remove", "postgres", *address) == ["nothing to do"]
    assert any("no publication" in line for line in run("status", "postgres", *address, code=1))


def test_too_few_rights_are_told(server: PostgresServer, address: list[str]) -> None:
    """As the server's words, with who should run it."""
    with server.connect("shop") as admin:
        admin.execute(f"ALTER ROLE reader LOGIN PASSWORD '{server.password}'")
    dsn = f"postgresql://reader@127.0.0.1:{server.port}/shop"
    arguments = ["install", "postgres", "plain", "--dsn", dsn, "--password", "env:WEIR_TEST_PASSWORD"]
    assert "run this as the tables' owner or an administrator" in " ".join(run(*arguments, code=2))


def test_mariadb_needs_nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own binlog is read; what settings and rights lack is told with the statement that mends it."""
    monkeypatch.setenv("WEIR_TEST_PASSWORD", "only-here-1")
    with MariadbServer({"binlog_row_image": "MINIMAL"}) as server:
        with server.connect() as admin, admin.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE USER weir@'127.0.0.1' IDENTIFIED BY 'only-here-1'")
            cursor.execute("GRANT SELECT ON shop.* TO weir@'127.0.0.1'")
        dsn = f"mysql://weir@127.0.0.1:{server.port}/shop"
        lines = run("status", "mariadb", "--dsn", dsn, "--password", "env:WEIR_TEST_PASSWORD", code=1)
        assert any("binlog_row_image is MINIMAL; to mend it: SET GLOBAL" in line for line in lines)
        assert any("lacks REPLICATION SLAVE" in line for line in lines)
        installed = run("install", "mariadb", "t", "--dsn", dsn, "--password", "env:WEIR_TEST_PASSWORD")
        assert installed[0].startswith("nothing to install")
        assert run("remove", "mariadb", "--dsn", dsn)[0].startswith("nothing to remove")
