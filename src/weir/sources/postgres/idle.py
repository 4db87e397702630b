"""Connections that wait for their next snapshot: a worker process reads many snapshots, one after the other.

Per process and options. A connection that broke while it waited (the server was restarted, say) is replaced once.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict

import psycopg

from weir.sources.postgres.connection import PostgresConnection, close_quietly, connect, is_lost, run
from weir.sources.postgres.options import PostgresOptions

MOST_IDLE = 4  # of one source in one process

_lock = threading.Lock()
_waiting: dict[tuple[int, PostgresOptions], list[PostgresConnection]] = defaultdict(list)


def take(options: PostgresOptions, statements: str) -> PostgresConnection:
    """A connection on which ``statements`` have begun a transaction."""
    waiting = _take(options)
    if waiting is not None:
        try:
            run(waiting, statements)
            return waiting
        except psycopg.Error as problem:
            waiting.close()
            if not is_lost(problem):
                raise  # the connection is alive: the statements are refused
    fresh = connect(options)
    try:
        run(fresh, statements)
    except psycopg.Error:
        fresh.close()
        raise
    return fresh


def give_back(options: PostgresOptions, connection: PostgresConnection) -> None:
    """Ends the transaction; the connection waits for the next one."""
    try:
        run(connection, "ROLLBACK")
    except psycopg.Error:
        connection.close()
        return
    with _lock:
        mine = _waiting[os.getpid(), options]
        if len(mine) < MOST_IDLE:
            mine.append(connection)
            return
    connection.close()


def close_idle(options: PostgresOptions) -> None:
    """Those of this process."""
    with _lock:
        found = _waiting.pop((os.getpid(), options), [])
    for connection in found:
        close_quietly(connection)


def _take(options: PostgresOptions) -> PostgresConnection | None:
    """One made in this very process: a forked one shares its sockets with its parent."""
    with _lock:
        mine = _waiting[os.getpid(), options]
        return mine.pop() if mine else None
