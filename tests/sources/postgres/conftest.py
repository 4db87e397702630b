"""One private PostgreSQL server for the whole session, and a database of its own for every test."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg import sql

from weir.algebra.catalog import Relation
from weir.proving.databases import PostgresDatabase, Servers
from weir.proving.oracle import Replay, ask, rows_of
from weir.sources.postgres.base import PostgresBase
from weir.sources.postgres.options import PostgresOptions
from weir.sources.postgres.replication import PostgresSource
from weir.sources.postgres.triggers import PostgresTriggersSource
from weir.sources.source import Answers, Visit

KINDS = {"postgres": PostgresSource, "postgres-triggers": PostgresTriggersSource}
_numbers = count(1)


def wait_for(arrived: Callable[[], bool]) -> None:
    """Until it is so; a slow machine takes its time."""
    until = time.monotonic() + 300
    while not arrived():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with Servers(settings={"postgres": {"deadlock_timeout": "20ms"}}) as made:
        yield made


class Lab:
    """A database, its administrator, and sources over it."""

    def __init__(self, servers: Servers, kind: str) -> None:
        made = servers.open(kind, f"lab{next(_numbers)}")
        assert isinstance(made, PostgresDatabase)
        self.made, self.kind, self.server, self.database, self.role = made, kind, made.server, made.name, made.role
        self.admin = made.administrator()
        self.admin.execute("SET lock_timeout = '120s'")  # a test that blocks itself fails instead of hanging
        self.sources: list[PostgresBase] = []
        self.connections: list[psycopg.Connection[Any]] = []

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.admin.execute(statement)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self.admin.execute(statement).fetchall()

    def connect(self, autocommit: bool = True) -> psycopg.Connection[Any]:
        connection = self.server.connect(self.database, autocommit)
        self.connections.append(connection)
        return connection

    def options(self, **more: Any) -> PostgresOptions:
        given = {"lock_timeout": 30.0, "load_timeout": 120.0, "connect_timeout": 60, **more}
        options: PostgresOptions = self.made.spec("pg").options
        return replace(options, **given)

    def capture(self, *tables: str, schema: str = "public") -> None:
        """Makes the tables ready to be captured, as an administrator would."""
        self.made.capture(*tables, schema=schema)

    def open(self, **more: Any) -> PostgresBase:
        source = KINDS[self.kind](self.options(**more))
        self.sources.append(source)
        return source

    def watch(self, **columns: Sequence[str]) -> Watch:
        """A source that watches these columns and has done its first load, and what it should hold."""
        return Watch(self, {Relation("pg", table): tuple(names) for table, names in columns.items()})

    def close_sources(self) -> None:
        for source in self.sources:
            source.close()
        self.sources = []

    def drop_slot(self) -> None:
        """Once the server has noticed that nobody reads it any more."""
        self.made.forget()

    def stall_commits(self) -> None:
        """From now on commits wait for a standby that does not exist; the administrator's do not."""
        self.execute("SET synchronous_commit = local", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        self.execute("SELECT pg_reload_conf()")
        wait_for(self._commit_stalls)

    def _commit_stalls(self) -> bool:
        """Tries one: the server's processes take up a setting one after the other."""
        probe = self.connect()
        write = f"COMMENT ON DATABASE {self.database} IS 'probe'"
        trying = threading.Thread(target=probe.execute, args=(write,))
        trying.start()
        pid = probe.info.backend_pid
        stalls = f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'SyncRep'"
        wait_for(lambda: not trying.is_alive() or self.query(stalls) != [])
        stalled = self.query(stalls) != []
        if stalled:
            self.execute(f"SELECT pg_cancel_backend({pid})")
        trying.join()
        return stalled

    def close(self) -> None:
        self.close_sources()
        for connection in (*self.connections, self.admin):
            connection.close()
        self.made.drop()


class Watch:
    """A loaded source together with the replay of what it delivers."""

    def __init__(self, lab: Lab, columns: dict[Relation, tuple[str, ...]]) -> None:
        self.lab, self.columns = lab, columns
        self.source = lab.open()
        self.source.watch(columns)
        self.replay = Replay(columns)
        self.position = self.replay.load(self.source)
        self.answers: Answers = ()  # of the last visit

    def visit(self, *lookups: Any) -> Visit:
        """A visit whose changes must fit, and whose answers must equal the replay."""
        visit, self.answers = ask(self.source, lookups) if lookups else (self.source.visit(), ())
        assert self.replay.apply(visit) == []
        assert self.replay.compare(self.answers, lookups, exact=False) == []
        self.position = visit.position
        return visit

    def resume(self) -> None:
        """A new source from the last position, as after a crash of Weir."""
        self.source.close()
        self.source = self.lab.open()
        self.source.watch(self.columns)
        self.source.resume(self.position)

    def assert_complete(self) -> None:
        """The replay holds what the tables hold."""
        for relation, columns in self.columns.items():
            names = ", ".join(sql.Identifier(name).as_string(None) for name in columns)
            table = sql.Identifier("public", relation.table).as_string(None)
            assert self.replay.tables[relation] == Counter(self.lab.query(f"SELECT {names} FROM {table}"))


def changes(visit: Visit, table: str) -> list[tuple[Any, ...]]:
    """The changed rows of a table: values, weight, transaction number."""
    found = visit.changes.get(Relation("pg", table))
    return [] if found is None else list(rows_of(found, found.column_names))


@pytest.fixture(params=["postgres", "postgres-triggers"])
def lab(servers: Servers, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A test that takes this runs on both kinds."""
    made = Lab(servers, request.param)
    yield made
    made.close()


@pytest.fixture
def replication_lab(servers: Servers) -> Iterator[Lab]:
    made = Lab(servers, "postgres")
    yield made
    made.close()


@pytest.fixture
def trigger_lab(servers: Servers) -> Iterator[Lab]:
    made = Lab(servers, "postgres-triggers")
    yield made
    made.close()
