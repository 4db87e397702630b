"""``weir check``, read as a user reads it: every mistake has one clear message with the way out."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weir.cli.main import app
from weir.project.starter.writing import write_project
from weir.proving.servers.mariadb import MariadbServer
from weir.proving.servers.postgres import PostgresServer


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code, and what stands on the terminal."""
    result = CliRunner().invoke(app, ["check", "--project", str(folder), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout + result.stderr


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write_project(tmp_path / "shop")
    return tmp_path / "shop"


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)


def add_view(shop: Path, query: str, options: str = "") -> None:
    text = f"CREATE MATERIALIZED VIEW extra {f'WITH ({options})' if options else ''} AS {query}"
    (shop / "views" / "extra.sql").write_text(text)


def files(folder: Path) -> set[Path]:
    """Without those that SQLite itself keeps beside an open database."""
    return {path for path in folder.rglob("*") if not path.name.endswith(("-wal", "-shm"))}


# -- SQLite -----------------------------------------------------------------------------------------------------------


def test_a_project_as_written_is_ready(shop: Path) -> None:
    """Every part is looked at; nothing is changed or left behind."""
    before = files(shop)
    code, told = run(shop)
    assert code == 0
    assert told.splitlines()[-1] == "ready to run"
    for subject in ("source crm (sqlite", "view order_lines", "warehouse ", "spark local[*]"):
        assert subject in told
    assert files(shop) == before


def test_for_programs(shop: Path) -> None:
    """The same as one document."""
    (shop / "data" / "catalog.db").unlink()
    code, told = run(shop, "--json")
    report = json.loads(told)
    assert (code, report["ready"], report["errors"], report["warnings"]) == (2, False, 1, 1)
    lines = [line for section in report["sections"] for line in section["lines"]]
    assert {line["severity"] for line in lines} == {"ok", "warning", "error"}


def test_a_missing_file(shop: Path) -> None:
    """The source is named with its place; the views that need it are said to be unchecked, the others are checked."""
    (shop / "data" / "catalog.db").unlink()
    code, told = run(shop)
    assert code == 2
    assert "error    there is no SQLite database at" in told
    assert "view order_lines (views/order_lines.sql)\n  warning  not checked: source catalog could not be read" in told
    assert "view open_orders (views/open_orders.sql)\n  ok       kept by pvm-cc" in told
    assert told.splitlines()[-1] == "not ready: 1 error, 1 warning"


def test_capture_is_missing(shop: Path) -> None:
    """The command that mends it stands there in full, and does."""
    path = shop / "data" / "crm.db"
    execute(path, "DROP TRIGGER weir_capture_delete_customer", "CREATE TABLE unused (id INTEGER PRIMARY KEY)")
    code, told = run(shop)
    assert code == 2
    assert "table 'customer' has lost triggers" in told
    assert told.count("error ") == 1
    assert "unused" not in told
    command = next(line for line in told.splitlines() if "to mend it:" in line).partition("weir ")[2].split()
    assert CliRunner().invoke(app, command).exit_code == 0
    assert run(shop)[0] == 0


def test_an_index_is_missing(shop: Path) -> None:
    """A warning with the statement that makes it; it runs all the same."""
    path = shop / "data" / "sales.db"
    execute(path, "DROP INDEX orders_customer")
    code, told = run(shop)
    assert code == 0
    assert "warning  looks up sales.orders by customer without an index" in told
    statement = next(line for line in told.splitlines() if "to mend it:" in line).partition("to mend it: ")[2]
    execute(path, statement)
    assert run(shop)[1].splitlines()[-1] == "ready to run"


VIEWS = {
    "typo in a table": (("SELECT c.id FROM crm.custmer c",), "unknown table in source crm: custmer", "mean customer?"),
    "typo in a column": (("SELECT c.nme FROM crm.customer c",), "table c has no column nme", "Did you mean name?"),
    "unknown source": (("SELECT c.id FROM erp.customer c",), "unknown source erp", "The sources are crm, sales"),
    "level and strategy": (
        ("SELECT c.id FROM crm.customer c", "consistency = 'complete', strategy = 'eca'"),
        "cannot be kept by eca at consistency = 'complete': it promises 'strong' over one source", "strategy = 'auto'",
    ),
    "a name of ours": (("SELECT c.id AS _weir_x FROM crm.customer c",), "'_weir_' are Weir's own", "name it with AS"),
    "a name that Delta refuses": (("SELECT c.id AS `a b` FROM crm.customer c",), "cannot be stored in Delta", "AS a_b"),
    "twins": (("SELECT c.id AS a, c.name AS A FROM crm.customer c",), "are called A", "another name with AS"),
    "strategy": (("SELECT c.id FROM crm.customer c", "strategy = 'swep'"), "did you mean 'sweep'", "view extra"),
    "a group that it cannot be in": (
        ("SELECT c.id FROM crm.customer c", "strategy = 'eca', group = 'g'"), "states of its own", "out of the group",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", VIEWS)
def test_a_mistake_in_a_view(mistake: str, shop: Path) -> None:
    """In its own section, with the place; the other views are fine."""
    view, *words = VIEWS[mistake]
    add_view(shop, *view)
    code, told = run(shop)
    assert code == 2
    assert [word for word in words if word not in told] == [], told
    assert told.splitlines()[-1] == "not ready: 1 error, 0 warnings"


@pytest.mark.parametrize("name", ["_weir", "_Auxiliary"])
def test_a_view_with_the_name_of_a_folder_of_ours(name: str, shop: Path) -> None:
    """Its table would lie among what Weir keeps in the warehouse."""
    (shop / "views" / "extra.sql").write_text(f"CREATE MATERIALIZED VIEW {name} AS SELECT c.id FROM crm.customer c")
    code, told = run(shop)
    assert code == 2
    assert f"views/extra.sql: '{name}' is a folder of Weir's own in the warehouse; rename the view" in told


def test_a_folder_that_is_taken(shop: Path) -> None:
    """Something that is no view's table lies where the view's would."""
    (shop / "warehouse" / "open_orders").mkdir(parents=True)
    (shop / "warehouse" / "open_orders" / "notes.txt").write_text("mine")
    code, told = run(shop)
    assert code == 2
    assert "open_orders' is not empty (notes.txt): give the view a folder of its own" in told


def test_a_join_without_an_equality(shop: Path) -> None:
    """The whole table is asked for, and that is said."""
    add_view(shop, "SELECT c.id, p.id AS p FROM crm.customer c JOIN catalog.product p ON p.title > c.name")
    code, told = run(shop)
    assert code == 0
    assert "warning  asks catalog.product for the whole table: no equality ties it" in told


def test_wrong_configuration(shop: Path) -> None:
    """One message on standard error, exit code 2."""
    text = (shop / "weir.toml").read_text() + "\n[runn]\n"
    (shop / "weir.toml").write_text(text)
    line = text.splitlines().index("[runn]") + 1
    assert run(shop) == (2, f"weir: weir.toml, line {line}: there is no key 'runn' here; did you mean 'run'?\n")


def test_an_empty_project(tmp_path: Path) -> None:
    """It says what a project needs."""
    (tmp_path / "weir.toml").write_text("")
    code, told = run(tmp_path)
    assert code == 2
    assert "the project has no source" in told
    assert "the project has no view" in told


def test_a_place_that_cannot_be_written_to(shop: Path) -> None:
    """Exit code 1: the project is right, the machine is not."""
    (shop / "warehouse").write_text("in the way")
    code, told = run(shop)
    assert code == 1
    assert "cannot be written to" in told
    assert "is not a folder" in told


def test_a_machine_without_java(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said with what to install, long before Spark would say it in its own way."""
    monkeypatch.setenv("JAVA_HOME", str(shop / "nowhere"))
    code, told = run(shop)
    assert code == 1
    assert "there is no Java, and Spark runs on it" in told
    assert "install a Java runtime of version 17" in told


# -- servers ----------------------------------------------------------------------------------------------------------


FAMILY = "SELECT a.id, b.id AS b FROM shop.t a JOIN shop.t b ON b.parent = a.id"


def project(folder: Path, source: str, view: str) -> Path:
    (folder / "weir.toml").write_text(f"[sources.shop]\n{source}")
    (folder / "views").mkdir()
    (folder / "views" / "v.sql").write_text(f"CREATE MATERIALIZED VIEW v AS {view}")
    return folder


def test_an_unreachable_server(tmp_path: Path) -> None:
    """The address is named; the view is not blamed."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    for kind in ("postgres", "mariadb"):
        (tmp_path / kind).mkdir()
        source = f'kind = "{kind}"\nhost = "127.0.0.1"\nport = {port}\ndatabase = "shop"\nuser = "weir"\n'
        code, told = run(project(tmp_path / kind, source, "SELECT t.id FROM shop.t"))
        assert code == 2
        assert "cannot connect to" in told
        assert f"127.0.0.1:{port}" in told
        assert "Connection refused" in told
        assert "not checked: source shop could not be read" in told


def test_a_password_that_is_not_set(tmp_path: Path) -> None:
    """The variable is named."""
    source = 'kind = "postgres"\nhost = "127.0.0.1"\ndatabase = "shop"\nuser = "weir"\npassword = "env:WEIR_NOT_SET"\n'
    code, told = run(project(tmp_path, source, "SELECT t.id FROM shop.t"))
    assert code == 2
    assert "the environment variable WEIR_NOT_SET is not set or empty" in told


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server as it comes: without logical replication."""
    with PostgresServer({"wal_level": "replica"}) as server:
        with server.connect() as admin:
            admin.execute("CREATE TABLE t (id int PRIMARY KEY, parent int)")
            admin.execute("CREATE TABLE other (id int PRIMARY KEY)")
            admin.execute(f"CREATE ROLE reader LOGIN PASSWORD '{server.password}'".encode())
        yield server


def test_rights_and_settings_of_postgres(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each that is missing with the SQL that mends it; tables that no view uses are left out; an index is advised."""
    monkeypatch.setenv("WEIR_TEST_READER", postgres.password)
    source = (
        f'kind = "postgres"\ndsn = "postgresql://reader@127.0.0.1:{postgres.port}/postgres"\n'
        'password = "env:WEIR_TEST_READER"\n'
    )
    code, told = run(project(tmp_path, source, FAMILY))
    assert code == 2
    for words in (
        "error    wal_level is 'replica'",
        "ALTER SYSTEM SET wal_level = 'logical';",
        "error    role reader lacks REPLICATION",
        'ALTER ROLE "reader" REPLICATION;',
        'error    reader may not read "public"."t"',
        'GRANT SELECT ON "public"."t" TO "reader";',
        'error    there is no publication "weir"',
        'CREATE PUBLICATION "weir" FOR TABLE "public"."t";',
        "warning  looks up shop.t by parent without an index",
        'CREATE INDEX ON "public"."t" ("parent");',
    ):
        assert words in told
    assert '"public"."other"' not in told
    assert postgres.password not in told


def as_admin(postgres: PostgresServer) -> str:
    """The source's keys, with its password in WEIR_TEST_ADMIN."""
    place = f"postgresql://weir_admin@127.0.0.1:{postgres.port}/postgres"
    return f'kind = "postgres"\ndsn = "{place}"\npassword = "env:WEIR_TEST_ADMIN"\n'


def test_a_table_that_is_not_published(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning as long as no view uses it; an error, once, where one does."""
    monkeypatch.setenv("WEIR_TEST_ADMIN", postgres.password)
    with postgres.connect() as admin:
        admin.execute("ALTER TABLE other REPLICA IDENTITY FULL")
        admin.execute("CREATE PUBLICATION part FOR TABLE other")
    code, told = run(project(tmp_path, f'{as_admin(postgres)}publication = "part"\n', "SELECT t.id FROM shop.t"))
    assert code == 2
    assert told.count("is not published") == 1
    assert 'error    "public"."t" is not published\n           to mend it: ALTER PUBLICATION "part" ADD TABLE' in told


def test_a_table_that_has_children(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a query would read there is not what its log tells: the view is refused, with the children's names."""
    monkeypatch.setenv("WEIR_TEST_ADMIN", postgres.password)
    with postgres.connect() as admin:
        admin.execute("CREATE TABLE parent (id int PRIMARY KEY)")
        admin.execute("CREATE TABLE child () INHERITS (parent)")
    code, told = run(project(tmp_path, as_admin(postgres), "SELECT p.id FROM shop.parent p"))
    assert code == 2
    assert "views/v.sql: shop.parent cannot be read by a view: it has child tables (child)" in told
    assert "ALTER TABLE child NO INHERIT parent" in told


def test_settings_of_mariadb(tmp_path: Path) -> None:
    """A binlog of statements is no log of rows."""
    with MariadbServer({"binlog_format": "MIXED"}) as server:
        with closing(server.connect(autocommit=True)) as admin, admin.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE TABLE shop.t (id INT PRIMARY KEY, parent INT)")
        source = f'kind = "mariadb"\ndatabase = "shop"\nuser = "root"\nunix_socket = "{server.socket}"\n'
        code, told = run(project(tmp_path, source, FAMILY))
    assert code == 2
    assert "error    binlog_format is MIXED" in told
    assert "SET GLOBAL binlog_format = 'ROW'" in told
    assert told.count("binlog_format is MIXED") == 1
    assert "CREATE INDEX `t_parent` ON `t` (`parent`);" in told
