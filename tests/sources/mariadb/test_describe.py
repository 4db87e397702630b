"""The catalogue, the findings with their remedies, the rights a source needs, and how it connects."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sources.mariadb.conftest import Place, changes
from weir.algebra import types as t
from weir.algebra.catalog import ForeignKey, Relation
from weir.algebra.errors import WeirError
from weir.proving.oracle import ask
from weir.proving.servers.mariadb import MariadbServer
from weir.proving.servers.server import ServerError
from weir.sources.mysql.options import MysqlOptions
from weir.sources.mysql.source import MysqlSource
from weir.sources.source import SourceError


def test_tables_keys_and_indexes(place: Place) -> None:
    """Columns in order with our types, key, indexes and foreign keys as the server has them; views are no tables."""
    place.run("CREATE TABLE p (a INT, b INT UNSIGNED, c TEXT, PRIMARY KEY (b, a), KEY k (a))")
    place.run(
        "CREATE TABLE q (x INT UNIQUE, y INT NOT NULL UNIQUE, pb INT UNSIGNED, pa INT, FOREIGN KEY (pb, pa) "
        "REFERENCES p (b, a))"
    )
    place.run(
        "CREATE VIEW v AS SELECT * FROM p",
        "CREATE TABLE m (a INT) ENGINE = MyISAM",
        "CREATE TABLE h (a INT PRIMARY KEY) WITH SYSTEM VERSIONING",
    )
    described = MysqlSource(place.options()).describe()
    tables = {table.relation.table: table for table in described.tables}
    assert set(tables) == {"p", "q"}
    assert {relation.table for relation in described.refused} == {"m", "h", "v"}
    assert tables["p"].schema == t.Schema.of(a=t.INT, b=t.BIGINT, c=t.STRING)
    assert tables["p"].key == ("b", "a")
    assert ("a",) in tables["p"].indexes
    assert tables["q"].key == ("y",)
    assert tables["q"].foreign_keys == (ForeignKey(("pb", "pa"), "p", ("b", "a")),)
    problems = {finding.problem: finding.remedy for finding in described.findings}
    assert any("shop.m cannot be used" in problem and "ENGINE = InnoDB" in problem for problem in problems)
    assert any("shop.h cannot be used" in problem for problem in problems)
    assert (
        problems["sync_binlog is 0: a power failure may cost the server transactions that Weir has read"]
        == "SET GLOBAL sync_binlog = 1"
    )


def test_sizes_are_the_servers_own(place: Place) -> None:
    """InnoDB's estimate; for a small table that was analyzed it is the count."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)", "ANALYZE TABLE t")
    assert MysqlSource(place.options()).describe().rows == {Relation("shop", "t"): 3}


def test_what_is_refused_by_name(place: Place) -> None:
    """A missing table, a missing column and a table without transactions are named, with what there is instead."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY)", "CREATE TABLE m (a INT) ENGINE = Aria")
    with pytest.raises(SourceError, match=r"no table 'nope'.*tables: m, t"):
        place.source({"nope": ("a",)})
    with pytest.raises(SourceError, match=r"shop\.t has no column 'z'; columns: a"):
        place.source({"t": ("z",)})
    with pytest.raises(SourceError, match=r"shop\.m cannot be used: its engine Aria"):
        place.source({"m": ("a",)})


def test_the_least_rights_are_enough_and_missing_ones_are_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The account of docs/sources/mariadb.md works over TCP with a password from the environment; each missing right
    is a finding with its GRANT.
    """
    monkeypatch.setenv("WEIR_TEST_PASSWORD", "p'; DROP")
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    place.run("CREATE OR REPLACE USER least@'127.0.0.1' IDENTIFIED BY %s", values=("p'; DROP",))
    place.run(f"GRANT SELECT ON {place.database}.* TO least@'127.0.0.1'")
    options = MysqlOptions("shop", place.database, "least", "env:WEIR_TEST_PASSWORD", port=place.server.port)
    findings = [finding for finding in MysqlSource(options).describe().findings if finding.severity == "error"]
    assert {finding.remedy for finding in findings} == {
        "GRANT REPLICATION SLAVE ON *.* TO 'least'@'127.0.0.1'",
        "GRANT BINLOG MONITOR ON *.* TO 'least'@'127.0.0.1'",
    }
    place.run(*(finding.remedy for finding in findings))
    source = MysqlSource(options)
    assert not [finding for finding in source.describe().findings if finding.severity == "error"]
    source.watch({Relation("shop", "t"): ("a",)})
    source.load().held.release()
    place.run("INSERT INTO t VALUES (1)")
    assert changes(ask(source, [])[0], "t", "a") == [(0, 1, 1)]
    source.close()
    locking = MysqlSource(
        MysqlOptions(
            "shop", place.database, "least", "env:WEIR_TEST_PASSWORD", port=place.server.port, kind="mariadb-locks"
        )
    )
    assert [finding.remedy for finding in locking.describe().findings if finding.severity == "error"] == [
        f"GRANT LOCK TABLES ON `{place.database}`.* TO 'least'@'127.0.0.1'"
    ]
    locking.watch({Relation("shop", "t"): ("a",)})
    with pytest.raises(SourceError, match="GRANT LOCK TABLES ON"):
        locking.load()
    locking.close()


