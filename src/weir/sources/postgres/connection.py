"""Connections to PostgreSQL with fixed session settings, and ``COPY`` read as fast as libpq hands it over.

The settings decide how values look as text, so they are the same everywhere: ISO dates in UTC, hexadecimal bytes,
floats that read back exactly. ``row_security = off`` makes a row-level policy an error instead of a silent subset,
and the empty search path makes every name explicit.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.errors import error_from_result

from weir.sources.postgres.options import PostgresOptions
from weir.sources.secrets import mask, read_secret
from weir.sources.source import SourceError
from weir.sources.vigil import vigil

PostgresConnection = psycopg.Connection[Any]


class PatientConnection(psycopg.Connection[Any]):
    """One that is given up when the server has said nothing for ``silence`` seconds while it was asked."""

    silence: float = 0.0

    def wait(self, gen: Any, *interval: Any, **named: Any) -> Any:
        with vigil.over(self.pgconn.socket, self.silence):
            return super().wait(gen, *interval, **named)


def _silence(connection: PostgresConnection) -> float:
    return connection.silence if isinstance(connection, PatientConnection) else 0.0


SETTINGS = {
    "datestyle": "ISO",
    "timezone": "UTC",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "row_security": "off",
    "search_path": "pg_catalog",
    "jit": "off",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "synchronous_commit": "local",  # our fences reach the disk, and wait for no standby: a failover means a new load
}
# While a long lookup runs, nobody answers the stream's keep-alives. The operating system still notices a dead peer.
STREAM_SETTINGS = {"wal_sender_timeout": "3600000", "tcp_keepalives_idle": "60", "tcp_keepalives_interval": "10"}


def connect(options: PostgresOptions, replication: bool = False) -> PostgresConnection:
    """A connection in autocommit mode; with ``replication`` one that can stream the slot."""
    secret = read_secret(options.password, f"source {options.name}: password") if options.password else None
    chosen = {**SETTINGS, **STREAM_SETTINGS} if replication else SETTINGS
    settings = " ".join(f"-c {name}={value}" for name, value in chosen.items())
    parameters: dict[str, Any] = {
        "host": options.host, "port": options.port, "dbname": options.database, "user": options.user or None,
        "password": secret.reveal() if secret is not None else None,
        "sslmode": options.mode, "sslrootcert": options.sslrootcert or None, "sslcert": options.sslcert or None,
        "sslkey": options.sslkey or None, "connect_timeout": options.connect_timeout, "client_encoding": "UTF8",
        "application_name": "weir", "options": settings, "gssencmode": "disable",
        "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000,
    }  # fmt: skip
    if replication:
        parameters["replication"] = "database"
    try:
        connection: PatientConnection = PatientConnection.connect(**parameters, autocommit=True)
        connection.silence = options.silence
        return connection
    except psycopg.OperationalError as problem:
        who = options.user or "the operating system's user"
        reason = mask(first_line(problem), [secret] if secret is not None else [])
        raise SourceError(
            f"{options.name}: cannot connect to PostgreSQL at {options.place} as {who}: {reason}"
        ) from None  # the driver's own error may hold the whole connection string


@contextmanager
def named_errors(options: PostgresOptions, doing: str) -> Iterator[None]:
    """Turns the driver's errors into ours, which name the source and what was being done."""
    try:
        yield
    except psycopg.errors.LockNotAvailable as problem:
        raise SourceError(
            f"{options.name}: a table is locked exclusively (TRUNCATE or ALTER TABLE in an open transaction) for more "
            f"than {options.lock_timeout:g} s while {doing}; nothing is lost: try again when that transaction has ended"
        ) from problem
    except psycopg.errors.InsufficientPrivilege as problem:
        raise SourceError(f"{options.name}: {first_line(problem)} ({doing}); see `weir capture status`") from problem
    except psycopg.Error as problem:
        raise SourceError(f"{options.name}: {first_line(problem)} ({doing})") from problem


def is_lost(problem: Exception) -> bool:
    """Whether the connection broke, rather than one statement failed. The server's own goodbyes are of class 57P."""
    state = getattr(problem, "sqlstate", None)
    return state is None or state.startswith(("57P", "08"))


def close_quietly(connection: PostgresConnection | None) -> None:
    if connection is not None:
        with suppress(psycopg.Error):
            connection.close()


def first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def run(connection: PostgresConnection, statements: sql.Composable | str) -> list[Any]:
    """Runs several statements in one round trip; the rows of the last one."""
    text = statements.as_string(connection) if isinstance(statements, sql.Composable) else statements
    with vigil.over(connection.pgconn.socket, _silence(connection)):
        result = connection.pgconn.exec_(text.encode())
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        raise error_from_result(result, "utf-8")
    return [
        tuple(_decoded(result.get_value(row, column)) for column in range(result.nfields))
        for row in range(result.ntuples)
    ]


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def copy_out(connection: PostgresConnection, statement: sql.Composable) -> Iterator[bytes]:
    """The data of ``COPY ... TO STDOUT``, a row at a time.

    Straight from libpq: at 100,000 rows this took two thirds of the time of psycopg's own cursor.
    """
    raw = connection.pgconn
    raw.nonblocking = 0
    raw.send_query(statement.as_string(connection).encode())
    _expect(connection, pq.ExecStatus.COPY_OUT)
    take = raw.get_copy_data
    while True:
        length, data = take(1)
        if length > 0:
            yield bytes(data)
        elif length < 0:
            break
        else:
            _wait_for_more(connection)
    _expect(connection, pq.ExecStatus.COMMAND_OK)
    while raw.get_result() is not None:
        pass
    raw.nonblocking = 1


def _wait_for_more(connection: PostgresConnection) -> None:
    """While the rows are made use of nobody waits; so the limit is kept here, and not by a vigil."""
    if not select.select([connection.pgconn.socket], [], [], _silence(connection) or None)[0]:
        raise psycopg.OperationalError(f"the server has sent nothing for {_silence(connection):g} s")
    connection.pgconn.consume_input()


def _expect(connection: PostgresConnection, status: pq.ExecStatus) -> None:
    raw = connection.pgconn
    with vigil.over(raw.socket, _silence(connection)):
        result = raw.get_result()
    if result is None or result.status != status:
        problem = error_from_result(result, "utf-8") if result is not None else psycopg.OperationalError("no answer")
        while raw.get_result() is not None:
            pass
        raise problem
