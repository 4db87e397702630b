"""The exactness stress on PostgreSQL: a private server, an unprivileged role for Weir, and naive ways planted to fail.

Beside what every kind's writers do, these truncate, prepare their commits (two-phase), use REPEATABLE READ now and
then, and some of them commit asynchronously. Large values are stored out of line, so that updates leave them out of
the log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from weir.proving.databases import PostgresDatabase
from weir.proving.stress import Workload
from weir.proving.workloads.postgres_naive import CutAtLogPosition, DeliverUpToFence, NumberedLog, WithoutLock
from weir.proving.writers import StressWriter, Unknown, WriteOperation
from weir.sources.postgres.base import PostgresBase
from weir.sources.postgres.replication import PostgresSource
from weir.sources.postgres.triggers import PostgresTriggersSource
from weir.sources.source import Source

_SCHEMA = (
    "CREATE TABLE ledger (id bigint PRIMARY KEY, growth int)",
    "CREATE TABLE item (id int PRIMARY KEY, tx bigint, amount int, note text)",
    "CREATE TABLE part (item int, line int, tx bigint, payload text, PRIMARY KEY (item, line))",
    "CREATE TABLE loose (a int, b text, tx bigint)",
    "CREATE INDEX ON loose (a)",
    "ALTER TABLE item ALTER note SET STORAGE EXTERNAL",
    "ALTER TABLE part ALTER payload SET STORAGE EXTERNAL",
)


@dataclass
class PostgresWriter(StressWriter):
    """A writer with TRUNCATE, two-phase commit, and now and then a stricter isolation or a looser commit."""

    errors: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)

    def connect(self) -> Any:
        """In autocommit mode: BEGIN and COMMIT are sent as they are, as two-phase commit needs."""
        connection = self.login.connect()
        connection.execute("SET lock_timeout = '500ms'")
        if self.number % 3 == 0:
            connection.execute("SET synchronous_commit = off")
        return connection

    def begin(self, cursor: Any) -> None:
        if self.dice.random() < 0.02:
            self._finish_orphans(cursor)
        strict = self.dice.random() < 0.1
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ" if strict else "BEGIN")

    def finish(self, connection: Any, cursor: Any, identifier: int) -> None:
        if self.dice.random() < 0.05:
            cursor.execute(sql.SQL("PREPARE TRANSACTION {}").format(f"weir-{identifier}"))
            cursor.execute(sql.SQL("COMMIT PREPARED {}").format(f"weir-{identifier}"))
        else:
            cursor.execute("COMMIT")

    def _finish_orphans(self, cursor: Any) -> None:
        """Transactions that were prepared by a writer that is dead by now."""
        finish_prepared(cursor, "prepared < now() - interval '1 second'")

    @property
    def operations(self) -> Sequence[tuple[WriteOperation, float]]:  # type: ignore[override]
        return (*super().operations, (self.truncate, 0.3))

    def truncate(self, cursor: Any, identifier: int) -> int:
        self.execute(cursor, self.dice.choice(("TRUNCATE loose", "TRUNCATE loose, part", "TRUNCATE item")))
        raise Unknown


def finish_prepared(cursor: Any, which: str) -> None:
    """Commits what writers left prepared: it keeps its locks, TRUNCATE's too, for ever."""
    cursor.execute(f"SELECT gid FROM pg_prepared_xacts WHERE {which}")
    for (name,) in cursor.fetchall():
        with contextlib.suppress(psycopg.Error):
            cursor.execute(sql.SQL("COMMIT PREPARED {}").format(name))


class PostgresWorkload(Workload):
    """Kind ``postgres``: logical replication."""

    kind = "postgres"
    schema = _SCHEMA
    writer_class = PostgresWriter
    mutations: ClassVar[tuple[str, ...]] = ("log-position", "fence", "no-lock")
    disturb_every = 12.0
    _sources: ClassVar[dict[str | None, type[PostgresBase]]] = {
        None: PostgresSource,
        "log-position": CutAtLogPosition,
        "fence": DeliverUpToFence,
        "no-lock": WithoutLock,
    }
    database: PostgresDatabase
    _disturbed = 0

    @property
    def settings(self) -> Mapping[str, str]:
        """Writers deadlock now and then, on purpose: settled fast, so that they write rather than wait."""
        return {"deadlock_timeout": "20ms"}

    def open(self) -> Source:
        patient = self.database.spec(lock_timeout=120.0, load_timeout=300.0, connect_timeout=60)
        return self._sources[self.mutation](patient.options)

    def writers_gone(self) -> None:
        """Ends what the killed ones left prepared, in their database: nobody else would."""
        with self.database.administrator() as admin, admin.cursor() as cursor:
            finish_prepared(cursor, "true")

    def disturb(self) -> None:
        """In turn: a crash of the server, and all our connections cut."""
        self._disturbed += 1
        if self._disturbed % 2:
            self.database.server.kill()
            self.database.server.start()
        else:
            with self.database.server.connect() as admin:
                admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'weir'")


class PostgresTriggersWorkload(PostgresWorkload):
    """Kind ``postgres-triggers``: a trigger log, read by a role that may do nothing but read."""

    kind = "postgres-triggers"
    mutations: ClassVar[tuple[str, ...]] = ("sequence",)
    _sources: ClassVar[dict[str | None, type[PostgresBase]]] = {None: PostgresTriggersSource, "sequence": NumberedLog}


WORKLOADS = (PostgresWorkload, PostgresTriggersWorkload)