def test_a_wrong_password_is_not_shown(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the error nor the options show a credential; without a reference there is no connection."""
    monkeypatch.setenv("WEIR_TEST_PASSWORD", "swordfish")
    options = MysqlOptions("shop", place.database, "nobody", "env:WEIR_TEST_PASSWORD", port=place.server.port)
    with pytest.raises(SourceError, match=r"cannot connect to 127.0.0.1") as caught:
        MysqlSource(options).describe()
    assert "swordfish" not in str(caught.value) + repr(options)
    with pytest.raises(WeirError, match="env:NAME"):
        MysqlSource(MysqlOptions("shop", "d", "nobody", "swordfish")).describe()


def test_plaintext_to_another_machine_is_refused() -> None:
    """Loopback and sockets may be plain; another host needs TLS or the word of the user."""
    MysqlOptions("shop", "d", "u")
    MysqlOptions("shop", "d", "u", host="db.example.org", tls=True)
    MysqlOptions("shop", "d", "u", host="db.example.org", allow_plaintext=True)
    with pytest.raises(WeirError, match="tls = true"):
        MysqlOptions("shop", "d", "u", host="db.example.org")
    wrongs: list[dict[str, Any]] = [{"kind": "oracle"}, {"verify": "maybe"}, {"positions": "uuid"}]
    for wrong in [*wrongs, {"positions": "gtid", "kind": "mysql"}]:
        with pytest.raises(WeirError):
            MysqlOptions("shop", "d", "u", **wrong)


def test_tls_with_verification(own_place: Callable[..., Place], tmp_path: Path) -> None:
    """``full`` accepts the right name and authority only, ``ca`` any name, ``off`` anything; the binlog is read over
    TLS too.
    """
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
    ]
    for name in ("server", "stranger"):
        files = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.pem")]
        subprocess.run([*make, *files], check=True, capture_output=True)
    for folder in (tmp_path, *tmp_path.parents[:3]):  # the server runs as somebody else and must get there
        if folder.stat().st_uid == os.getuid() and folder.name.startswith(("test_", "popen-", "pytest-")):
            folder.chmod(0o755)
    (tmp_path / "server.key").chmod(0o644)
    for folder in list(tmp_path.parents)[:2]:
        folder.chmod(0o755)
    place = own_place(ssl_cert=str(tmp_path / "server.pem"), ssl_key=str(tmp_path / "server.key"))
    place.run(
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "CREATE USER tls@'127.0.0.1' REQUIRE SSL",
        "GRANT ALL ON *.* TO tls@'127.0.0.1'",
    )

    def source(**options: Any) -> MysqlSource:

        return MysqlSource(MysqlOptions("shop", "own", "tls", port=place.server.port, **options))

    right, wrong = str(tmp_path / "server.pem"), str(tmp_path / "stranger.pem")
    for accepted in (
        {"host": "localhost", "tls_ca": right},
        {"host": "127.0.0.1", "tls_ca": right, "verify": "ca"},
        {"tls": True, "verify": "off"},
    ):
        one = source(**accepted)
        one.watch({Relation("shop", "t"): ("a",)})
        one.load().held.release()
        ask(one, [])
        one.close()
    for refused in ({"host": "127.0.0.1", "tls_ca": right}, {"host": "localhost", "tls_ca": wrong}, {"tls": True}, {}):
        with pytest.raises(SourceError, match="cannot connect"):
            source(**refused).describe()


def test_the_private_server(own_place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs under another account than root, on loopback only, as asked for, and without open doors."""
    import os
    import pwd

    place = own_place(max_binlog_size="4K")
    owner = os.stat(f"/proc/{place.server.pid}").st_uid
    assert pwd.getpwuid(owner).pw_name != "root"
    assert place.run("SELECT @@bind_address, @@max_binlog_size, @@binlog_format")[0] == ("127.0.0.1", 4096, "ROW")
    assert place.run("SELECT COUNT(*) FROM mysql.user WHERE user IN ('root', '') AND host <> 'localhost'")[0][0] == 0
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(ServerError, match="apt-get install mariadb-server"):
        MariadbServer()
