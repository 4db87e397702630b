"""One private MariaDB server for all tests of this folder, and a database of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.proving.oracle import Replay, rows_of
from weir.proving.servers.mariadb import MariadbServer
from weir.sources.mysql.options import MysqlOptions
from weir.sources.mysql.source import MysqlSource
from weir.sources.source import TRANSACTION, WEIGHT, Visit

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[MariadbServer]:
    with MariadbServer() as started:
        yield started


class Place:
    """One database, an administrator's connection to it, and sources that read it."""

    def __init__(self, server: MariadbServer, database: str) -> None:
        self.server = server
        self.database = database
        self.opened: list[MysqlSource] = []
        self.connection = server.connect(autocommit=True)
        self.run(f"CREATE DATABASE {database} CHARACTER SET utf8mb4", f"USE {database}")

    def run(self, *statements: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement, values)
                rows = list(cursor.fetchall())
        return rows

    def another(self) -> Any:
        """One more connection, that commits only when told to."""
        return self.server.connect(self.database)

    def options(self, **options: Any) -> MysqlOptions:
        return MysqlOptions(
            "shop",
            self.database,
            "root",
            unix_socket=str(self.server.socket),
            **{"lock_seconds": 2, "connect_seconds": 60, **options},
        )

    def source(self, tables: Mapping[str, Sequence[str]], load: bool = True, **options: Any) -> MysqlSource:
        """A source that watches; ``load``: and has loaded."""
        source = MysqlSource(self.options(**options))
        self.opened.append(source)
        source.watch({Relation("shop", table): columns for table, columns in tables.items()})
        if load:
            self.position = source.load().position
            source.end_load()
        return source

    def close(self) -> None:
        for source in self.opened:
            source.close()
        self.connection.ping(reconnect=True)
        self.run(f"DROP DATABASE IF EXISTS {self.database}")
        self.connection.close()


@pytest.fixture
def place(server: MariadbServer) -> Iterator[Place]:
    made = Place(server, f"test{next(_numbers)}")
    yield made
    made.close()


@pytest.fixture
def own_place() -> Iterator[Callable[..., Place]]:
    """Places at servers of their own, with settings of their own."""
    started: list[tuple[MariadbServer, Place]] = []

    def start(**settings: str) -> Place:
        server = MariadbServer(settings).start()
        started.append((server, Place(server, "own")))
        return started[-1][1]

    yield start
    for server, place in started:
        for source in place.opened:
            source.close()
        server.__exit__(None, None, None)


def changes(visit: Visit, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """(transaction, weight, *columns) of every delivered row."""
    found = visit.changes.get(Relation("shop", table))
    return [] if found is None else list(rows_of(found, [TRANSACTION, WEIGHT, *columns]))


def whole(table: str, *columns: str) -> Lookup:
    return Lookup(Relation("shop", table), columns)


def loaded(source: MysqlSource, table: str, *columns: str) -> Replay:
    """A replay that has just loaded one table."""
    replay = Replay({Relation("shop", table): columns})
    replay.load(source)
    return replay
