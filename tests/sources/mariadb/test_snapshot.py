"""Which places of a snapshot count, and what an idle server answers after its log has turned to a new file."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.sources.mariadb.conftest import Place as Database
from tests.sources.mariadb.conftest import changes, whole
from weir.proving.oracle import ask, rows_of
from weir.sources.mysql.position import BinlogPlace, LogPosition
from weir.sources.source import SourceError


def end_of_log(place: Database) -> BinlogPlace:
    file, offset, *_ = place.run("SHOW MASTER STATUS")[0]
    return BinlogPlace(file, offset)


def wait_for_checkpoint(place: Database) -> None:
    """The server writes it into a new file when all that it logged in the old one is committed."""
    file = end_of_log(place).file
    until = time.monotonic() + 300
    while not any(kind == "Binlog_checkpoint" and about == file for *_, kind, _, _, about in events(place, file)):
        assert time.monotonic() < until, "the server wrote no checkpoint"
        time.sleep(0.02)


def events(place: Database, file: str) -> list[tuple[Any, ...]]:
    return place.run(f"SHOW BINLOG EVENTS IN '{file}' LIMIT 64")


def test_a_place_counts_only_in_a_settled_file(place: Database) -> None:
    """The new file's name with an old file's offset, as the server may tell while its log turns, is never taken for a
    place.
    """
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    snapshots = place.source({"t": ("a",)})._snapshots_now
    place.run("FLUSH BINARY LOGS")
    wait_for_checkpoint(place)
    header = end_of_log(place)
    mixed = BinlogPlace(header.file, 900_000)
    assert snapshots._sure(mixed) is None  # the file was not known to be settled before the snapshot
    assert snapshots._sure(mixed) == header  # settled, and without transactions: only its end can be meant
    place.run("INSERT INTO t VALUES (1)")
    assert snapshots._sure(mixed) is None
    assert snapshots._sure(end_of_log(place)) == end_of_log(place)


def test_an_idle_server_answers_after_its_log_has_turned(place: Database) -> None:
    """With nothing but headers at the end of the log a visit with questions still gets its answer, and positions go
    forward.
    """
    place.run("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = place.source({"t": ("a",)})
    last = BinlogPlace("b.0", 0)
    for number in range(3):
        place.run("FLUSH BINARY LOGS")
        for hold in (False, True, False):
            visit, answers = ask(source, [whole("t", "a")]) if hold else (source.visit(), ())
            assert [list(rows_of(rows, ("a",))) for rows in answers] == ([[(1,)]] if hold else [])
            reached = LogPosition.parse(visit.position).place
            assert (last, number) <= (reached, number)
            last = reached
    place.run("INSERT INTO t VALUES (2)")
    assert changes(ask(source, [])[0], "t", "a") == [(0, 1, 2)]


def test_readers_under_one_server_id_are_told_so(place: Database) -> None:
    """The server ends the older of two streams with the same id: its reader says why, loses nothing, and can go on."""
    place.run("CREATE TABLE t (a INT PRIMARY KEY)")
    first, second = (place.source({"t": ("a",)}, server_id=4242) for _ in range(2))
    place.run("INSERT INTO t VALUES (1)")
    assert changes(second.visit(), "t", "a") == [(0, 1, 1)]
    with pytest.raises(SourceError, match="server_id"):
        first.visit()
    assert changes(first.visit(), "t", "a") == [(0, 1, 1)]
