"""Kind ``postgres``: changes by logical replication, delivered by visibility.

The visit's snapshot decides which transactions are delivered; the slot's stream only carries them. After the snapshot
is taken a **fence** (an empty logical message) is committed on another connection: whatever the snapshot shows was
committed before it, so once the fence comes out of the stream, everything visible has come. What came and is not
visible waits.

The fence's commit is synchronous, so all that is delivered is on disk first, even where the writers' own commits were
not. The slot is told only of positions that the warehouse has committed; after a crash the server sends again what it
sent, and what the position already shows is skipped.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from weir.sources.postgres.base import LogDelivery, PostgresBase
from weir.sources.postgres.connection import PostgresConnection, close_quietly, connect
from weir.sources.postgres.position import PostgresPosition
from weir.sources.postgres.stream import ReplicationStream, StreamLost, StreamUnreadable
from weir.sources.postgres.transactions import TransactionAssembler, changes_of, transactions_of, truncations_of
from weir.sources.postgres.visibility import PostgresSnapshot
from weir.sources.source import LOAD_AGAIN, LoadAgain, SourceError

FENCE_SECONDS = 120.0  # silence of the stream, not the time it takes to read it
SCHEMAS_SINCE = 150_000  # publications of whole schemas
FENCE_PREFIX = "weir.fence"
_FENCE = "SELECT pg_current_xact_id()::text, pg_logical_emit_message(true, %s, '')"
_SLOT = """
SELECT plugin, database, wal_status, confirmed_flush_lsn - '0/0' AS flushed FROM pg_replication_slots
WHERE slot_name = %s
"""
_SLOT_AGE = """
SELECT age(p.xmin) <= age(s.catalog_xmin) FROM pg_replication_slots s, pg_publication p
WHERE s.slot_name = %(slot)s AND p.pubname = %(publication)s
"""
_MARK = """
c.relreplident::text || coalesce((SELECT string_agg(concat_ws('.', p.oid, p.xmin, r.oid, r.xmin), ',')
  FROM pg_publication p LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
  WHERE p.pubname = {publication}), '-')
"""
_SCHEMA_MARK = """
|| coalesce((SELECT string_agg(concat_ws('.', s.oid, s.xmin), ',') FROM pg_publication_namespace s
  JOIN pg_publication p ON p.oid = s.pnpubid WHERE p.pubname = {publication} AND s.pnnspid = c.relnamespace), '-')
"""


# Of a partition: the ancestors that publish it, and whether its changes go out under their name.
_KIN = """
CASE WHEN c.relispartition THEN coalesce((SELECT string_agg(concat_ws('.', r.oid, r.xmin), ',' ORDER BY r.oid)
  FROM pg_partition_ancestors(c.oid) a(relid) JOIN pg_publication_rel r ON r.prrelid = a.relid AND a.relid <> c.oid
  JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = {publication}), '')
  || coalesce((SELECT ' by root' FROM pg_publication p WHERE p.pubname = {publication} AND p.pubviaroot), '')
