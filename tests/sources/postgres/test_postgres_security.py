"""Nothing is injected by identifiers or values; nothing secret is shown; nothing goes in plain text by accident."""

from __future__ import annotations

import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from tests.sources.postgres.conftest import Lab
from weir.algebra.catalog import Relation
from weir.algebra.errors import WeirError
from weir.algebra.hops import Lookup
from weir.algebra.memory import MemoryBag
from weir.algebra.types import Schema
from weir.proving.databases import Servers
from weir.proving.oracle import Replay, ask
from weir.sources.postgres.options import PostgresOptions
from weir.sources.source import SourceError

NASTY = "\"'\\;-$%{}():,.[]*/\n\t éK☃"
names = st.text(st.sampled_from(NASTY + "aB1"), min_size=1, max_size=20)
texts = st.one_of(
    st.none(),
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30),
    st.sampled_from(["'; DROP TABLE canary; --", "\\.", "\\N", "NULL", "{}", '"', "%s", "$1", "a,b", '{"x"}', "\n"]),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=names,
    columns=st.lists(names, min_size=2, max_size=3, unique=True),
    rows=st.lists(st.tuples(texts, texts), max_size=4),
)
def test_no_identifier_and_no_value_injects(lab: Lab, table: str, columns: list[str], rows: list[Any]) -> None:
    """Any table and column name, any text: loaded, streamed, looked up by key, exactly; and nothing else happens."""
    lab.close_sources()
    lab.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "DROP SCHEMA IF EXISTS weir CASCADE")
    lab.execute("DROP PUBLICATION IF EXISTS weir", "CREATE TABLE canary (id int)", "INSERT INTO canary VALUES (1)")
    fields = sql.SQL(", ").join(sql.Identifier(name) + sql.SQL(" text") for name in columns)
    lab.admin.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(table), fields))
    lab.capture(table)
    _follow(lab, Relation("pg", table), tuple(columns), [(*row, *row)[: len(columns)] for row in rows])
    assert lab.query("SELECT id FROM canary") == [(1,)]


def _follow(lab: Lab, relation: Relation, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    source = lab.open()
    source.watch({relation: columns})
    replay = Replay({relation: columns})
    replay.load(source)
    for row in rows:
        values = sql.SQL(", ").join(map(sql.Literal, row))
        lab.admin.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(sql.Identifier(relation.table), values))
    keys = MemoryBag.of(Schema.parse("x string"), sorted({row[:1] for row in rows if row[0] is not None})).rename(
        columns[:1]
    )
    lookups = [Lookup(relation, columns), Lookup(relation, columns, columns[:1], keys)]
    visit, answers = ask(source, lookups)
    assert replay.apply(visit) == []
    assert replay.compare(answers, lookups) == []
    assert len(visit.transactions) == len(rows)
    source.close()


def test_names_of_slot_publication_and_schema_are_quoted(replication_lab: Lab) -> None:
    """A publication with quotes and a percent sign works; a slot name that PostgreSQL would refuse is refused by us."""
    lab = replication_lab
    lab.execute("CREATE TABLE t (id int)", f"GRANT SELECT ON t TO {lab.role}", "ALTER TABLE t REPLICA IDENTITY FULL")
    odd = "p'u\"b; %s {x} 'weir"
    lab.admin.execute(sql.SQL("CREATE PUBLICATION {} FOR TABLE t").format(sql.Identifier(odd)))
    source = lab.open(publication=odd)
    source.watch({Relation("pg", "t"): ("id",)})
    source.load().held.release()
    lab.execute("INSERT INTO t VALUES (1)")
    assert len(source.visit().transactions) == 1
    with pytest.raises(SourceError, match="no slot name"):
        lab.options(slot="x'; DROP TABLE t; --")


# -- secrets and plain text -------------------------------------------------------------------------------------------


