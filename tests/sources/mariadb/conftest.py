"""One private MariaDB server for all tests of this folder, and a database of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from weir.algebra.catalog import Relation
from weir.algebra.hops import Lookup
from weir.proving.databases import MariadbDatabase, Servers
from weir.proving.oracle import Replay, rows_of
from weir.sources.mysql.options import MysqlOptions
from weir.sources.mysql.source import MysqlSource
from weir.sources.source import TRANSACTION, WEIGHT, Visit

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with Servers() as made:
        yield made


class Place:
    """One database, an administrator's connection to it, and sources that read it with the rights of Weir's role."""

    def __init__(self, servers: Servers, database: str) -> None:
        made = servers.open("mariadb-locks", database)
        assert isinstance(made, MariadbDatabase)
        self.made, self.server, self.database = made, made.server, database
        self.opened: list[MysqlSource] = []
        self.connection = made.administrator()

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
        found: MysqlOptions = self.made.spec("shop").options
        return replace(found, **{"kind": "mariadb", "lock_seconds": 2, "connect_seconds": 60, **options})

    def source(self, tables: Mapping[str, Sequence[str]], load: bool = True, **options: Any) -> MysqlSource:
        """A source that watches; ``load``: and has loaded."""
        source = MysqlSource(self.options(**options))
        self.opened.append(source)
        source.watch({Relation("shop", table): columns for table, columns in tables.items()})
        if load:
            first = source.load()
            first.held.release()
            self.position = first.position
        return source

    def close_sources(self) -> None:
        for source in self.opened:
            source.close()

    def close(self) -> None:
        self.close_sources()
        if self.connection.open:
            self.connection.close()
        self.made.drop()


@pytest.fixture
def place(servers: Servers) -> Iterator[Place]:
    made = Place(servers, f"test{next(_numbers)}")
    yield made
    made.close()


@pytest.fixture
def own_place() -> Iterator[Callable[..., Place]]:
    """Places at servers of their own, with settings of their own."""
    with ExitStack() as running:

        def start(**settings: str) -> Place:
            place = Place(running.enter_context(Servers(settings={"mariadb": settings})), "own")
            running.callback(place.close_sources)
            return place

        yield start


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
