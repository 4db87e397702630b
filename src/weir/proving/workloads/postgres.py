"""The exactness stress on PostgreSQL: a private server, an unprivileged role for Weir, and naive ways planted to fail.

Beside what every kind's writers do, these truncate, prepare their commits (two-phase), use REPEATABLE READ now and
then, and some of them commit asynchronously. Large values are stored out of line, so that updates leave them out of
the log.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from weir.proving.servers.postgres import PostgresServer
from weir.proving.stress import LONGEST_ABSENCE, Workload
from weir.proving.workloads.postgres_naive import CutAtLogPosition, DeliverUpToFence, NumberedLog, WithoutLock
from weir.proving.writers import StressWriter, Unknown, WriteOperation
from weir.sources.postgres.base import PostgresBase
from weir.sources.postgres.options import PostgresOptions
from weir.sources.postgres.replication import PostgresSource
from weir.sources.postgres.trigger_log import install_triggers
from weir.sources.postgres.triggers import PostgresTriggersSource
from weir.sources.source import Source

PASSWORD = "WEIR_STRESS_POSTGRES_PASSWORD"
ROLE = "weir_reader"
TABLES = ("ledger", "item", "part", "loose")
_SCHEMA = """
CREATE TABLE ledger (id bigint PRIMARY KEY, growth int);
CREATE TABLE item (id int PRIMARY KEY, tx bigint, amount int, note text);
CREATE TABLE part (item int, line int, tx bigint, payload text, PRIMARY KEY (item, line));
CREATE TABLE loose (a int, b text, tx bigint);
CREATE INDEX ON loose (a);
ALTER TABLE item ALTER note SET STORAGE EXTERNAL;
ALTER TABLE part ALTER payload SET STORAGE EXTERNAL;
"""


@dataclass
class PostgresWriter(StressWriter):
    """A writer with TRUNCATE, two-phase commit, and now and then a stricter isolation or a looser commit."""

    address: dict[str, Any] = field(default_factory=dict)
    mark: ClassVar[str] = "%s"
    errors: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)

    def connect(self) -> Any:
        """In autocommit mode: BEGIN and COMMIT are sent as they are, as two-phase commit needs."""
        connection = psycopg.connect(**self.address, autocommit=True)
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
    mutations: ClassVar[tuple[str, ...]] = ("log-position", "fence", "no-lock")
    disturb_every = 12.0
    _sources: ClassVar[dict[str | None, type[PostgresBase]]] = {
        None: PostgresSource,
        "log-position": CutAtLogPosition,
        "fence": DeliverUpToFence,
        "no-lock": WithoutLock,
    }
    _server: PostgresServer | None = None
    _disturbed = 0

    @property
    def server(self) -> PostgresServer:
        assert self._server is not None
        return self._server

    def start(self) -> None:
        # Writers deadlock now and then, on purpose: settled fast, so that they write rather than wait.
        self._server = PostgresServer({"deadlock_timeout": "20ms"})
        os.environ[PASSWORD] = self.server.password
        with self.server.connect() as admin:
            admin.execute(_SCHEMA)
            self._prepare(admin)

    def _prepare(self, admin: psycopg.Connection[Any]) -> None:
        for table in TABLES:
            admin.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(sql.Identifier(table)))
        admin.execute("CREATE PUBLICATION weir FOR TABLE ledger, item, part, loose")
        self._make_role(admin, "REPLICATION")

    def _make_role(self, admin: psycopg.Connection[Any], rights: str) -> None:
        role, secret = sql.Identifier(ROLE), sql.Literal(self.server.password)
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} {}").format(role, secret, sql.SQL(rights)))
        admin.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(role))

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    @property
    def options(self) -> PostgresOptions:
        return PostgresOptions(
            "pg", "postgres", host="127.0.0.1", port=self.server.port, user=ROLE, password=f"env:{PASSWORD}",
            lock_timeout=120.0, load_timeout=300.0, connect_timeout=60,
        )  # fmt: skip

    def open(self) -> Source:
        return self._sources[self.mutation](self.options)

    def writer(self, number: int, seed: int) -> StressWriter:
        return PostgresWriter(number, seed, address=self.server.address())

    def forget(self) -> None:
        """A fresh load makes its slot anew, under the writers: the hardest case."""
        with self.server.connect() as admin:
            until = time.monotonic() + LONGEST_ABSENCE
            while admin.execute("SELECT 1 FROM pg_replication_slots WHERE active").fetchone():
                if time.monotonic() > until:
                    break
                time.sleep(0.05)
            admin.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")

    def writers_gone(self) -> None:
        """Ends what the killed ones left prepared: nobody else would."""
        with self.server.connect() as admin, admin.cursor() as cursor:
            finish_prepared(cursor, "true")

    def disturb(self) -> None:
        """In turn: a crash of the server, and all our connections cut."""
        self._disturbed += 1
        if self._disturbed % 2:
            self.server.kill()
            self.server.start()
        else:
            with self.server.connect() as admin:
                admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'weir'")


class PostgresTriggersWorkload(PostgresWorkload):
    """Kind ``postgres-triggers``: a trigger log, read by a role that may do nothing but read."""

    kind = "postgres-triggers"
    mutations: ClassVar[tuple[str, ...]] = ("sequence",)
    _sources: ClassVar[dict[str | None, type[PostgresBase]]] = {None: PostgresTriggersSource, "sequence": NumberedLog}

    def _prepare(self, admin: psycopg.Connection[Any]) -> None:
        self._make_role(admin, "")
        install_triggers(admin, self.options, TABLES, ROLE)

    def forget(self) -> None:
        """A load needs nothing new: the log goes on."""