def test_the_password_is_shown_nowhere(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in options, not in their pickle, not in the error of a failed log-in."""
    monkeypatch.setenv("WEIR_TEST_WRONG", "sw0rdfish-4711")
    options = lab.options(password="env:WEIR_TEST_WRONG")
    assert "WEIR_TEST_WRONG" not in repr(options)
    assert b"sw0rdfish" not in pickle.dumps(options)
    with pytest.raises(SourceError, match=r"cannot connect to PostgreSQL at 127\.0\.0\.1") as caught:
        lab.open(password="env:WEIR_TEST_WRONG").describe()
    assert "sw0rdfish" not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_a_password_in_the_configuration_is_refused(lab: Lab) -> None:
    """Only references are taken."""
    with pytest.raises(WeirError, match="env:NAME"):
        lab.open(password="plain").describe()


@pytest.mark.parametrize("host", ["db.example.com", "10.0.0.7", "localhost,db.example.com", "fe80::1"])
@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
def test_plain_text_to_another_host_must_be_asked_for(host: str, mode: str) -> None:
    """Without encryption nothing leaves this machine, unless the options say so."""
    with pytest.raises(SourceError, match="plain text"):
        PostgresOptions("pg", "d", host=host, sslmode=mode)
    assert PostgresOptions("pg", "d", host=host, sslmode=mode, allow_plaintext=True).mode == mode


def test_another_host_is_verified_by_default() -> None:
    """The default for another host is verify-full; for this machine encryption is optional."""
    assert PostgresOptions("pg", "d", host="db.example.com").mode == "verify-full"
    for host in ("localhost", "127.0.0.1", "127.8.8.8", "::1", "/var/run/postgresql", ""):
        assert PostgresOptions("pg", "d", host=host).mode == "prefer"
    with pytest.raises(SourceError, match="does not exist"):
        PostgresOptions("pg", "d", sslmode="maybe")


def test_verify_full_refuses_a_server_without_tls(lab: Lab) -> None:
    """The option reaches the driver: our test server offers no TLS, so the connection fails."""
    with pytest.raises(SourceError, match="SSL"):
        lab.open(sslmode="verify-full").describe()


def _certificate(folder: Path, name: str) -> None:
    """A self-signed certificate for ``name``, and its key, owned by the account that owns the folder."""
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext subjectAltName={name}"
    files = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    for file in ("tls.key", "tls.crt"):
        os.chown(folder / file, folder.stat().st_uid, folder.stat().st_gid)
        (folder / file).chmod(0o600)


@pytest.mark.parametrize(("name", "accepted"), [("IP:127.0.0.1", True), ("DNS:elsewhere.example.com", False)])
def test_verify_full_takes_only_a_certificate_for_the_host(name: str, accepted: bool) -> None:
    """Over TLS everything works, the stream too; a certificate of another host is refused."""
    with Servers() as servers:
        database, server = servers.open("postgres", "tls", ["CREATE TABLE t (id int)"], tables=["t"]), servers.postgres
        _certificate(server.folder, name)
        with server.connect() as admin:
            for setting in ("ssl_cert_file = '{}/tls.crt'", "ssl_key_file = '{}/tls.key'", "ssl = on"):
                admin.execute("ALTER SYSTEM SET " + setting.format(server.folder))
        server.restart()
        source = database.spec("pg", sslmode="verify-full", sslrootcert=str(server.folder / "tls.crt")).open()
        if not accepted:
            with pytest.raises(SourceError, match="does not match host name"):
                source.describe()
            return
        source.watch({Relation("pg", "t"): ("id",)})
        query = "SELECT bool_and(ssl), count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE {}"
        load = source.load()
        with server.connect() as admin:
            assert admin.execute(query.format("application_name = 'weir'")).fetchone() == (True, 3)  # one has the load
            load.held.release()
            database.execute("INSERT INTO t VALUES (1)")
            assert len(source.visit().transactions) == 1
            assert admin.execute(query.format("application_name = 'weir'")).fetchone() == (True, 4)  # fences; one spare
        source.close()
