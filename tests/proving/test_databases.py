"""The builder of private databases: every kind's role can do what a run needs and no more, and nothing is left."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pymysql
import pytest

from tests.sources.rounds import held_by
from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.proving.databases import PostgresDatabase, PrivateDatabase, Servers
from weir.proving.kinds import KINDS, Login
from weir.sources.secrets import read_secret

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(40))"
WRITES = ("INSERT INTO t VALUES (9, 'x')", "UPDATE t SET name = 'x'", "DELETE FROM t", "DROP TABLE t")
SERVED = [kind for kind in KINDS if kind != "sqlite"]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with Servers() as made:
        yield made


@pytest.fixture
def database(servers: Servers, request: pytest.FixtureRequest) -> Iterator[PrivateDatabase]:
    """A captured table of two rows, of the kind that the test is for."""
    made = servers.open(request.param, "shop", [TABLE], fill, ["t"])
    yield made
    made.drop()


def fill(database: PrivateDatabase) -> None:
    database.load("t", [pa.table({"id": [1], "name": ['one, "two"']}), pa.table({"id": [2], "name": ["Zoë"]})])
    database.execute("CREATE INDEX t_name ON t (name)")
    database.analyze()


def read(login: Login) -> list[tuple[Any, ...]]:
    with closing(login.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT id, name FROM t ORDER BY id")
        return [tuple(row) for row in cursor.fetchall()]


@pytest.mark.parametrize("database", KINDS, indirect=True)
def test_a_run_has_what_it_needs(database: PrivateDatabase) -> None:
    """Nothing is missing; first load, changes, a lookup in a held snapshot, and the acknowledgement all work."""
    t = Relation("crm", "t")
    with closing(database.spec("crm").open()) as source:
        assert [finding for finding in source.describe().findings if finding.severity == "error"] == []
        source.watch({t: ("id", "name")})
        load = source.load().held
        assert sum(rows.num_rows for partition in load.parts() for rows in load.read(partition)) == 2
        load.release()
        database.execute("INSERT INTO t VALUES (3, 'three')")
        visit = source.visit(hold=True)
        database.execute("DELETE FROM t")
        assert visit.changes[t].num_rows == 1
        held = held_by(visit)
        assert held.look([Lookup(t, ("id",))])[0].num_rows == 3
        held.release()
        source.acknowledge(visit.position)
        assert source.visit().changes[t].num_rows == 3


@pytest.mark.parametrize("database", SERVED, indirect=True)
@pytest.mark.parametrize("write", WRITES)
def test_weir_cannot_write(database: PrivateDatabase, write: str) -> None:
    """The application's tables are read-only for Weir's role."""
    login = database.login
    weir = Login(login.driver, {**login.arguments, "user": database.options["user"]}, login.password)
    assert len(read(weir)) == 2
    with closing(weir.connect()) as connection, pytest.raises((psycopg.Error, pymysql.MySQLError)) as refused:
        connection.cursor().execute(write)
    assert any(word in str(refused.value) for word in ("permission denied", "must be owner", "command denied"))


@pytest.mark.parametrize("database", ["postgres-triggers"], indirect=True)
def test_a_trigger_log_needs_no_replication(database: PrivateDatabase) -> None:
    """Its role may log in, and is nothing else."""
    with database.administrator() as admin:
        rights = "rolsuper, rolreplication, rolcreaterole, rolcreatedb, rolbypassrls"
        found = admin.execute(f"SELECT {rights} FROM pg_roles WHERE rolname = %s", (database.options["user"],))
        assert found.fetchall() == [(False,) * 5]


@pytest.mark.parametrize("database", ["mariadb", "mariadb-locks"], indirect=True)
def test_locking_is_granted_to_who_locks(database: PrivateDatabase) -> None:
    """Exactly the rights that docs/sources/mariadb.md lists."""
    with closing(database.administrator()) as admin, admin.cursor() as cursor:
        cursor.execute("SHOW GRANTS FOR weir@'127.0.0.1'")
        everywhere, here = (row[0].split(" TO ")[0] for row in cursor.fetchall())
    assert everywhere.endswith("ON *.*")
    assert {"REPLICATION SLAVE", "BINLOG MONITOR"} == set(everywhere[len("GRANT ") : -len(" ON *.*")].split(", "))
    locks = ", LOCK TABLES" if database.kind == "mariadb-locks" else ""
    assert here == f"GRANT SELECT{locks} ON `shop`.*"


@pytest.mark.parametrize("database", KINDS, indirect=True)
def test_writers_elsewhere_log_in(database: PrivateDatabase) -> None:
    """A login is pickled without the password; bulk rows have come through as they are."""
    sent = pickle.dumps(database.login)
    assert os.environ[database.servers.variable].encode() not in sent
    assert read(pickle.loads(sent)) == [(1, 'one, "two"'), (2, "Zoë")]
    assert database.size() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_dropped_database_is_gone(servers: Servers, kind: str) -> None:
    """Its name can be used again; so nothing of it was left, not even what a first load makes."""
    for _ in range(2):
        database = servers.open(kind, "again", [TABLE], tables=["t"])
        with closing(database.spec().open()) as source:
            source.watch({Relation("again", "t"): ("id",)})
            source.load().held.release()
        database.drop()


def test_leaving_leaves_nothing() -> None:
    """No process, no folder, no password."""
    with Servers() as servers:
        for number, kind in enumerate(KINDS):
            assert read(servers.open(kind, f"shop{number}", [TABLE]).login) == []
        pids = [servers.postgres.pid, servers.mariadb.pid]
        folders = [servers.postgres.folder, servers.mariadb.folder, servers.folder]
        assert all(folder.exists() for folder in folders)
    assert not any(folder.exists() for folder in folders)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(WeirError):
        read_secret(servers.password, "here")


def test_a_folder_that_was_given_stays(tmp_path: Path) -> None:
    """Files of databases are put there."""
    with Servers(tmp_path) as servers:
        servers.open("sqlite", "kept", [TABLE], tables=["t"])
    assert (tmp_path / "kept.db").exists()


def test_an_unknown_kind_is_named(servers: Servers) -> None:
    """With those that there are."""
    with pytest.raises(WeirError, match="use one of sqlite, postgres, postgres-triggers, mariadb, mariadb-locks"):
        servers.open("mysql", "x")


@pytest.mark.parametrize("database", ["postgres", "mariadb"], indirect=True)
def test_null_is_refused_where_it_would_be_lost(database: PrivateDatabase) -> None:
    """CSV would make 0 or an empty text of it."""
    with pytest.raises(WeirError, match="NULL"):
        database.load("t", [pa.table({"id": [3], "name": pa.array([None], pa.string())})])


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_slot_that_is_read_is_not_dropped(database: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, after a while."""
    assert isinstance(database, PostgresDatabase)
    monkeypatch.setattr("weir.proving.databases._RELEASE_SECONDS", 0.1)
    with closing(database.spec().open()) as source:
        source.watch({Relation("shop", "t"): ("id",)})
        source.load().held.release()
        source.visit()
        with pytest.raises(WeirError, match="somebody still reads"):
            database.forget()
    monkeypatch.undo()