ELSE '' END
"""


class PostgresSource(PostgresBase):
    """A PostgreSQL database read through a logical replication slot."""

    kind = "postgres"
    _stream: ReplicationStream | None = None
    _assembler: TransactionAssembler
    _fence_connection: PostgresConnection | None = None
    _fence = 0
    _former = ""  # a slot without a mark that is gone on with

    def _mark(self) -> sql.Composable:
        whole_schemas = self._connected().info.server_version >= SCHEMAS_SINCE
        return sql.SQL(_MARK + (_SCHEMA_MARK if whole_schemas else "")).format(publication=self.options.publication)

    def _kin(self) -> sql.Composable:
        return sql.SQL(_KIN).format(publication=self.options.publication)

    # -- the slot ---------------------------------------------------------------------------------------------------

    @property
    def _slot_name(self) -> str:
        return self._former or self.options.own_slot

    def _slot(self, connection: PostgresConnection) -> Any:
        return connection.execute(_SLOT, (self._slot_name,)).fetchone()

    def _choose_slot(self, connection: PostgresConnection, position: PostgresPosition) -> None:
        """A warehouse's own slot; or one without a mark, from before slots had one, if it has all after the position.

        Whoever begins anew makes a slot of its own and does not touch that one: it may be another's.
        """
        self._former = ""
        if self.options.slot != self.options.own_slot and self._slot(connection) is None:
            slot = connection.execute(_SLOT, (self.options.slot,)).fetchone()
            if slot is None or slot[:2] != ("pgoutput", self.options.database):
                return
            if slot[2] != "lost" and int(slot[3]) <= position.bound:
                self._former = self.options.slot

    def _log_prepare(self, connection: PostgresConnection) -> int:
        """Makes the slot, or goes on with the one there is; one that is lost or cannot be decoded is made anew.

        A transaction whose commit record precedes the slot may not be visible yet; it has an id below the one taken
        here, so a snapshot beyond it misses nothing.
        """
        self._former = ""
        slot = self._slot(connection)
        if slot is not None and (slot[2] == "lost" or self._is_older_than_publication(connection)):
            self._refuse_foreign(slot)
            connection.execute("SELECT pg_drop_replication_slot(%s)", (self._slot_name,))
            slot = None
        if slot is None:
            self._create_slot(connection)
        self._refuse_foreign(self._slot(connection))
        return self._log_now(connection)

    def _log_now(self, connection: PostgresConnection) -> int:
        row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
        assert row is not None
        return int(row[0])

    def _is_older_than_publication(self, connection: PostgresConnection) -> bool:
        """A slot may have to decode log from before the publication was made, which the server cannot."""
        values = {"slot": self._slot_name, "publication": self.options.publication}
        row = connection.execute(_SLOT_AGE, values).fetchone()
        return row is not None and bool(row[0])

    def _create_slot(self, connection: PostgresConnection) -> None:
        """The server waits for every transaction that is open now; not for ever."""
        timeout = int(self.options.load_timeout * 1000)
        connection.execute("SELECT set_config('statement_timeout', %s, false)", (str(timeout),))
        try:
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._slot_name,))
        except psycopg.errors.QueryCanceled as problem:
            raise SourceError(
                f"{self.name}: a transaction has been open for more than {self.options.load_timeout:g} s, and a new "
                "slot must wait for it; end it (see pg_stat_activity.backend_xid and pg_prepared_xacts) and load again"
            ) from problem
        connection.execute("SET statement_timeout = 0")

    def _refuse_foreign(self, slot: Any) -> None:
        if slot[0] != "pgoutput" or slot[1] != self.options.database:
            raise SourceError(
                f"{self.name}: the slot '{self._slot_name}' belongs to something else (plugin {slot[0]}, database "
                f"{slot[1]}); give this project a slot of its own"
            )

    def _log_bound(self, connection: PostgresConnection) -> int:
        slot = self._slot(connection)
        return int(slot[3]) if slot is not None else 0

    def _log_open(self, connection: PostgresConnection, position: PostgresPosition) -> None:
        self._log_close()
        self._choose_slot(connection, position)
        slot = self._slot(connection)
        if slot is None:
            raise self._load_again(f"the replication slot '{self._slot_name}' is gone")
        self._refuse_foreign(slot)
        if slot[2] == "lost":
            raise self._load_again(
                f"the replication slot '{self._slot_name}' is lost: the server dropped log that it needed "
                "(max_slot_wal_keep_size)"
            )
        if int(slot[3]) > position.bound:
            raise self._load_again(
                f"the replication slot '{self._slot_name}' is past the position: it was made anew, or another reader "
                "has moved it"
            )
        try:
            self._stream = ReplicationStream(self.options, self._slot_name)
        except (psycopg.errors.UndefinedObject, psycopg.errors.ObjectNotInPrerequisiteState) as problem:
            raise self._load_again(str(problem).strip()) from problem
        self._assembler = TransactionAssembler(self.name, self._watched.values(), position.snapshot, self._late)

    def _load_again(self, why: str) -> LoadAgain:
        return LoadAgain(f"{self.name}: {why}; {LOAD_AGAIN}")

    @property
    def _log_is_open(self) -> bool:
        return self._stream is not None

    def _log_close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        close_quietly(self._fence_connection)
        self._fence_connection = None

    # -- a visit's part ---------------------------------------------------------------------------------------------

    def _log_fence(self, snapshot: PostgresSnapshot) -> None:
        if self._fence_connection is None or self._fence_connection.closed:
            self._fence_connection = connect(self.options)
        try:
            row = self._fence_connection.execute(_FENCE, (FENCE_PREFIX,)).fetchone()
        except psycopg.OperationalError as problem:
            raise StreamLost(str(problem).strip()) from problem
        assert row is not None
        self._fence = int(row[0])
        self._own.add(self._fence)

    def _log_within(self, connection: PostgresConnection, snapshot: PostgresSnapshot, quiet: bool) -> None:
        """Nothing: the stream is read when the snapshot's locks are released."""

    def _log_after(self, found: Any, snapshot: PostgresSnapshot, quiet: bool) -> LogDelivery:
        self._assembler.expect(snapshot)
        try:
            reached = self._catch_up() if quiet else self._read_to_fence()
        except StreamUnreadable as problem:
            raise self._load_again(f"the slot's log cannot be decoded: {problem}") from problem
        decoded = [] if quiet else self._assembler.deliver(snapshot)
        waiting = self._assembler.waiting
        return LogDelivery(
            transactions_of(decoded), changes_of(decoded, self._watched), truncations_of(decoded),
            waiting[0].commit if waiting else reached,
        )  # fmt: skip

    def _read_to_fence(self) -> int:
        """Reads until the fence has come out; where its commit ends."""
        assert self._stream is not None
        feed, fence = self._assembler.feed, self._fence
        for message in self._stream.messages(FENCE_SECONDS):
            ended = feed(message)
            if ended is not None and ended[0] == fence:
                return ended[1]
        raise StreamLost(f"no message for {FENCE_SECONDS:g} s")

    def _catch_up(self) -> int:
        """Takes what has arrived anyway; how far the server says that it has sent."""
        assert self._stream is not None
        for message in self._stream.poll():
            self._assembler.feed(message)
        return self._stream.reached

    # -- acknowledge ------------------------------------------------------------------------------------------------

    def acknowledge(self, position: str) -> None:
        bound = PostgresPosition.parse(position, self.name).bound
        if self._stream is not None:
            try:
                self._stream.confirm(bound)
            except StreamLost:
                self._drop()  # the next visit opens a new one; the confirmation may wait for the next position
